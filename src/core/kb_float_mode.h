/* How the processor treats numbers below the normal ones. XLA's threads take them for 0; CUDA,
 * Numba and C compilers do not. Whatever runs user code on a CPU keeps them, and gives the thread
 * back as it was. Any thread may enter. */
#ifndef KB_FLOAT_MODE_H
#define KB_FLOAT_MODE_H

#include <stdint.h>

#ifdef __x86_64__

#include <xmmintrin.h>

enum { KB_FLOAT_FLUSHES = 0x8040 }; /* MXCSR: flush to zero, denormals are zero */

static inline uint64_t kb_float_mode_read(void)
{
    return _mm_getcsr();
}

static inline void kb_float_mode_write(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}

#elif defined(__aarch64__)

enum { KB_FLOAT_FLUSHES = 0x1080001 }; /* FPCR: FZ, FZ16, FIZ */

static inline uint64_t kb_float_mode_read(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void kb_float_mode_write(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

#endif

/* Keeps subnormal numbers from now on; returns what to give to kb_float_mode_restore. Writing the
 * mode costs more than reading it: that is done only where the mode differs. */
static inline uint64_t kb_float_mode_exact(void)
{
    uint64_t before = kb_float_mode_read();
    if (before & KB_FLOAT_FLUSHES)
        kb_float_mode_write(before & ~(uint64_t)KB_FLOAT_FLUSHES);
    return before;
}

static inline void kb_float_mode_restore(uint64_t before)
{
    if (before & KB_FLOAT_FLUSHES)
        kb_float_mode_write(before);
}

#endif
