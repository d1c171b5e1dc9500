/* How busy a launch keeps a multiprocessor, as the driver reckons. Any thread may enter. */
#ifndef KB_OCCUPANCY_H
#define KB_OCCUPANCY_H

#include "abi/kb_cuda.h"
#include "core/kb_error.h"

#include <stdint.h>

/* The share of a multiprocessor's threads that blocks of `threads` threads fill, on GPU 0; with 0
 * threads, blocks of the size that fills most. Loads the image, and unloads it. */
kb_status kb_occupancy(const void *image, const char *entry, int threads, uint32_t shared,
                       double *share, kb_error *err);

#endif
