/* Owns the order of steps and the choice of what runs each. */
#include "core/kb_plan.h"

#include "core/kb_host.h"
#include "core/kb_running.h"

#include <stdatomic.h>

_Atomic(kb_step_runner *) kb_plan_runners[KB_STEP_KINDS];
_Atomic(kb_step_concurrency *) kb_plan_concurrencies[KB_STEP_KINDS];

kb_concurrency kb_plan_concurrency(const kb_step *step, const kb_frame *frame)
{
    if (step->kind == KB_STEP_HOST && step->host.parallel)
        return KB_CONCURRENT_NEVER;
    if (step->kind == KB_STEP_HOST)
        return step->host.concurrent ? KB_CONCURRENT : KB_CONCURRENT_IF_TOLD;
    kb_step_concurrency *of_kind =
        step->kind < KB_STEP_KINDS
            ? atomic_load_explicit(&kb_plan_concurrencies[step->kind], memory_order_acquire)
            : NULL;
    return of_kind ? of_kind(step->other, frame) : KB_CONCURRENT_NEVER;
}

kb_status kb_plan_step(const kb_step *step, const kb_frame *frame, kb_error *err)
{
    if (KB_LIKELY(step->kind == KB_STEP_HOST)) {
        kb_status s = KB_OK;
        if (!KB_LIKELY(__atomic_load_n(&step->host.handle, __ATOMIC_RELAXED) == 0))
            s = atomic_load(&kb_plan_runners[KB_STEP_CALLBACK])(&step->host.handle, frame, err);
        return KB_LIKELY(s == KB_OK) ? kb_host_run(&step->host, frame, err) : s;
    }
    kb_step_runner *run =
        step->kind < KB_STEP_KINDS
            ? atomic_load_explicit(&kb_plan_runners[step->kind], memory_order_acquire)
            : NULL;
    if (!run)
        return kb_error_set(err, KB_INTERNAL, "a plan holds a step of kind %d, which nothing runs",
                            (int)step->kind);
    if (!KB_LIKELY(frame->driver || step->kind == KB_STEP_SOURCE)) /* that step knows its needs */
        return kb_frame_refuse_target(frame, err);
    return run(step->other, frame, err);
}

kb_status kb_plan_run(const kb_plan *plan, const kb_frame *frame, kb_error *err)
{
    kb_running *running = kb_running_enter(frame->kernel);
    kb_status s = KB_OK;
    for (uint32_t i = 0; i < plan->n_steps && KB_LIKELY(s == KB_OK); i++)
        s = kb_plan_step(&plan->steps[i], frame, err);
    kb_running_leave(running);
    return s;
}
