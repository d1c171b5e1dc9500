/* Owns the stages of a GPU call. */
#include "cuda/kb_target.h"

#include "core/kb_batch.h"
#include "core/kb_frame.h"
#include "core/kb_handler.h"
#include "core/kb_plan.h"
#include "cuda/kb_poison.h"
#include "cuda/kb_program.h"
#include "cuda/kb_step.h"
#include "cuda/kb_stream.h"

_Atomic(long) kb_target_captured_calls, kb_target_captured_nodes;

kb_status kb_target_register(const void *program, size_t size, const uint8_t digest[KB_DIGEST_SIZE],
                             const void *local, bool *inserted, kb_error *err)
{
    *inserted = false;
    kb_plan_runners[KB_STEP_LAUNCH] = kb_launch_run;
    kb_plan_runners[KB_STEP_FILL] = kb_fill_run;
    kb_plan_runners[KB_STEP_COPY] = kb_copy_run;
    kb_kernel kernel;
    kb_status s = kb_program_read(program, size, digest, local != NULL, &kernel, err);
    return s == KB_OK ? kb_handler_register(&kernel, inserted, err) : s;
}

bool kb_target_is_prepared(const kb_kernel *kernel, kb_cu_device device)
{
    for (uint32_t i = 0; i < kernel->plan.n_steps; i++) {
        const kb_launch_step *launch = kernel->plan.steps[i].other;
        if (kernel->plan.steps[i].kind == KB_STEP_LAUNCH &&
            !kb_function_ready(launch->function, device, launch->shared))
            return false;
    }
    return true;
}

kb_status kb_target_prepare_steps(const kb_frame *frame, kb_error *err)
{
    const kb_plan *plan = &frame->kernel->plan;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        kb_cu_kernel kernel;
        if (plan->steps[i].kind != KB_STEP_LAUNCH)
            continue;
        kb_status s = kb_launch_prepare(plan->steps[i].other, frame, &kernel, err);
        if (s != KB_OK)
            return s;
    }
    return KB_OK;
}

static kb_status prepare_on(const kb_driver *cu, kb_frame *frame, kb_cu_device device,
                            kb_error *err)
{
    kb_cu_context context, popped;
    kb_cu_result code = cu->cuDevicePrimaryCtxRetain(&context, device);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuDevicePrimaryCtxRetain", frame->kernel->name);
    code = cu->cuCtxPushCurrent(context);
    kb_status s = KB_OK;
    if (code != KB_CU_SUCCESS)
        s = kb_driver_fail(err, cu, code, "cuCtxPushCurrent", frame->kernel->name);
    if (s == KB_OK) {
        frame->driver = cu;
        frame->device = device;
        s = kb_target_prepare_steps(frame, err);
        (void)cu->cuCtxPopCurrent(&popped);
    }
    (void)cu->cuDevicePrimaryCtxRelease(device);
    return s;
}

/* Loads the kernel for every GPU whose context is there: XLA's client makes them all at its begin.
 * Where there is no driver, XLA compiles for another machine. GPUs may be of several kinds, and the
 * call is for some of them: one that the kernel cannot be loaded for is refused where the call is
 * executed on it, and here only if no other can run it. */
static kb_status prepare(const kb_xla_frame *xla, kb_error *err)
{
    kb_frame frame = {.xla = xla};
    const kb_xla_array *call;
    (void)kb_handler_find(xla, &frame.kernel, &call, err); /* the instantiation has found it */
    const kb_driver *cu = kb_driver_get(err);
    int n_devices = cu ? kb_driver_device_count(err) : 0;
    bool any_ready = false;
    kb_status failed = KB_OK;
    for (int device = 0; device < n_devices && device < KB_DEVICE_HOST; device++) {
        unsigned flags;
        int active = 0;
        kb_error why;
        kb_status s = KB_OK;
        if (!kb_target_is_prepared(frame.kernel, device)) {
            if (cu->cuDevicePrimaryCtxGetState(device, &flags, &active) != KB_CU_SUCCESS || !active)
                continue;
            s = prepare_on(cu, &frame, device, &why);
        }
        any_ready |= s == KB_OK;
        if (s == KB_OK || failed != KB_OK)
            continue;
        failed = s;
        *err = why;
    }
    return any_ready ? KB_OK : failed;
}

static KB_COLD kb_status run_counting(const kb_stream_scope *scope, const kb_frame *frame,
                                      kb_error *err)
{
    int64_t before = kb_stream_kernel_nodes(scope->cu, frame->stream);
    kb_status s = kb_batch_run(frame, err);
    int64_t after = kb_stream_kernel_nodes(scope->cu, frame->stream);
    if (before >= 0 && after >= 0) {
        kb_target_captured_calls++;
        kb_target_captured_nodes += (long)(after - before);
    }
    return s;
}

static KB_COLD kb_status run_debugged(const kb_stream_scope *scope, const kb_frame *frame,
                                      kb_error *err)
{
    if (kb_stream_debug() & KB_DEBUG_POISON && !kb_stream_captures(scope->cu, frame->stream))
        return kb_poison_run(scope->cu, frame, err);
    if (kb_stream_debug() & KB_DEBUG_COUNT_NODES)
        return run_counting(scope, frame, err);
    return kb_batch_run(frame, err);
}

static kb_status instantiate(const kb_xla_frame *frame, kb_error *err)
{
    kb_status s = kb_handler_instantiate(frame, err);
    return s == KB_OK && !kb_handler_is_elsewhere(frame) ? prepare(frame, err) : s;
}

static kb_status execute(const kb_xla_frame *xla, kb_error *err)
{
    const kb_kernel *kernel;
    const kb_xla_array *call;
    kb_status s = kb_handler_find_or(xla, instantiate, &kernel, &call, err);
    if (s != KB_OK)
        return s;
    kb_frame frame;
    s = kb_frame_read(&frame, kernel, xla, call, err);
    if (s != KB_OK)
        return s;
    if (kernel->plan.n_steps > 0 && kernel->plan.steps->kind == KB_STEP_HOST)
        return kb_frame_refuse_target(&frame, err);
    kb_stream_scope scope;
    s = kb_stream_enter(&scope, &frame, err);
    if (s != KB_OK)
        return s;
    s = KB_LIKELY(!kb_stream_debug()) ? kb_batch_run(&frame, err)
                                      : run_debugged(&scope, &frame, err);
    kb_stream_leave(&scope);
    return s;
}

KB_STAGE_HANDLER(kb_target_instantiate, 0, instantiate)

static kb_status find_carried(const kb_xla_frame *frame, kb_error *err)
{
    const kb_kernel *kernel;
    const kb_xla_array *call;
    return kb_handler_find_or(frame, instantiate, &kernel, &call, err);
}

KB_STAGE_HANDLER(kb_target_carrier_prepare, 0, find_carried)
KB_STAGE_HANDLER(kb_target_execute, 0, execute)
KB_STAGE_HANDLER(kb_target_graph_instantiate, KB_XLA_TRAIT_COMMAND_BUFFER, instantiate)
KB_STAGE_HANDLER(kb_target_graph_execute, KB_XLA_TRAIT_COMMAND_BUFFER, execute)
