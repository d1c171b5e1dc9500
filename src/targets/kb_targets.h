/* Every target of kernbridge with its stages: the one list of what is registered with XLA, by the
 * extension module with JAX, and by libkernbridge with a plugin. */
#ifndef KB_TARGETS_H
#define KB_TARGETS_H

#include "abi/kb_xla.h"

enum { KB_PLATFORM_CPU = 1u << 0, KB_PLATFORM_GPU = 1u << 1 };

typedef struct kb_target {
    const char *name; /* NULL after the last */
    uint32_t platforms;
    kb_xla_handler *instantiate; /* or NULL */
    kb_xla_handler *prepare;     /* or NULL */
    kb_xla_handler *execute;
} kb_target;

extern const kb_target kb_targets[];

/* Lets the targets load what programs carry. Called once, before any target is registered. */
void kb_targets_begin(void);

#endif
