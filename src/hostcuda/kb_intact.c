/* Owns the copies of a call's inputs, for as long as the call takes. */
#include "hostcuda/kb_intact.h"

#include "core/kb_arena.h"
#include "core/kb_dtype.h"

#include <string.h>

static bool is_writable(const kb_frame *frame, uint32_t i)
{
    const kb_kernel *kernel = frame->kernel;
    for (uint32_t k = 0; k < kernel->n_outputs + kernel->n_hidden; k++)
        if (kb_frame_raw(frame, kernel->n_inputs + k)->data == kb_frame_raw(frame, i)->data)
            return true;
    return false;
}

static kb_status no_memory(const kb_frame *frame, kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory to compare inputs with",
                        frame->kernel->name);
}

static kb_status copy_inputs(const kb_frame *frame, kb_arena *arena, uint8_t **copies,
                             kb_error *err)
{
    for (uint32_t i = 0; i < frame->kernel->n_inputs; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, i);
        size_t size = is_writable(frame, i) ? 0 : kb_buffer_bytes(buffer);
        if (size == 0)
            continue;
        copies[i] = kb_arena_take(arena, size, 1);
        if (!copies[i])
            return no_memory(frame, err);
        memcpy(copies[i], buffer->data, size);
    }
    return KB_OK;
}

static kb_status changed(const kb_frame *frame, uint32_t i, const uint8_t *copy, kb_error *err)
{
    const kb_xla_buffer *buffer = kb_frame_raw(frame, i);
    const uint8_t *now = buffer->data;
    size_t step = kb_dtype_size(buffer->dtype), size = kb_buffer_bytes(buffer), at = 0, n = 0;
    for (size_t k = 0; k < size; k += step)
        if (memcmp(now + k, copy + k, step) != 0 && n++ == 0)
            at = k / step;
    return kb_error_set(err, KB_INTERNAL,
                        "%s: the kernel wrote to input %u (%s), which JAX does not allow: it "
                        "changed %zu of the %lld elements, the first of them element %zu; write to "
                        "an output, to memory of the kernel's own, or to an input that is aliased "
                        "to an output [KB3003]",
                        frame->kernel->name, i, frame->kernel->buffers[i].name, n,
                        (long long)kb_buffer_count(buffer), at);
}

/* Puts back what changed; an error for the first such input. */
static kb_status compare(const kb_frame *frame, uint8_t *const *copies, kb_error *err)
{
    kb_status s = KB_OK;
    for (uint32_t i = 0; i < frame->kernel->n_inputs; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, i);
        if (!copies[i] || memcmp(buffer->data, copies[i], kb_buffer_bytes(buffer)) == 0)
            continue;
        if (s == KB_OK)
            s = changed(frame, i, copies[i], err);
        memcpy(buffer->data, copies[i], kb_buffer_bytes(buffer));
    }
    return s;
}

static kb_status run_and_compare(const kb_frame *frame, kb_run *run, kb_arena *arena, kb_error *err)
{
    uint8_t **copies = kb_arena_take(arena, frame->kernel->n_inputs, sizeof *copies);
    if (!copies)
        return no_memory(frame, err);
    kb_status s = copy_inputs(frame, arena, copies, err);
    if (s != KB_OK)
        return s;
    s = run(frame, err);
    if (s == KB_OK)
        return compare(frame, copies, err);
    kb_error unused;
    (void)compare(frame, copies, &unused);
    return s;
}

kb_status kb_intact_run(const kb_frame *frame, kb_run *run, kb_error *err)
{
    kb_arena *arena = kb_arena_new();
    if (!arena)
        return no_memory(frame, err);
    kb_status s = run_and_compare(frame, run, arena, err);
    kb_arena_free(arena);
    return s;
}
