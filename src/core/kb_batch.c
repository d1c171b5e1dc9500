/* Owns the extents and strides of a batch, and the order of its steps. */
#include "core/kb_batch.h"

#include "core/kb_dtype.h"
#include "core/kb_plan.h"
#include "core/kb_slices.h"

#include <stdbool.h>
#include <stdlib.h>

enum { INLINE_STRIDES = 64 }; /* beyond these, one allocation */

typedef struct batch {
    kb_slices slices;
    kb_cursor cursor;
    void *allocated;
    int64_t inline_strides[INLINE_STRIDES];
} batch;

/* Takes the extent of every level from the buffers that have it; they must agree. */
static kb_status read_sizes(kb_slices *b, kb_error *err)
{
    const kb_frame *frame = b->frame;
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

static kb_status count_slices(kb_slices *b, kb_error *err)
{
    b->count = 1;
    for (uint32_t level = 0; level < b->n_levels; level++)
        if (b->size[level] < 0 || __builtin_mul_overflow(b->count, b->size[level], &b->count))
            return kb_error_set(
                err, KB_INVALID_ARGUMENT,
                "%s: batch level %u belongs to no buffer, or its extent is too large",
                b->frame->kernel->name, level);
    return KB_OK;
}

#define PACKED                                                                                     \
    ", since several elements share a byte; convert it to int8, or to another dtype of whole "     \
    "bytes, before jax.vmap [KB2003]"

/* The distance in bytes between neighbours of each level: the extent of all that lies inside it. */
static kb_status read_strides(kb_slices *b, kb_error *err)
{
    const kb_kernel *kernel = b->frame->kernel;
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        const kb_buffer_spec *spec = &kernel->buffers[i];
        uint32_t mask = kb_frame_mask(b->frame, i);
        const kb_xla_buffer *raw = kb_frame_raw(b->frame, i);
        const int64_t *dims = raw->dims + (raw->rank - spec->rank); /* after the batch's */
        int64_t stride = kb_dtype_size(spec->dtype);
        bool overflow = stride == 0; /* packed: a slice need not begin at a byte */
        for (int32_t d = 0; d < spec->rank; d++)
            overflow |= dims[d] < 0 || __builtin_mul_overflow(stride, dims[d], &stride);
        for (uint32_t level = 0; level < b->n_levels; level++) {
            bool has = mask >> level & 1;
            b->strides[level * b->n_buffers + i] = has ? stride : 0;
            overflow |= has && __builtin_mul_overflow(stride, b->size[level], &stride);
        }
        if (overflow && mask)
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: buffer %u (%s) cannot be cut into slices (%s)%s", kernel->name,
                                i, spec->name, kb_dtype_name(spec->dtype),
                                kb_dtype_bits(spec->dtype) < 8 ? PACKED : "");
    }
    return KB_OK;
}

static kb_status take_memory(batch *b, kb_error *err)
{
    const kb_slices *slices = &b->slices;
    size_t n_strides = (size_t)slices->n_levels * slices->n_buffers;
    b->slices.strides = b->inline_strides;
    b->allocated = NULL;
    if (n_strides <= INLINE_STRIDES)
        return KB_OK;
    b->slices.strides = b->allocated = calloc(n_strides, sizeof *slices->strides);
    if (b->allocated)
        return KB_OK;
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                        "%s: no memory for a batch of %u levels over %u buffers",
                        slices->frame->kernel->name, slices->n_levels, slices->n_buffers);
}

static kb_status batch_open(batch *b, const kb_frame *frame, kb_error *err)
{
    b->slices.frame = frame;
    b->slices.n_levels = frame->n_levels;
    b->slices.rows = 0;
    b->slices.n_buffers = kb_kernel_n_buffers(frame->kernel);
    b->cursor.allocated = NULL;
    kb_status s = take_memory(b, err);
    if (s == KB_OK)
        s = read_sizes(&b->slices, err);
    if (s == KB_OK)
        s = count_slices(&b->slices, err);
    if (s == KB_OK)
        s = read_strides(&b->slices, err);
    return s == KB_OK ? kb_cursor_open(&b->cursor, &b->slices, err) : s;
}

static bool mergeable(const kb_slices *b, uint32_t level)
{
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        uint32_t mask = kb_frame_mask(b->frame, i);
        if ((mask >> level & 1) != (mask >> (level + 1) & 1))
            return false;
    }
    return true;
}

/* The group with most slices. */
static kb_slice_group choose_group(const kb_slices *b)
{
    kb_slice_group best = {0, 0, 1}; /* no level at all */
    for (uint32_t first = 0; first < b->n_levels;) {
        kb_slice_group g = {first, first + 1, b->size[first]};
        while (g.end < b->n_levels && mergeable(b, g.end - 1))
            g.n_slices *= b->size[g.end++];
        if (g.n_slices > best.n_slices)
            best = g;
        first = g.end;
    }
    return best;
}

/* Runs a step that serves all slices of a group at once. */
static kb_status run_wide(batch *b, const kb_step *step, kb_error *err)
{
    const kb_slices *slices = &b->slices;
    kb_slice_group inner = choose_group(slices);
    b->cursor.frame.n_slices = inner.n_slices;
    b->cursor.frame.strides = slices->strides + (size_t)inner.first * slices->n_buffers;
    for (int64_t outer = 0; outer < slices->count / inner.n_slices; outer++) {
        kb_cursor_seek(&b->cursor, slices, &inner, outer);
        kb_status s = kb_plan_step(step, &b->cursor.frame, err);
        if (s != KB_OK) {
            kb_error_note(err, " [a batch of %lld]", (long long)slices->count);
            return s;
        }
    }
    return KB_OK;
}

/* Step by step, each for all slices: slices are independent of each other. */
static kb_status run_steps(batch *b, kb_error *err)
{
    const kb_plan *plan = &b->slices.frame->kernel->plan;
    for (uint32_t i = 0; b->slices.count > 0 && i < plan->n_steps; i++) {
        const kb_step *step = &plan->steps[i];
        kb_status s =
            step->wide ? run_wide(b, step, err) : kb_share_run(&b->slices, &b->cursor, step, err);
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
        s = run_steps(&b, err);
    kb_cursor_close(&b.cursor);
    free(b.allocated);
    return s;
}

enum { BYTES_OF_ROWS = 4096 }; /* of the rows of a slice, in the widest result */

/* Reads the rows of every buffer that has them. `*fits` is whether they can be cut. */
static kb_status read_rows(batch *b, bool *fits, kb_error *err)
{
    kb_slices *slices = &b->slices;
    const kb_frame *frame = slices->frame;
    uint32_t n_dims = 0;
    int64_t widest = 1;
    slices->n_rows = -1;
    for (uint32_t i = slices->n_buffers; i-- > 0;) {
        const kb_xla_buffer *raw = kb_frame_raw(frame, i);
        slices->strides[i] = 0;
        if (!kb_frame_has_rows(frame, i))
            continue;
        int64_t n_rows = 1, bytes = kb_buffer_size(raw);
        for (uint32_t d = 0; d < frame->n_row_axes && d < raw->rank; d++)
            n_rows = (int64_t)((uint64_t)n_rows * (uint64_t)raw->dims[d]); /* of no elements: any */
        if (raw->rank < frame->n_row_axes || (slices->n_rows >= 0 && slices->n_rows != n_rows))
            return kb_error_set(err, KB_INVALID_ARGUMENT,
                                "%s: buffer %u (%s) does not have the rows of the others",
                                frame->kernel->name, i, frame->kernel->buffers[i].name);
        slices->n_rows = n_rows;
        slices->strides[i] = bytes > 0 ? bytes / n_rows : 0;
        n_dims += (uint32_t)raw->rank;
        *fits &= bytes > 0 && n_dims <= KB_CURSOR_DIMS;
        if (i >= frame->kernel->n_inputs && slices->strides[i] > widest)
            widest = slices->strides[i];
    }
    slices->rows = BYTES_OF_ROWS / widest + (widest > BYTES_OF_ROWS);
    return KB_OK;
}

/* Shares the rows of a kernel among threads where that is worth it. */
static __attribute__((noinline)) kb_status run_rows(const kb_frame *frame, kb_error *err)
{
    const kb_plan *plan = &frame->kernel->plan;
    batch b;
    b.slices = (kb_slices){.frame = frame, .strides = b.inline_strides, .rows = 1};
    b.slices.n_buffers = kb_kernel_n_buffers(frame->kernel);
    bool fits = b.slices.n_buffers <= KB_CURSOR_BUFFERS && plan->n_steps == 1 &&
                !plan->steps->wide && frame->kernel->n_hidden == 0;
    kb_status s = fits ? read_rows(&b, &fits, err) : KB_OK;
    if (s != KB_OK || !fits || b.slices.n_rows <= b.slices.rows ||
        kb_plan_concurrency(plan->steps, frame) != KB_CONCURRENT)
        return s == KB_OK ? kb_plan_run(plan, frame, err) : s;
    b.slices.count = (b.slices.n_rows + b.slices.rows - 1) / b.slices.rows;
    for (uint32_t i = 0; i < b.slices.n_buffers; i++)
        b.slices.strides[i] *= b.slices.rows;
    s = kb_cursor_open(&b.cursor, &b.slices, err);
    if (s == KB_OK)
        s = kb_share_run(&b.slices, &b.cursor, plan->steps, err);
    kb_cursor_close(&b.cursor);
    return s;
}

kb_status kb_batch_run(const kb_frame *frame, kb_error *err)
{
    if (KB_LIKELY(frame->n_levels == 0 && frame->n_row_axes == 0))
        return kb_plan_run(&frame->kernel->plan, frame, err);
    return frame->n_levels ? run_batch(frame, err) : run_rows(frame, err);
}
