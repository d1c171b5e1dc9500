/* Owns the timing of launches with several sizes of block. */
#include "cuda/kb_tune.h"

#include "core/kb_memory.h"
#include "core/kb_plan.h"
#include "cuda/kb_driver.h"
#include "cuda/kb_program.h"
#include "cuda/kb_step.h"

enum {
    ALIGNMENT = 256,
    NON_BLOCKING = 1, /* a stream that does not wait for the default one */
    LAUNCHES_MAX = 200,
    LEAST_ROUNDS = 3, /* also of a kernel that takes long */
};
static const double LEAST_US = 200, MOST_US = 1e6; /* of one measurement, and of all */

typedef struct tuner {
    const kb_tune_request *request;
    const kb_driver *cu;
    kb_kernel kernel;
    kb_frame frame;
    kb_xla_buffer *buffers;
    void **pointers;
    const kb_launch_step *launch;
    kb_cu_address memory;
    size_t bytes;
    kb_cu_stream stream;
    kb_cu_event begin, end;
} tuner;

static kb_status check(const tuner *t, kb_cu_result code, const char *call, kb_error *err)
{
    return code == KB_CU_SUCCESS ? KB_OK : kb_driver_fail(err, t->cu, code, call, t->kernel.name);
}

static kb_status refuse(const tuner *t, const char *why, kb_error *err)
{
    return kb_error_set(err, KB_INVALID_ARGUMENT, "%s: its blocks cannot be timed: %s",
                        t->kernel.name, why);
}

static kb_status find_launch(tuner *t, kb_error *err)
{
    const kb_plan *plan = &t->kernel.plan;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind != KB_STEP_LAUNCH)
            continue;
        if (t->launch)
            return refuse(t, "it has several launches", err);
        t->launch = plan->steps[i].other;
    }
    if (!t->launch || !(t->launch->flags & KB_LAUNCH_AUTO_BLOCK))
        return refuse(t, "it has no launch whose block is chosen by occupancy", err);
    return KB_OK;
}

/* Lays the buffers out, one behind the other; `data` holds offsets until there is memory. */
static kb_status lay_out(tuner *t, kb_error *err)
{
    uint32_t n = kb_kernel_n_buffers(&t->kernel);
    if (t->request->n_buffers != n)
        return refuse(t, "the number of its arrays is another", err);
    t->buffers = kb_calloc(n, sizeof *t->buffers);
    t->pointers = kb_calloc(n, sizeof *t->pointers);
    if (!t->buffers || !t->pointers)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "%s: no memory", t->kernel.name);
    for (uint32_t i = 0; i < n; i++) {
        kb_xla_buffer *buffer = &t->buffers[i];
        *buffer = (kb_xla_buffer){.struct_size = sizeof *buffer,
                                  .dtype = t->kernel.buffers[i].dtype,
                                  .data = (void *)(uintptr_t)t->bytes, // NOLINT: an offset
                                  .rank = t->kernel.buffers[i].rank,
                                  .dims = (int64_t *)(uintptr_t)t->request->dims[i]};
        t->pointers[i] = buffer;
        int64_t size = kb_buffer_size(buffer);
        if (size < 0 || size > INT64_MAX / 2 - (int64_t)t->bytes)
            return refuse(t, "an array is too large", err);
        t->bytes += ((size_t)size / ALIGNMENT + 1) * ALIGNMENT;
    }
    return KB_OK;
}

/* Takes memory, stream and events; what was taken is released by `release` in any case. */
static kb_status take(tuner *t, kb_error *err)
{
    kb_status s = check(t, t->cu->cuMemAlloc(&t->memory, t->bytes), "cuMemAlloc", err);
    if (s == KB_OK)
        s = check(t, t->cu->cuStreamCreate(&t->stream, NON_BLOCKING), "cuStreamCreate", err);
    if (s == KB_OK)
        s = check(t, t->cu->cuEventCreate(&t->begin, 0), "cuEventCreate", err);
    if (s == KB_OK)
        s = check(t, t->cu->cuEventCreate(&t->end, 0), "cuEventCreate", err);
    if (s != KB_OK)
        return s;
    for (uint32_t i = 0; i < t->request->n_buffers; i++)
        t->buffers[i].data = (void *)(uintptr_t)((uintptr_t)t->buffers[i].data + t->memory);
    t->frame = (kb_frame){.kernel = &t->kernel,
                          .inputs = t->pointers,
                          .outputs = t->pointers + t->kernel.n_inputs,
                          .driver = t->cu,
                          .stream = t->stream,
                          .n_slices = 1};
    return KB_OK;
}

static void release(const tuner *t)
{
    if (t->end)
        (void)t->cu->cuEventDestroy(t->end);
    if (t->begin)
        (void)t->cu->cuEventDestroy(t->begin);
    if (t->stream)
        (void)t->cu->cuStreamDestroy(t->stream);
    if (t->memory)
        (void)t->cu->cuMemFree(t->memory);
}

static kb_launch_step with_block(const kb_launch_step *launch, uint32_t block)
{
    kb_launch_step step = *launch;
    if (block == 0)
        return step;
    step.flags &= ~(uint32_t)KB_LAUNCH_AUTO_BLOCK;
    step.block[0] = block;
    step.grid[0].divisor = block;
    return step;
}

/* The time of `n` launches on zeros. */
static kb_status time_launches(const tuner *t, const kb_launch_step *step, uint32_t n, double *us,
                               kb_error *err)
{
    float ms;
    kb_status s =
        check(t, t->cu->cuMemsetD8Async(t->memory, 0, t->bytes, t->stream), "cuMemsetD8Async", err);
    if (s == KB_OK)
        s = check(t, t->cu->cuEventRecord(t->begin, t->stream), "cuEventRecord", err);
    for (uint32_t i = 0; s == KB_OK && i < n; i++)
        s = kb_launch_run(step, &t->frame, err);
    if (s == KB_OK)
        s = check(t, t->cu->cuEventRecord(t->end, t->stream), "cuEventRecord", err);
    if (s == KB_OK)
        s = check(t, t->cu->cuStreamSynchronize(t->stream), "cuStreamSynchronize", err);
    if (s == KB_OK)
        s = check(t, t->cu->cuEventElapsedTime(&ms, t->begin, t->end), "cuEventElapsedTime", err);
    if (s == KB_OK)
        *us = (double)ms * 1e3 / n;
    return s;
}

/* Whether the kernel takes too many registers for blocks of this size. */
static bool is_refused(const tuner *t, const kb_launch_step *step)
{
    int most = 0;
    kb_cu_kernel kernel = kb_function_ready(step->function, 0, step->shared);
    if (!kernel || t->cu->cuKernelGetAttribute(&most, KB_CU_KERNEL_MAX_THREADS, kernel, 0))
        return true;
    return (int64_t)step->block[0] > most;
}

/* Every block once. Adds the time that it took to `*total`. */
static kb_status measure_round(const tuner *t, uint32_t n, double *us, double *total, kb_error *err)
{
    kb_status s = KB_OK;
    for (uint32_t i = 0; s == KB_OK && i < t->request->n_blocks; i++) {
        kb_launch_step step = with_block(t->launch, t->request->blocks[i]);
        if (t->request->blocks[i] && is_refused(t, &step))
            continue;
        s = time_launches(t, &step, n, &us[i], err);
        *total += us[i] * n;
    }
    return s;
}

static kb_status measure(const tuner *t, double *us, uint32_t *auto_block, kb_error *err)
{
    const kb_tune_request *r = t->request;
    double once, total = 0;
    for (uint32_t i = 0; i < r->n_rounds * r->n_blocks; i++)
        us[i] = -1;
    kb_status s = time_launches(t, t->launch, 1, &once, err); /* loads the kernel */
    if (s == KB_OK)
        s = time_launches(t, t->launch, 1, &once, err);
    if (s != KB_OK)
        return s;
    *auto_block = (uint32_t)t->launch->function->loaded[0].best_block;
    double wanted = LEAST_US / once; /* infinite if nothing was launched */
    uint32_t n = wanted < LAUNCHES_MAX ? (uint32_t)wanted : LAUNCHES_MAX;
    n += n == 0;
    for (uint32_t i = 0; s == KB_OK && i < r->n_rounds; i++)
        if (i < LEAST_ROUNDS || total < MOST_US)
            s = measure_round(t, n, &us[(size_t)i * r->n_blocks], &total, err);
    return s;
}

static kb_status run(tuner *t, double *us, uint32_t *auto_block, kb_error *err)
{
    kb_status s = find_launch(t, err);
    if (s == KB_OK)
        s = lay_out(t, err);
    if (s == KB_OK)
        s = take(t, err);
    if (s == KB_OK)
        s = measure(t, us, auto_block, err);
    release(t);
    kb_free(t->buffers);
    kb_free(t->pointers);
    return s;
}

/* Another thread may capture a stream of its own, during which memory is taken by leave alone. */
static kb_status run_relaxed(tuner *t, double *us, uint32_t *auto_block, kb_error *err)
{
    int mode = KB_CU_CAPTURE_MODE_RELAXED;
    kb_status s = check(t, t->cu->cuThreadExchangeStreamCaptureMode(&mode),
                        "cuThreadExchangeStreamCaptureMode", err);
    if (s != KB_OK)
        return s;
    s = run(t, us, auto_block, err);
    (void)t->cu->cuThreadExchangeStreamCaptureMode(&mode);
    return s;
}

static kb_status run_on_gpu(tuner *t, double *us, uint32_t *auto_block, kb_error *err)
{
    kb_cu_context context, popped;
    kb_status s =
        check(t, t->cu->cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain", err);
    if (s != KB_OK)
        return s;
    s = check(t, t->cu->cuCtxPushCurrent(context), "cuCtxPushCurrent", err);
    if (s == KB_OK) {
        s = run_relaxed(t, us, auto_block, err);
        (void)t->cu->cuCtxPopCurrent(&popped);
    }
    (void)t->cu->cuDevicePrimaryCtxRelease(0);
    return s;
}

kb_status kb_tune_run(const kb_tune_request *request, double *us, uint32_t *auto_block,
                      kb_error *err)
{
    tuner t = {.request = request, .cu = kb_driver_get(err)};
    if (!t.cu)
        return err->status;
    static const uint8_t digest[KB_DIGEST_SIZE];
    kb_status s = kb_program_read(request->program, request->size, digest, false, &t.kernel, err);
    if (s != KB_OK)
        return s;
    s = run_on_gpu(&t, us, auto_block, err);
    t.kernel.free_owner(t.kernel.owner);
    return s;
}
