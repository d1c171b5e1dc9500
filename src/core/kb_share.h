/* The slices of a batch on many threads. Any thread may enter. */
#ifndef KB_SHARE_H
#define KB_SHARE_H

#include "core/kb_slices.h"

/* Runs a step that serves one slice at a time for every slice. Where slices may run at once and
 * take long enough, they are shared among this thread and XLA's; otherwise they run here, in their
 * order. Either way the results are the same, and so is the error: that of the first slice that
 * fails. */
kb_status kb_share_run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                       kb_error *err);

#endif
