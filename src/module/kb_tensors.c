/* Owns the description of buffers as tensors: element types, strides, element counts. */
#include "module/kb_tensors.h"

#include "core/kb_dtype.h"

#include <stdlib.h>

/* X(XLA's, ours, DLPack's code) */
#define ELEMENT_LIST(X)                                                                            \
    X(PRED, BOOL, 6)                                                                               \
    X(S1, INT1, 0)                                                                                 \
    X(S2, INT2, 0)                                                                                 \
    X(S4, INT4, 0)                                                                                 \
    X(S8, INT8, 0)                                                                                 \
    X(S16, INT16, 0)                                                                               \
    X(S32, INT32, 0)                                                                               \
    X(S64, INT64, 0)                                                                               \
    X(U1, UINT1, 1)                                                                                \
    X(U2, UINT2, 1)                                                                                \
    X(U4, UINT4, 1)                                                                                \
    X(U8, UINT8, 1)                                                                                \
    X(U16, UINT16, 1)                                                                              \
    X(U32, UINT32, 1)                                                                              \
    X(U64, UINT64, 1)                                                                              \
    X(F16, FLOAT16, 2)                                                                             \
    X(F32, FLOAT32, 2)                                                                             \
    X(F64, FLOAT64, 2)                                                                             \
    X(BF16, BFLOAT16, 4)                                                                           \
    X(C64, COMPLEX64, 5)                                                                           \
    X(C128, COMPLEX128, 5)                                                                         \
    X(F8E3M4, FLOAT8_E3M4, 7)                                                                      \
    X(F8E4M3, FLOAT8_E4M3, 8)                                                                      \
    X(F8E4M3B11FNUZ, FLOAT8_E4M3B11FNUZ, 9)                                                        \
    X(F8E4M3FN, FLOAT8_E4M3FN, 10)                                                                 \
    X(F8E4M3FNUZ, FLOAT8_E4M3FNUZ, 11)                                                             \
    X(F8E5M2, FLOAT8_E5M2, 12)                                                                     \
    X(F8E5M2FNUZ, FLOAT8_E5M2FNUZ, 13)                                                             \
    X(F8E8M0FNU, FLOAT8_E8M0FNU, 14)                                                               \
    X(F4E2M1FN, FLOAT4_E2M1FN, 17)

typedef struct element {
    uint8_t known;
    uint8_t type;
    uint8_t code;
} element;

static const element elements[] = {
#define ELEMENT_ENTRY(XLA, OURS, dlpack) [KB_DTYPE_##XLA] = {1, KB_TYPE_##OURS, dlpack},
    ELEMENT_LIST(ELEMENT_ENTRY)
#undef ELEMENT_ENTRY
};

static const uint8_t bits_of_type[256] = {
#define TYPE_BITS(NAME, number, name, bits) [number] = (bits),
    KB_TYPE_LIST(TYPE_BITS)
#undef TYPE_BITS
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
    uint32_t code = (uint32_t)buffer->dtype;
    if (code >= sizeof elements / sizeof *elements || !elements[code].known)
        return refuse(frame, i, "has an element type that is unknown", err);
    const element *e = &elements[code];
    t->size = fill_strides(buffer, strides);
    if (t->size < 0)
        return refuse(frame, i, "has an extent that is negative or too large", err);
    t->data = buffer->data;
    t->device.type = cuda ? KB_DEVICE_CUDA : KB_DEVICE_CPU;
    t->device.ordinal = cuda ? frame->device : 0;
    t->ndim = (int32_t)buffer->rank;
    t->dl_dtype.code = e->code;
    t->dl_dtype.bits = bits_of_type[e->type];
    t->dl_dtype.lanes = 1;
    t->shape = buffer->dims;
    t->strides = strides;
    t->byte_offset = 0;
    t->type = e->type;
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
