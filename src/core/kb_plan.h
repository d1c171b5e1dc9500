/* What a call runs: a list of steps. A plan is immutable once its kernel is registered; whatever a
 * call patches is a copy on its own stack. Any thread may enter. */
#ifndef KB_PLAN_H
#define KB_PLAN_H

#include "core/kb_error.h"
#include "core/kb_frame.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a step may run for several slices of a batch at once. */
typedef enum kb_concurrency {
    KB_CONCURRENT_NEVER,
    KB_CONCURRENT_IF_TOLD, /* where the user allows it */
    KB_CONCURRENT,
} kb_concurrency;

/* What runs the steps of one kind other than KB_STEP_HOST; `step` is their `other`. */
typedef kb_status kb_step_runner(const void *step, const kb_frame *frame, kb_error *err);

/* By kind; set before the first plan with such a step is registered. */
extern _Atomic(kb_step_runner *) kb_plan_runners[KB_STEP_KINDS];

/* Whether steps of that kind may; where there is none, they never may. */
typedef kb_concurrency kb_step_concurrency(const void *step, const kb_frame *frame);

extern _Atomic(kb_step_concurrency *) kb_plan_concurrencies[KB_STEP_KINDS];

kb_concurrency kb_plan_concurrency(const kb_step *step, const kb_frame *frame);

/* Runs one step on the buffers of `frame`. */
kb_status kb_plan_step(const kb_step *step, const kb_frame *frame, kb_error *err);

/* Runs every step, in order; stops at the first failure. */
kb_status kb_plan_run(const kb_plan *plan, const kb_frame *frame, kb_error *err);

#endif
