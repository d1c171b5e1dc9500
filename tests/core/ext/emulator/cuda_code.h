/* Writes CUDA kernels for the CPU as machine code, for tests. One thread. */
#ifndef CUDA_CODE_H
#define CUDA_CODE_H

#include "ext/emulator/kb_cuda_code.h"

#include <stdint.h>

/* What comes before the object; any of it may be wrong. */
typedef struct cuda_code_text {
    uint32_t abi;
    int64_t features;
    uint32_t form, shared, stack;
} cuda_code_text;

/* The kernel of cuda_code_sample.c for the IR of a digest, in a block of exactly its size that the
 * caller frees. */
uint8_t *cuda_code_write(const cuda_code_text *t, const char *digest, size_t *size);

#endif
