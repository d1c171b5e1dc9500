/* Proves that a loop without XLA does every index once, with threads that are started or without.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "core/kb_pool.h"
#include "loop_record.h"
#include "torture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static void run_started(int64_t count, long pause_ns)
{
    begin_record(pause_ns);
    kb_started_for(count, look, &record);
    check_each_once(count);
}

/* A loop that takes long gets threads, one that does not is the caller's. */
static void test_started_threads_help(void)
{
    const int64_t counts[] = {0, 1, 2, 63, 64, 65, 1000, N_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        run_started(counts[i], 0);
        CHECK((atomic_load(&record.parts) > 0) ==
              (counts[i] > 0)); /* nothing is done of no parts */
    }
    cpu_set_t allowed;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    run_started(64, 2000000);
    CHECK((atomic_load(&record.others) > 0) == (CPU_COUNT(&allowed) > 1));
}

/* The caller does all of a loop for which no thread can be started. */
static void test_no_threads(void)
{
    cpu_set_t allowed;
    torture_arm(TORTURE_THREAD, 1, true);
    run_started(6399, 100000);
    const char *failed = torture_disarm();
    CHECK_INT(atomic_load(&record.parts), 65);
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    if (CPU_COUNT(&allowed) > 1)
        CHECK_TEXT(failed, "pthread_create");
    CHECK_INT(atomic_load(&record.others), 0);
}

/* One thread for each other processor that this one may use. */
static void test_how_many_threads_start(void)
{
    cpu_set_t allowed, few;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    CPU_ZERO(&few);
    for (int i = 0, n = 0; i < CPU_SETSIZE && n < 2; i++) {
        if (!CPU_ISSET(i, &allowed))
            continue;
        CPU_SET(i, &few);
        CHECK(sched_setaffinity(0, sizeof few, &few) == 0);
        torture_arm(TORTURE_THREAD, 1 + n++, true);
        run_started(64, 2000000);
        CHECK_PTR(torture_disarm(), NULL);
        if (n == 2)
            CHECK(atomic_load(&record.others) > 0);
    }
    CHECK(sched_setaffinity(0, sizeof allowed, &allowed) == 0);

    /* None for one part that is left, nor for a loop that takes no time. Another process may take
     * the processor for a while. */
    torture_arm(TORTURE_THREAD, 1, true);
    run_started(2, 2000000);
    CHECK_PTR(torture_disarm(), NULL);
    CHECK_INT(atomic_load(&record.parts), 2);
    torture_arm(TORTURE_THREAD, 1, true);
    run_started(3, 2000000);
    CHECK((torture_disarm() != NULL) == (CPU_COUNT(&allowed) > 1));
    const char *failed = "";
    for (int i = 0; i < 1000 && failed; i++) {
        torture_arm(TORTURE_THREAD, 1, true);
        run_started(64, 0);
        failed = torture_disarm();
    }
    CHECK_PTR(failed, NULL);
}

int main(void)
{
    test_started_threads_help();
    test_no_threads();
    test_how_many_threads_start();
    return kb_test_end("test_started");
}
