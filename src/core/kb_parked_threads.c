/* Owns the seats on which threads wait for a loop, and the decision whether waiting is worth it.
 *
 * Waking a thread takes up to 60 us on a virtual machine, so a thread that waits for as long costs
 * at most what it may save. It occupies a thread of XLA's pool meanwhile, which XLA may need for
 * work of its own. Therefore threads wait only if the loop before ended less than that time ago,
 * and for some loops not at all after a wait in which no loop began; and each returns to the pool
 * after some milliseconds. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, in kb_ticks.h */

#include "core/kb_parked_threads.h"

#include "core/kb_ticks.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    MOMENT = 50 * KB_TICKS_PER_US,   /* how long a thread waits */
    ENOUGH = 5000 * KB_TICKS_PER_US, /* how long it stays away from its owner */
    LOOPS_WITHOUT = 16,              /* after waiting without success */
    SEATS = 64,                      /* bits of a mask */
    CACHE_LINE = 64,                 /* bytes */
};

static _Atomic(uint64_t) ended; /* when the last loop did */
static _Atomic(uint64_t) begun; /* loops so far */
static _Atomic(int) without;    /* loops that are left until threads wait again */
/* Seats on which a thread sits, and those whose thread has not been passed anything. */
static alignas(CACHE_LINE) _Atomic(uint64_t) taken;
static alignas(CACHE_LINE) _Atomic(uint64_t) waiting;

typedef struct seat {
    alignas(CACHE_LINE) _Atomic(void *) passed;
} seat;

static seat seats[SEATS];

bool kb_parked_begin(void)
{
    atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
    if (kb_ticks() - atomic_load_explicit(&ended, memory_order_relaxed) > MOMENT)
        return false;
    int left = atomic_load_explicit(&without, memory_order_relaxed);
    if (left == 0)
        return true;
    atomic_store_explicit(&without, left - 1, memory_order_relaxed);
    return false;
}

void kb_parked_end(void)
{
    atomic_store_explicit(&ended, kb_ticks(), memory_order_relaxed);
}

/* The lowest bits of a mask, at most so many. */
static uint64_t lowest(uint64_t mask, int64_t most)
{
    uint64_t rest = mask;
    while (rest && most-- > 0)
        rest &= rest - 1;
    return mask & ~rest;
}

/* All threads are called by one operation on the mask, and then each by one store that waits for
 * nothing: this is what lies between the end of a loop and the begin of the next one. */
int64_t kb_parked_hand(void *data, int64_t most)
{
    int64_t n = 0;
    for (uint64_t seen; n < most && (seen = atomic_load(&waiting)) != 0;) {
        uint64_t bits = lowest(seen, most - n);
        bits &= atomic_fetch_and(&waiting, ~bits);
        for (; bits; bits &= bits - 1, n++)
            atomic_store_explicit(&seats[__builtin_ctzll(bits)].passed, data, memory_order_release);
    }
    return n;
}

/* The bit of a free seat, or 0. */
static uint64_t sit(void)
{
    uint64_t seen = atomic_load(&taken);
    while (~seen) {
        uint64_t bit = ~seen & (seen + 1);
        if (atomic_compare_exchange_weak(&taken, &seen, seen | bit))
            return bit;
    }
    return 0;
}

/* Whether this thread has left before anything was passed to it. */
static bool leave(uint64_t bit)
{
    return atomic_fetch_and(&waiting, ~bit) & bit;
}

void *kb_parked_wait(kb_parked_thread *thread)
{
    uint64_t now = kb_ticks(), until = now + MOMENT;
    if (now - thread->entered >= ENOUGH)
        return NULL;
    if (!thread->seat)
        thread->seat = sit();
    uint64_t bit = thread->seat;
    if (!bit)
        return NULL;
    seat *mine = &seats[__builtin_ctzll(bit)];
    uint64_t loops = atomic_load_explicit(&begun, memory_order_relaxed);
    bool left = false;
    void *data;
    atomic_store_explicit(&mine->passed, NULL, memory_order_relaxed);
    atomic_fetch_or(&waiting, bit);
    while (!(data = atomic_load_explicit(&mine->passed, memory_order_acquire)) && !left) {
        kb_ticks_pause();
        left = kb_ticks() >= until && leave(bit);
    }
    if (left && atomic_load_explicit(&begun, memory_order_relaxed) == loops)
        atomic_store_explicit(&without, LOOPS_WITHOUT, memory_order_relaxed);
    return data;
}

void kb_parked_leave(kb_parked_thread *thread)
{
    if (thread->seat)
        atomic_fetch_and(&taken, ~thread->seat);
    thread->seat = 0;
}
