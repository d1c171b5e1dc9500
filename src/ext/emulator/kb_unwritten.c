/* Owns what is known of the unwritten memory of a call. */
#include "ext/emulator/kb_unwritten.h"

#include "core/kb_arena.h"
#include "core/kb_dtype.h"
#include "cuda/kb_poison.h"

#include <string.h>

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
    uint8_t *written = map_of((uintptr_t)at, size);
    if (written)
        memset(written, 1, size);
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
static kb_status look_at_outputs(const kb_frame *frame, const kb_unwritten *c, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    for (uint32_t i = 0; i < kernel->plan.n_steps; i++)
        if (kernel->plan.steps[i].kind == KB_STEP_HOST || kernel->plan.steps[i].kind > KB_STEP_COPY)
            return KB_OK; /* we do not see what it writes */
    for (uint32_t i = 0; i < kernel->n_outputs; i++) {
        const kb_xla_buffer *buffer = kb_frame_raw(frame, kernel->n_inputs + i);
        size_t step = kb_dtype_size(buffer->dtype), size = kb_buffer_bytes(buffer), n = 0, at = 0;
        for (uint32_t k = 0; k < c->n_regions; k++) {
            const kb_unwritten_region *r = &c->regions[k];
            for (size_t b = 0; r->first == (uintptr_t)buffer->data && step && b < size; b += step)
                if (!memchr(r->written + b, 1, step) && n++ == 0)
                    at = b / step;
        }
        if (n)
            return kb_poison_refuse(frame, i, n, at, err);
    }
    return KB_OK;
}

kb_status kb_unwritten_run(const kb_frame *frame, kb_run *run, kb_error *err)
{
    kb_unwritten c = {.n_regions = 0};
    kb_arena *arena = kb_arena_new();
    if (!find_regions(frame, arena, &c)) {
        kb_arena_free(arena);
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "%s: no memory to look for reads of what nothing has written",
                            frame->kernel->name);
    }
    const kb_unwritten *before = kb_unwritten_exchange(&c);
    kb_status s = run(frame, err);
    (void)kb_unwritten_exchange(before);
    if (s == KB_OK)
        s = look_at_outputs(frame, &c, err);
    kb_arena_free(arena);
    return s;
}
