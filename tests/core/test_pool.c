/* Proves that a shared loop does every index once, with threads or without, whoever comes, and when
 * tasks begin late, which may be after the loop is over. */
#include "core/kb_pool.h"
#include "fake_xla.h"
#include "loop_record.h"
#include "torture.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static void run(int64_t count, long pause_ns)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    begin_record(pause_ns);
    kb_pool_for(&f.frame, count, look, &record);
    check_each_once(count);
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

/* Runs a loop with what the core asks of XLA besides the number of threads. */
static void run_parts(int64_t count, int64_t part, int64_t n_threads)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    memset(&record, 0, sizeof record);
    record.caller = pthread_self();
    const kb_pool_loop of = {
        .function = look,
        .data = &record,
        .count = count,
        .part = part,
        .n_threads = n_threads,
    };
    kb_pool_run(&f.frame, &of);
    check_each_once(count);
    CHECK_INT(fake_errors_alive(), 0);
    fake_frame_free(&f);
}

/* As many tasks as there are threads or parts, but for the caller, who takes part and schedules no
 * more than two: the others are left to those, which do not begin here. */
static void test_tasks_of_the_caller(void)
{
    static const struct {
        int64_t count, part, threads;
        int tasks;
    } cases[] = {
        {100, 1, 1, 0}, {1, 1, 4, 0}, {2, 1, 4, 1}, {3, 1, 4, 2},  {4, 1, 4, 2},   {33, 1, 2, 1},
        {33, 1, 3, 2},  {3, 4, 4, 0}, {4, 4, 4, 0}, {5, 4, 4, 1},  {6, 4, 4, 1},   {8, 4, 4, 1},
        {9, 4, 4, 2},   {9, 4, 2, 1}, {0, 4, 4, 0}, {-1, 4, 4, 0}, {100, 4, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_pool_hold(true);
        run_parts(cases[i].count, cases[i].part, cases[i].threads);
        CHECK_INT(fake_pool_scheduled(), cases[i].tasks);
        bool alone = cases[i].threads < 2 || cases[i].count <= cases[i].part;
        int64_t parts = (cases[i].count + cases[i].part - 1) / cases[i].part;
        CHECK_INT(atomic_load(&record.parts), cases[i].count < 1 ? 0 : alone ? 1 : parts);
        fake_pool_hold(false);
        fake_pool_join();
    }
}

/* Up to four parts for each thread, in loops that the caller does alone. */
static void test_parts(void)
{
    static const struct {
        int64_t count;
        int threads;
        int64_t parts;
    } cases[] = {{7, 2, 7}, {8, 2, 8}, {9, 2, 9}, {1000, 2, 8}, {1000, 3, 13}, {1001, 4, 17}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_pool_set(cases[i].threads, false);
        fake_pool_hold(true);
        run(cases[i].count, 0);
        CHECK_INT(atomic_load(&record.parts), cases[i].parts);
        fake_pool_hold(false);
        fake_pool_join();
    }
}

/* Each part waits until all threads have come: not for ever. The caller's ends first. */
static void meet(void *data, int64_t begin, int64_t end)
{
    enum { TRIES = 60000 };
    struct timespec pause = {0, 1000000};
    seen *s = data;
    CHECK_INT(end - begin, 1);
    atomic_fetch_add(&s->parts, 1);
    for (int i = 0; atomic_load(&s->parts) < s->all && i < TRIES; i++)
        nanosleep(&pause, NULL);
    if (pthread_equal(pthread_self(), s->caller))
        return;
    nanosleep(&pause, NULL);
    atomic_fetch_add(&s->others, 1);
}

/* Tasks schedule those that the caller has left. */
static void test_all_come(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int threads = 2; threads <= 9; threads++) {
        fake_pool_set(threads, false);
        memset(&record, 0, sizeof record);
        record.caller = pthread_self();
        record.all = threads;
        kb_pool_for(&f.frame, threads, meet, &record);
        CHECK_INT(atomic_load(&record.parts), threads);
        CHECK_INT(atomic_load(&record.others), threads - 1);
        CHECK(fake_pool_scheduled() <= threads - 1); /* one that waits is not scheduled */
        fake_pool_join();
        CHECK_INT(torture_count().held, 0);
    }
    fake_frame_free(&f);
}

/* The caller takes all parts but the last before other threads begin. */
static void leave_the_last(void *data, int64_t begin, int64_t end)
{
    enum { TRIES = 60000, PARTS = 4 };
    struct timespec pause = {0, 1000000};
    seen *s = data;
    CHECK_INT(end - begin, 1);
    atomic_fetch_add(&s->parts, 1);
    if (begin != PARTS - 2)
        return;
    fake_pool_hold(false);
    for (int i = 0; atomic_load(&s->parts) < PARTS && i < TRIES; i++)
        nanosleep(&pause, NULL);
}

/* Whoever takes the last part schedules nobody. */
static void test_nobody_comes_for_nothing(void)
{
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    memset(&record, 0, sizeof record);
    const kb_pool_loop of = {leave_the_last, &record, .count = 4, .part = 1, .n_threads = 4};
    fake_pool_hold(true);
    kb_pool_run(&f.frame, &of);
    CHECK_INT(atomic_load(&record.parts), 4);
    CHECK_INT(fake_pool_scheduled(), 2);
    fake_pool_join();
    fake_frame_free(&f);
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

/* One task that cannot be scheduled ends the attempts, and nothing of the loop is left. */
static void test_one_task_is_refused(void)
{
    for (int lasting = 0; lasting < 2; lasting++) {
        torture_taken before = torture_count();
        torture_arm(TORTURE_XLA, 1, lasting);
        run_parts(100, 1, 4);
        CHECK_TEXT(torture_disarm(), "schedule");
        CHECK_INT(fake_pool_scheduled(), 0);
        CHECK_INT(atomic_load(&record.others), 0);
        torture_taken after = torture_count();
        CHECK_INT(after.blocks, before.blocks);
        CHECK_INT(after.locks, before.locks);
    }
}

static void test_no_memory(void)
{
    torture_fail_nth(1);
    run(100, 0);
    CHECK_INT(atomic_load(&record.parts), 1);
    torture_fail_nth(0);
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
 * for it. Other processes may keep them from it for a while. A thread that ends gives back the seat
 * on which it waited, so this goes on after as many threads as there are seats. */
static void test_threads_wait_for_the_next_loop(void)
{
    enum { LOOPS = 100, TRIES = 2000, SEATS = 64 };
    int waited = 0;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int try = 0; try < TRIES && waited <= SEATS; try++) {
        fake_pool_set(2, false);
        memset(&record, 0, sizeof record);
        record.caller = pthread_self();
        record.pause_ns = 20000;
        for (int i = 0; i < LOOPS; i++)
            kb_pool_for(&f.frame, 4, look, &record);
        waited += fake_pool_scheduled() < LOOPS;
        for (int i = 0; i < 4; i++)
            CHECK_INT(atomic_load(&record.times[i]), LOOPS);
        fake_pool_join();
    }
    CHECK(waited > SEATS);
    fake_frame_free(&f);
}

int main(void)
{
    test_counts();
    test_one_thread_takes_all_at_once();
    test_tasks_of_the_caller();
    test_parts();
    test_all_come();
    test_nobody_comes_for_nothing();
    test_others_help();
    test_refused();
    test_one_task_is_refused();
    test_no_memory();
    test_many_at_once();
    test_threads_wait_for_the_next_loop();
    return kb_test_end("test_pool");
}
