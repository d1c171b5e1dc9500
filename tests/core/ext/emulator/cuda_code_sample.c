/* The machine code of a CUDA kernel for the CPU that test_cuda_code.c loads: each block writes its
 * number, as an array of int64 that the only parameter points to. */
#include <stdint.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

extern double sqrt(double);

void kb_blocks(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
               const char **outside)
{
    (void)sizes, (void)outside;
    int64_t *out = *(int64_t *const *)parameters[0];
    for (int64_t i = begin; i < end; i++)
        out[i] = (int64_t)sqrt((double)(i * i));
}
