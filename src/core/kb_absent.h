/* Target `kernbridge.absent`: an operation on a platform where it has no kernel, in a program that
 * is lowered for several platforms. Any thread may enter. */
#ifndef KB_ABSENT_H
#define KB_ABSENT_H

#include "abi/kb_xla.h"

/* Fails with KB_UNIMPLEMENTED and the call's attribute `message`, a string. */
kb_xla_error *kb_absent_execute(kb_xla_frame *frame);

#endif
