/* Owns the way from XLA's call frame to a plan and back to XLA's error, and the errors of calls
 * that several devices make together. */
#include "core/kb_handler.h"

#include "core/kb_attrs.h"
#include "core/kb_batch.h"
#include "core/kb_dtype.h"
#include "core/kb_float_mode.h"
#include "core/kb_frame.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

kb_registry kb_handler_registry = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Atomic(kb_handler_resolver *) kb_handler_resolve;
_Atomic(const kb_handler_format *) kb_handler_formats;
_Atomic(kb_carried_code) kb_handler_carried_code;

kb_status kb_handler_register(const kb_kernel *kernel, bool *inserted, kb_error *err)
{
    kb_status s = kb_registry_add(&kb_handler_registry, kernel, inserted, err);
    if (!*inserted && kernel->owner)
        kernel->free_owner(kernel->owner);
    return s;
}

/* XLA asks for metadata at registration, through an extension, and takes API versions from 0.1 up
 * to its own. Before 0.2 the query has no API table. Where the answer would not fit, none is given,
 * and XLA refuses the handler for its version. */
KB_COLD bool kb_handler_answer(kb_xla_frame *frame, uint32_t traits)
{
    for (kb_xla_extension *e = frame->extension_start; e; e = e->next) {
        if (e->type != KB_XLA_EXTENSION_METADATA)
            continue;
        if (e->struct_size < sizeof(kb_xla_metadata_extension))
            return true;
        kb_xla_metadata *metadata = ((kb_xla_metadata_extension *)e)->metadata;
        if (metadata->struct_size < KB_XLA_SIZE(kb_xla_metadata, traits))
            return true;
        int theirs = frame->api ? frame->api->api_version.minor_version : 1;
        metadata->api_version.major_version = KB_XLA_API_MAJOR;
        metadata->api_version.minor_version = theirs < KB_XLA_API_MINOR ? theirs : KB_XLA_API_MINOR;
        metadata->traits = traits;
        return true;
    }
    return false;
}

/* The code of a message that has none: of a program that is damaged or lacks its kernel, of memory,
 * or of the driver. */
static KB_COLD void add_code(kb_error *err)
{
    kb_status s = err->status;
    bool damaged = s == KB_INVALID_ARGUMENT || s == KB_NOT_FOUND || s == KB_FAILED_PRECONDITION;
    const char *code = damaged ? "KB5107" : NULL;
    if (s == KB_RESOURCE_EXHAUSTED || s == KB_INTERNAL)
        code = s == KB_INTERNAL ? "KB3004" : "KB3009";
    if (code && !strstr(err->message, "[KB"))
        (void)kb_error_code(err, code);
}

/* The last line says where the code is explained, as in Python's own errors. */
static KB_COLD void add_way(kb_error *err)
{
    static const char way[] = "\n`kernbridge explain KB----` says more.";
    const char *code = strstr(err->message, " [KB");
    size_t length = strlen(err->message);
    if (!code || length + sizeof way > KB_ERROR_CAPACITY)
        return;
    memcpy(err->message + length, way, sizeof way);
    memcpy(strstr(err->message + length, "KB"), code + 2, sizeof "KB----" - 1);
}

KB_COLD kb_xla_error *kb_handler_fail(const kb_xla_frame *frame, kb_error *err)
{
    add_code(err);
    add_way(err);
    kb_xla_error_create args = {
        .struct_size = KB_XLA_SIZE(kb_xla_error_create, code),
        .message = kb_error_text(err),
        .code = err->status,
    };
    return frame->api->error_create(&args);
}

static kb_status read_digest(const kb_xla_frame *frame, const uint8_t **digest, kb_error *err)
{
    const kb_xla_array *array = KB_ATTRS_FIND(&frame->attrs, "digest", KB_XLA_ATTR_ARRAY);
    if (!array || array->dtype != KB_DTYPE_U8 || array->size != KB_DIGEST_SIZE)
        return kb_error_set(
            err, KB_INVALID_ARGUMENT,
            "a kernbridge call without a digest of %d bytes: the program is damaged, "
            "or of another version of kernbridge",
            KB_DIGEST_SIZE);
    *digest = array->data;
    return KB_OK;
}

static KB_COLD const kb_xla_array *refuse_call(kb_error *err)
{
    kb_error_set(err, KB_INVALID_ARGUMENT,
                 "a kernbridge call without its key: the program is damaged, or of another version "
                 "of kernbridge");
    return NULL;
}

/* Attributes are sorted by name, and no name of ours comes before "call": it is the first. */
static inline const kb_xla_array *find_call(const kb_xla_frame *frame, kb_error *err)
{
    const kb_xla_attrs *attrs = &frame->attrs;
    if (attrs->size == 0 || attrs->types[0] != KB_XLA_ATTR_ARRAY ||
        !kb_attrs_named(attrs->names[0], "call", 4))
        return refuse_call(err);
    const kb_xla_array *call = attrs->values[0];
    return call->dtype == KB_DTYPE_S64 && call->size > 0 ? call : refuse_call(err);
}

static KB_COLD kb_status refuse_unregistered(kb_error *err)
{
    return kb_error_set(err, KB_NOT_FOUND,
                        "the kernel of this kernbridge call is not registered in this process, and "
                        "the program does not carry it: lower it again, or export it with "
                        "jax.export");
}

/* Where the kernel is found if its code does not come with the call, or NULL. */
static const kb_xla_bytes *find_origin(const kb_xla_frame *frame)
{
    const kb_xla_bytes *origin = KB_ATTRS_FIND(&frame->attrs, "origin", KB_XLA_ATTR_STRING);
    return origin && origin->size > 0 ? origin : NULL;
}

static kb_status resolve(const kb_xla_frame *frame, const uint8_t *digest, kb_error *err)
{
    kb_handler_resolver *fn = atomic_load(&kb_handler_resolve);
    const kb_xla_bytes *origin = find_origin(frame);
    if (!fn || !origin)
        return refuse_unregistered(err);
    return fn(digest, *origin, err);
}

bool kb_handler_is_elsewhere(const kb_xla_frame *frame)
{
    return KB_ATTRS_FIND(&frame->attrs, "elsewhere", KB_XLA_ATTR_SCALAR) != NULL;
}

/* Whether the code of the call may be loaded. KB_NOT_FOUND if there is none, or if the kernel
 * must be found by its origin. */
static kb_status check_carried(const kb_xla_frame *frame, kb_error *err)
{
    if (!KB_ATTRS_FIND(&frame->attrs, "program", KB_XLA_ATTR_ARRAY))
        return KB_NOT_FOUND;
    switch (atomic_load(&kb_handler_carried_code)) {
    case KB_CARRIED_RUN:
        return KB_OK;
    case KB_CARRIED_RECOMPILE:
        if (find_origin(frame))
            return KB_NOT_FOUND;
        return kb_error_set(
            err, KB_FAILED_PRECONDITION,
            "the program contains a kernel only as machine code, so that it cannot be compiled "
            "again, and this process is configured not to run machine code from programs "
            "(kernbridge.config.set_exported_code(\"recompile\"), or KERNBRIDGE_EXPORTED_CODE)");
    default:
        return kb_error_set(
            err, KB_FAILED_PRECONDITION,
            "the program contains the machine code of a kernel, and this process is configured to "
            "refuse such programs (kernbridge.config.set_exported_code(\"refuse\"), or "
            "KERNBRIDGE_EXPORTED_CODE); \"recompile\" compiles kernels of modules that are "
            "imported here, and \"run\" runs the code, which is safe only if you trust the author "
            "of the program");
    }
}

/* Registers the kernel that the call carries. */
static kb_status load_carried(const kb_xla_frame *frame, const uint8_t *digest, kb_error *err)
{
    const kb_xla_array *program = KB_ATTRS_FIND(&frame->attrs, "program", KB_XLA_ATTR_ARRAY);
    if (program->dtype != KB_DTYPE_U8)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "a kernel's program is not an array of bytes");
    const kb_handler_format *format = atomic_load(&kb_handler_formats);
    for (; format && format->magic; format++) {
        size_t size = strlen(format->magic);
        bool inserted;
        if (program->size >= size && memcmp(program->data, format->magic, size) == 0)
            return format->load(program->data, program->size, digest, NULL, &inserted, err);
    }
    if (find_origin(frame))
        return KB_NOT_FOUND;
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "a kernel's program is damaged, or of another version of kernbridge: the "
                        "check of its first bytes failed");
}

/* Registers a kernel that is new to this process. If its code in the program cannot run, and the
 * resolver does not find it either, the message has both reasons. */
static kb_status provide(const kb_xla_frame *frame, const uint8_t *digest, kb_error *err)
{
    kb_status s = check_carried(frame, err);
    if (s != KB_OK && s != KB_NOT_FOUND)
        return s;
    if (s == KB_OK)
        s = load_carried(frame, digest, err);
    if (s == KB_NOT_FOUND)
        return resolve(frame, digest, err);
    kb_error other;
    if (s != KB_FAILED_PRECONDITION || !find_origin(frame))
        return s;
    if (resolve(frame, digest, &other) == KB_OK)
        return KB_OK;
    kb_error_append(err, ". Nor can the kernel be compiled again: %s", other.message);
    return s;
}

kb_status kb_handler_instantiate(const kb_xla_frame *frame, kb_error *err)
{
    if (!kb_frame_is_whole(frame) || frame->api->struct_size < KB_XLA_API_SIZE)
        return kb_frame_refuse(frame, "a kernbridge call", err);
    const uint8_t *digest = NULL;
    bool here = !kb_handler_is_elsewhere(frame);
    kb_status s = here ? read_digest(frame, &digest, err) : KB_OK;
    if (s != KB_OK)
        return s;
    const kb_xla_array *call = find_call(frame, err);
    if (!call)
        return err->status;
    if (!here)
        return KB_OK;
    if (*(const int64_t *)call->data != kb_digest_key(digest))
        return kb_error_set(
            err, KB_INVALID_ARGUMENT,
            "the key of a kernbridge call does not belong to its digest: the program "
            "is damaged");

    const kb_kernel *kernel;
    s = kb_registry_match(&kb_handler_registry, digest, &kernel, err);
    if (s != KB_NOT_FOUND)
        return s;
    s = provide(frame, digest, err);
    return s == KB_OK ? kb_registry_match(&kb_handler_registry, digest, &kernel, err) : s;
}

KB_STAGE_HANDLER(kb_handler_host_instantiate, 0, kb_handler_instantiate)

kb_status kb_handler_find(const kb_xla_frame *frame, const kb_kernel **kernel,
                          const kb_xla_array **call, kb_error *err)
{
    *call = find_call(frame, err);
    if (!*call)
        return err->status;
    *kernel = kb_registry_find(&kb_handler_registry, *(const int64_t *)(*call)->data);
    return KB_LIKELY(*kernel != NULL) ? KB_OK : refuse_unregistered(err);
}

kb_status kb_handler_find_or(const kb_xla_frame *frame, kb_handler_stage *first,
                             const kb_kernel **kernel, const kb_xla_array **call, kb_error *err)
{
    kb_status s = kb_handler_find(frame, kernel, call, err);
    if (KB_LIKELY(s != KB_NOT_FOUND))
        return s;
    s = first(frame, err);
    return s == KB_OK ? kb_handler_find(frame, kernel, call, err) : s;
}

/* Nothing would be written to a result. */
static kb_status do_nothing(const kb_xla_frame *frame, kb_error *err)
{
    if (KB_LIKELY(frame->args.size == 0 && frame->rets.size == 0))
        return KB_OK;
    return kb_error_set(err, KB_INVALID_ARGUMENT,
                        "a kernbridge call that carries a kernel has %lld operands and %lld "
                        "results, expected none: the program is damaged, or was changed",
                        (long long)frame->args.size, (long long)frame->rets.size);
}

KB_STAGE_HANDLER(kb_handler_idle, 0, do_nothing)

typedef struct place {
    int64_t run;
    int64_t call;
} place;

static struct {
    place place;
    kb_error error;
} kept[KB_TOGETHER_MAX]; /* under the lock, as n_kept */
static uint64_t n_kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool has_failed; /* whether anything has ever been kept */

static bool find_place(const kb_xla_frame *frame, place *found)
{
    const kb_xla_scalar *call = KB_ATTRS_FIND(&frame->attrs, "together", KB_XLA_ATTR_SCALAR);
    if (!call || call->dtype != KB_DTYPE_S64 ||
        frame->api->struct_size < KB_XLA_SIZE(kb_xla_api, run_id_get))
        return false;
    kb_xla_run_id_get args = {.struct_size = KB_XLA_SIZE(kb_xla_run_id_get, run_id),
                              .context = frame->context};
    if (!kb_xla_succeeded(frame->api, frame->api->run_id_get(&args)))
        return false;
    *found = (place){args.run_id, *(const int64_t *)call->value};
    return true;
}

KB_COLD kb_status kb_together_keep(const kb_xla_frame *frame, const kb_error *err)
{
    place here;
    if (!kb_frame_is_whole(frame) || !find_place(frame, &here))
        return err->status;
    pthread_mutex_lock(&kept_lock);
    kept[n_kept % KB_TOGETHER_MAX].place = here;
    kept[n_kept % KB_TOGETHER_MAX].error = *err;
    n_kept++;
    pthread_mutex_unlock(&kept_lock);
    atomic_store_explicit(&has_failed, true, memory_order_release);
    return KB_OK;
}

/* The first error that was kept for this run and call. */
static kb_status fail_together(const kb_xla_frame *frame, kb_error *err)
{
    place here;
    if (KB_LIKELY(!atomic_load_explicit(&has_failed, memory_order_acquire)))
        return KB_OK;
    if (!kb_frame_is_whole(frame))
        return kb_frame_refuse(frame, "a kernbridge call of several devices", err);
    kb_status s = KB_OK;
    if (!find_place(frame, &here))
        return s;
    pthread_mutex_lock(&kept_lock);
    uint64_t n = n_kept < KB_TOGETHER_MAX ? n_kept : KB_TOGETHER_MAX;
    for (uint64_t i = 0; i < n && s == KB_OK; i++) {
        const place *there = &kept[(n_kept - n + i) % KB_TOGETHER_MAX].place;
        if (there->run == here.run && there->call == here.call) {
            *err = kept[(n_kept - n + i) % KB_TOGETHER_MAX].error;
            s = err->status;
        }
    }
    pthread_mutex_unlock(&kept_lock);
    return s;
}

KB_STAGE_HANDLER(kb_together_execute, 0, fail_together)

static KB_COLD kb_status refuse_absent(const kb_xla_frame *frame, kb_error *err)
{
    if (!kb_frame_is_whole(frame))
        return kb_frame_refuse(frame, "a call without a kernel", err);
    const kb_xla_bytes *message = KB_ATTRS_FIND(&frame->attrs, "message", KB_XLA_ATTR_STRING);
    if (!message)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "a kernbridge call that has no kernel on this platform, and no "
                            "message: the program is damaged");
    size_t size = message->size < KB_ERROR_CAPACITY ? message->size : KB_ERROR_CAPACITY;
    return kb_error_set(err, KB_UNIMPLEMENTED, "%.*s", (int)size, message->data);
}

KB_STAGE_HANDLER(kb_absent_execute, 0, refuse_absent)

static kb_status execute(const kb_xla_frame *xla, kb_error *err)
{
    const kb_kernel *kernel = NULL;
    const kb_xla_array *call = NULL;
    kb_status s = kb_handler_find_or(xla, kb_handler_instantiate, &kernel, &call, err);
    if (!KB_LIKELY(s == KB_OK))
        return s;
    kb_frame frame;
    s = kb_frame_read(&frame, kernel, xla, call, err);
    return KB_LIKELY(s == KB_OK) ? kb_batch_run(&frame, err) : s;
}

static kb_status execute_exactly(const kb_xla_frame *xla, kb_error *err)
{
    uint64_t mode = kb_float_mode_exact();
    kb_status s = execute(xla, err);
    kb_float_mode_restore(mode);
    return KB_LIKELY(s == KB_OK) ? KB_OK : kb_together_keep(xla, err);
}

KB_STAGE_HANDLER(kb_handler_host_execute, 0, execute_exactly)
