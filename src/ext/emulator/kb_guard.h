/* Looks for what a kernel on the CPU writes outside of its results, for results of type bool that
 * hold other bytes than 0 and 1, and for inputs that it changed. */
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

#endif
