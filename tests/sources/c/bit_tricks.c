/* Bit tricks on unsigned integers of every width. */
#include "kernbridge/kernbridge.h"
#include "bits.h"

#define EACH(T, bits)                                                                              \
    case bits: {                                                                                   \
        const T *in = x->data;                                                                     \
        for (int64_t i = 0; i < x->size; i++) {                                                    \
            count[i] = (uint8_t)ones(in[i]);                                                       \
            ((T *)gray->data)[i] = (T)GRAY(in[i]);                                                 \
            ((T *)backward->data)[i] = (T)reversed(in[i], bits);                                   \
        }                                                                                          \
        return 0;                                                                                  \
    }

// @BE bits arg:any[n] ret:u8[n] ret:any[n] ret:any[n]
int bits(const kb_tensor *x, kb_tensor *popcount, kb_tensor *gray, kb_tensor *backward)
{
    uint8_t *count = popcount->data;
    switch (x->dl_dtype.bits) {
        EACH(uint8_t, 8)
        EACH(uint16_t, 16)
        EACH(uint32_t, 32)
        EACH(uint64_t, 64)
    }
    return KB_UNIMPLEMENTED;
}

/* Distances of Hamming between packed patterns, below a mask. */
// @BE hamming arg:u64[n, words] arg:u64[m, words] ret:i32[n, m] attr.mask:uint64
void hamming(const kb_tensor *a, const kb_tensor *b, kb_tensor *out, uint64_t mask)
{
    int64_t n = a->shape[0], m = b->shape[0], words = a->shape[1];
    const uint64_t *x = a->data, *y = b->data;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            int32_t d = 0;
            for (int64_t k = 0; k < words; k++)
                d += ones((x[i * a->strides[0] + k] ^ y[j * words + k]) & mask);
            ((int32_t *)out->data)[i * m + j] = d;
        }
}
