/* Data races: what is remembered of an element, and when two accesses conflict. Two accesses by
 * different threads, one of which writes, conflict unless something orders them: a barrier of their
 * block, of lanes of their warp, or of the grid. Two atomic accesses do not conflict, nor does a
 * write of the value that is there. Of the reads of an interval, those of two threads are
 * remembered, and that of one thread of an earlier block.
 *
 * A launch counts time: barriers and the beginning of each block advance it. The blocks of a phase
 * (a launch; in a cooperative one, what lies between two barriers of the grid) run one after the
 * other, so the time of an access says whether it was made in this block, and before or after the
 * last barrier. What is found does not depend on which block ran first. */
#ifndef KB_RACE_H
#define KB_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum kb_access {
    KB_ACCESS_READ,
    KB_ACCESS_WRITE,
    KB_ACCESS_ATOMIC,
    KB_ACCESS_WRITE_VALUE, /* a write that comes with what will be there */
} kb_access;

/* Who made an access, as one word: from the highest bit on the time (32 bits), the thread (10), the
 * kind, which is a kb_access (2), flags of reads (4), the place in the source (16). */
typedef uint64_t kb_race_party;

enum {
    KB_RACE_TIME_SHIFT = 32,
    KB_RACE_THREAD_SHIFT = 22,
    KB_RACE_KIND_SHIFT = 20,
    KB_RACE_SITE_MAX = 0xFFFF, /* the place of what does not fit is not known: 0 */
};

/* Flags of the last read of an element. */
#define KB_RACE_SEVERAL (UINT64_C(1) << 16) /* `second` is a read by another thread */
#define KB_RACE_WARPS   (UINT64_C(1) << 17) /* the two are of different warps */
#define KB_RACE_EARLIER (UINT64_C(1) << 18) /* `earlier` is a read by an earlier block */

typedef struct kb_race_cell {
    kb_race_party write, read;
} kb_race_cell;

/* Of the same element; seldom needed. */
typedef struct kb_race_more {
    kb_race_party second, earlier;
} kb_race_more;

/* The present time of a thread. */
typedef struct kb_race_now {
    uint32_t time;
    uint32_t phase;       /* since when accesses of other blocks are in no order with ours */
    uint32_t block;       /* when this block began or, in this phase, went on */
    uint32_t barrier;     /* of its last barrier, or `block` */
    const uint32_t *seen; /* for each lane of the warp: before when its accesses lie before us; or
                             NULL, if no warp has had a barrier */
} kb_race_now;

/* Its parts. */
#define KB_RACE_PART(part, value)                                                                  \
    static inline uint32_t kb_race_##part(kb_race_party p)                                         \
    {                                                                                              \
        return (uint32_t)(value);                                                                  \
    }
KB_RACE_PART(time, p >> KB_RACE_TIME_SHIFT)
KB_RACE_PART(thread, p >> KB_RACE_THREAD_SHIFT & 0x3FF)
KB_RACE_PART(kind, p >> KB_RACE_KIND_SHIFT & 3)
KB_RACE_PART(site, p &KB_RACE_SITE_MAX)
#undef KB_RACE_PART

static inline kb_race_party kb_race_party_of(uint32_t time, uint32_t thread, uint32_t kind,
                                             uint32_t site)
{
    return (uint64_t)time << KB_RACE_TIME_SHIFT | (uint64_t)thread << KB_RACE_THREAD_SHIFT |
           (uint64_t)kind << KB_RACE_KIND_SHIFT | (site <= KB_RACE_SITE_MAX ? site : 0);
}

/* The access that this one conflicts with; or 0. `same`: it writes what is there. */
kb_race_party kb_race_conflict(const kb_race_cell *cell, const kb_race_more *more,
                               const kb_race_now *now, kb_race_party who, bool same);

/* Remembers the access. */
void kb_race_note(kb_race_cell *cell, kb_race_more *more, const kb_race_now *now, kb_race_party who,
                  bool same);

/* Whether an access was made by this block before its last barrier. */
static inline bool kb_race_is_past(const kb_race_now *now, kb_race_party p)
{
    return kb_race_time(p) - now->block < now->barrier - now->block;
}

/* The usual cases of kb_race_conflict and kb_race_note, of reads and of writes that are not atomic;
 * false if it is none of them, and then nothing has changed. */
static inline bool kb_race_passes(kb_race_cell *cell, const kb_race_now *now, kb_race_party who,
                                  bool writes)
{
    kb_race_party w = cell->write, r = cell->read;
    const uint64_t threads = UINT64_C(0x3FF) << KB_RACE_THREAD_SHIFT;
    if (kb_race_time(w) >= now->phase && !kb_race_is_past(now, w) &&
        (kb_race_time(w) < now->block || (w ^ who) & threads))
        return false;
    bool alone = !((r ^ who) & threads) && !(r & (KB_RACE_SEVERAL | KB_RACE_EARLIER));
    alone = alone && kb_race_time(r) >= now->barrier;
    if (alone || kb_race_time(r) < now->phase ||
        (kb_race_is_past(now, r) && !(r & KB_RACE_EARLIER))) {
        if (writes)
            cell->write = who;
        else
            cell->read = who;
        return true;
    }
    if (writes || kb_race_time(r) < now->barrier)
        return false;
    /* Whoever writes conflicts with one of the two reads that are remembered. */
    bool one_warp = !((r ^ who) & threads & ~((UINT64_C(0x20) << KB_RACE_THREAD_SHIFT) - 1));
    return r & KB_RACE_WARPS || (r & KB_RACE_SEVERAL && one_warp && !now->seen);
}

/* Fences and atomic accesses, by which threads hand on what they wrote: a lock, a flag, or the
 * counter by which the last block learns that all others are done. A thread hands on its accesses
 * by a fence and an atomic access behind it, its own or, behind a barrier, one of its block; a
 * thread takes them over by an atomic access, its own or, behind a barrier, one of its block.
 * Times are 0 for never. */
typedef struct kb_fences {
    struct kb_arena *arena;
    uint32_t n_threads, n_blocks; /* of a block; of the grid */
    uint32_t *fenced;             /* of each thread of the grid; NULL before the first fence */
    uint32_t *took_part;          /* of each thread: its last atomic access */
    struct kb_block_fences {
        uint32_t before_fence; /* the barrier before its last fence */
        uint32_t handed_on;    /* `before_fence` at its last atomic access */
        uint32_t took_part;    /* its last atomic access, and */
        uint32_t took_over;    /* its first one since it began or went on */
    } * blocks;
    bool is_blind; /* there was no memory: all is in order */
} kb_fences;

void kb_fences_enter(kb_fences *fences, uint32_t block);
void kb_fences_fence(kb_fences *fences, uint32_t block, uint32_t thread, uint32_t time,
                     uint32_t barrier);
void kb_fences_atomic(kb_fences *fences, uint32_t block, uint32_t thread, uint32_t time);

/* Whether thread `thread` of block `block` has taken over an access of a thread of `from`. */
bool kb_fences_order(const kb_fences *fences, const kb_race_now *now, kb_race_party before,
                     uint32_t from, uint32_t block, uint32_t thread);

#endif
