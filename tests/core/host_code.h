/* Writes kernels as machine code, for tests and fuzzers. One thread. */
#ifndef HOST_CODE_H
#define HOST_CODE_H

#include "core/kb_kernel.h"
#include "object/kb_host_code.h"

enum { HOST_CODE_BUFFERS = 3, HOST_CODE_PLACES = 2 };

/* A kernel field by field; what is written may be wrong in any of them. */
typedef struct host_code_text {
    uint32_t version;
    int64_t features;
    const char *name, *source;
    uint32_t n_inputs, n_outputs, n_hidden;
    kb_buffer_spec buffers[HOST_CODE_BUFFERS];
    uint32_t n_places;
    struct {
        uint32_t status;
        const char *text;
    } places[HOST_CODE_PLACES];
    const uint8_t *object;
    uint32_t object_size, stored_size; /* as it says, and bytes that are written */
} host_code_text;

/* The kernel of host_code_sample.c: an input x and an output y, float64[n]. */
void host_code_init(host_code_text *t);

/* Its bytes, in a block of exactly their size that the caller frees. */
uint8_t *host_code_write(const host_code_text *t, const uint8_t digest[KB_DIGEST_SIZE],
                         size_t *size);

#endif
