/* Owns the opening of shared libraries of kernels. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "module/kb_module.h"

#include "core/kb_extension.h"

#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What -ffast-math links to a library flushes subnormal numbers from then on, in the thread that
 * opens it: that is undone. */
kb_status kb_module_open(const char *path, void **library, kb_error *err)
{
    fenv_t before;
    (void)fegetenv(&before); /* it always succeeds on our processors */
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)fesetenv(&before);
    return *library ? KB_OK : kb_error_set(err, KB_NOT_FOUND, "%s", dlerror());
}

static kb_status refuse_file(const char *call, int number, kb_error *err)
{
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "this system does not keep a library in memory (%s failed: %s)", call,
                        strerror(number));
}

/* The file has no name, and stays open with the library: dlopen knows libraries by their names, and
 * takes a file of the same number for the same library. */
kb_status kb_module_open_bytes(const kb_xla_bytes *bytes, void **library, kb_error *err)
{
    enum { PATH_SIZE = 64 };
    char path[PATH_SIZE];
    int file = memfd_create("kernbridge", MFD_CLOEXEC);
    if (file < 0)
        return refuse_file("memfd_create", errno, err);
    kb_status s = KB_OK;
    for (size_t at = 0; s == KB_OK && at < bytes->size;) {
        ssize_t n = write(file, bytes->data + at, bytes->size - at);
        s = n > 0 ? KB_OK : refuse_file("write", n < 0 ? errno : ENOSPC, err);
        at += n > 0 ? (size_t)n : 0;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (s == KB_OK)
        s = kb_module_open(path, library, err);
    if (s != KB_OK)
        (void)close(file);
    return s;
}

kb_status kb_module_describe(void *library, const kb_module **module, kb_error *err)
{
    *module = dlsym(library, "kb_module_description");
    if (!*module)
        return KB_OK;
    if ((*module)->abi != KB_ABI || (*module)->struct_size < sizeof **module)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "the module speaks version %u of kernbridge's interface, expected %d: "
                            "build it again",
                            (*module)->abi, KB_ABI);
    const char *failure = (*module)->start_failure;
    if (failure && *failure)
        return kb_error_set(err, KB_FAILED_PRECONDITION, "a static constructor threw: %s", failure);
    kb_status s = KB_OK;
    for (const kb_extension *const *e = kb_extensions; *e && s == KB_OK; e++)
        if ((*e)->connect)
            s = (*e)->connect(library, err);
    return s;
}
