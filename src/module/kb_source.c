/* Owns the way from a frame to a kernel written in C, C++ or CUDA: its tensors, its services, and
 * what becomes of its failures. */
#include "module/kb_source.h"

#include "core/kb_plan.h"
#include "core/kb_pool.h"
#include "cuda/kb_function.h"
#include "cuda/kb_stream.h"
#include "module/kb_tensors.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_ALIGNMENT = 64, SCRATCH_POISON = 0xFF }; /* NaN, of any float type */

typedef struct scratch {
    struct scratch *next;
} scratch;

_Static_assert(sizeof(scratch) <= _Alignof(max_align_t), "the link fits in front of a line");

typedef struct running {
    kb_call call;
    const kb_frame *frame;
    kb_error *err;
    bool cuda;
    atomic_bool failed;
    bool has_fault; /* which was the failure */
    _Atomic(scratch *) memory;
} running;

const kb_frame *kb_source_frame(const kb_call *call)
{
    const running *r = call->context;
    return r->frame;
}

static bool is_failure(int code)
{
    switch (code) {
#define KB_STATUS_CASE(name, number) case number:
        KB_STATUS_LIST(KB_STATUS_CASE)
#undef KB_STATUS_CASE
        return code != KB_OK;
    default:
        return false;
    }
}

/* The first failure is reported; a kernel's threads may have more. */
static KB_COLD __attribute__((format(printf, 3, 4))) int fail(const kb_call *call, int code,
                                                              const char *format, ...)
{
    running *r = call->context;
    kb_status status = is_failure(code) ? (kb_status)code : KB_INTERNAL;
    if (atomic_exchange(&r->failed, true))
        return (int)status;
    kb_error_set(r->err, status, "%s: ", r->frame->kernel->name);
    size_t length = strlen(r->err->message);
    char text[KB_ERROR_CAPACITY];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t size = n < 0 ? 0 : (size_t)n; /* of which any byte may be 0 */
    if (size > sizeof text - 1)
        size = sizeof text - 1; /* more than there is room for after the name */
    (void)kb_utf8_escape(r->err->message + length, KB_ERROR_CAPACITY - length, text, size);
    return (int)status;
}

void kb_source_fault(const kb_call *call, const char *fault)
{
    running *r = call->context;
    r->has_fault = !atomic_load(&r->failed);
    (void)fail(call, KB_INTERNAL, "%s", fault);
}

/* Blocks begin with their link, in a line of their own. Clearing them would cost 42 us a MiB. */
static void *take_scratch(const kb_call *call, size_t bytes)
{
    running *r = call->context;
    if (r->cuda || bytes == 0 || bytes > SIZE_MAX - SCRATCH_ALIGNMENT)
        return NULL;
    size_t size = bytes + SCRATCH_ALIGNMENT;
    scratch *block = malloc(size);
    if (!block)
        return NULL;
    if (kb_stream_debug() & KB_DEBUG_POISON)
        memset(block, SCRATCH_POISON, size);
    block->next = atomic_load(&r->memory);
    while (!atomic_compare_exchange_weak(&r->memory, &block->next, block))
        continue;
    return (char *)block + (SCRATCH_ALIGNMENT - (uintptr_t)block % SCRATCH_ALIGNMENT);
}

static void free_scratch(running *r)
{
    for (scratch *block = atomic_load(&r->memory), *next; block; block = next) {
        next = block->next;
        free(block);
    }
}

static void parallel_for(const kb_call *call, int64_t count, kb_range_function *function,
                         void *data)
{
    const running *r = call->context;
    if (!r->cuda)
        kb_pool_for(r->frame->xla, count, function, data);
    else if (count > 0)
        function(data, 0, count);
}

static const kb_services services = {
    .struct_size = sizeof(kb_services),
    .abi = KB_ABI,
    .fail = fail,
    .scratch = take_scratch,
    .parallel_for = parallel_for,
};

static KB_COLD kb_status describe_code(const running *r, int code, kb_error *err)
{
    if (!atomic_load(&r->failed))
        kb_error_set(err, is_failure(code) ? (kb_status)code : KB_INTERNAL,
                     "%s: the function returned %d", r->frame->kernel->name, code);
    return kb_error_code(err, r->has_fault ? "KB3004" : "KB3005");
}

/* Errors that launches left behind, whether or not the kernel looked for them. */
static kb_status check_launches(const kb_source_step *step, const kb_frame *frame, kb_error *err)
{
    const char *what = NULL;
    int code = step->last_error(&what);
    if (!KB_LIKELY(code == 0))
        return kb_error_set(err, KB_INTERNAL,
                            "%s: a launch failed with CUDA runtime error %d, %s [KB3004]",
                            frame->kernel->name, code, what ? what : "unknown");
    if (KB_LIKELY(!step->cuda || !(kb_stream_debug() & KB_DEBUG_SYNC)))
        return KB_OK;
    kb_cu_result result = kb_stream_wait(frame->driver, frame->stream);
    return result == KB_CU_SUCCESS ? KB_OK
                                   : kb_driver_fail(err, frame->driver, result,
                                                    "cuStreamSynchronize", frame->kernel->name);
}

static bool shares_memory(const kb_call *call, const kb_tensor *output)
{
    for (int32_t i = 0; i < call->n_inputs; i++)
        if (call->inputs[i].data == output->data)
            return true;
    return false;
}

static KB_COLD void zero_outputs(const kb_call *call)
{
    for (int32_t i = 0; i < call->n_outputs; i++) {
        const kb_tensor *output = &call->outputs[i];
        if (output->size > 0 && !shares_memory(call, output))
            memset(output->data, 0, (size_t)output->size * output->dl_dtype.bits / 8);
    }
}

kb_status kb_source_run(const void *given, const kb_frame *frame, kb_error *err)
{
    const kb_source_step *step = given;
    bool on_gpu = frame->driver && frame->device != KB_DEVICE_HOST;
    if (!KB_LIKELY(on_gpu ==
                   step->cuda)) /* a function of CUDA needs a stream, others host memory */
        return kb_frame_refuse_target(frame, err);
    kb_tensors tensors;
    kb_status s = kb_tensors_open(&tensors, frame, step->cuda, err);
    if (!KB_LIKELY(s == KB_OK))
        return s;
    running r = {
        .call = {.struct_size = sizeof(kb_call),
                 .abi = KB_ABI,
                 .services = &services,
                 .context = &r,
                 .stream = step->cuda ? frame->stream : NULL,
                 .device = step->cuda ? frame->device : 0,
                 .n_inputs = (int32_t)frame->kernel->n_inputs,
                 .n_outputs = (int32_t)frame->kernel->n_outputs,
                 .n_attributes = (int32_t)step->n_attributes,
                 .inputs = tensors.list,
                 .outputs = tensors.list + frame->kernel->n_inputs,
                 .attributes = step->attributes},
        .frame = frame,
        .err = err,
        .cuda = step->cuda,
    };
    if (!KB_LIKELY(!step->zeroed))
        zero_outputs(&r.call);
    kb_variables_copy *copy = NULL;
    kb_source_step there;
    if (!KB_LIKELY(!step->variables)) {
        copy = step->variables->enter(step->variables, frame->xla, err);
        if (!copy) {
            kb_tensors_close(&tensors);
            return err->status;
        }
        there = *step;
        there.run = KB_MOVED(step->run, copy);
        there.last_error = KB_MOVED(step->last_error, copy);
        step = &there;
    }
    int code = step->run(&r.call);
    if (!KB_LIKELY(code == 0) || atomic_load_explicit(&r.failed, memory_order_relaxed))
        s = describe_code(&r, code, err);
    else if (step->last_error)
        s = check_launches(step, frame, err);
    if (copy)
        pthread_mutex_unlock(&copy->lock);
    if (atomic_load_explicit(&r.memory, memory_order_relaxed))
        free_scratch(&r);
    kb_tensors_close(&tensors);
    return s;
}

kb_variables *kb_source_variables(kb_source_function *run)
{
    kb_variables *found = NULL;
    for (const kb_extension *const *e = kb_extensions; *e && !found; e++)
        if ((*e)->variables_of)
            found = (*e)->variables_of((const void *)(uintptr_t)run);
    return found;
}

/* What the function keeps between calls cannot be seen. */
static kb_concurrency concurrency(const void *step, const kb_frame *frame)
{
    (void)frame;
    return ((const kb_source_step *)step)->cuda ? KB_CONCURRENT_NEVER : KB_CONCURRENT_IF_TOLD;
}

typedef struct owned {
    kb_source_step step;
    const void *pointers[];
} owned;

kb_status kb_source_plan(const kb_source_step *step, const size_t *sizes, kb_kernel *kernel,
                         kb_step *plan_step, kb_error *err)
{
    kb_plan_runners[KB_STEP_SOURCE] = kb_source_run;
    kb_plan_concurrencies[KB_STEP_SOURCE] = concurrency;
    size_t slots = (size_t)step->n_attributes * KB_ATTRIBUTE_SIZE_MAX;
    size_t head = sizeof(owned) + step->n_attributes * sizeof(void *);
    head = (head + KB_ATTRIBUTE_SIZE_MAX - 1) / KB_ATTRIBUTE_SIZE_MAX * KB_ATTRIBUTE_SIZE_MAX;
    owned *own = step->n_attributes <= KB_ATTRIBUTES_MAX ? calloc(1, head + slots) : NULL;
    if (!own)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED,
                            "%s: no memory for %u attributes, or over %d", kernel->name,
                            step->n_attributes, KB_ATTRIBUTES_MAX);
    own->step = *step;
    own->step.attributes = own->pointers;
    own->step.variables = kb_source_variables(step->run);
    for (uint32_t i = 0; i < step->n_attributes; i++) {
        char *at = (char *)own + head + (size_t)i * KB_ATTRIBUTE_SIZE_MAX;
        size_t size = sizes[i] < KB_ATTRIBUTE_SIZE_MAX ? sizes[i] : KB_ATTRIBUTE_SIZE_MAX;
        own->pointers[i] = memcpy(at, step->attributes[i], size);
    }
    *plan_step = (kb_step){.kind = KB_STEP_SOURCE, .other = &own->step};
    kernel->plan = (kb_plan){.n_steps = 1, .steps = plan_step};
    kernel->owner = own;
    kernel->free_owner = free;
    kernel->bytes = head + slots;
    return KB_OK;
}
