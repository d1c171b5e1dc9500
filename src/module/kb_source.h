/* A step of a plan that calls a function of a module built from source, on what the public header
 * kernbridge/kernbridge.h describes. Any thread may enter. */
#ifndef KB_SOURCE_H
#define KB_SOURCE_H

#include "core/kb_error.h"
#include "core/kb_extension.h"
#include "core/kb_frame.h"
#include "kernbridge/kernbridge.h"

#include <stdbool.h>

enum { KB_ATTRIBUTES_MAX = 256, KB_ATTRIBUTE_SIZE_MAX = 16 };

typedef int kb_source_function(const kb_call *call);
typedef int kb_source_last_error(const char **name);

typedef struct kb_source_step {
    kb_source_function *run;
    kb_source_last_error *last_error; /* takes CUDA's error of this thread; NULL on the CPU */
    bool cuda;
    bool zeroed; /* on the CPU: outputs that are no input's memory are filled with zeros first */
    uint32_t n_attributes;
    const void *const *attributes;
    kb_variables *variables; /* of the code, or NULL; found when the step is planned */
} kb_source_step;

/* The variables of the code of a function, or NULL. */
kb_variables *kb_source_variables(kb_source_function *run);

/* Calls the function on the buffers of the frame. A failure has the words that the function gave.
 */
kb_status kb_source_run(const void *given, const kb_frame *frame, kb_error *err);

/* Reports a fault of a launch that the function made. */
void kb_source_fault(const kb_call *call, const char *fault);

/* The frame that the call belongs to. */
const kb_frame *kb_source_frame(const kb_call *call);

/* Makes the description of an operation that calls `step` with these attributes; its owner is what
 * the step points to. `values` are copied. */
kb_status kb_source_plan(const kb_source_step *step, const size_t *sizes, kb_kernel *kernel,
                         kb_step *plan_step, kb_error *err);

#endif
