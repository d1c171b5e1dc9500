/* One call, decoded: the buffers that XLA handed over, checked against the kernel. A frame lives on
 * the stack of one call; its buffers belong to XLA. */
#ifndef KB_FRAME_H
#define KB_FRAME_H

#include "abi/kb_xla.h"
#include "core/kb_error.h"
#include "core/kb_kernel.h"

#include <stdbool.h>

enum {
    KB_BATCH_LEVELS_MAX = 16, /* nested batches */
    KB_BATCH_ORDER = 256,     /* the number of levels, plus this times a kb_slice_order */
};

/* The user's choice for the slices of a batch. */
typedef enum kb_slice_order {
    KB_SLICES_AUTO,     /* they run at once where the kernel is known to allow it */
    KB_SLICES_IN_ORDER, /* one after the other, on one thread */
    KB_SLICES_AT_ONCE,  /* they may run at once */
    KB_SLICES_OF_ROWS,  /* there is no batch: the kernel's own rows may be computed at once */
    KB_SLICE_ORDERS,
} kb_slice_order;

typedef struct kb_frame {
    const kb_kernel *kernel;
    const kb_xla_frame *xla;
    void *const *inputs;  /* kb_xla_buffer *: the kernel's; of one slice, in a batch */
    void *const *outputs; /* visible results, then hidden ones */
    const int64_t *masks; /* of the operands; unused without a batch */
    uint32_t n_levels;    /* of the batch; 0 without one */
    uint32_t n_row_axes;  /* leading axes that are rows of the kernel, see kb_batch.h; or 0 */
    kb_slice_order order; /* of its slices; unused without one */
    const void *driver;   /* GPU: what steps call, a kb_driver; NULL where the target has none */
    void *stream;         /* GPU: where steps are enqueued */
    int device;           /* GPU: ordinal */
    int64_t n_slices;     /* that a wide step must serve; 1 without a batch */
    const int64_t
        *strides; /* of each buffer, in bytes, from one such slice to the next; NULL if 1 */
} kb_frame;

/* Buffer i (inputs, outputs, hidden) for a step: in a batch, one slice. */
static inline const kb_xla_buffer *kb_frame_buffer(const kb_frame *frame, uint32_t i)
{
    uint32_t n_inputs = frame->kernel->n_inputs;
    return i < n_inputs ? frame->inputs[i] : frame->outputs[i - n_inputs];
}

/* Whether the structures of XLA's frame go as far as we read them. The sizes of its buffers, which
 * only an execution has, are not compared: that would cost 0.4 ns a call. */
static inline bool kb_frame_is_whole(const kb_xla_frame *xla)
{
    return xla->struct_size >= KB_XLA_SIZE(kb_xla_frame, attrs) &&
           xla->args.struct_size >= KB_XLA_SIZE(kb_xla_buffers, buffers) &&
           xla->rets.struct_size >= KB_XLA_SIZE(kb_xla_buffers, buffers) &&
           xla->attrs.struct_size >= KB_XLA_SIZE(kb_xla_attrs, values);
}

/* Refuses a frame that is not whole, or whose table of functions ends before those that we call:
 * KB_FAILED_PRECONDITION, naming the first structure that is too short. `what` names the call. */
KB_COLD kb_status kb_frame_refuse(const kb_xla_frame *xla, const char *what, kb_error *err);

/* Elements of a buffer; -1 if an extent is negative or the product overflows. */
int64_t kb_buffer_count(const kb_xla_buffer *buffer);

/* Bytes of its elements (see kb_dtype_size); -1 where kb_buffer_count is, or if that overflows. */
int64_t kb_buffer_size(const kb_xla_buffer *buffer);

/* The same for code that walks over the memory: 0 where the size is -1. */
static inline size_t kb_buffer_bytes(const kb_xla_buffer *buffer)
{
    int64_t size = kb_buffer_size(buffer);
    return size > 0 ? (size_t)size : 0;
}

/* Fills `frame` from XLA's. `call` is the attribute of that name, see kb_handler.h. Checks the
 * number, dtype and rank of every buffer. Allocates nothing. */
kb_status kb_frame_read(kb_frame *frame, const kb_kernel *kernel, const kb_xla_frame *xla,
                        const kb_xla_array *call, kb_error *err);

/* Refuses output `i` if it is of type bool and holds other bytes than 0 and 1: XLA would count with
 * them. `data`: what the kernel wrote, in memory of the host. */
kb_status kb_frame_check_bool(const kb_frame *frame, uint32_t i, const uint8_t *data,
                              kb_error *err);

/* Refuses a kernel that the target of the call does not run, such as one for GPUs on the CPU. */
KB_COLD kb_status kb_frame_refuse_target(const kb_frame *frame, kb_error *err);

/* Buffer i (inputs, outputs, hidden) as XLA has it, batch axes included. */
const kb_xla_buffer *kb_frame_raw(const kb_frame *frame, uint32_t i);

/* Whether input i has the memory of a result, or result i the memory of an input. */
bool kb_frame_is_aliased(const kb_frame *frame, uint32_t i);

/* Whether buffer i is cut where the kernel's rows are. */
bool kb_frame_has_rows(const kb_frame *frame, uint32_t i);

/* Batch levels of buffer i, one bit a level. */
uint32_t kb_frame_mask(const kb_frame *frame, uint32_t i);

#endif
