/* Every target of kernbridge with its stages: the one list of what is registered with XLA, by the
 * extension module with JAX, and by libkernbridge with a plugin. */
#ifndef KB_TARGETS_H
#define KB_TARGETS_H

#include "core/kb_extension.h"

/* The targets in their order, the core's first; NULL after the last. */
const kb_target *kb_targets_get(size_t index);

/* Lets the targets load what programs carry. Called once, before any target is registered. */
void kb_targets_begin(void);

#endif
