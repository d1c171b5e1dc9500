/* Owns the guarded copies of a call's results, and the copies of its inputs, for as long as the
 * call takes. */
#include "ext/emulator/kb_guard.h"

#include "core/kb_arena.h"
#include "core/kb_dtype.h"

#include <string.h>

/* A guard is as large as what it guards, and at least GUARD bytes more: elements of twice the size
 * stay in it. What nothing has written yet holds the same bytes. */
enum { GUARD = 4096, ALIGNMENT = 64, FILL = 0xCB };

static kb_status no_memory(const kb_frame *frame, const char *what, kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory %s", frame->kernel->name, what);
}

static size_t guard_size(size_t size)
{
    return size + GUARD + ALIGNMENT - size % ALIGNMENT;
}

/* Moves result `i` of the buffers (inputs, outputs, hidden, as the kernel sees them), and the
 * inputs that share its memory. */
static kb_status move(const kb_frame *frame, kb_arena *arena, kb_xla_buffer *buffers, uint32_t i,
                      kb_error *err)
{
    uint32_t n_inputs = frame->kernel->n_inputs;
    void *before = buffers[i].data;
    size_t size = kb_buffer_bytes(&buffers[i]), guard = guard_size(size);
    if (size == 0)
        return KB_OK;
    uint8_t *block = kb_arena_take(arena, 2 * guard + ALIGNMENT + size, 1);
    if (!block)
        return no_memory(frame, "for guards of outputs", err);
    uint8_t *data = block + ALIGNMENT - (uintptr_t)block % ALIGNMENT + guard;
    memset(data - guard, FILL, 2 * guard + size);
    for (uint32_t k = 0; k < n_inputs; k++)
        if (kb_frame_raw(frame, k)->data == before) {
            memcpy(data, before, size);
            buffers[k].data = data;
        }
    buffers[i].data = data;
    return KB_OK;
}

kb_xla_buffer *kb_guard_copy(const kb_frame *frame, kb_arena *arena, kb_frame *moved,
                             kb_xla_frame *xla)
{
    uint32_t n_inputs = frame->kernel->n_inputs, n = kb_kernel_n_buffers(frame->kernel);
    kb_xla_buffer *buffers = kb_arena_take(arena, n, sizeof *buffers);
    void **pointers = kb_arena_take(arena, n, sizeof *pointers);
    if (!buffers || !pointers)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        buffers[i] = *kb_frame_raw(frame, i);
        pointers[i] = &buffers[i];
    }
    *xla = *frame->xla;
    xla->args.buffers = pointers;
    xla->rets.buffers = pointers + n_inputs;
    *moved = *frame;
    moved->xla = xla;
    moved->inputs = xla->args.buffers;
    moved->outputs = xla->rets.buffers;
    return buffers;
}

/* How far from the data the guard in front of it, or after it, was written to; 0 if it was not. */
static size_t written(const uint8_t *data, size_t size, bool after)
{
    size_t n = guard_size(size);
    while (n > 0 && (after ? data[size + n - 1] : *(data - n)) == FILL)
        n--;
    return n;
}

static kb_status check_guards(const kb_frame *frame, const kb_xla_buffer *buffer, uint32_t i,
                              kb_error *err)
{
    size_t size = kb_buffer_bytes(buffer);
    size_t before = size ? written(buffer->data, size, false) : 0;
    size_t after = size ? written(buffer->data, size, true) : 0;
    if (before == 0 && after == 0)
        return KB_OK;
    return kb_error_set(
        err, KB_INTERNAL,
        "%s: the kernel wrote outside of output %u (%s), up to %zu bytes %s its %lld elements of "
        "%s; write elements of the output's type, and no more than it has [KB3010]",
        frame->kernel->name, i - frame->kernel->n_inputs, frame->kernel->buffers[i].name,
        after ? after : before, after ? "after" : "before", (long long)kb_buffer_count(buffer),
        kb_dtype_name(buffer->dtype));
}

/* A guard that was written to is the error, whatever else `s` is. */
static kb_status check(const kb_frame *frame, const kb_xla_buffer *buffers, kb_status s,
                       kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    for (uint32_t i = kernel->n_inputs; i < kb_kernel_n_buffers(kernel); i++)
        if (check_guards(frame, &buffers[i], i, err) != KB_OK)
            return err->status;
    for (uint32_t i = 0; s == KB_OK && i < kernel->n_outputs; i++)
        s = kb_frame_check_bool(frame, i, buffers[kernel->n_inputs + i].data, err);
    return s;
}

static kb_status run_guarded(const kb_frame *frame, kb_run *run, kb_arena *arena, kb_error *err)
{
    kb_frame moved;
    kb_xla_frame xla;
    kb_xla_buffer *buffers = kb_guard_copy(frame, arena, &moved, &xla);
    if (!buffers)
        return no_memory(frame, "for guards of outputs", err);
    kb_status s = KB_OK;
    for (uint32_t i = frame->kernel->n_inputs; s == KB_OK && i < kb_kernel_n_buffers(frame->kernel);
         i++)
        s = move(frame, arena, buffers, i, err);
    if (s != KB_OK)
        return s;
    s = check(frame, buffers, run(&moved, err), err);
    if (s != KB_OK)
        return s;
    for (uint32_t i = frame->kernel->n_inputs; i < kb_kernel_n_buffers(frame->kernel); i++)
        if (kb_buffer_bytes(&buffers[i]))
            memcpy(kb_frame_raw(frame, i)->data, buffers[i].data, kb_buffer_bytes(&buffers[i]));
    return KB_OK;
}

kb_status kb_guard_results(const kb_frame *frame, kb_run *run, kb_error *err)
{
    kb_arena *arena = kb_arena_new();
    kb_status s = run_guarded(frame, run, arena, err);
    kb_arena_free(arena);
    return s;
}

static kb_status copy_inputs(const kb_frame *frame, kb_arena *arena, uint8_t **copies,
                             kb_error *err)
{
    for (uint32_t i = 0; i < frame->kernel->n_inputs; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, i);
        size_t size = kb_frame_is_aliased(frame, i) ? 0 : kb_buffer_bytes(buffer);
        if (size == 0)
            continue;
        copies[i] = kb_arena_take(arena, size, 1);
        if (!copies[i])
            return no_memory(frame, "to compare inputs with", err);
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
        return no_memory(frame, "to compare inputs with", err);
    kb_status s = copy_inputs(frame, arena, copies, err);
    if (s != KB_OK)
        return s;
    kb_error unused;
    s = run(frame, err);
    kb_status compared = compare(frame, copies, s == KB_OK ? err : &unused);
    return s == KB_OK ? compared : s;
}

kb_status kb_guard_inputs(const kb_frame *frame, kb_run *run, kb_error *err)
{
    kb_arena *arena = kb_arena_new();
    kb_status s = run_and_compare(frame, run, arena, err);
    kb_arena_free(arena);
    return s;
}
