/* Where an array lies for a launch in checked mode, and what is remembered of its elements. */
#ifndef KB_RANGE_H
#define KB_RANGE_H

#include "hostcuda/kb_check.h"
#include "hostcuda/kb_race.h"

#include <stddef.h>

/* `low` and `high` are bytes around `base`. */
typedef struct kb_range {
    const kb_check_array *about;
    uint64_t base;
    int64_t low, high, slice; /* bytes from slice to slice of a batch */
    int64_t extents[KB_CHECK_DIMS];
    kb_race_cell *cells; /* of a slice, from `low` on; NULL where nobody writes */
    uint64_t unit;       /* bytes of a cell */
    uint32_t group;      /* the first of the arguments that share memory */
    kb_race_cell *owned;
} kb_range;

/* An argument, from its words. */
void kb_range_measure(kb_range *range, void *const *parameters);

/* A shared or local array. */
void kb_range_fixed(kb_range *range, uint64_t base, uint64_t size);

/* Cells for the arguments that somebody writes to; those that overlap share them. False without
 * memory. */
bool kb_ranges_watch(kb_range ranges[], uint32_t n);
void kb_ranges_free(kb_range ranges[], uint32_t n);

/* Text of the element that lies `offset` bytes from the beginning. */
void kb_range_element(const kb_range *range, int64_t offset, char text[], size_t size);

#endif
