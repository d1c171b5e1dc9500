/* Data races between threads of one block: what is remembered of an element, and when two accesses
 * conflict. Two accesses of different threads, one a write, with no barrier of the block between
 * them, nor one of their warp. Two atomic ones do not conflict, nor does a write of what is there.
 */
#ifndef KB_RACE_H
#define KB_RACE_H

#include <stdbool.h>
#include <stdint.h>

enum { KB_RACE_NONE, KB_RACE_READ, KB_RACE_WRITE };

typedef struct kb_race_side {
    uint32_t epoch, warp_epoch, time, site; /* epoch 0: never */
    uint16_t thread;
    bool atomic;
    bool warps; /* reads: of threads in several warps */
    bool many;  /* reads: of several threads */
} kb_race_side;

typedef struct kb_race_cell {
    kb_race_side read, write; /* the last ones; of reads, those of one interval together */
} kb_race_cell;

/* An access. `begun` is the first interval of the block. */
typedef struct kb_race_event {
    uint32_t epoch, begun, warp_epoch, time, site;
    uint16_t thread;
    uint8_t kind; /* kb_access */
    bool same;    /* writes what is there */
} kb_race_event;

/* KB_RACE_NONE, or with which side of the cell the access conflicts. */
uint32_t kb_race_conflict(const kb_race_cell *cell, const kb_race_event *event);

/* Remembers the access. */
void kb_race_note(kb_race_cell *cell, const kb_race_event *event);

static inline bool kb_race_was_written(const kb_race_cell *cell, uint32_t begun)
{
    return cell->write.epoch >= begun;
}

static inline const kb_race_side *kb_race_side_of(const kb_race_cell *cell, uint32_t side)
{
    return side == KB_RACE_READ ? &cell->read : &cell->write;
}

static inline uint32_t kb_race_thread(const kb_race_cell *cell, uint32_t side)
{
    return kb_race_side_of(cell, side)->thread;
}

static inline uint32_t kb_race_time(const kb_race_cell *cell, uint32_t side)
{
    return kb_race_side_of(cell, side)->time;
}

static inline uint32_t kb_race_site(const kb_race_cell *cell, uint32_t side)
{
    return kb_race_side_of(cell, side)->site;
}

static inline bool kb_race_wrote_atomically(const kb_race_cell *cell)
{
    return cell->write.atomic;
}

#endif
