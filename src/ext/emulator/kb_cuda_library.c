/* Owns the opening of libraries of single CUDA kernels, and their way to the launches. */
#include "ext/emulator/kb_cuda_library.h"

#include "core/kb_reader.h"
#include "ext/emulator/kb_apart.h"
#include "ext/emulator/kb_cuda_code.h"
#include "ext/emulator/kb_cuda_host.h"
#include "module/kb_library.h"

#include <dlfcn.h>
#include <string.h>

bool kb_cuda_library_is(const void *bytes, size_t size)
{
    static const char magic[] = KB_CUDA_LIBRARY_MAGIC;
    return size >= sizeof magic - 1 && memcmp(bytes, magic, sizeof magic - 1) == 0;
}

kb_status kb_cuda_library_load(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes,
                               size_t size, const char *what, const kb_cuda_kernel **found,
                               kb_error *err)
{
    kb_reader from = kb_reader_of(bytes, size);
    kb_status s = kb_cuda_code_begin(&from, KB_CUDA_LIBRARY_MAGIC, digest, what,
                                     "library of a CUDA kernel for the CPU",
                                     "library of a CUDA kernel for the CPU was built", err);
    if (s != KB_OK)
        return s;
    bool cooperative = kb_read_u32(&from) != 0;
    void *library = NULL;
    s = kb_library_open(&(kb_xla_bytes){(const char *)from.at, from.left}, &library, err);
    if (s == KB_OK)
        s = kb_cuda_host_connect(library, err);
    const kb_cuda_kernel *kernel = s == KB_OK ? dlsym(library, "kb_cuda_kernel_description") : NULL;
    if (s == KB_OK && (!kernel || kernel->version != KB_CUDA_HOST_VERSION))
        s = kb_error_set(err, KB_FAILED_PRECONDITION, "the library has no kernel of this version");
    if (s != KB_OK || !kernel) {
        kb_error_append(err, " (in %s)", what);
        return s == KB_RESOURCE_EXHAUSTED ? s : (err->status = KB_FAILED_PRECONDITION);
    }
    kb_cuda_loop *loop = cooperative ? kernel->cooperative_loop : kernel->loop;
    const kb_hostcuda_code code = {
        .threads = {.loop = (kb_block_loop *)(void (*)(void))loop,
                    .shared = cooperative ? kernel->fixed_shared() : 0,
                    .stack = KB_CUDA_HOST_STACK,
                    .checked = kernel->checked ? &kb_apart_launches : NULL},
        .cooperative = cooperative,
        .variables = kb_variables_of(kernel),
    };
    if (found)
        *found = kernel;
    return kb_hostcuda_add(digest, &code, err);
}
