/* Memory that nothing has written yet during a call: outputs and temporaries. For the checked mode,
 * which reports reads of it. A call belongs to one thread, and so does what is kept of it. */
#ifndef KB_UNWRITTEN_H
#define KB_UNWRITTEN_H

#include "ext/emulator/kb_guard.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kb_unwritten_region {
    uint64_t first, size;
    uint8_t *written; /* for each byte */
} kb_unwritten_region;

/* What is known of a call. */
typedef struct kb_unwritten {
    uint32_t n_regions;
    kb_unwritten_region *regions;
} kb_unwritten;

/* Makes this what the thread knows, and returns what it knew; NULL for nothing. */
const kb_unwritten *kb_unwritten_exchange(const kb_unwritten *next);

/* The host has written these bytes. */
void kb_unwritten_fill(void *at, size_t size);

/* The host has copied these bytes. What was not written stays so in a copy. */
void kb_unwritten_copy(void *to, const void *from, size_t size);

/* Runs a call, whose outputs and temporaries hold nothing at first but for those that share their
 * memory with inputs. */
kb_status kb_unwritten_run(const kb_frame *frame, kb_run *run, kb_error *err);

/* For each byte from `first` on, whether it has been written; NULL if all of them have. */
uint8_t *kb_unwritten_find(uint64_t first, uint64_t size);

#endif
