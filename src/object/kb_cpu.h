/* What the processor of this machine can do beyond what every one of its kind can. Machine code
 * says what it needs as a set of these features. Any thread may enter. */
#ifndef KB_CPU_H
#define KB_CPU_H

#include "core/kb_error.h"

#include <stdint.h>

/* The name that LLVM has for the feature of bit `bit` in a set; NULL behind the last one. A bit
 * keeps its meaning in all versions of kernbridge, since programs hold such sets. */
const char *kb_cpu_feature(unsigned bit);

/* The features that the processor has, and that the operating system lets programs use. */
uint64_t kb_cpu_features(void);

/* KB_FAILED_PRECONDITION, with the names of all that are missing, unless the processor has the
 * features of a set. `what` names the code in the message. */
kb_status kb_cpu_check(uint64_t needed, const char *what, kb_error *err);

#endif
