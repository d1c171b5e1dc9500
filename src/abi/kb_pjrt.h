/* The part of PJRT's C API that registers a handler with a plugin, declared in our own words.
 *
 * Everything is reached through the table of functions that a plugin's GetPjrtApi returns. The
 * table grows at its end, and so do extensions; a plugin writes into `struct_size` how far they go.
 * tests/core/pjrt_check.c asserts the layout of the table's beginning against a pjrt_c_api.h. That
 * of the FFI extension, whose header no package has, is held by tests/python/ext/embed, which run
 * plugins of several versions.
 *
 * Ownership: an error that a function returns belongs to the caller; its message to the error. */
#ifndef KB_PJRT_H
#define KB_PJRT_H

#include <stddef.h>
#include <stdint.h>

typedef struct kb_pjrt_error kb_pjrt_error; /* opaque */

typedef struct kb_pjrt_extension {
    size_t struct_size;
    int32_t type;
    struct kb_pjrt_extension *next;
} kb_pjrt_extension;

enum { KB_PJRT_EXTENSION_FFI = 5 };

typedef struct kb_pjrt_version {
    size_t struct_size;
    kb_pjrt_extension *extension_start;
    int major_version;
    int minor_version;
} kb_pjrt_version;

typedef struct kb_pjrt_error_destroy {
    size_t struct_size;
    kb_pjrt_extension *extension_start;
    kb_pjrt_error *error;
} kb_pjrt_error_destroy;

typedef struct kb_pjrt_error_message {
    size_t struct_size;
    kb_pjrt_extension *extension_start;
    const kb_pjrt_error *error;
    const char *message; /* out */
    size_t message_size; /* out */
} kb_pjrt_error_message;

typedef struct kb_pjrt_api {
    size_t struct_size;
    kb_pjrt_extension *extension_start;
    kb_pjrt_version version;
    void (*error_destroy)(kb_pjrt_error_destroy *args);
    void (*error_message)(kb_pjrt_error_message *args);
} kb_pjrt_api;

/* Registers the execute stage of a handler, and no other. */
typedef struct kb_pjrt_register {
    size_t struct_size;
    const char *target_name;
    size_t target_name_size;
    void *handler; /* a kb_xla_handler */
    const char *platform_name;
    size_t platform_name_size;
    uint32_t traits;
} kb_pjrt_register;

typedef struct kb_pjrt_ffi {
    kb_pjrt_extension base;
    void (*type_register)(void);
    void (*user_data_add)(void);
    kb_pjrt_error *(*register_handler)(kb_pjrt_register *args);
} kb_pjrt_ffi;

#endif
