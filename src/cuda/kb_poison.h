/* Looks for output elements that nothing writes: runs a call twice, over two fill patterns. */
#ifndef KB_POISON_H
#define KB_POISON_H

#include "core/kb_frame.h"
#include "cuda/kb_driver.h"

/* Runs the frame's plan twice, with outputs filled with another byte each time, and what the call
 * shares with its operands put back in between. KB_INTERNAL, naming output and elements, if some
 * element of an output still holds both patterns, or is no truth value where the output is of type
 * bool; outputs that share memory with an operand are not looked at. Waits for the stream; slow.
 * Not to be called while the stream captures. */
kb_status kb_poison_run(const kb_driver *cu, const kb_frame *frame, kb_error *err);

/* The error for `n` elements of an output that nothing wrote, the first of them element `at`. */
kb_status kb_poison_refuse(const kb_frame *frame, uint32_t output, size_t n, size_t at,
                           kb_error *err);

#endif
