/* Public targets, "module.function": XLA calls them by a handler of the module itself, which hands
 * its frame to the slot; the slot holds what the function is. Any thread may enter. */
#ifndef KB_SLOT_H
#define KB_SLOT_H

#include "core/kb_error.h"
#include "kernbridge/module.h"
#include "module/kb_source.h"

enum { KB_ANY_COUNT = -1 };

typedef struct kb_slot_attribute {
    const char *name;
    int32_t dtype;    /* XLA's code */
    uint32_t index;   /* in the function's order; set by kb_slot_bind */
    size_t name_size; /* set by kb_slot_bind */
} kb_slot_attribute;

/* A function as XLA's own call of it is checked. */
typedef struct kb_slot_target {
    const struct kb_slot_target *before; /* set by kb_slot_bind: which XLA may be in still */
    const char *name;                    /* for messages: "load_cpp_inline 'module.function'" */
    int32_t n_inputs;                    /* or KB_ANY_COUNT */
    int32_t n_outputs;
    bool graph; /* may be captured into a command buffer */
    kb_source_step step;
    kb_slot_attribute *attributes; /* step.n_attributes of them, in the function's order */
    const int32_t *dtypes; /* XLA's codes for inputs and outputs, 0 for any; NULL with any count */
} kb_slot_target;

/* Makes the slot call the target, which stays for the process's life with all that it points to,
 * like the modules themselves: XLA may be in the old one. The attributes are sorted by name, as
 * XLA's are. KB_FAILED_PRECONDITION if the slot is in graphs, as was declared to XLA at its
 * registration, and the target may not be. */
kb_status kb_slot_bind(kb_slot *slot, kb_slot_target *target, kb_error *err);

#endif
