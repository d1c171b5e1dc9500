/* What the checked mode remembers of the elements of a launch: a cell for each, and a time that
 * goes on from launch to launch, so that what is left of an earlier one is old and need not be
 * erased. Any thread may enter. */
#ifndef KB_SHADOW_H
#define KB_SHADOW_H

#include "ext/emulator/kb_race.h"

#include <stddef.h>

typedef struct kb_shadow {
    uint32_t time; /* no cell has a later one */
    size_t n_cells;
    kb_race_cell *cells;
    kb_race_more *more; /* of each cell */
} kb_shadow;

/* At least so many cells; they are given back when the launch has ended. NULL without memory. */
kb_shadow *kb_shadow_take(size_t n_cells);
void kb_shadow_give_back(kb_shadow *shadow);

/* Whether the time might end before long. */
bool kb_shadow_is_late(const kb_shadow *shadow);

/* Erases everything and begins with the time again, if it is late; whether it was. */
bool kb_shadow_renew(kb_shadow *shadow);

#endif
