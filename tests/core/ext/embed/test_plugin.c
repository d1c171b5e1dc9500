/* Proves that every target is registered with a PJRT plugin, with both stages, once; and that a
 * plugin which cannot take them is refused with a reason. The plugin is a table of our own. */
#include "abi/kb_pjrt.h"
#include "cuda/kb_function.h"
#include "fake_xla.h"
#include "kb_test.h"
#include "kernbridge/host.h"
#include "module/kb_library.h"
#include "object/kb_host_code.h"
#include "sample.h"
#include "targets/kb_targets.h"
#include "torture.h"

#include <pthread.h>
#include <stdlib.h>

enum { REGISTERED_MAX = 64 };

struct kb_pjrt_error {
    const char *message;
};

static struct {
    char name[64], platform[16];
    kb_xla_stages stages;
} registered[REGISTERED_MAX];
static int n_registered, errors_alive, ffi_minor;
static const char *refused_target; /* by the plugin; NULL: none */
static kb_host_error error;
static kb_xla_api xla;

static void note(const char *name, size_t size, const char *platform, size_t platform_size,
                 const kb_xla_stages *stages)
{
    if (!CHECK(n_registered < REGISTERED_MAX))
        return;
    (void)snprintf(registered[n_registered].name, sizeof registered->name, "%.*s", (int)size, name);
    (void)snprintf(registered[n_registered].platform, sizeof registered->platform, "%.*s",
                   (int)platform_size, platform);
    registered[n_registered++].stages = *stages;
}

static bool is_refused(const char *name, size_t size)
{
    return refused_target && strlen(refused_target) == size &&
           memcmp(name, refused_target, size) == 0;
}

static bool asks_nothing;

/* As a plugin does, asks the handler for metadata, in a frame that has XLA's table. */
static kb_pjrt_error *register_handler(kb_pjrt_register *args)
{
    static kb_pjrt_error refusal = {"it is taken, and more"};
    CHECK_INT(args->struct_size, KB_XLA_SIZE(kb_pjrt_register, traits));
    CHECK_INT(args->traits, 0);
    if (is_refused(args->target_name, args->target_name_size)) {
        errors_alive++;
        return &refusal;
    }
    if (asks_nothing)
        return NULL;
    fake_frame f;
    fake_frame_init(&f, ffi_minor ? &xla : NULL, KB_XLA_STAGE_EXECUTE);
    fake_ask_metadata(&f);
    kb_xla_handler *handler = (kb_xla_handler *)(uintptr_t)args->handler;
    CHECK_PTR(handler(&f.frame), NULL);
    CHECK_INT(f.metadata.traits, 0);
    fake_frame_free(&f);
    note(args->target_name, args->target_name_size, args->platform_name, args->platform_name_size,
         &(kb_xla_stages){.execute = handler});
    return NULL;
}

/* The arguments have grown with the version; all that is read here is where it was. */
static kb_xla_error *register_stages(void *given)
{
    const kb_xla_register *args = given;
    const kb_xla_register_recorded *recorded = given;
    size_t size = ffi_minor < KB_XLA_API_RECORDS ? KB_XLA_SIZE(kb_xla_register, traits)
                                                 : KB_XLA_SIZE(kb_xla_register_recorded, traits);
    CHECK_INT(args->struct_size, (long long)size);
    if (ffi_minor < KB_XLA_API_RECORDS)
        CHECK_INT(args->traits, 0);
    else
        CHECK(!recorded->record && recorded->traits == 0);
    if (is_refused(args->name.data, args->name.size)) {
        kb_xla_error_create create = {.struct_size = KB_XLA_SIZE(kb_xla_error_create, code),
                                      .message = "it is taken",
                                      .code = KB_INTERNAL};
        return xla.error_create(&create);
    }
    note(args->name.data, args->name.size, args->platform.data, args->platform.size, &args->stages);
    return NULL;
}

static void error_message(kb_pjrt_error_message *args)
{
    CHECK_INT(args->struct_size, KB_XLA_SIZE(kb_pjrt_error_message, message_size));
    args->message = args->error->message;
    args->message_size = strlen("it is taken"); /* and no NUL */
}

static void error_destroy(kb_pjrt_error_destroy *args)
{
    CHECK_INT(args->struct_size, sizeof *args);
    CHECK(args->error);
    errors_alive--;
}

static void xla_error_destroy(kb_xla_error_destroy *args)
{
    CHECK_INT(args->struct_size, sizeof *args);
    fake_error_destroy(args->error);
}

typedef struct table {
    kb_pjrt_extension other;
    kb_pjrt_ffi ffi;
    kb_pjrt_api api;
} table;

/* A plugin whose second extension is the one for FFI. Each test has a table of its own, since a
 * plugin that was registered is remembered. */
static const struct PJRT_Api *plugin(table *t, int minor)
{
    *t = (table){
        .other = {.struct_size = sizeof t->other, .type = 1, .next = &t->ffi.base},
        .ffi = {.base = {.struct_size = sizeof t->ffi, .type = KB_PJRT_EXTENSION_FFI},
                .register_handler = register_handler},
        .api = {.struct_size = sizeof t->api,
                .extension_start = &t->other,
                .version = {.major_version = 0, .minor_version = 81},
                .error_destroy = error_destroy,
                .error_message = error_message},
    };
    n_registered = 0;
    ffi_minor = minor;
    refused_target = NULL;
    xla = *fake_api(minor ? minor : 2);
    xla.handler_register = register_stages;
    xla.error_destroy = xla_error_destroy;
    return (const struct PJRT_Api *)&t->api;
}

static void test_targets(int minor)
{
    static table tables[16];
    const struct PJRT_Api *api = plugin(&tables[minor], minor);
    CHECK_INT(kb_host_register(api, &error), KB_OK);
    int expected = 0;
    const kb_target *target;
    for (size_t t = 0; (target = kb_targets_get(t)) != NULL; t++) {
        int found = 0;
        expected += 1 + (target->platforms == (KB_PLATFORM_CPU | KB_PLATFORM_GPU));
        for (int i = 0; i < n_registered; i++) {
            if (strcmp(registered[i].name, target->name) != 0)
                continue;
            bool on_cpu = strcmp(registered[i].platform, "Host") == 0;
            CHECK(on_cpu || strcmp(registered[i].platform, "CUDA") == 0);
            CHECK(target->platforms & (on_cpu ? KB_PLATFORM_CPU : KB_PLATFORM_GPU));
            CHECK(registered[i].stages.instantiate == target->instantiate);
            CHECK(!target->instantiate || registered[i].stages.execute == target->execute);
            found++;
        }
        CHECK(found > 0);
    }
    CHECK_INT(n_registered, expected);
    CHECK_INT(kb_host_register(api, &error), KB_OK); /* again: nothing */
    CHECK_INT(n_registered, expected);
}

/* Instantiates a call that carries code of one kind, which is damaged. */
static void load_damaged(const char *magic, const char *text)
{
    static uint64_t id = 100;
    char program[64] = "";
    sample s;
    fake_frame f;
    memcpy(program, magic, 4);
    sample_init(&s, id++, sample_record);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_INSTANTIATE);
    sample_attrs(&f, &s.kernel);
    fake_attr_remove(&f, "origin");
    fake_attr_array(&f, "program", KB_DTYPE_U8, sizeof program, program, sizeof program);
    kb_xla_error *got = kb_targets_get(0)->instantiate(&f.frame);
    if (CHECK(got != NULL))
        CHECK_HAS(got->message, text);
    fake_error_destroy(got);
    fake_frame_free(&f);
}

/* Nothing is loaded before a plugin is registered, and from then on what programs carry. */
static void test_loaders(void)
{
    static table t;
    load_damaged(KB_HOST_CODE_MAGIC, "the check of its first bytes failed");
    load_damaged(KB_LIBRARY_MAGIC, "the check of its first bytes failed");
    CHECK_INT(kb_host_register(plugin(&t, 2), &error), KB_OK);
    load_damaged(KB_HOST_CODE_MAGIC, "a kernel's machine code has format 0");
    load_damaged(KB_LIBRARY_MAGIC, "the library of a kernel has format 0");
}

/* The target through which XLA's table was found runs as what it is. */
static void test_absent(void)
{
    static table t;
    CHECK_INT(kb_host_register(plugin(&t, 2), NULL), KB_OK);
    kb_xla_handler *absent = NULL;
    for (int i = 0; i < n_registered; i++)
        if (strcmp(registered[i].name, "kernbridge.absent") == 0)
            absent = registered[i].stages.execute;
    if (!CHECK(absent))
        return;
    fake_frame f;
    fake_frame_init(&f, fake_api(2), KB_XLA_STAGE_EXECUTE);
    (void)fake_attr_string(&f, "message", "no kernel", 9);
    kb_xla_error *got = absent(&f.frame);
    if (CHECK(got)) {
        CHECK_TEXT(got->message, "no kernel");
        fake_error_destroy(got);
    }
    fake_frame_free(&f);
}

static void test_refused(void)
{
    static table t;
    const struct PJRT_Api *api = plugin(&t, 2);
    CHECK_INT(kb_host_register(NULL, &error), KB_INVALID_ARGUMENT);
    CHECK_TEXT(error.message, "kb_host_register: api is NULL, expected what the plugin's "
                              "GetPjrtApi returns [KB5108]");
    const size_t too_small[] = {0, 8, sizeof t.api - 1};
    for (size_t i = 0; i < sizeof too_small / sizeof *too_small; i++) {
        t.api.struct_size = too_small[i];
        CHECK_INT(kb_host_register(api, &error), KB_INVALID_ARGUMENT);
        CHECK_TEXT(error.message, "kb_host_register: api is too small, expected what the plugin's "
                                  "GetPjrtApi returns [KB5108]");
    }

    for (int i = 0; i < 3; i++) {
        api = plugin(&t, 2);
        t.api.version = (kb_pjrt_version){.major_version = 3, .minor_version = 81};
        if (i == 0)
            t.other.next = NULL;
        else if (i == 1) /* as large as one for FFI is */
            t.other = (kb_pjrt_extension){.struct_size = sizeof t.ffi, .type = 4};
        else
            t.ffi.base.struct_size = KB_XLA_SIZE(kb_pjrt_ffi, register_handler) - 1;
        CHECK_INT(kb_host_register(api, &error), KB_UNIMPLEMENTED);
        CHECK_TEXT(error.message, "the PJRT plugin (PJRT 3.81) has no extension for FFI handlers, "
                                  "through which kernels are called [KB5108]");
        CHECK_INT(n_registered, 0);
    }

    api = plugin(&t, 2);
    asks_nothing = true; /* the table of another plugin does not count */
    CHECK_INT(kb_host_register(api, &error), KB_UNIMPLEMENTED);
    asks_nothing = false;

    api = plugin(&t, 0); /* asks without its table, as 0.1 does */
    CHECK_INT(kb_host_register(api, &error), KB_UNIMPLEMENTED);
    CHECK_TEXT(error.message, "the PJRT plugin (PJRT 0.81) has an FFI older than version 0.2, "
                              "which kernbridge needs: take a newer plugin [KB5108]");
    api = plugin(&t, 2);
    xla.struct_size = KB_XLA_API_SIZE - 1;
    CHECK_INT(kb_host_register(api, &error), KB_UNIMPLEMENTED);
    CHECK_HAS(error.message, "older than version 0.2");

    api = plugin(&t, 2);
    refused_target = "kernbridge.absent";
    CHECK_INT(kb_host_register(api, &error), KB_INTERNAL);
    CHECK_TEXT(error.message,
               "the PJRT plugin refused the target kernbridge.absent: it is taken [KB5108]");
    CHECK_INT(errors_alive, 0);
    refused_target = "kernbridge.cuda";
    CHECK_INT(kb_host_register(api, &error), KB_INTERNAL);
    CHECK_TEXT(error.message,
               "the PJRT plugin refused the target kernbridge.cuda for the platform CUDA: another "
               "copy of kernbridge registered it, or the plugin's FFI (0.2) is too new [KB5108]");
    CHECK_INT(fake_errors_alive(), 0);
    refused_target = NULL;
    torture_fail_nth(1);
    CHECK_INT(kb_host_register(api, &error), KB_RESOURCE_EXHAUSTED);
    CHECK_TEXT(error.message, "no memory to register a PJRT plugin [KB3009]");
    torture_fail_nth(0);
    CHECK_INT(kb_host_register(api, &error), KB_OK); /* what was refused can be tried again */
}

/* As old and as small as a plugin may be. Each of several is remembered. */
static void test_least(void)
{
    static table tables[3];
    for (int i = 0; i < 3; i++) {
        const struct PJRT_Api *api = plugin(&tables[i], 2);
        tables[i].ffi.base.struct_size = KB_XLA_SIZE(kb_pjrt_ffi, register_handler);
        xla.struct_size = KB_XLA_API_SIZE;
        CHECK_INT(kb_host_register(api, &error), KB_OK);
        CHECK(n_registered > 6);
    }
    n_registered = 0;
    for (int i = 0; i < 3; i++)
        CHECK_INT(kb_host_register((const struct PJRT_Api *)&tables[i].api, &error), KB_OK);
    CHECK_INT(n_registered, 0);
}

/* Through another extension for FFI, behind the first one, nothing is registered. */
static kb_pjrt_error *register_nothing(kb_pjrt_register *args)
{
    CHECK_PTR(args, NULL);
    return NULL;
}

static void test_two_extensions(void)
{
    static table t;
    static kb_pjrt_ffi second = {
        .base = {.struct_size = sizeof second, .type = KB_PJRT_EXTENSION_FFI},
        .register_handler = register_nothing};
    const struct PJRT_Api *api = plugin(&t, 2);
    t.ffi.base.next = &second.base;
    CHECK_INT(kb_host_register(api, &error), KB_OK);
    CHECK(n_registered > 6);
}

enum { THREADS = 4 };

static void *register_each(void *given)
{
    table *tables = given;
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(kb_host_register((const struct PJRT_Api *)&tables[i].api, NULL), KB_OK);
    return NULL;
}

/* Several threads register the same plugins: one of them does, and the others see it.
 * ThreadSanitizer watches. */
static void test_threads(void)
{
    static table tables[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        (void)plugin(&tables[i], 2);
    int n_first = 0;
    for (int i = 0; i < THREADS; i++)
        if (!CHECK_INT(pthread_create(&threads[i], NULL, register_each, tables), 0))
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n_registered; i++)
        n_first += strcmp(registered[i].name, "kernbridge.host") == 0;
    CHECK_INT(n_first, THREADS);
}

int main(void)
{
    test_loaders();
    for (int minor = 2; minor <= 6; minor++)
        test_targets(minor);
    test_absent();
    test_refused();
    test_least();
    test_two_extensions();
    test_threads();
    return kb_test_end("test_plugin");
}
