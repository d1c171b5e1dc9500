/* Data races between threads of one block: what is remembered of an element, and when two accesses
 * conflict. Two accesses of different threads, one a write, with no barrier of the block between
 * them, nor of lanes of their warp. Two atomic ones do not conflict, nor does a write of what is
 * there. Of the reads of an interval, those of two threads are remembered. */
#ifndef KB_RACE_H
#define KB_RACE_H

#include <stdbool.h>
#include <stdint.h>

/* Who made an access. */
typedef struct kb_race_party {
    uint32_t barriers, time, site; /* its own barriers of the warp before */
    uint16_t thread;
    uint8_t kind; /* kb_access */
} kb_race_party;

typedef struct kb_race_cell {
    kb_race_party write, reads[2];
    uint32_t write_epoch, read_epoch; /* 0: never */
    bool several;                     /* there is a second read, of another thread */
    bool warps; /* threads of several warps read: the two are of different ones */
} kb_race_cell;

/* An access. */
typedef struct kb_race_event {
    kb_race_party who;
    uint32_t epoch;
    bool same;            /* writes what is there */
    const uint32_t *seen; /* barriers of each lane of its warp that lie before it, its own too */
} kb_race_event;

/* The access that this one conflicts with; or NULL. */
const kb_race_party *kb_race_conflict(const kb_race_cell *cell, const kb_race_event *now);

/* Remembers the access. */
void kb_race_note(kb_race_cell *cell, const kb_race_event *now);

/* Whether it was written since the block began. */
static inline bool kb_race_was_written(const kb_race_cell *cell, uint32_t begun)
{
    return cell->write_epoch >= begun;
}

#endif
