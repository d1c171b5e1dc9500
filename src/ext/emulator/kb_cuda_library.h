/* Libraries of single kernels in CUDA C++ that were compiled for the CPU. Any thread may enter. */
#ifndef KB_CUDA_LIBRARY_H
#define KB_CUDA_LIBRARY_H

#include "core/kb_error.h"
#include "ext/emulator/kb_hostcuda.h"
#include "kernbridge/cuda_host.h"

#include <stdbool.h>

/* The library of one kernel, as an image of a program: the head of kb_checksum.h, with the digits
 * of the digest of the other image as owner; u32 1 if the grid is cooperative; the library. */
#define KB_CUDA_LIBRARY_MAGIC "KBCL"

/* Whether the bytes are such an image. */
bool kb_cuda_library_is(const void *bytes, size_t size);

/* A kb_hostcuda_loader of such images. `*found` is what the library says, unless that is NULL. */
kb_status kb_cuda_library_load(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes,
                               size_t size, const char *what, const kb_cuda_kernel **found,
                               kb_error *err);

#endif
