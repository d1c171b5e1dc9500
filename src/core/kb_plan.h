/* What a call runs: a list of steps. A plan is immutable once its kernel is registered; whatever a
 * call patches is a copy on its own stack. Any thread may enter. */
#ifndef KB_PLAN_H
#define KB_PLAN_H

#include "abi/kb_numba.h"
#include "core/kb_error.h"

#include <stdbool.h>
#include <stdint.h>

struct kb_frame;

typedef enum kb_step_kind {
    KB_STEP_HOST, /* call a native function on this thread */
} kb_step_kind;

typedef struct kb_host_step {
    kb_numba_entry *entry;
    bool parallel;   /* enters Numba's own thread pool */
    int num_threads; /* of that pool for this kernel; 0: as the calling thread has it */
} kb_host_step;

typedef struct kb_step {
    kb_step_kind kind;
    union {
        kb_host_step host;
    };
} kb_step;

typedef struct kb_plan {
    uint32_t n_steps;
    const kb_step *steps;
} kb_plan;

/* Runs every step on the buffers of `frame`, in order; stops at the first failure. */
kb_status kb_plan_run(const kb_plan *plan, const struct kb_frame *frame, kb_error *err);

#endif
