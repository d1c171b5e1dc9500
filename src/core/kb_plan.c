/* Owns the order of steps and the choice of what runs each. */
#include "core/kb_plan.h"

#include "core/kb_host.h"

#include <stdatomic.h>

static _Atomic(kb_step_runner *) runners[KB_STEP_KINDS];

void kb_plan_set_runner(kb_step_kind kind, kb_step_runner *runner)
{
    atomic_store(&runners[kind], runner);
}

kb_status kb_plan_step(const kb_step *step, const struct kb_frame *frame, kb_error *err)
{
    if (KB_LIKELY(step->kind == KB_STEP_HOST))
        return kb_host_run(&step->host, frame, err);
    kb_step_runner *run = step->kind < KB_STEP_KINDS
                              ? atomic_load_explicit(&runners[step->kind], memory_order_acquire)
                              : NULL;
    if (!run)
        return kb_error_set(err, KB_INTERNAL, "a plan holds a step of kind %d, which nothing runs",
                            (int)step->kind);
    return run(step->other, frame, err);
}

kb_status kb_plan_run(const kb_plan *plan, const struct kb_frame *frame, kb_error *err)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        kb_status s = kb_plan_step(&plan->steps[i], frame, err);
        if (!KB_LIKELY(s == KB_OK))
            return s;
    }
    return KB_OK;
}
