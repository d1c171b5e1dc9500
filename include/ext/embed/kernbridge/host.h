/* Runs JAX programs that contain kernels of kernbridge in a C or C++ program without Python.
 *
 * `kernbridge.export_bundle` writes a folder, called a bundle. It contains programs (StableHLO)
 * with the machine code of their kernels, a description of their inputs and outputs and, on
 * request, values of their arguments. A host, the C or C++ program, opens the bundle, registers
 * kernbridge with a PJRT plugin, and compiles and runs a program through the plugin's own
 * functions. It is linked with libkernbridge; `kernbridge c-flags` prints the compiler options. The
 * order of calls:
 *
 *     PJRT_Plugin_Initialize
 *     kb_host_register
 *     kb_bundle_open, kb_bundle_program
 *     PJRT_Client_Compile (and further PJRT functions)
 *     kb_bundle_close
 *
 * Trust. A bundle is code: anyone who can write to its folder controls what the process runs. The
 * digests in a bundle detect damage, but not manipulation.
 *
 * Ownership. Everything that a function returns belongs to the bundle, and is valid until
 * kb_bundle_close. The caller owns each kb_host_error. Compiled programs and their kernels do not
 * need the bundle. Once it is loaded, libkernbridge stays in the process, since the plugin refers
 * to it.
 *
 * Threads. Any thread may call any function, and several threads may do so at the same time. A
 * bundle must not be closed while another thread uses it.
 *
 * Errors. A function returns KB_OK, or a status that it also writes into the error, with a message.
 * Errors of kernels are reported by PJRT instead. If a kernel cannot be loaded because the
 * processor lacks a feature, PJRT_Client_Compile fails. If a Numba kernel raises an exception, the
 * execution fails: PJRT_Event_Await of the device's event returns an error whose message has the
 * operation, the type and message of the exception, and its location:
 *
 *     numba_kernel 'decay': ValueError: negative rate (in decay at model.py:12)
 *
 * New fields are added only at the end of structures. Only the library creates structures. */
#ifndef KERNBRIDGE_HOST_H
#define KERNBRIDGE_HOST_H

#include "kernbridge/kernbridge.h" /* kb_status */

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define KB_HOST_EXPORT __attribute__((visibility("default")))
#else
#define KB_HOST_EXPORT
#endif

/* Incremented when a function or a field is added. Existing ones do not change their meaning. */
#define KB_HOST_API 1

enum { KB_HOST_MESSAGE_SIZE = 2048 };

/* `message` is valid after a function has returned a status other than KB_OK. It is encoded in
 * UTF-8, ends with NUL and may have several lines. */
typedef struct kb_host_error {
    kb_status status;
    char message[KB_HOST_MESSAGE_SIZE];
} kb_host_error;

/* An argument or a result of a program. Arrays are row-major and compact. */
typedef struct kb_host_array {
    const char *name;    /* its path in the function's arguments or results, such as "state.v" */
    const char *dtype;   /* NumPy's name, such as "float32" */
    int32_t type;        /* the same as a PJRT_Buffer_Type */
    int32_t donated;     /* 1: an execution reuses the buffer's memory and deletes the buffer */
    size_t n_dims;       /* the rank */
    const int64_t *dims; /* the n_dims extents */
    size_t size;         /* bytes */
    const void *data;    /* the values that were exported with it, or NULL; aligned to 64 bytes */
} kb_host_array;

/* A program for one device of one platform. `inputs` are the arguments of
 * PJRT_LoadedExecutable_Execute in their order, without arguments of the function that it does not
 * use. `outputs` are its results. */
typedef struct kb_host_program {
    const char *platform; /* "cpu" or "cuda" */
    const char *format;   /* PJRT_Program.format */
    const char *code;     /* PJRT_Program.code; a compilation does not change it */
    size_t code_size;
    const char *options; /* PJRT_Client_Compile_Args.compile_options: one replica, one partition */
    size_t options_size;
    size_t n_inputs;
    const kb_host_array *const *inputs;
    size_t n_outputs;
    const kb_host_array *const *outputs;
} kb_host_program;

typedef struct kb_bundle kb_bundle;

struct PJRT_Api; /* from pjrt_c_api.h, which this header does not need */

/* Returns the KB_HOST_API of the library. If it is less than the header's, the library is too old.
 */
KB_HOST_EXPORT int kb_host_api(void);

/* Registers kernbridge's handlers with a plugin, through the plugin's FFI extension. Call it once
 * for each plugin, before a program is compiled; further calls do nothing. Returns KB_UNIMPLEMENTED
 * if the plugin lacks the extension or is too old, and KB_INTERNAL with the plugin's own message if
 * the plugin refuses, for example because another copy of kernbridge is registered. */
KB_HOST_EXPORT kb_status kb_host_register(const struct PJRT_Api *api, kb_host_error *error);

/* Reads the whole bundle, so that the folder may be deleted afterwards, and compares every digest.
 * Returns KB_NOT_FOUND if a file is missing, KB_INVALID_ARGUMENT with the file's name if one is
 * damaged, KB_FAILED_PRECONDITION for a bundle of another version, and KB_RESOURCE_EXHAUSTED if
 * there is not enough memory. `*bundle` is NULL after a failure. */
KB_HOST_EXPORT kb_status kb_bundle_open(const char *folder, kb_bundle **bundle,
                                        kb_host_error *error);

/* Frees the bundle and what it returned. NULL does nothing. */
KB_HOST_EXPORT void kb_bundle_close(kb_bundle *bundle);

/* Returns the program for a platform. The platform's name, of `size` bytes in upper or lower case,
 * is that of PJRT_Client_PlatformName. Returns KB_NOT_FOUND if there is no such program; the
 * message lists the platforms of the bundle. */
KB_HOST_EXPORT kb_status kb_bundle_program(const kb_bundle *bundle, const char *platform,
                                           size_t size, const kb_host_program **found,
                                           kb_host_error *error);

#ifdef __cplusplus
}
#endif

#endif
