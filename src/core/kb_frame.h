/* One call, decoded: the buffers that XLA handed over, checked against the kernel. A frame lives on
 * the stack of one call; its buffers belong to XLA. */
#ifndef KB_FRAME_H
#define KB_FRAME_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_kernel.h"

enum {
    KB_FRAME_INLINE = 16,     /* more buffers than this cost one allocation */
    KB_BATCH_LEVELS_MAX = 16, /* nested batches */
};

typedef struct kb_frame {
    const kb_kernel *kernel;
    const kb_xla_frame *xla;
    const int64_t *masks; /* of the operands; unused without a batch */
    uint32_t n_levels;    /* of the batch; 0 without one */
    kb_buffer *buffers;   /* inputs, outputs, hidden */
    kb_buffer inline_buffers[KB_FRAME_INLINE];
} kb_frame;

/* Fills `frame` from XLA's. `call` is the attribute of that name, see kb_handler.h. Checks the
 * number, dtype and rank of every buffer. Must be followed by kb_frame_close if and only if KB_OK.
 */
kb_status kb_frame_open(kb_frame *frame, const kb_kernel *kernel, const kb_xla_frame *xla,
                        const kb_xla_array *call, kb_error *err);

void kb_frame_close(kb_frame *frame);

/* Buffer i as XLA has it, batch axes included. */
const kb_xla_buffer *kb_frame_raw(const kb_frame *frame, uint32_t i);

/* Batch levels of buffer i, one bit a level. */
uint32_t kb_frame_mask(const kb_frame *frame, uint32_t i);

#endif
