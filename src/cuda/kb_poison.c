/* Owns the run over two fill patterns, and the host memory that it needs. */
#include "cuda/kb_poison.h"

#include "core/kb_arena.h"
#include "core/kb_batch.h"
#include "core/kb_dtype.h"
#include "cuda/kb_function.h"

#include <string.h>

enum { FIRST = 0xA5, SECOND = 0x5A };

typedef struct poison {
    const kb_driver *cu;
    const kb_frame *frame;
    kb_arena *arena;
    uint8_t **shared; /* what each result held before, if it shares memory with an operand */
    uint8_t **first;  /* what the first run wrote into each other output */
    uint8_t **second;
} poison;

static uint32_t n_results(const poison *p)
{
    return p->frame->kernel->n_outputs + p->frame->kernel->n_hidden;
}

static const kb_xla_buffer *result(const poison *p, uint32_t i)
{
    return kb_frame_raw(p->frame, p->frame->kernel->n_inputs + i);
}

static kb_cu_address address_of(const kb_xla_buffer *buffer)
{
    return (kb_cu_address)(uintptr_t)buffer->data;
}

static kb_status check(const poison *p, kb_cu_result code, const char *call, kb_error *err)
{
    return code == KB_CU_SUCCESS ? KB_OK
                                 : kb_driver_fail(err, p->cu, code, call, p->frame->kernel->name);
}

static kb_status no_memory(const poison *p, kb_error *err)
{
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory to look for unwritten outputs",
                        p->frame->kernel->name);
}

static kb_status fetch(const poison *p, uint32_t i, uint8_t **into, kb_error *err)
{
    size_t size = kb_buffer_bytes(result(p, i));
    *into = kb_arena_take(p->arena, size, 1);
    if (!*into)
        return no_memory(p, err);
    return check(p,
                 p->cu->cuMemcpyDtoHAsync(*into, address_of(result(p, i)), size, p->frame->stream),
                 "cuMemcpyDtoHAsync", err);
}

static kb_status wait(const poison *p, kb_error *err)
{
    return check(p, p->cu->cuStreamSynchronize(p->frame->stream), "cuStreamSynchronize", err);
}

static kb_status set_up(const poison *p, uint8_t pattern, kb_error *err)
{
    kb_status s = KB_OK;
    for (uint32_t i = 0; s == KB_OK && i < n_results(p); i++) {
        const kb_xla_buffer *buffer = result(p, i);
        size_t size = kb_buffer_bytes(buffer);
        kb_cu_address to = address_of(buffer);
        if (size == 0)
            continue;
        s = p->shared[i]
                ? check(p, p->cu->cuMemcpyHtoDAsync(to, p->shared[i], size, p->frame->stream),
                        "cuMemcpyHtoDAsync", err)
                : check(p, p->cu->cuMemsetD8Async(to, pattern, size, p->frame->stream),
                        "cuMemsetD8Async", err);
    }
    return s;
}

static kb_status run_over(const poison *p, uint8_t pattern, uint8_t **found, kb_error *err)
{
    kb_status s = set_up(p, pattern, err);
    if (s == KB_OK)
        s = kb_batch_run(p->frame, err);
    for (uint32_t i = 0; s == KB_OK && i < p->frame->kernel->n_outputs; i++)
        if (!p->shared[i])
            s = fetch(p, i, &found[i], err);
    return s == KB_OK ? wait(p, err) : s;
}

static bool holds(const uint8_t *bytes, size_t size, uint8_t pattern)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern)
            return false;
    return true;
}

/* Counts the elements of output i that hold both patterns; `*at` is the first of them. */
static size_t count_unwritten(const poison *p, uint32_t i, size_t *at)
{
    size_t step = kb_dtype_size(result(p, i)->dtype), size = kb_buffer_bytes(result(p, i)), n = 0;
    for (size_t k = 0; step && k < size; k += step)
        if (holds(p->first[i] + k, step, FIRST) && holds(p->second[i] + k, step, SECOND) &&
            n++ == 0)
            *at = k / step;
    return n;
}

static bool has_step(const kb_kernel *kernel, kb_step_kind kind)
{
    for (uint32_t i = 0; i < kernel->plan.n_steps; i++)
        if (kernel->plan.steps[i].kind == kind)
            return true;
    return false;
}

static bool runs_on_threads(const kb_kernel *kernel)
{
    return !has_step(kernel, KB_STEP_HOST) && !has_step(kernel, KB_STEP_SOURCE);
}

static const char *remedy(const kb_frame *frame)
{
    if (has_step(frame->kernel, KB_STEP_SOURCE) && frame->device != KB_DEVICE_HOST)
        return "write every element"; /* nothing else fills the outputs of a CUDA module */
    return runs_on_threads(frame->kernel)
               ? "launch more threads, write every element, or pass zero_outputs=True"
               : "write every element, or pass zero_outputs=True";
}

kb_status kb_poison_refuse(const kb_frame *frame, uint32_t output, size_t n, size_t at,
                           kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    uint32_t i = kernel->n_inputs + output;
    return kb_error_set(err, KB_INTERNAL,
                        "%s: %s wrote %zu of the %lld elements of output %u (%s), the first of "
                        "them element %zu; %s [KB3002]",
                        kernel->name, runs_on_threads(kernel) ? "no thread" : "nothing", n,
                        (long long)kb_buffer_count(kb_frame_raw(frame, i)), output,
                        kernel->buffers[i].name, at, remedy(frame));
}

static kb_status compare(const poison *p, kb_error *err)
{
    const kb_kernel *kernel = p->frame->kernel;
    for (uint32_t i = 0; i < kernel->n_outputs; i++) {
        size_t at = 0, n = p->shared[i] ? 0 : count_unwritten(p, i, &at);
        if (n)
            return kb_poison_refuse(p->frame, i, n, at, err);
    }
    kb_status s = KB_OK;
    for (uint32_t i = 0; s == KB_OK && i < kernel->n_outputs; i++)
        if (!p->shared[i])
            s = kb_frame_check_bool(p->frame, i, p->second[i], err);
    return s;
}

static kb_status run(poison *p, kb_error *err)
{
    size_t n = n_results(p);
    p->shared = kb_arena_take(p->arena, n, sizeof *p->shared);
    p->first = kb_arena_take(p->arena, n, sizeof *p->first);
    p->second = kb_arena_take(p->arena, n, sizeof *p->second);
    if (!p->shared || !p->first || !p->second)
        return no_memory(p, err);
    kb_status s = KB_OK;
    for (uint32_t i = 0; s == KB_OK && i < n; i++)
        if (kb_frame_is_aliased(p->frame, p->frame->kernel->n_inputs + i))
            s = fetch(p, i, &p->shared[i], err);
    if (s == KB_OK)
        s = wait(p, err);
    if (s == KB_OK)
        s = run_over(p, FIRST, p->first, err);
    if (s == KB_OK)
        s = run_over(p, SECOND, p->second, err);
    return s == KB_OK ? compare(p, err) : s;
}

kb_status kb_poison_run(const kb_driver *cu, const kb_frame *frame, kb_error *err)
{
    poison p = {.cu = cu, .frame = frame, .arena = kb_arena_new()};
    kb_status s = run(&p, err);
    kb_arena_free(p.arena);
    return s;
}
