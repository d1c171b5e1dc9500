/* What CUDA C++ that was compiled for the CPU calls: see include/kernbridge/cuda_host.h. Any thread
 * may enter. */
#ifndef KB_CUDA_HOST_FUNCTIONS_H
#define KB_CUDA_HOST_FUNCTIONS_H

#include "core/kb_error.h"

/* Connects a library, if it is of this kind; KB_INVALID_ARGUMENT if it is of another version. */
kb_status kb_cuda_host_connect(void *library, kb_error *err);

#endif
