/* Owns the opening of shared libraries of kernels. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "module/kb_open.h"

#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATH_SIZE = 64 };

/* What -ffast-math links to a library flushes subnormal numbers from then on, in the thread that
 * opens it: that is undone. */
kb_status kb_module_open(const char *path, void **library, kb_error *err)
{
    fenv_t before;
    bool kept = fegetenv(&before) == 0;
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (kept)
        (void)fesetenv(&before);
    if (*library)
        return KB_OK;
    const char *why = dlerror();
    return kb_error_set(err, KB_NOT_FOUND, "%s", why ? why : "the library cannot be opened");
}

static kb_status refuse_file(const char *call, int number, kb_error *err)
{
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "this system does not keep a library in memory (%s failed: %s)", call,
                        strerror(number));
}

/* The bytes as a file without a name. */
static kb_status file_of(const void *bytes, size_t size, int *file, kb_error *err)
{
    *file = memfd_create("kernbridge", MFD_CLOEXEC);
    if (*file < 0)
        return refuse_file("memfd_create", errno, err);
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(*file, at, size);
        if (n <= 0) {
            kb_status s = refuse_file("write", n < 0 ? errno : ENOSPC, err);
            (void)close(*file);
            return s;
        }
        at += n;
        size -= (size_t)n;
    }
    return KB_OK;
}

/* The file stays open with the library: dlopen knows libraries by their names, and
 * takes a file of the same number for the same library. */
kb_status kb_open_bytes(const kb_xla_bytes *bytes, void **library, kb_error *err)
{
    char path[PATH_SIZE];
    int file;
    kb_status s = file_of(bytes->data, bytes->size, &file, err);
    if (s != KB_OK)
        return s;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    s = kb_module_open(path, library, err);
    if (s != KB_OK)
        (void)close(file);
    return s;
}
