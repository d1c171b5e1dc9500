/* Fences and atomic accesses, by which threads hand on what they wrote: a lock, a flag, or the
 * counter by which the last block learns that all others are done. A thread hands on its accesses
 * by a fence and an atomic access behind it, its own or, behind a barrier, one of its block; a
 * thread takes them over by an atomic access, its own or, behind a barrier, one of its block. */
#ifndef KB_FENCES_H
#define KB_FENCES_H

#include "ext/emulator/kb_race.h"

#include <stddef.h>

/* Times, 0 for never. */
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
