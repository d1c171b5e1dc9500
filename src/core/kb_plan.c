/* Owns the order of steps and the choice of what runs each. */
#include "core/kb_plan.h"

#include "core/kb_host.h"

static kb_status run_step(const kb_step *step, const struct kb_frame *frame, kb_error *err)
{
    switch (step->kind) {
    case KB_STEP_HOST:
        return kb_host_run(&step->host, frame, err);
    }
    return kb_error_set(err, KB_INTERNAL, "a plan holds a step of unknown kind %d",
                        (int)step->kind);
}

kb_status kb_plan_run(const kb_plan *plan, const struct kb_frame *frame, kb_error *err)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        kb_status s = run_step(&plan->steps[i], frame, err);
        if (!KB_LIKELY(s == KB_OK))
            return s;
    }
    return KB_OK;
}
