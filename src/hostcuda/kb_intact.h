/* Looks for inputs that a kernel on the CPU changed: compares them before and after the call. */
#ifndef KB_INTACT_H
#define KB_INTACT_H

#include "core/kb_frame.h"

typedef kb_status kb_run(const kb_frame *frame, kb_error *err);

/* Runs the frame with `run`. KB_INTERNAL, naming input and element, if that changed an input which
 * does not share its memory with a result; the input is put back then, also if `run` failed. */
kb_status kb_intact_run(const kb_frame *frame, kb_run *run, kb_error *err);

#endif
