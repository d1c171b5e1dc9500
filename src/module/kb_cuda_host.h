/* What CUDA C++ that was compiled for the CPU calls: see include/kernbridge/cuda_host.h. Any thread
 * may enter. */
#ifndef KB_CUDA_HOST_FUNCTIONS_H
#define KB_CUDA_HOST_FUNCTIONS_H

#include "core/kb_error.h"
#include "hostcuda/kb_hostcuda.h"
#include "kernbridge/cuda_host.h"

/* The library of one kernel, as an image of a program: the head of kb_checksum.h, with the digits of
 * the digest of the other image as owner; u32 1 if the grid is cooperative; the library. */
#define KB_CUDA_LIBRARY_MAGIC "KBCL"

/* Connects a library, if it is of this kind; KB_INVALID_ARGUMENT if it is of another version. */
kb_status kb_cuda_host_connect(void *library, kb_error *err);

/* Whether the bytes are such an image. */
bool kb_cuda_host_is_library(const void *bytes, size_t size);

/* A kb_hostcuda_loader of such images. `*found` is what the library says, unless that is NULL. */
kb_status kb_cuda_host_load(const char digest[KB_HOSTCUDA_DIGEST], const void *bytes, size_t size,
                            const char *what, const kb_cuda_kernel **found, kb_error *err);

#endif
