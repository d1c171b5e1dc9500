/* What CUDA C++ that was compiled for the CPU calls: see include/kernbridge/cuda_host.h. Any thread
 * may enter. */
#ifndef KB_CUDA_HOST_FUNCTIONS_H
#define KB_CUDA_HOST_FUNCTIONS_H

#include "core/kb_error.h"

/* Bytes of a thread's stack. Compilers refuse a function that takes more than FRAME_MAX of it, see
 * toolchain/library.py; it may call others. */
enum { KB_CUDA_HOST_STACK = 1024 * 1024 };

/* Connects a library, if it is of this kind; KB_INVALID_ARGUMENT if it is of another version. */
kb_status kb_cuda_host_connect(void *library, kb_error *err);

#endif
