/* Owns the guarded copies of a call's results, the copies of its inputs, and what is known of its
 * unwritten memory, for as long as the call takes. */
#include "ext/emulator/kb_guard.h"

#include "core/kb_arena.h"
#include "core/kb_dtype.h"
#include "cuda/kb_poison.h"

#include <string.h>

/* A guard is as large as what it guards, and at least GUARD bytes more: elements of twice the size
 * stay in it. What nothing has written yet holds the same bytes. */
enum { GUARD = 4096, ALIGNMENT = 64, FILL = 0xCB };

static kb_status no_memory(const kb_frame *frame, const char *what, kb_error *err)
{
    kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory %s", frame->kernel->name, what);
    return KB_RESOURCE_EXHAUSTED; /* never KB_OK, which clang-tidy has to know */
}

static size_t guard_size(size_t size)
{
    return size + GUARD + ALIGNMENT - size % ALIGNMENT;
}

/* Moves result `i` of the buffers (inputs, outputs, hidden, as the kernel sees them), and the
 * inputs that share its memory. False without memory. */
static bool move(const kb_frame *frame, kb_arena *arena, kb_xla_buffer *buffers, uint32_t i)
{
    uint32_t n_inputs = frame->kernel->n_inputs;
    void *before = buffers[i].data;
    size_t size = kb_buffer_bytes(&buffers[i]), guard = guard_size(size);
    if (size == 0)
        return true;
    uint8_t *block = kb_arena_take(arena, 2 * guard + ALIGNMENT + size, 1);
    if (!block)
        return false;
    uint8_t *data = block + ALIGNMENT - (uintptr_t)block % ALIGNMENT + guard;
    memset(data - guard, FILL, 2 * guard + size);
    for (uint32_t k = 0; k < n_inputs; k++)
        if (kb_frame_raw(frame, k)->data == before) {
            memcpy(data, before, size);
            buffers[k].data = data;
        }
    buffers[i].data = data;
    return true;
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

kb_status kb_guard_results(const kb_frame *frame, kb_run *run, kb_error *err)
{
    uint32_t first = frame->kernel->n_inputs, n = kb_kernel_n_buffers(frame->kernel);
    kb_frame moved;
    kb_xla_frame xla;
    kb_arena *arena = kb_arena_new();
    kb_xla_buffer *buffers = kb_guard_copy(frame, arena, &moved, &xla);
    bool well = buffers != NULL;
    for (uint32_t i = first; well && i < n; i++)
        well = move(frame, arena, buffers, i);
    kb_status s = well ? check(frame, buffers, run(&moved, err), err)
                       : no_memory(frame, "for guards of outputs", err);
    for (uint32_t i = first; s == KB_OK && i < n; i++)
        if (kb_buffer_bytes(&buffers[i]))
            memcpy(kb_frame_raw(frame, i)->data, buffers[i].data, kb_buffer_bytes(&buffers[i]));
    kb_arena_free(arena);
    return s;
}

/* NULL without memory. */
static uint8_t **copy_inputs(const kb_frame *frame, kb_arena *arena)
{
    uint8_t **copies = kb_arena_take(arena, frame->kernel->n_inputs, sizeof *copies);
    for (uint32_t i = 0; copies && i < frame->kernel->n_inputs; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, i);
        size_t size = kb_frame_is_aliased(frame, i) ? 0 : kb_buffer_bytes(buffer);
        if (size == 0)
            continue;
        copies[i] = kb_arena_take(arena, size, 1);
        if (!copies[i])
            return NULL;
        memcpy(copies[i], buffer->data, size);
    }
    return copies;
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

/* Puts back what changed; an error for the first such input, unless `s` is one. */
static kb_status compare(const kb_frame *frame, uint8_t *const *copies, kb_status s, kb_error *err)
{
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

kb_status kb_guard_inputs(const kb_frame *frame, kb_run *run, kb_error *err)
{
    kb_arena *arena = kb_arena_new();
    uint8_t **copies = copy_inputs(frame, arena);
    kb_status s = copies ? compare(frame, copies, run(frame, err), err)
                         : no_memory(frame, "to compare inputs with", err);
    kb_arena_free(arena);
    return s;
}

static _Thread_local const kb_unwritten *current; /* or NULL */

const kb_unwritten *kb_unwritten_exchange(const kb_unwritten *next)
{
    const kb_unwritten *before = current;
    current = next;
    return before;
}

/* NULL if the bytes lie in no region. */
static uint8_t *map_of(uint64_t first, uint64_t size)
{
    for (uint32_t i = 0; current && i < current->n_regions; i++) {
        const kb_unwritten_region *r = &current->regions[i];
        if (first >= r->first && first - r->first < r->size && size <= r->size - (first - r->first))
            return r->written + (first - r->first);
    }
    return NULL;
}

uint8_t *kb_unwritten_find(uint64_t first, uint64_t size)
{
    uint8_t *written = map_of(first, size);
    return written && memchr(written, 0, size) ? written : NULL;
}

void kb_unwritten_fill(void *at, size_t size)
{
    kb_unwritten_copy(at, NULL, size);
}

void kb_unwritten_copy(void *to, const void *from, size_t size)
{
    const uint8_t *of_source = map_of((uintptr_t)from, size);
    uint8_t *written = map_of((uintptr_t)to, size);
    if (written && of_source)
        memmove(written, of_source, size);
    else if (written)
        memset(written, 1, size);
}

static bool find_regions(const kb_frame *frame, kb_arena *arena, kb_unwritten *c)
{
    uint32_t n = frame->kernel->n_outputs + frame->kernel->n_hidden;
    c->regions = kb_arena_take(arena, n, sizeof *c->regions);
    for (uint32_t i = 0; c->regions && i < n; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, frame->kernel->n_inputs + i);
        size_t size = kb_buffer_bytes(buffer);
        if (size == 0 || kb_frame_is_aliased(frame, frame->kernel->n_inputs + i))
            continue;
        kb_unwritten_region *r = &c->regions[c->n_regions++];
        *r = (kb_unwritten_region){(uintptr_t)buffer->data, size, kb_arena_take(arena, size, 1)};
        if (!r->written)
            return false;
    }
    return c->regions != NULL;
}

/* After a call, whose launches are checked: what no step has written of an output. */
static kb_status look_at_outputs(const kb_frame *frame, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    for (uint32_t i = 0; i < kernel->plan.n_steps; i++)
        if (kernel->plan.steps[i].kind == KB_STEP_HOST || kernel->plan.steps[i].kind > KB_STEP_COPY)
            return KB_OK; /* we do not see what it writes */
    for (uint32_t i = 0; i < kernel->n_outputs; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, kernel->n_inputs + i);
        size_t step = kb_dtype_size(buffer->dtype), size = kb_buffer_bytes(buffer), n = 0, at = 0;
        const uint8_t *written = map_of((uintptr_t)buffer->data, size);
        for (size_t b = 0; written && b < size; b += step)
            if (!memchr(written + b, 1, step) && n++ == 0)
                at = b / step;
        if (n)
            return kb_poison_refuse(frame, i, n, at, err);
    }
    return KB_OK;
}

kb_status kb_unwritten_run(const kb_frame *frame, kb_run *run, kb_error *err)
{
    kb_unwritten c = {.n_regions = 0};
    kb_arena *arena = kb_arena_new();
    const kb_unwritten *before = kb_unwritten_exchange(&c);
    kb_status s = find_regions(frame, arena, &c)
                      ? run(frame, err)
                      : no_memory(frame, "to look for reads of what nothing has written", err);
    if (s == KB_OK)
        s = look_at_outputs(frame, err);
    (void)kb_unwritten_exchange(before);
    kb_arena_free(arena);
    return s;
}
