/* Owns the description of buffers as tensors: element types, strides, element counts. */
#include "module/kb_tensors.h"

#include "core/kb_dtype.h"

#include <stdlib.h>

static const struct {
    uint8_t type, code;
} elements[] = {
#define ELEMENT(NAME, xla, bits, name, OURS, dlpack, pjrt) [xla] = {KB_TYPE_##OURS, dlpack},
    KB_DTYPE_LIST(ELEMENT)
#undef ELEMENT
};

static KB_COLD kb_status refuse(const kb_frame *frame, uint32_t i, const char *why, kb_error *err)
{
    uint32_t n_inputs = frame->kernel->n_inputs;
    return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: %s %u %s [KB3007]", frame->kernel->name,
                        i < n_inputs ? "input" : "output", i < n_inputs ? i : i - n_inputs, why);
}

/* Strides of a compact array, the last axis first; returns its element count, -1 if that overflows.
 */
static inline int64_t fill_strides(const kb_xla_buffer *buffer, int64_t *strides)
{
    int64_t count = 1;
    bool overflow = false;
    for (int64_t d = buffer->rank - 1; d >= 0; d--) {
        strides[d] = count;
        overflow |= buffer->dims[d] < 0 || __builtin_mul_overflow(count, buffer->dims[d], &count);
    }
    return overflow ? -1 : count;
}

static inline kb_status describe(kb_tensor *t, const kb_frame *frame, uint32_t i, bool cuda,
                                 int64_t *strides, kb_error *err)
{
    const kb_xla_buffer *buffer = kb_frame_buffer(frame, i);
    uint32_t bits = kb_dtype_bits(buffer->dtype);
    if (bits == 0)
        return refuse(frame, i, "has an element type that is unknown", err);
    t->size = fill_strides(buffer, strides);
    if (t->size < 0)
        return refuse(frame, i, "has an extent that is negative or too large", err);
    t->data = buffer->data;
    t->device.type = cuda ? KB_DEVICE_CUDA : KB_DEVICE_CPU;
    t->device.ordinal = cuda ? frame->device : 0;
    t->ndim = (int32_t)buffer->rank;
    t->dl_dtype.code = elements[buffer->dtype].code;
    t->dl_dtype.bits = (uint8_t)bits;
    t->dl_dtype.lanes = 1;
    t->shape = buffer->dims;
    t->strides = strides;
    t->byte_offset = 0;
    t->type = elements[buffer->dtype].type;
    t->reserved = 0;
    return KB_OK;
}

static uint32_t n_seen(const kb_frame *frame)
{
    return frame->kernel->n_inputs + frame->kernel->n_outputs;
}

/* Where strides are written; NULL without memory. */
static int64_t *take_memory(kb_tensors *tensors, const kb_frame *frame)
{
    uint32_t n = n_seen(frame);
    int64_t n_strides = 0;
    for (uint32_t i = 0; i < n; i++)
        n_strides += kb_frame_buffer(frame, i)->rank;
    tensors->list = tensors->inline_list;
    tensors->allocated = NULL;
    if (KB_LIKELY(n <= KB_TENSORS_INLINE && n_strides <= KB_STRIDES_INLINE))
        return tensors->inline_strides;
    size_t list = n * sizeof(kb_tensor);
    tensors->allocated = calloc(1, list + (size_t)n_strides * sizeof(int64_t));
    tensors->list = tensors->allocated;
    return tensors->allocated ? (int64_t *)((char *)tensors->allocated + list) : NULL;
}

kb_status kb_tensors_open(kb_tensors *tensors, const kb_frame *frame, bool cuda, kb_error *err)
{
    int64_t *strides = take_memory(tensors, frame);
    if (!strides)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory for %u tensors",
                            frame->kernel->name, n_seen(frame));
    for (uint32_t i = 0; i < n_seen(frame); i++) {
        kb_status s = describe(&tensors->list[i], frame, i, cuda, strides, err);
        if (!KB_LIKELY(s == KB_OK)) {
            kb_tensors_close(tensors);
            return s;
        }
        strides += tensors->list[i].ndim;
    }
    return KB_OK;
}

void kb_tensors_close(kb_tensors *tensors)
{
    free(tensors->allocated);
}
