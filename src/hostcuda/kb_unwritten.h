/* Memory that nothing has written yet during a call: outputs and temporaries. For the checked mode,
 * which reports reads of it. A call belongs to one thread, and so does what is kept of it. */
#ifndef KB_UNWRITTEN_H
#define KB_UNWRITTEN_H

#include "hostcuda/kb_guard.h"

#include <stddef.h>
#include <stdint.h>

/* Runs a call, whose outputs and temporaries hold nothing at first but for those that share their
 * memory with inputs. */
kb_status kb_unwritten_run(const kb_frame *frame, kb_run *run, kb_error *err);

/* For each byte from `first` on, whether it has been written; NULL if all of them have. */
uint8_t *kb_unwritten_find(uint64_t first, uint64_t size);

#endif
