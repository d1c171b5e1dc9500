/* Signals that the code of a kernel in CUDA C++ raises, which would end the process. */
#ifndef KB_FAULT_H
#define KB_FAULT_H

#include "hostcuda/kb_block.h"

enum { KB_FAULT_GUARD = 1 << 20 }; /* bytes below the stacks of a block, more than any frame has */

/* This thread of the system begins to run code of the block; or, with NULL, has ended. Meanwhile,
 * the block ends with a fault if a stack overflows or an integer is divided by zero. */
void kb_fault_watch(kb_block *block);

#endif
