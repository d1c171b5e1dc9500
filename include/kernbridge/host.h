/* Programs with kernbridge's kernels in a C or C++ program without Python.
 *
 * `kernbridge.export_bundle` writes a folder, a bundle: programs (StableHLO) that carry the machine
 * code of their kernels, what they take and return, and, if asked, values of their arguments. A
 * host opens the bundle, registers kernbridge with a PJRT plugin, and compiles and runs a program
 * through the plugin's own functions. It is linked with libkernbridge; `kernbridge c-flags` prints
 * the options for the compiler. In order:
 *
 *     PJRT_Plugin_Initialize
 *     kb_host_register
 *     kb_bundle_open, kb_bundle_program
 *     PJRT_Client_Compile (and all that follows)
 *     kb_bundle_close
 *
 * Trust. A bundle is code: whoever may write to its folder decides what the process runs. The
 * digests in a bundle find damage, and nothing else.
 *
 * Ownership. Whatever a function returns belongs to the bundle, and lives until kb_bundle_close.
 * The caller owns each kb_host_error. Compiled programs and the kernels in them do not need the
 * bundle. libkernbridge stays in the process once it is loaded, since the plugin refers to it.
 *
 * Threads. Any thread may call any function, also several at once; a bundle must not be closed
 * while another thread uses it.
 *
 * Errors. A function returns KB_OK or the status that it writes into the error with a message.
 * Kernels do not come this way: a kernel that fails is an error of PJRT. A kernel that cannot be
 * loaded, because the processor lacks a feature, fails PJRT_Client_Compile. An exception of a Numba
 * kernel fails the execution: PJRT_Event_Await of the device's event returns an error whose message
 * has the operation, the exception's type and message, and its place:
 *
 *     numba_kernel 'decay': ValueError: negative rate (in decay at model.py:12)
 *
 * Structures grow only at their end, and are made by the library alone. */
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

/* Raised when a function or a field is added. What is there does not change its meaning. */
#define KB_HOST_API 1

enum { KB_HOST_MESSAGE_SIZE = 2048 };

/* `message` is meaningful after a function returned something other than KB_OK. It is UTF-8, ends
 * in NUL and may have several lines. */
typedef struct kb_host_error {
    kb_status status;
    char message[KB_HOST_MESSAGE_SIZE];
} kb_host_error;

/* An argument or a result of a program. Arrays are row-major and compact. */
typedef struct kb_host_array {
    const char *name;    /* where it stands in the function's arguments or results: "state.v" */
    const char *dtype;   /* NumPy's name: "float32" */
    int32_t type;        /* the same as a PJRT_Buffer_Type */
    int32_t donated;     /* 1: an execution takes the buffer's memory, and the buffer is deleted */
    size_t n_dims;       /* its rank */
    const int64_t *dims; /* extents, n_dims of them */
    size_t size;         /* bytes */
    const void *data;    /* the values that were exported with it, or NULL; aligned to 64 bytes */
} kb_host_array;

/* A program for one device of one platform. `inputs` are what PJRT_LoadedExecutable_Execute takes,
 * in this order: arguments of the function that it does not use are not among them. `outputs` are
 * what it returns. */
typedef struct kb_host_program {
    const char *platform; /* "cpu" or "cuda" */
    const char *format;   /* PJRT_Program.format */
    const char *code;     /* PJRT_Program.code; not changed by a compilation */
    size_t code_size;
    const char *options; /* PJRT_Client_Compile_Args.compile_options: one replica, one partition */
    size_t options_size;
    size_t n_inputs;
    const kb_host_array *const *inputs;
    size_t n_outputs;
    const kb_host_array *const *outputs;
} kb_host_program;

typedef struct kb_bundle kb_bundle;

struct PJRT_Api; /* of pjrt_c_api.h, which this header does not need */

/* The KB_HOST_API of the library. At least the header's, or the library is too old. */
KB_HOST_EXPORT int kb_host_api(void);

/* Registers kernbridge's handlers with a plugin, through the plugin's FFI extension. To be called
 * once for each plugin, before a program is compiled; further calls do nothing. KB_UNIMPLEMENTED if
 * the plugin lacks the extension or is too old; KB_INTERNAL with the plugin's own message, for
 * example if another copy of kernbridge is registered there. */
KB_HOST_EXPORT kb_status kb_host_register(const struct PJRT_Api *api, kb_host_error *error);

/* Reads a bundle: all of it, so that the folder may go afterwards. Every digest is compared.
 * KB_NOT_FOUND if a file is missing; KB_INVALID_ARGUMENT if one is damaged, with its name;
 * KB_FAILED_PRECONDITION for a bundle of another version; KB_RESOURCE_EXHAUSTED. `*bundle` is NULL
 * after a failure. */
KB_HOST_EXPORT kb_status kb_bundle_open(const char *folder, kb_bundle **bundle,
                                        kb_host_error *error);

/* Frees the bundle and what it returned. NULL does nothing. */
KB_HOST_EXPORT void kb_bundle_close(kb_bundle *bundle);

/* The program for a platform, whose name is what PJRT_Client_PlatformName returns: `size` bytes, of
 * any case. KB_NOT_FOUND if there is none; the message has the platforms that there are. */
KB_HOST_EXPORT kb_status kb_bundle_program(const kb_bundle *bundle, const char *platform,
                                           size_t size, const kb_host_program **found,
                                           kb_host_error *error);

#ifdef __cplusplus
}
#endif

#endif
