/* Owns the registration of targets with PJRT plugins.
 *
 * The plugin's extension registers the execute stage of a handler alone, and kernbridge's need the
 * instantiate stage, in which a kernel is loaded. XLA's own table of functions registers both. It
 * is in the frame in which XLA asks a handler for metadata; so one target that has no other stage
 * is registered through the extension first, and brings the table. */
#include "abi/kb_pjrt.h"
#include "abi/kb_xla.h"
#include "core/kb_handler.h"
#include "ext/embed/kb_failure.h"
#include "kernbridge/host.h"
#include "targets/kb_targets.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct plugin {
    const kb_pjrt_api *api;
    struct plugin *next;
} plugin;

typedef struct platform {
    const char *name;
    uint32_t mask;
} platform;

/* As XLA calls them. A plugin takes targets of platforms that it does not have. */
static const platform platforms[] = {{"Host", KB_PLATFORM_CPU}, {"CUDA", KB_PLATFORM_GPU}};

enum { N_PLATFORMS = sizeof platforms / sizeof *platforms };

static const char asking_target[] = "kernbridge.absent";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plugin *plugins;         /* registered ones, under the lock; never freed */
static const kb_xla_api *asked; /* what XLA's question brought, under the lock */

/* XLA asks for metadata while kb_host_register holds the lock. */
static kb_xla_error *absent(kb_xla_frame *frame)
{
    if (!kb_handler_answer(frame, 0))
        return kb_absent_execute(frame);
    asked = frame->api;
    return NULL;
}

static kb_status refuse_plugin(const kb_pjrt_api *api, kb_pjrt_error *error, kb_error *err)
{
    kb_pjrt_error_message message = {
        .struct_size = KB_XLA_SIZE(kb_pjrt_error_message, message_size), .error = error};
    api->error_message(&message);
    kb_error_set(err, KB_INTERNAL, "the PJRT plugin refused the target %s: %.*s", asking_target,
                 (int)message.message_size, message.message);
    kb_pjrt_error_destroy destroy = {.struct_size = sizeof destroy, .error = error};
    api->error_destroy(&destroy);
    return err->status;
}

/* Registers the target that brings XLA's table, for each platform. */
static kb_status ask(const kb_pjrt_api *api, const kb_pjrt_ffi *ffi, kb_error *err)
{
    asked = NULL;
    for (int i = 0; i < N_PLATFORMS; i++) {
        kb_pjrt_register args = {
            .struct_size = KB_XLA_SIZE(kb_pjrt_register, traits),
            .target_name = asking_target,
            .target_name_size = sizeof asking_target - 1,
            .handler = (void *)(uintptr_t)absent,
            .platform_name = platforms[i].name,
            .platform_name_size = strlen(platforms[i].name),
        };
        kb_pjrt_error *error = ffi->register_handler(&args);
        if (error)
            return refuse_plugin(api, error, err);
    }
    if (!asked || asked->struct_size < KB_XLA_API_SIZE)
        return kb_error_set(err, KB_UNIMPLEMENTED,
                            "the PJRT plugin (PJRT %d.%d) has an FFI older than version 0.2, which "
                            "kernbridge needs: take a newer plugin",
                            api->version.major_version, api->version.minor_version);
    return KB_OK;
}

/* Before records, XLA's arguments had one field less, before the traits: both are zero. A later
 * version whose arguments have grown again refuses these for their size. */
static kb_status add_target(const kb_xla_api *xla, const kb_target *target, const platform *on,
                            kb_error *err)
{
    bool has_records = xla->api_version.minor_version >= KB_XLA_API_RECORDS;
    kb_xla_register_recorded args = {
        .struct_size = has_records ? KB_XLA_SIZE(kb_xla_register_recorded, traits)
                                   : KB_XLA_SIZE(kb_xla_register, traits),
        .name = {target->name, strlen(target->name)},
        .platform = {on->name, strlen(on->name)},
        .stages = {.instantiate = target->instantiate,
                   .prepare = target->prepare,
                   .execute = target->execute},
    };
    if (kb_xla_succeeded(xla, xla->handler_register(&args)))
        return KB_OK;
    return kb_error_set(err, KB_INTERNAL,
                        "the PJRT plugin refused the target %s for the platform %s: another copy "
                        "of kernbridge registered it, or the plugin's FFI (0.%d) is too new",
                        target->name, on->name, (int)xla->api_version.minor_version);
}

static kb_status add_targets(const kb_xla_api *xla, kb_error *err)
{
    kb_status s = KB_OK;
    const kb_target *target;
    for (size_t t = 0; (target = kb_targets_get(t)) != NULL; t++)
        for (int i = 0; s == KB_OK && i < N_PLATFORMS; i++)
            if (target->platforms & platforms[i].mask && strcmp(target->name, asking_target) != 0)
                s = add_target(xla, target, &platforms[i], err);
    return s;
}

static kb_status add_plugin(const kb_pjrt_api *api, kb_error *err)
{
    if (!api || api->struct_size < sizeof *api)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "kb_host_register: api is %s, expected what the plugin's GetPjrtApi "
                            "returns",
                            api ? "too small" : "NULL");
    for (const plugin *p = plugins; p; p = p->next)
        if (p->api == api)
            return KB_OK;
    const kb_pjrt_ffi *ffi = NULL;
    for (const kb_pjrt_extension *e = api->extension_start; e && !ffi; e = e->next)
        if (e->type == KB_PJRT_EXTENSION_FFI &&
            e->struct_size >= KB_XLA_SIZE(kb_pjrt_ffi, register_handler))
            ffi = (const kb_pjrt_ffi *)e;
    if (!ffi)
        return kb_error_set(err, KB_UNIMPLEMENTED,
                            "the PJRT plugin (PJRT %d.%d) has no extension for FFI handlers, "
                            "through which kernels are called",
                            api->version.major_version, api->version.minor_version);
    plugin *added = calloc(1, sizeof *added);
    if (!added)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory to register a PJRT plugin");
    kb_targets_begin();
    kb_status s = ask(api, ffi, err);
    if (s == KB_OK)
        s = add_targets(asked, err);
    if (s != KB_OK) {
        free(added);
        return s;
    }
    *added = (plugin){.api = api, .next = plugins};
    plugins = added;
    return KB_OK;
}

kb_status kb_host_register(const struct PJRT_Api *api, kb_host_error *error)
{
    kb_error err;
    pthread_mutex_lock(&lock);
    kb_status s = add_plugin((const kb_pjrt_api *)api, &err);
    pthread_mutex_unlock(&lock);
    return kb_failure_tell(s, &err, error);
}

int kb_host_api(void)
{
    return KB_HOST_API;
}
