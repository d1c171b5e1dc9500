/* Owns the walk over the slices of a batch: extents, strides, and the moving of data addresses. */
#include "core/kb_batch.h"

#include "core/kb_dtype.h"
#include "core/kb_memory.h"
#include "core/kb_plan.h"

#include <stdbool.h>

enum { INLINE_BUFFERS = 16, INLINE_STRIDES = 64 }; /* beyond these, one allocation */

typedef struct batch {
    uint32_t n_levels;
    uint32_t n_buffers;
    int64_t size[KB_BATCH_LEVELS_MAX];
    int64_t n_slices;
    int64_t *strides;      /* [level][buffer], bytes */
    kb_xla_buffer *slices; /* what the kernel sees: its own axes, the data of one slice */
    void **pointers;       /* to them */
    void *allocated;
    int64_t inline_strides[INLINE_STRIDES];
    kb_xla_buffer inline_slices[INLINE_BUFFERS];
    void *inline_pointers[INLINE_BUFFERS];
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
                "%s: batch level %u belongs to no buffer, or its extent is too large",
                frame->kernel->name, level);
    return KB_OK;
}

/* The distance in bytes between neighbours of each level: the extent of all that lies inside it. */
static kb_status read_strides(batch *b, const kb_frame *frame, kb_error *err)
{
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        const kb_buffer_spec *spec = &frame->kernel->buffers[i];
        int64_t stride = kb_dtype_size(spec->dtype);
        bool overflow = stride == 0; /* packed: a slice need not begin at a byte */
        for (int32_t d = 0; d < spec->rank; d++) {
            int64_t dim = b->slices[i].dims[d];
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

static kb_status take_memory(batch *b, const kb_frame *frame, kb_error *err)
{
    size_t n_strides = (size_t)b->n_levels * b->n_buffers;
    b->strides = b->inline_strides;
    b->slices = b->inline_slices;
    b->pointers = b->inline_pointers;
    b->allocated = NULL;
    if (n_strides <= INLINE_STRIDES && b->n_buffers <= INLINE_BUFFERS)
        return KB_OK;
    size_t slices = b->n_buffers * sizeof *b->slices, strides = n_strides * sizeof *b->strides;
    b->allocated = kb_calloc(1, slices + strides + b->n_buffers * sizeof *b->pointers);
    if (!b->allocated)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "%s: no memory for a batch of %u levels over %u buffers",
                            frame->kernel->name, b->n_levels, b->n_buffers);
    b->slices = b->allocated;
    b->strides = (int64_t *)((char *)b->allocated + slices);
    b->pointers = (void **)((char *)b->allocated + slices + strides);
    return KB_OK;
}

static void take_slices(batch *b, const kb_frame *frame)
{
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        int batch_rank = __builtin_popcount(kb_frame_mask(frame, i));
        b->pointers[i] = &b->slices[i];
        b->slices[i] = *kb_frame_raw(frame, i);
        b->slices[i].rank -= batch_rank;
        if (batch_rank)
            b->slices[i].dims += batch_rank;
    }
}

static kb_status batch_open(batch *b, const kb_frame *frame, kb_error *err)
{
    b->n_levels = frame->n_levels;
    b->n_buffers = kb_kernel_n_buffers(frame->kernel);
    kb_status s = take_memory(b, frame, err);
    if (s == KB_OK)
        s = read_sizes(b, frame, err);
    if (s == KB_OK)
        s = count_slices(b, frame, err);
    if (s != KB_OK)
        return s;
    take_slices(b, frame);
    return read_strides(b, frame, err);
}

/* Neighbouring levels that every buffer has either all or none of: one axis, to those who can use
 * it. */
typedef struct group {
    uint32_t first;
    uint32_t end;
    int64_t n_slices;
} group;

static bool mergeable(const batch *b, const kb_frame *frame, uint32_t level)
{
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        uint32_t mask = kb_frame_mask(frame, i);
        if ((mask >> level & 1) != (mask >> (level + 1) & 1))
            return false;
    }
    return true;
}

/* The group with most slices. */
static group choose_group(const batch *b, const kb_frame *frame)
{
    group best = {0, 0, 1}; /* no level at all */
    for (uint32_t first = 0; first < b->n_levels;) {
        group g = {first, first + 1, b->size[first]};
        while (g.end < b->n_levels && mergeable(b, frame, g.end - 1))
            g.n_slices *= b->size[g.end++];
        if (g.n_slices > best.n_slices)
            best = g;
        first = g.end;
    }
    return best;
}

/* Points every buffer at slice `index` of the levels outside `inner`; the lowest runs fastest. A
 * buffer without an address has no elements, and keeps none. */
static void seek(batch *b, const kb_frame *frame, const group *inner, int64_t index)
{
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        char *data = kb_frame_raw(frame, i)->data;
        int64_t left = index;
        for (uint32_t level = 0; data && level < b->n_levels; level++) {
            if (level >= inner->first && level < inner->end)
                continue;
            data += left % b->size[level] * b->strides[level * b->n_buffers + i];
            left /= b->size[level];
        }
        b->slices[i].data = data;
    }
}

static void advance(batch *b)
{
    for (uint32_t i = 0; i < b->n_buffers; i++)
        if (b->slices[i].data)
            b->slices[i].data = (char *)b->slices[i].data + b->strides[i];
}

/* Runs a step that serves one slice at a time. */
static kb_status run_narrow(batch *b, const kb_frame *frame, kb_frame *slice_frame,
                            const kb_step *step, kb_error *err)
{
    const group none = {0, 0, 1};
    slice_frame->n_slices = 1;
    slice_frame->strides = NULL;
    for (int64_t slice = 0; slice < b->n_slices; slice++) {
        if (slice % b->size[0] == 0)
            seek(b, frame, &none, slice);
        else
            advance(b);
        kb_status s = kb_plan_step(step, slice_frame, err);
        if (s != KB_OK) {
            kb_error_append(err, " [slice %lld of a batch of %lld]", (long long)slice,
                            (long long)b->n_slices);
            return s;
        }
    }
    return KB_OK;
}

/* Runs a step that serves all slices of a group at once. */
static kb_status run_wide(batch *b, const kb_frame *frame, kb_frame *slice_frame,
                          const kb_step *step, kb_error *err)
{
    group inner = choose_group(b, frame);
    slice_frame->n_slices = inner.n_slices;
    slice_frame->strides = b->strides + (size_t)inner.first * b->n_buffers;
    for (int64_t outer = 0; outer < b->n_slices / inner.n_slices; outer++) {
        seek(b, frame, &inner, outer);
        kb_status s = kb_plan_step(step, slice_frame, err);
        if (s != KB_OK) {
            kb_error_append(err, " [a batch of %lld]", (long long)b->n_slices);
            return s;
        }
    }
    return KB_OK;
}

/* Step by step, each for all slices: slices know nothing of each other. */
static kb_status run_steps(batch *b, const kb_frame *frame, kb_error *err)
{
    const kb_plan *plan = &frame->kernel->plan;
    kb_frame slice_frame = *frame;
    slice_frame.inputs = b->pointers;
    slice_frame.outputs = b->pointers + frame->kernel->n_inputs;
    for (uint32_t i = 0; b->n_slices > 0 && i < plan->n_steps; i++) {
        const kb_step *step = &plan->steps[i];
        kb_status s = step->wide ? run_wide(b, frame, &slice_frame, step, err)
                                 : run_narrow(b, frame, &slice_frame, step, err);
        if (s != KB_OK)
            return s;
    }
    return KB_OK;
}

static __attribute__((noinline)) kb_status run_batch(const kb_frame *frame, kb_error *err)
{
    batch b;
    kb_status s = batch_open(&b, frame, err);
    if (s == KB_OK)
        s = run_steps(&b, frame, err);
    kb_free(b.allocated);
    return s;
}

kb_status kb_batch_run(const kb_frame *frame, kb_error *err)
{
    return KB_LIKELY(frame->n_levels == 0) ? kb_plan_run(&frame->kernel->plan, frame, err)
                                           : run_batch(frame, err);
}
