/* Proves that a shared loop does every index once, with threads or without, whoever comes, and when
 * tasks begin late, which may be after the loop is over. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "core/kb_memory.h"
#include "core/kb_pool.h"
#include "fake_xla.h"
#include "kb_test.h"
#include "torture.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum { N_MAX = 10000 };

typedef struct seen {
    _Atomic(int) times[N_MAX];
    atomic_long parts;
    atomic_long others; /* parts that another thread took */
    pthread_t caller;
    long pause_ns;
} seen;

static seen record;

static void look(void *data, int64_t begin, int64_t end)
{
    seen *s = data;
    atomic_fetch_add(&s->parts, 1);
    if (!pthread_equal(pthread_self(), s->caller)) {
        atomic_fetch_add(&s->others, 1);
    } else if (s->pause_ns) {
        struct timespec pause = {0, s->pause_ns};
        nanosleep(&pause, NULL);
    }
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&s->times[i], 1);
}

static void run(int64_t count, long pause_ns)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    memset(&record, 0, sizeof record);
    record.caller = pthread_self();
    record.pause_ns = pause_ns;
    kb_pool_for(&f.frame, count, look, &record);
    for (int64_t i = 0; i < N_MAX; i++)
        if (atomic_load(&record.times[i]) != (i < count))
            CHECK_INT(atomic_load(&record.times[i]), i < count);
    CHECK_INT(fake_errors_alive(), 0);
    fake_frame_free(&f);
}

static void test_counts(void)
{
    const int64_t counts[] = {0, -1, 1, 2, 3, 5, 7, 16, 17, 1000, N_MAX};
    for (int threads = -1; threads <= 6; threads++) {
        fake_pool_set(threads, false);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            run(counts[i] < 0 ? 0 : counts[i], 0);
        fake_pool_join();
    }
}

static void test_one_thread_takes_all_at_once(void)
{
    fake_pool_set(1, false);
    run(1000, 0);
    CHECK_INT(atomic_load(&record.parts), 1);
    fake_pool_set(4, false);
    run(1, 0);
    CHECK_INT(atomic_load(&record.parts), 1);
    run(2, 0);
    CHECK_INT(atomic_load(&record.parts), 2);
    fake_pool_join();
}

/* As many tasks as there are threads or parts, but for the caller, who takes part. */
static void test_tasks(void)
{
    static const struct {
        int threads;
        int64_t count;
        int tasks;
    } cases[] = {{1, 100, 0}, {4, 1, 0}, {4, 2, 1}, {4, 3, 2}, {4, 4, 3}, {4, 5, 3}, {4, 33, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_pool_set(cases[i].threads, false);
        fake_pool_join();
        run(cases[i].count, 2000000); /* long enough for all to be invited */
        CHECK(fake_pool_scheduled() <= cases[i].tasks);
        fake_pool_join();
    }
}

static void test_others_help(void)
{
    fake_pool_set(4, false);
    run(64, 2000000); /* the caller is slow */
    CHECK(atomic_load(&record.others) > 0);
    fake_pool_join();
}

static void test_refused(void)
{
    fake_pool_set(4, true);
    run(100, 0);
    CHECK_INT(atomic_load(&record.others), 0);
    fake_pool_set(4, false);
}

static void run_started(int64_t count, long pause_ns)
{
    memset(&record, 0, sizeof record);
    record.caller = pthread_self();
    record.pause_ns = pause_ns;
    kb_pool_for_started(count, look, &record);
    for (int64_t i = 0; i < N_MAX; i++)
        if (atomic_load(&record.times[i]) != (i < count))
            CHECK_INT(atomic_load(&record.times[i]), i < count);
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

static void test_no_memory(void)
{
    kb_memory_fail_nth(1);
    run(100, 0);
    CHECK_INT(atomic_load(&record.parts), 1);
    kb_memory_fail_nth(1);
    run_started(100, 0);
    CHECK_INT(atomic_load(&record.parts), 1);
    kb_memory_fail_nth(0);
}

/* The caller does all of a loop for which no thread can be started, and nothing of it is left. */
static void test_no_threads(void)
{
    enum { FIRST_THREAD = 3 }; /* behind the loop's lock and condition */
    cpu_set_t allowed;
    torture_taken before = torture_count();
    torture_arm(TORTURE_THREAD, FIRST_THREAD, true);
    run_started(64, 2000000);
    const char *failed = torture_disarm();
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    if (CPU_COUNT(&allowed) > 1)
        CHECK_TEXT(failed, "pthread_create");
    CHECK_INT(atomic_load(&record.others), 0);
    torture_taken after = torture_count();
    CHECK(after.blocks <= before.blocks); /* a thread of a loop before may have ended meanwhile */
    CHECK(after.mutexes <= before.mutexes);
}

/* Several loops at once, each with tasks of its own. */
static void *loop_of_one_thread(void *data)
{
    seen *s = data;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    s->caller = pthread_self();
    kb_pool_for(&f.frame, N_MAX, look, s);
    fake_frame_free(&f);
    return NULL;
}

static void test_many_at_once(void)
{
    enum { LOOPS = 8 };
    seen *all = calloc(LOOPS, sizeof *all);
    pthread_t threads[LOOPS];
    fake_pool_set(3, false);
    for (int i = 0; i < LOOPS; i++)
        pthread_create(&threads[i], NULL, loop_of_one_thread, &all[i]);
    for (int i = 0; i < LOOPS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LOOPS; i++)
        for (int64_t k = 0; k < N_MAX; k++)
            if (atomic_load(&all[i].times[k]) != 1)
                CHECK_INT(atomic_load(&all[i].times[k]), 1);
    fake_pool_join();
    free(all);
}

/* Where loops follow each other closely, threads wait for the next one, and need not be scheduled
 * for it. Other processes may keep them from it for a while. */
static void test_threads_wait_for_the_next_loop(void)
{
    enum { LOOPS = 100, TRIES = 100 };
    bool waited = false;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int try = 0; try < TRIES && !waited; try++) {
        fake_pool_set(2, false);
        memset(&record, 0, sizeof record);
        record.caller = pthread_self();
        record.pause_ns = 20000;
        for (int i = 0; i < LOOPS; i++)
            kb_pool_for(&f.frame, 4, look, &record);
        waited = fake_pool_scheduled() < LOOPS;
        for (int i = 0; i < 4; i++)
            CHECK_INT(atomic_load(&record.times[i]), LOOPS);
        fake_pool_join();
    }
    CHECK(waited);
    fake_frame_free(&f);
}

int main(void)
{
    test_counts();
    test_one_thread_takes_all_at_once();
    test_tasks();
    test_others_help();
    test_refused();
    test_started_threads_help();
    test_no_memory();
    test_no_threads();
    test_many_at_once();
    test_threads_wait_for_the_next_loop();
    return kb_test_end("test_pool");
}
