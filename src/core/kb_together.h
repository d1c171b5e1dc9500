/* Calls that several devices of this process make together: after the call, XLA combines what they
 * computed, and every device waits for all others. If one of them failed at once, the others would
 * wait for ever, and XLA would end the process. So the device that fails keeps its error here and
 * takes part, and the call of the target `kernbridge.together`, which comes next in the program,
 * fails on all of them. Both calls have the attribute `together`, an int64 that is unique in their
 * program. Any thread may enter; without failures, none waits. */
#ifndef KB_TOGETHER_H
#define KB_TOGETHER_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"

enum { KB_TOGETHER_MAX = 64 }; /* failures that are kept, the latest ones */

/* Keeps the error of a call that devices make together, and returns KB_OK. Of any other call, or
 * where XLA does not say which run it belongs to, returns the error's status. */
KB_COLD kb_status kb_together_keep(const kb_xla_frame *frame, const kb_error *err);

/* Fails with the error that a device has kept in the same run, if there is one. Its results are its
 * operands, in the same memory. */
kb_xla_error *kb_together_execute(kb_xla_frame *frame);

#endif
