/* Owns what the core gets of CUDA on the CPU: the stages of a GPU program's call, where no stream
 * and no context are needed, and its targets. */
#include "ext/emulator/kb_cuda_code.h"

#include "core/kb_batch.h"
#include "core/kb_float_mode.h"
#include "core/kb_frame.h"
#include "core/kb_handler.h"
#include "cuda/kb_poison.h"
#include "cuda/kb_step.h"
#include "cuda/kb_stream.h"
#include "cuda/kb_target.h"
#include "ext/emulator/kb_guard.h"
#include "ext/emulator/kb_hostcuda.h"
#include "ext/emulator/kb_spread.h"

static kb_status instantiate(const kb_xla_frame *xla, kb_error *err)
{
    kb_frame frame = {.xla = xla};
    const kb_xla_array *call;
    kb_status s = kb_handler_instantiate(xla, err);
    if (s != KB_OK || kb_handler_is_elsewhere(xla))
        return s;
    s = kb_handler_find(xla, &frame.kernel, &call, err);
    if (s != KB_OK || kb_target_is_prepared(frame.kernel, KB_DEVICE_HOST))
        return s;
    for (uint32_t i = 0; s == KB_OK && i < frame.kernel->plan.n_steps; i++) {
        const kb_launch_step *launch = frame.kernel->plan.steps[i].other;
        if (frame.kernel->plan.steps[i].kind == KB_STEP_LAUNCH)
            s = kb_hostcuda_provide(launch->function, frame.kernel->name, err);
    }
    kb_hostcuda_enter(&frame);
    return s == KB_OK ? kb_target_prepare_steps(&frame, err) : s;
}

static kb_status run(const kb_frame *frame, kb_error *err)
{
    return kb_stream_debug() & KB_DEBUG_POISON ? kb_poison_run(frame->driver, frame, err)
                                               : kb_batch_run(frame, err);
}

static kb_status run_with_inputs(const kb_frame *frame, kb_error *err)
{
    return kb_stream_debug() & KB_DEBUG_INPUTS ? kb_guard_inputs(frame, run, err) : run(frame, err);
}

static kb_status run_all_checked(const kb_frame *frame, kb_error *err)
{
    return kb_unwritten_run(frame, run_with_inputs, err);
}

static kb_status run_apart(const kb_frame *frame, kb_error *err)
{
    return kb_spread_run(frame, run_all_checked, err);
}

/* What follows where all launches are checked, so that we see every write. */
static kb_status run_checked(const kb_frame *frame, kb_error *err)
{
    const kb_kernel *kernel = frame->kernel;
    kb_run *how = run_with_inputs;
    for (uint32_t i = 0; i < kernel->plan.n_steps; i++) {
        const kb_launch_step *launch = kernel->plan.steps[i].other;
        if (kernel->plan.steps[i].kind != KB_STEP_LAUNCH)
            continue;
        const kb_check_table *table = kb_hostcuda_checked(launch->function);
        if (!table)
            return run_with_inputs(frame, err);
        how = table == &kb_spread_launches ? run_apart : run_all_checked;
    }
    return how(frame, err);
}

/* The guards come first: what the others look at is the memory that the kernel gets. */
static KB_COLD kb_status run_watched(const kb_frame *frame, kb_error *err)
{
    return kb_stream_debug() & (KB_DEBUG_INPUTS | KB_DEBUG_POISON)
               ? kb_guard_results(frame, run_checked, err)
               : run_checked(frame, err);
}

static kb_status execute(const kb_xla_frame *xla, kb_error *err)
{
    const kb_kernel *kernel;
    const kb_xla_array *call;
    kb_frame frame;
    kb_status s = kb_handler_find_or(xla, instantiate, &kernel, &call, err);
    if (s == KB_OK)
        s = kb_frame_read(&frame, kernel, xla, call, err);
    if (s != KB_OK)
        return s;
    kb_hostcuda_enter(&frame);
    enum { WATCHED = KB_DEBUG_INPUTS | KB_DEBUG_POISON | KB_DEBUG_CHECKED };
    return kb_stream_debug() & WATCHED ? run_watched(&frame, err) : kb_batch_run(&frame, err);
}

/* In the checked modes, kernels for the CPU come this way too. */
static kb_status execute_together(const kb_xla_frame *xla, kb_error *err)
{
    uint64_t mode = kb_float_mode_exact();
    kb_status s = execute(xla, err);
    kb_float_mode_restore(mode);
    return KB_LIKELY(s == KB_OK) ? KB_OK : kb_together_keep(xla, err);
}

static kb_xla_error *handle_instantiate(kb_xla_frame *frame)
{
    return kb_handler_handle(frame, 0, instantiate);
}

static kb_xla_error *handle_execute(kb_xla_frame *frame)
{
    return kb_handler_handle(frame, 0, execute_together);
}

static const kb_target targets[] = {
    {"kernbridge.cuda.host", KB_PLATFORM_CPU, handle_instantiate, NULL, handle_execute},
    {"kernbridge.cuda.host.carrier", KB_PLATFORM_CPU, handle_instantiate, NULL, kb_handler_idle},
    {0},
};

static void begin(void)
{
    kb_hostcuda_load = kb_cuda_code_load;
    kb_plan_concurrencies[KB_STEP_LAUNCH] = kb_hostcuda_concurrency;
}

const kb_extension kb_emulator = {
    .targets = targets,
    .begin = begin,
    .connect = kb_cuda_host_connect,
    .variables_of = kb_variables_of,
    .fault = kb_fault_end,
};
