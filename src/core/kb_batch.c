/* Owns the walk over the slices of a batch: extents, strides, and the moving of data addresses. */
#include "core/kb_batch.h"

#include "core/kb_dtype.h"
#include "core/kb_memory.h"
#include "core/kb_plan.h"

#include <stdbool.h>
#include <string.h>

enum { INLINE_STRIDES = 64 };

typedef struct batch {
    uint32_t n_levels;
    uint32_t n_buffers;
    int64_t size[KB_BATCH_LEVELS_MAX];
    int64_t n_slices;
    int64_t *strides; /* [level][buffer], bytes */
    int64_t inline_strides[INLINE_STRIDES];
} batch;

/* Takes the extent of every level from the buffers that have it; they must agree. */
static kb_status read_sizes(batch *b, const kb_frame *frame, kb_error *err)
{
    for (uint32_t level = 0; level < b->n_levels; level++)
        b->size[level] = -1;
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        uint32_t mask = kb_frame_mask(frame, i);
        const int64_t *dim = kb_frame_raw(frame, i)->dims;
        for (int level = (int)b->n_levels - 1; level >= 0; level--) {
            if (!(mask >> level & 1))
                continue;
            if (*dim < 0)
                return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: buffer %u (%s) has %lld slices",
                                    frame->kernel->name, i, frame->kernel->buffers[i].name,
                                    (long long)*dim);
            if (b->size[level] >= 0 && b->size[level] != *dim)
                return kb_error_set(err, KB_INVALID_ARGUMENT,
                                    "%s: buffer %u (%s) has %lld slices where others have %lld",
                                    frame->kernel->name, i, frame->kernel->buffers[i].name,
                                    (long long)*dim, (long long)b->size[level]);
            b->size[level] = *dim++;
        }
    }
    return KB_OK;
}

static kb_status count_slices(batch *b, const kb_frame *frame, kb_error *err)
{
    b->n_slices = 1;
    for (uint32_t level = 0; level < b->n_levels; level++)
        if (b->size[level] < 0 || __builtin_mul_overflow(b->n_slices, b->size[level], &b->n_slices))
            return kb_error_set(
                err, KB_INVALID_ARGUMENT,
                "%s: batch level %u belongs to no buffer, or its extent is negative "
                "or too large",
                frame->kernel->name, level);
    return KB_OK;
}

/* The distance in bytes between neighbours of each level: the extent of all that lies inside it. */
static kb_status read_strides(batch *b, const kb_frame *frame, kb_error *err)
{
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        const kb_buffer_spec *spec = &frame->kernel->buffers[i];
        int64_t stride = kb_dtype_bits(spec->dtype) / 8;
        bool overflow = stride == 0; /* packed: a slice need not begin at a byte */
        for (int32_t d = 0; d < spec->rank; d++) {
            int64_t dim = frame->buffers[i].dims[d];
            overflow |= dim < 0 || __builtin_mul_overflow(stride, dim, &stride);
        }
        uint32_t mask = kb_frame_mask(frame, i);
        for (uint32_t level = 0; level < b->n_levels; level++) {
            bool has = mask >> level & 1;
            b->strides[level * b->n_buffers + i] = has ? stride : 0;
            overflow |= has && __builtin_mul_overflow(stride, b->size[level], &stride);
        }
        if (overflow && mask)
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: buffer %u (%s) cannot be cut into slices (%s)",
                                frame->kernel->name, i, spec->name, kb_dtype_name(spec->dtype));
    }
    return KB_OK;
}

static kb_status batch_open(batch *b, const kb_frame *frame, kb_error *err)
{
    b->n_levels = frame->n_levels;
    b->n_buffers = kb_kernel_n_buffers(frame->kernel);
    b->strides = b->inline_strides;
    kb_status s = read_sizes(b, frame, err);
    if (s == KB_OK)
        s = count_slices(b, frame, err);
    if (s != KB_OK)
        return s;

    size_t n_strides = (size_t)b->n_levels * b->n_buffers;
    if (n_strides > INLINE_STRIDES) {
        b->strides = kb_calloc(n_strides, sizeof *b->strides);
        if (!b->strides)
            return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                                "%s: no memory for a batch of %u levels", frame->kernel->name,
                                b->n_levels);
    }
    return read_strides(b, frame, err);
}

static void batch_close(batch *b)
{
    if (b->strides != b->inline_strides)
        kb_free(b->strides);
}

/* Points every buffer of the frame at slice `index`; level 0 runs fastest. A buffer without an
 * address has no elements, and stays where kb_frame_open put it. */
static void seek(kb_frame *frame, const batch *b, int64_t index)
{
    for (uint32_t i = 0; i < b->n_buffers; i++)
        if (kb_frame_raw(frame, i)->data)
            frame->buffers[i].data = kb_frame_raw(frame, i)->data;
    for (uint32_t level = 0; level < b->n_levels; level++) {
        int64_t at = index % b->size[level];
        index /= b->size[level];
        for (uint32_t i = 0; i < b->n_buffers; i++)
            frame->buffers[i].data += at * b->strides[level * b->n_buffers + i];
    }
}

static void advance(kb_frame *frame, const batch *b)
{
    for (uint32_t i = 0; i < b->n_buffers; i++)
        frame->buffers[i].data += b->strides[i];
}

static kb_status run_slices(kb_frame *frame, const batch *b, kb_error *err)
{
    for (int64_t slice = 0; slice < b->n_slices; slice++) {
        if (slice % b->size[0] == 0)
            seek(frame, b, slice);
        else
            advance(frame, b);
        kb_status s = kb_plan_run(&frame->kernel->plan, frame, err);
        if (s != KB_OK) {
            kb_error_append(err, " [slice %lld of a batch of %lld]", (long long)slice,
                            (long long)b->n_slices);
            return s;
        }
    }
    return KB_OK;
}

kb_status kb_batch_run(kb_frame *frame, kb_error *err)
{
    if (frame->n_levels == 0)
        return kb_plan_run(&frame->kernel->plan, frame, err);

    batch b;
    kb_status s = batch_open(&b, frame, err);
    if (s == KB_OK)
        s = run_slices(frame, &b, err);
    batch_close(&b);
    return s;
}
