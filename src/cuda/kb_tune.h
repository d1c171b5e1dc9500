/* Times the launch of a program with several sizes of block, on memory of its own. Any thread may
 * enter. */
#ifndef KB_TUNE_H
#define KB_TUNE_H

#include "core/kb_error.h"

#include <stddef.h>
#include <stdint.h>

enum { KB_TUNE_BLOCKS_MAX = 64, KB_TUNE_ROUNDS_MAX = 64 };

/* What is measured: each of `n_blocks` sizes once a round. Size 0 is the one of the best occupancy,
 * as KB_LAUNCH_AUTO_BLOCK has it. */
typedef struct kb_tune_request {
    const void *program; /* with one launch, whose block is chosen by occupancy; see kb_program.h */
    size_t size;
    uint32_t n_buffers;
    const int64_t *const *dims; /* of each buffer, as many as its rank */
    uint32_t n_blocks;
    const uint32_t *blocks;
    uint32_t n_rounds;
} kb_tune_request;

/* Writes n_rounds * n_blocks times of one launch to `us`, in microseconds, a round after the other;
 * -1 for a block that the GPU refuses, and in later rounds once a second has passed. Runs on a
 * stream of its own of GPU 0, on scratch memory that holds zeros before each measurement, and frees
 * all of it. `*auto_block` is the size that 0 is. KB_INVALID_ARGUMENT where the request does not
 * fit the program. */
kb_status kb_tune_run(const kb_tune_request *request, double *us, uint32_t *auto_block,
                      kb_error *err);

#endif
