/* What the processor of this machine can do beyond what every one of its kind can. Machine code
 * says what it needs as a set of these features. Any thread may enter. */
#ifndef KB_CPU_H
#define KB_CPU_H

#include "core/kb_error.h"

#include <stdbool.h>
#include <stdint.h>

/* The name that LLVM has for the feature of bit `bit` in a set; NULL after the last one. A bit
 * keeps its meaning in all versions of kernbridge, since programs hold such sets. */
const char *kb_cpu_feature(unsigned bit);

/* The features that the processor has, and that the operating system lets programs use. */
uint64_t kb_cpu_features(void);

#if defined(__x86_64__)
/* Two instructions of a processor. */
typedef struct kb_cpu {
    /* cpuid: eax, ebx, ecx and edx for a leaf; false if the processor has no such leaf. */
    bool (*ask)(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]);
    /* xgetbv: which parts of a thread's state the operating system keeps. A processor whose
     * operating system has not switched it on does not know it. */
    uint32_t (*kept)(void);
} kb_cpu;

/* The features of any processor; kb_cpu_features asks this one. */
uint64_t kb_cpu_features_of(const kb_cpu *cpu);
#endif

/* KB_FAILED_PRECONDITION, with the names of all that are missing, unless the processor has the
 * features of a set. `what` names the code in the message. */
kb_status kb_cpu_check(uint64_t needed, const char *what, kb_error *err);

#endif
