/* A clock for deciding: it takes nanoseconds to read, and its rate is known to a factor of two. Any
 * thread may enter. */
#ifndef KB_TICKS_H
#define KB_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)

#include <x86intrin.h>

enum { KB_TICKS_PER_US = 2500 }; /* time stamp counters run at 1 to 5 GHz */

static inline uint64_t kb_ticks(void)
{
    return __rdtsc();
}

/* For a loop that waits for another thread. */
static inline void kb_ticks_pause(void)
{
    _mm_pause();
}

#else

#include <time.h>

enum { KB_TICKS_PER_US = 1000 };

static inline uint64_t kb_ticks(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline void kb_ticks_pause(void)
{
    __asm__ volatile("yield");
}

#endif

#endif
