/* The part of XLA's typed FFI that kernbridge uses, declared in our own words.
 *
 * XLA hands a handler one call frame; everything else is reached through the table of functions in
 * that frame, so no symbol of jaxlib is linked and no header of jaxlib is needed to build. Layouts
 * follow API versions 0.1 to 0.5 (jaxlib 0.8 to 0.12), in which all that is declared here is the
 * same; the registration of a target changed in 0.5. State and type registration are left out on
 * purpose: their layout changed twice.
 * tests/core/abi_check.c asserts every size, offset and constant against the installed jaxlib.
 *
 * Ownership: whatever a frame points to belongs to XLA and lives until the handler returns. An
 * error that a handler returns belongs to XLA; an error that an API function returns belongs to the
 * caller.
 */
#ifndef KB_XLA_H
#define KB_XLA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KB_XLA_API_MAJOR 0
#define KB_XLA_API_MINOR 3

/* The minor version from which on a target has a stage in which it is recorded. */
enum { KB_XLA_API_RECORDS = 5 };

typedef struct kb_xla_error kb_xla_error;     /* opaque, made and destroyed through the API table */
typedef struct kb_xla_context kb_xla_context; /* opaque, one per call */
typedef struct kb_xla_api kb_xla_api;

typedef struct kb_xla_extension {
    size_t struct_size;
    int32_t type;
    struct kb_xla_extension *next;
} kb_xla_extension;

/* Every structure that crosses starts with its own size and a list of extensions. */
#define KB_XLA_HEAD                                                                                \
    size_t struct_size;                                                                            \
    kb_xla_extension *extension_start

enum { KB_XLA_EXTENSION_METADATA = 1 };

typedef struct kb_xla_api_version {
    KB_XLA_HEAD;
    int32_t major_version;
    int32_t minor_version;
} kb_xla_api_version;

/* A handler whose launches may be captured into a command buffer (a CUDA graph) and replayed. */
enum { KB_XLA_TRAIT_COMMAND_BUFFER = 1u << 0 };

/* jaxlib 0.8 appended a state type id behind `traits`; we never write it. */
typedef struct kb_xla_metadata {
    size_t struct_size;
    kb_xla_api_version api_version;
    uint32_t traits;
} kb_xla_metadata;

typedef struct kb_xla_metadata_extension {
    kb_xla_extension base;
    kb_xla_metadata *metadata;
} kb_xla_metadata_extension;

enum { KB_XLA_BUFFER = 1 }; /* the one type of operand and of result */

typedef struct kb_xla_buffer {
    KB_XLA_HEAD;
    int32_t dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} kb_xla_buffer;

/* Operands, and with the same layout results. */
typedef struct kb_xla_buffers {
    KB_XLA_HEAD;
    int64_t size;
    int32_t *types;
    void **buffers;
} kb_xla_buffers;

typedef struct kb_xla_bytes {
    const char *data;
    size_t size;
} kb_xla_bytes;

typedef struct kb_xla_scalar {
    int32_t dtype;
    void *value;
} kb_xla_scalar;

typedef struct kb_xla_array {
    int32_t dtype;
    size_t size;
    void *data;
} kb_xla_array;

enum {
    KB_XLA_ATTR_ARRAY = 1,
    KB_XLA_ATTR_DICTIONARY = 2,
    KB_XLA_ATTR_SCALAR = 3,
    KB_XLA_ATTR_STRING = 4,
};

/* Sorted by name; names and strings are spans, not NUL-terminated. */
typedef struct kb_xla_attrs {
    KB_XLA_HEAD;
    int64_t size;
    int32_t *types;
    kb_xla_bytes **names;
    void **values;
} kb_xla_attrs;

typedef struct kb_xla_frame {
    KB_XLA_HEAD;
    const kb_xla_api *api; /* NULL in the metadata query of API 0.1 */
    kb_xla_context *context;
    int32_t stage;
    kb_xla_buffers args;
    kb_xla_buffers rets;
    kb_xla_attrs attrs;
} kb_xla_frame;

typedef kb_xla_error *kb_xla_handler(kb_xla_frame *frame);

typedef struct kb_xla_error_create {
    KB_XLA_HEAD;
    const char *message; /* copied by XLA */
    int32_t code;
} kb_xla_error_create;

typedef struct kb_xla_error_destroy {
    KB_XLA_HEAD;
    kb_xla_error *error;
} kb_xla_error_destroy;

typedef struct kb_xla_stream_get {
    KB_XLA_HEAD;
    kb_xla_context *context;
    void *stream; /* out: of CUDA, a CUstream */
} kb_xla_stream_get;

typedef void kb_xla_task(void *data);

typedef struct kb_xla_schedule {
    KB_XLA_HEAD;
    kb_xla_context *context;
    kb_xla_task *task;
    void *data;
} kb_xla_schedule;

typedef struct kb_xla_run_id_get {
    KB_XLA_HEAD;
    kb_xla_context *context;
    int64_t run_id; /* out: the same on all devices that execute a program together */
} kb_xla_run_id_get;

typedef struct kb_xla_device_ordinal {
    KB_XLA_HEAD;
    kb_xla_context *context;
    int32_t device_ordinal; /* out */
} kb_xla_device_ordinal;

typedef struct kb_xla_num_threads {
    KB_XLA_HEAD;
    kb_xla_context *context;
    int64_t *num_threads; /* out */
} kb_xla_num_threads;

/* The stages of a target. Those that are NULL do nothing. */
typedef struct kb_xla_stages {
    kb_xla_handler *instantiate;
    kb_xla_handler *prepare;
    kb_xla_handler *initialize;
    kb_xla_handler *execute;
} kb_xla_stages;

/* What the API function for it takes before version KB_XLA_API_RECORDS. */
typedef struct kb_xla_register {
    KB_XLA_HEAD;
    kb_xla_bytes name;
    kb_xla_bytes platform;
    kb_xla_stages stages;
    uint32_t traits;
} kb_xla_register;

/* And from that version on, with one more stage. */
typedef struct kb_xla_register_recorded {
    KB_XLA_HEAD;
    kb_xla_bytes name;
    kb_xla_bytes platform;
    kb_xla_stages stages;
    kb_xla_handler *record;
    uint32_t traits;
} kb_xla_register_recorded;

/* The size that XLA expects in `struct_size`: up to and with the last field, without tail padding.
 */
#define KB_XLA_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef void kb_xla_unused(void);

struct kb_xla_api {
    KB_XLA_HEAD;
    kb_xla_api_version api_version;
    const void *internal_api;
    kb_xla_error *(*error_create)(kb_xla_error_create *args);
    kb_xla_unused *error_get_message;
    void (*error_destroy)(kb_xla_error_destroy *args);
    kb_xla_error *(*handler_register)(void *args); /* see kb_xla_register */
    kb_xla_error *(*stream_get)(kb_xla_stream_get *args);
    kb_xla_unused *type_register;
    kb_xla_unused *execution_context_get;
    kb_xla_unused *state_set;
    kb_xla_unused *state_get;
    kb_xla_unused *device_memory_allocate;
    kb_xla_unused *device_memory_free;
    kb_xla_error *(*thread_pool_schedule)(kb_xla_schedule *args);
    kb_xla_error *(*thread_pool_num_threads)(kb_xla_num_threads *args);
    kb_xla_unused *future_create;
    kb_xla_unused *future_set_available;
    kb_xla_unused *future_set_error;
    kb_xla_error *(*run_id_get)(kb_xla_run_id_get *args);
    kb_xla_error *(*device_ordinal_get)(kb_xla_device_ordinal *args);
};

/* Whether a function of the table succeeded; destroys the error that it returned. */
static inline bool kb_xla_succeeded(const kb_xla_api *api, kb_xla_error *error)
{
    if (!error)
        return true;
    kb_xla_error_destroy destroy = {
        .struct_size = KB_XLA_SIZE(kb_xla_error_destroy, error), // NOLINT: of a pointer
        .error = error,
    };
    api->error_destroy(&destroy);
    return false;
}

/* Of the table, as far as we call its functions without asking whether they are there. */
#define KB_XLA_API_SIZE KB_XLA_SIZE(kb_xla_api, thread_pool_num_threads)

#endif
