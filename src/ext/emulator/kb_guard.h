/* Looks for what a kernel on the CPU writes outside of its results, for results of type bool that
 * hold other bytes than 0 and 1, for inputs that it changed, and for what it did not write. */
#ifndef KB_GUARD_H
#define KB_GUARD_H

#include "core/kb_frame.h"

typedef kb_status kb_run(const kb_frame *frame, kb_error *err);

struct kb_arena;

/* Makes a frame with descriptions of its own of the same memory. Returns these descriptions
 * (inputs, outputs, hidden); NULL without memory. */
kb_xla_buffer *kb_guard_copy(const kb_frame *frame, struct kb_arena *arena, kb_frame *moved,
                             kb_xla_frame *xla);

/* Runs the frame with `run` on copies of its results, each between guards, and copies the results
 * back. KB_INTERNAL, naming the output, if a guard was written to, also if `run` failed, or if an
 * output of type bool holds other bytes. Nothing is copied then, nor if `run` failed. */
kb_status kb_guard_results(const kb_frame *frame, kb_run *run, kb_error *err);

/* Runs the frame with `run`. KB_INTERNAL, naming input and element, if that changed an input which
 * does not share its memory with a result; the input is put back then, also if `run` failed. */
kb_status kb_guard_inputs(const kb_frame *frame, kb_run *run, kb_error *err);

/* Memory that nothing has written yet during a call: outputs and temporaries. For the checked mode,
 * which reports reads of it. A call belongs to one thread, and so does what is kept of it. */
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

/* Runs a call. Its outputs and temporaries hold nothing at first, unless they share the memory of
 * an input. */
kb_status kb_unwritten_run(const kb_frame *frame, kb_run *run, kb_error *err);

/* For each byte from `first` on, whether it has been written; NULL if all of them have. */
uint8_t *kb_unwritten_find(uint64_t first, uint64_t size);

#endif
