/* The handler of GPU programs on the CPU: target `kernbridge.cuda.host`. A call carries what it
 * carries on a GPU, see cuda/kb_target.h. Any thread may enter, without Python. */
#ifndef KB_HOSTTARGET_H
#define KB_HOSTTARGET_H

#include "abi/kb_xla.h"

/* Instantiate also compiles the kernel's code for the CPU, unless this process knows it. */
kb_xla_error *kb_hosttarget_instantiate(kb_xla_frame *frame);
kb_xla_error *kb_hosttarget_execute(kb_xla_frame *frame);

#endif
