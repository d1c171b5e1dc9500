/* What a call runs: a list of steps. A plan is immutable once its kernel is registered; whatever a
 * call patches is a copy on its own stack. Any thread may enter. */
#ifndef KB_PLAN_H
#define KB_PLAN_H

#include "abi/kb_numba.h"
#include "core/kb_error.h"

#include <stdbool.h>
#include <stdint.h>

struct kb_frame;
struct kb_failures;

typedef enum kb_step_kind {
    KB_STEP_HOST,     /* call a native function on this thread */
    KB_STEP_LAUNCH,   /* enqueue a GPU kernel */
    KB_STEP_FILL,     /* enqueue a fill of GPU memory */
    KB_STEP_COPY,     /* enqueue a copy within GPU memory */
    KB_STEP_CALLBACK, /* call Python */
    KB_STEP_SOURCE,   /* call a function of a module built from source */
    KB_STEP_KINDS,
} kb_step_kind;

typedef struct kb_host_step {
    kb_numba_entry *entry;
    bool parallel;   /* enters Numba's own thread pool */
    bool concurrent; /* needs nothing but its arguments: slices of a batch may run at once */
    int num_threads; /* of that pool for this kernel; 0: as the calling thread has it */
    const struct kb_failures *failures; /* of code that came without its compiler, or NULL */
} kb_host_step;

typedef struct kb_step {
    kb_step_kind kind;
    bool wide; /* serves all slices of the frame's group at once, see kb_batch.h */
    union {
        kb_host_step host;
        const void *other; /* of the other kinds; belongs to the kernel's owner */
    };
} kb_step;

typedef struct kb_plan {
    uint32_t n_steps;
    const kb_step *steps;
} kb_plan;

/* Whether a step may run for several slices of a batch at once. */
typedef enum kb_concurrency {
    KB_CONCURRENT_NEVER,
    KB_CONCURRENT_IF_TOLD, /* where the user allows it */
    KB_CONCURRENT,
} kb_concurrency;

/* What runs the steps of one kind other than KB_STEP_HOST; `step` is their `other`. */
typedef kb_status kb_step_runner(const void *step, const struct kb_frame *frame, kb_error *err);

/* Set before the first plan with such a step is registered. */
void kb_plan_set_runner(kb_step_kind kind, kb_step_runner *runner);

/* Whether steps of that kind may; unless it is set, they never may. */
typedef kb_concurrency kb_step_concurrency(const void *step, const struct kb_frame *frame);

void kb_plan_set_concurrency(kb_step_kind kind, kb_step_concurrency *concurrency);

kb_concurrency kb_plan_concurrency(const kb_step *step, const struct kb_frame *frame);

/* Runs one step on the buffers of `frame`. */
kb_status kb_plan_step(const kb_step *step, const struct kb_frame *frame, kb_error *err);

/* Runs every step, in order; stops at the first failure. */
kb_status kb_plan_run(const kb_plan *plan, const struct kb_frame *frame, kb_error *err);

#endif
