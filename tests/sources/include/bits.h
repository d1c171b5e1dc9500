#ifndef BITS_H
#define BITS_H
#include <stdint.h>

#define GRAY(x) ((x) ^ ((x) >> 1))

static inline unsigned ones(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

static inline uint64_t reversed(uint64_t x, int bits)
{
    uint64_t y = 0;
    for (int i = 0; i < bits; i++, x >>= 1)
        y = y << 1 | (x & 1);
    return y;
}
#endif
