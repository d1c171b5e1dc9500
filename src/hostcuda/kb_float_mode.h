/* How the processor treats numbers below the normal ones. XLA's threads take them for 0, and CUDA
 * does not. */
#ifndef KB_FLOAT_MODE_H
#define KB_FLOAT_MODE_H

#include <stdint.h>

#ifdef __x86_64__

#include <xmmintrin.h>

enum { KB_FLOAT_FLUSHES = 0x8040 }; /* MXCSR: flush to zero, denormals are zero */

/* Keeps subnormal numbers from now on; what to give to kb_float_mode_restore. */
static inline uint64_t kb_float_mode_exact(void)
{
    unsigned before = _mm_getcsr();
    if (before & KB_FLOAT_FLUSHES)
        _mm_setcsr(before & ~(unsigned)KB_FLOAT_FLUSHES);
    return before;
}

static inline void kb_float_mode_restore(uint64_t before)
{
    if (before & KB_FLOAT_FLUSHES)
        _mm_setcsr((unsigned)before);
}

#elif defined(__aarch64__)

static const uint64_t kb_float_flushes = UINT64_C(3) << 24; /* FPCR: FZ and DN */

static inline uint64_t kb_float_mode_exact(void)
{
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before & ~kb_float_flushes));
    return before;
}

static inline void kb_float_mode_restore(uint64_t before)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
}

#else

static inline uint64_t kb_float_mode_exact(void)
{
    return 0;
}

static inline void kb_float_mode_restore(uint64_t before)
{
    (void)before;
}

#endif

#endif
