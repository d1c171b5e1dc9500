/* How tests make each allocation of a scenario fail in turn. One thread. */
#ifndef ALLOCATION_H
#define ALLOCATION_H

#include "core/kb_error.h"
#include "kb_test.h"
#include "torture.h"

/* Does a scenario from scratch, with the failure that is armed, then again without one. */
typedef bool scenario(void); /* false: an error came back, as it may for want of memory */

/* True if the armed n-th allocation has not come yet; disarms it. */
static inline bool still_armed(long n)
{
    bool armed = false;
    for (long i = 0; i < n && !armed; i++) {
        void *probe = torture_calloc(1, 1);
        armed = !probe;
        torture_free(probe);
    }
    torture_fail_nth(0);
    return armed;
}

/* Fails the first, the second, ... allocation until the scenario has no more. */
static inline void each_allocation(const char *name, scenario *run, long at_least)
{
    long injected = 0;
    for (long n = 1; n < 1000; n++) {
        torture_fail_nth(n);
        bool ok = run();
        if (still_armed(n)) {
            CHECK(ok);
            break;
        }
        injected++;
        if (!CHECK(!ok))
            fprintf(stderr, "%s: allocation %ld failed, and nobody noticed\n", name, n);
        CHECK(run());
    }
    if (!CHECK(injected >= at_least && injected < 999))
        fprintf(stderr, "%s: %ld failures injected\n", name, injected);
}

/* The status of a step that may only fail for want of memory. */
static inline bool had_memory(kb_status s, const kb_error *err)
{
    if (s == KB_OK)
        return true;
    CHECK_INT(s, KB_RESOURCE_EXHAUSTED);
    CHECK_INT(err->status, KB_RESOURCE_EXHAUSTED);
    CHECK_HAS(err->message, "no memory");
    return false;
}

#endif
