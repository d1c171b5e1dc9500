/* One call, decoded: the buffers that XLA handed over, checked against the kernel. A frame lives on
 * the stack of one call; its buffers belong to XLA. */
#ifndef KB_FRAME_H
#define KB_FRAME_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_kernel.h"

enum { KB_BATCH_LEVELS_MAX = 16 }; /* nested batches */

typedef struct kb_frame {
    const kb_kernel *kernel;
    const kb_xla_frame *xla;
    void *const *inputs;  /* kb_xla_buffer *: what the kernel sees; of one slice, in a batch */
    void *const *outputs; /* visible results, then hidden ones */
    const int64_t *masks; /* of the operands; unused without a batch */
    uint32_t n_levels;    /* of the batch; 0 without one */
} kb_frame;

/* Fills `frame` from XLA's. `call` is the attribute of that name, see kb_handler.h. Checks the
 * number, dtype and rank of every buffer. Allocates nothing. */
kb_status kb_frame_read(kb_frame *frame, const kb_kernel *kernel, const kb_xla_frame *xla,
                        const kb_xla_array *call, kb_error *err);

/* Buffer i (inputs, outputs, hidden) as XLA has it, batch axes included. */
const kb_xla_buffer *kb_frame_raw(const kb_frame *frame, uint32_t i);

/* Batch levels of buffer i, one bit a level. */
uint32_t kb_frame_mask(const kb_frame *frame, uint32_t i);

#endif
