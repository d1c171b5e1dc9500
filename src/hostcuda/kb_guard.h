/* Looks for what a kernel on the CPU writes outside of its results, and for results of type bool
 * that hold other bytes than 0 and 1. */
#ifndef KB_GUARD_H
#define KB_GUARD_H

#include "hostcuda/kb_intact.h"

/* Runs the frame with `run` on copies of its results, each between guards, and copies the results
 * back. KB_INTERNAL, naming the output, if a guard was written to, also if `run` failed, or if an
 * output of type bool holds other bytes. Nothing is copied then, nor if `run` failed. */
kb_status kb_guard_run(const kb_frame *frame, kb_run *run, kb_error *err);

#endif
