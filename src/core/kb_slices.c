/* Owns the walk over the slices of a batch: the moving of data addresses. */
#include "core/kb_slices.h"

#include "core/kb_memory.h"

static kb_status take_memory(kb_cursor *cursor, const kb_slices *slices, kb_error *err)
{
    uint32_t n = slices->n_buffers;
    cursor->buffers = cursor->inline_buffers;
    cursor->pointers = cursor->inline_pointers;
    cursor->allocated = NULL;
    if (n <= KB_CURSOR_BUFFERS)
        return KB_OK;
    cursor->allocated = kb_calloc(n, sizeof *cursor->buffers + sizeof *cursor->pointers);
    if (!cursor->allocated)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "%s: no memory for a batch of %u levels over %u buffers",
                            slices->frame->kernel->name, slices->n_levels, n);
    cursor->buffers = cursor->allocated;
    cursor->pointers = (void **)(cursor->buffers + n);
    return KB_OK;
}

kb_status kb_cursor_open(kb_cursor *cursor, const kb_slices *slices, kb_error *err)
{
    kb_status s = take_memory(cursor, slices, err);
    if (s != KB_OK)
        return s;
    for (uint32_t i = 0; i < slices->n_buffers; i++) {
        kb_xla_buffer *buffer = &cursor->buffers[i];
        cursor->pointers[i] = buffer;
        *buffer = *kb_frame_raw(slices->frame, i);
        int64_t batch_rank = buffer->rank - slices->frame->kernel->buffers[i].rank;
        buffer->rank -= batch_rank;
        if (batch_rank)
            buffer->dims += batch_rank;
    }
    cursor->frame = *slices->frame;
    cursor->frame.inputs = cursor->pointers;
    cursor->frame.outputs = cursor->pointers + slices->frame->kernel->n_inputs;
    return KB_OK;
}

void kb_cursor_close(kb_cursor *cursor)
{
    kb_free(cursor->allocated);
}

/* A buffer without an address has no elements, and keeps none. */
void kb_cursor_seek(kb_cursor *cursor, const kb_slices *slices, const kb_slice_group *inner,
                    int64_t index)
{
    for (uint32_t i = 0; i < slices->n_buffers; i++) {
        char *data = kb_frame_raw(slices->frame, i)->data;
        int64_t left = index;
        for (uint32_t level = 0; data && level < slices->n_levels; level++) {
            if (level >= inner->first && level < inner->end)
                continue;
            data += left % slices->size[level] * slices->strides[level * slices->n_buffers + i];
            left /= slices->size[level];
        }
        cursor->buffers[i].data = data;
    }
}

/* To the next slice of the innermost level. */
static void advance(kb_cursor *cursor, const kb_slices *slices)
{
    for (uint32_t i = 0; i < slices->n_buffers; i++)
        if (cursor->buffers[i].data)
            cursor->buffers[i].data = (char *)cursor->buffers[i].data + slices->strides[i];
}

kb_status kb_slices_run(const kb_slices *slices, kb_cursor *cursor, const kb_step *step,
                        int64_t begin, int64_t end, int64_t *failed, kb_error *err)
{
    static const kb_slice_group none = {0, 0, 1};
    cursor->frame.n_slices = 1;
    cursor->frame.strides = NULL;
    for (int64_t slice = begin; slice < end; slice++) {
        if (slice == begin || slice % slices->size[0] == 0)
            kb_cursor_seek(cursor, slices, &none, slice);
        else
            advance(cursor, slices);
        kb_status s = kb_plan_step(step, &cursor->frame, err);
        if (s != KB_OK) {
            kb_error_note(err, " [slice %lld of a batch of %lld]", (long long)slice,
                          (long long)slices->count);
            *failed = slice;
            return s;
        }
    }
    return KB_OK;
}
