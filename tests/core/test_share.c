/* Proves that the slices of a batch which runs on many threads are each run once, on the right
 * memory, that the first failure wins, and that slices stay in order where they must. */
#include "core/kb_batch.h"
#include "core/kb_slices.h"
#include "core/kb_ticks.h"
#include "kb_test.h"
#include "sample.h"
#include "torture.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SLICES = 300, WIDTH = 3, LONG_NS = 200000 };

/* out[:] = x[:] + n, slice by slice. */
static struct {
    long pause_ns;           /* that a slice takes */
    uint64_t ticks;          /* that it takes at work, besides */
    long pause_at;           /* the slice that takes ten times as long; -1: none */
    long patient_from;       /* from this slice on, the caller waits for others; -1: never */
    bool fails[SLICES];      /* slices whose kernel fails */
    atomic_int runs[SLICES]; /* by the first element of x, which is the slice */
    atomic_int in_order;     /* slices that began after every one before them */
    atomic_int n_runs;
    atomic_int others; /* that ran on another thread than the caller's */
    pthread_t caller;
} seen;

/* Until another thread has come, however long a busy machine takes; not for ever. */
static void wait_for_others(void)
{
    enum { TRIES = 60000 };
    struct timespec pause = {0, 1000000};
    for (int i = 0; atomic_load(&seen.others) == 0 && i < TRIES; i++)
        nanosleep(&pause, NULL);
}

static int32_t add(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result;
    const kb_xla_buffer *x = inputs[0], *n = inputs[1], *out = outputs[0];
    const double *from = x->data, *by = n->data;
    double *to = out->data;
    int slice = (int)from[0];
    *exception = NULL;
    if (atomic_fetch_add(&seen.n_runs, 1) == slice)
        atomic_fetch_add(&seen.in_order, 1);
    if (!pthread_equal(pthread_self(), seen.caller))
        atomic_fetch_add(&seen.others, 1);
    else if (seen.patient_from >= 0 && slice >= seen.patient_from)
        wait_for_others();
    long ns = seen.pause_ns * (slice == seen.pause_at ? 10 : 1);
    struct timespec pause = {0, ns};
    if (ns)
        nanosleep(&pause, NULL);
    uint64_t begun = kb_ticks();
    while (kb_ticks() - begun < seen.ticks)
        continue;
    atomic_fetch_add(&seen.runs[slice], 1);
    if (seen.fails[slice])
        return KB_NUMBA_USER_EXCEPTION + slice;
    for (int64_t i = 0; i < x->dims[0]; i++)
        to[i] = from[i] + *by;
    return KB_NUMBA_OK;
}

typedef struct scene {
    sample s;
    fake_frame f;
    kb_error err;
    double x[SLICES * WIDTH], n, out[SLICES * WIDTH];
} scene;

static void begin(scene *c, uint64_t id, bool concurrent)
{
    memset(c, 0, sizeof *c);
    memset(&seen, 0, sizeof seen);
    seen.caller = pthread_self();
    seen.pause_at = -1;
    seen.patient_from = -1;
    seen.pause_ns = LONG_NS;
    sample_init(&c->s, id, add);
    sample_input(&c->s, KB_DTYPE_F64, 1, "x");
    sample_input(&c->s, KB_DTYPE_F64, 0, "n");
    sample_output(&c->s, KB_DTYPE_F64, 1, "out");
    c->s.step.host.concurrent = concurrent;
    c->n = 1000;
    for (int i = 0; i < SLICES * WIDTH; i++)
        c->x[i] = i % WIDTH ? i : i / WIDTH;
}

/* Runs a batch that writes to `out`. */
static kb_status run_at(scene *c, int64_t count, int64_t order, double *out)
{
    const int64_t dims[] = {count, WIDTH}, masks[] = {1, 0};
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c->f, KB_DTYPE_F64, c->x, 2, dims);
    fake_arg(&c->f, KB_DTYPE_F64, &c->n, 0, NULL);
    fake_ret(&c->f, KB_DTYPE_F64, out, 2, dims);
    kb_xla_array *call = sample_call(&c->f, &c->s.kernel, 1 + KB_BATCH_ORDER * order, masks);
    kb_frame frame;
    kb_status s = kb_frame_read(&frame, &c->s.kernel, &c->f.frame, call, &c->err);
    CHECK_INT(s, KB_OK);
    s = kb_batch_run(&frame, &c->err);
    fake_frame_free(&c->f);
    return s;
}

static void check_ran(const scene *c, int64_t count, const double *x)
{
    for (int i = 0; i < SLICES; i++)
        if (atomic_load(&seen.runs[i]) != (i < count))
            CHECK_INT(atomic_load(&seen.runs[i]), i < count);
    for (int i = 0; i < count * WIDTH; i++)
        if (c->out[i] != x[i] + c->n)
            CHECK_INT(c->out[i], x[i] + c->n);
}

static void run(scene *c, int64_t count, int64_t order)
{
    CHECK_INT(run_at(c, count, order, c->out), KB_OK);
    check_ran(c, count, c->x);
}

static uint64_t next_id;
static scene scenes[3], *c = scenes;

/* Takes a kernel whose slices nobody has measured. */
static void take_new_kernel(void)
{
    c++;
    CHECK(c < scenes + sizeof scenes / sizeof *scenes);
}

static void test_shared(void)
{
    const int64_t counts[] = {0, 1, 2, 3, 16, 17, SLICES};
    for (int threads = 2; threads <= 5; threads++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            fake_pool_set(threads, false);
            begin(c, ++next_id, true);
            seen.patient_from = counts[i] < 16 ? -1 : 1;
            run(c, counts[i], KB_SLICES_AUTO);
            CHECK(counts[i] < 16 || atomic_load(&seen.others) > 0);
            fake_pool_join();
        }
    CHECK_INT(fake_errors_alive(), 0);
}

/* Slices that were slow are fast now. That is measured at the next call, unless another process
 * takes the processor meanwhile. */
static void forget(bool concurrent, int64_t count)
{
    enum { TRIES = 1000 };
    int i = 0;
    do {
        begin(c, ++next_id, concurrent);
        seen.pause_ns = 0;
        run(c, count, KB_SLICES_AUTO);
        fake_pool_join();
    } while (atomic_load(&seen.others) > 0 && ++i < TRIES);
    CHECK_INT(atomic_load(&seen.others), 0);
}

/* Two slices of which the first was measured here: the next time they run at once. */
static void test_remembered(void)
{
    fake_pool_set(4, false);
    forget(true, 2);
    begin(c, ++next_id, true);
    run(c, 2, KB_SLICES_AUTO);
    CHECK_INT(atomic_load(&seen.others), 0);
    begin(c, ++next_id, true);
    seen.patient_from = 0;
    run(c, 2, KB_SLICES_AUTO);
    CHECK_INT(atomic_load(&seen.others), 1);
    fake_pool_join();
    forget(true, 2);
}

/* Two slices of 40 us each are worth a thread. */
static void test_short(void)
{
    fake_pool_set(4, false);
    forget(true, 2);
    for (int i = 0; i < 2; i++) {
        begin(c, ++next_id, true);
        seen.pause_ns = 0;
        seen.ticks = 40 * KB_TICKS_PER_US;
        seen.patient_from = i ? 0 : -1;
        run(c, 2, KB_SLICES_AUTO);
    }
    CHECK(atomic_load(&seen.others) > 0);
    fake_pool_join();
    forget(true, 2);
}

static void check_alone(int64_t order)
{
    run(c, 40, order);
    CHECK_INT(atomic_load(&seen.others), 0);
    CHECK_INT(atomic_load(&seen.in_order), 40);
}

static void test_in_order(void)
{
    fake_pool_set(4, false);
    begin(c, ++next_id, true);
    check_alone(KB_SLICES_IN_ORDER);
    begin(c, ++next_id, false);
    check_alone(KB_SLICES_AUTO);
    begin(c, ++next_id, true);
    c->s.step.host.parallel = true;
    check_alone(KB_SLICES_AT_ONCE);
    take_new_kernel();
    fake_pool_set(1, false);
    begin(c, ++next_id, true);
    check_alone(KB_SLICES_AUTO);
    fake_pool_set(4, true);
    begin(c, ++next_id, true);
    check_alone(KB_SLICES_AUTO);
    fake_pool_set(4, false);
    CHECK_INT(fake_errors_alive(), 0);
}

static void test_told(void)
{
    fake_pool_set(2, false);
    take_new_kernel();
    begin(c, ++next_id, false);
    seen.patient_from = 1;
    run(c, 40, KB_SLICES_AT_ONCE);
    CHECK(atomic_load(&seen.others) > 0);
    fake_pool_join();
}

/* In place: an input that is cut as the output is may be its memory, and nothing else may. */
static void test_aliases(void)
{
    static double x[SLICES * WIDTH];
    fake_pool_set(4, false);
    begin(c, ++next_id, true);
    memcpy(x, c->x, sizeof x);
    seen.patient_from = 1;
    CHECK_INT(run_at(c, 40, KB_SLICES_AUTO, c->x), KB_OK);
    memcpy(c->out, c->x, sizeof x);
    check_ran(c, 40, x);
    CHECK(atomic_load(&seen.others) > 0);
    fake_pool_join();

    begin(c, ++next_id, true);
    CHECK_INT(run_at(c, 40, KB_SLICES_AUTO, c->x + WIDTH * 40 - 1), KB_OK);
    CHECK_INT(atomic_load(&seen.others), 0);
    begin(c, ++next_id, true);
    CHECK_INT(run_at(c, 40, KB_SLICES_AUTO, &c->n), KB_OK); /* n, then out: see scene */
    CHECK_INT(atomic_load(&seen.others), 0);
}

/* Two outputs that are the same memory are not apart, though they are cut alike. */
static void test_same_outputs(void)
{
    const int64_t dims[] = {40, WIDTH}, masks[] = {1, 0};
    fake_pool_set(4, false);
    begin(c, ++next_id, true);
    sample_output(&c->s, KB_DTYPE_F64, 1, "more");
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c->f, KB_DTYPE_F64, c->x, 2, dims);
    fake_arg(&c->f, KB_DTYPE_F64, &c->n, 0, NULL);
    fake_ret(&c->f, KB_DTYPE_F64, c->out, 2, dims);
    fake_ret(&c->f, KB_DTYPE_F64, c->out, 2, dims);
    kb_xla_array *call = sample_call(&c->f, &c->s.kernel, 1, masks);
    kb_frame frame;
    CHECK_INT(kb_frame_read(&frame, &c->s.kernel, &c->f.frame, call, &c->err), KB_OK);
    CHECK_INT(kb_batch_run(&frame, &c->err), KB_OK);
    check_ran(c, 40, c->x);
    CHECK_INT(atomic_load(&seen.others), 0);
    CHECK_INT(atomic_load(&seen.in_order), 40);
    fake_frame_free(&c->f);
    fake_pool_join();
}

/* The first slice that fails is the slowest. */
static void test_failures(void)
{
    static const int failing[] = {21, 22, 30, 39};
    fake_pool_set(4, false);
    for (int i = 0; i < 20; i++) {
        begin(c, ++next_id, true);
        seen.pause_at = failing[0];
        for (size_t k = 0; k < sizeof failing / sizeof *failing; k++)
            seen.fails[failing[k]] = true;
        CHECK_INT(run_at(c, 40, KB_SLICES_AUTO, c->out), KB_INTERNAL);
        char expected[128];
        snprintf(expected, sizeof expected,
                 "op%llu: the kernel failed with status 22 [slice 21 of a batch of 40] [KB3001]",
                 (unsigned long long)next_id);
        CHECK_TEXT(c->err.message, expected);
        for (int k = 0; k <= failing[0]; k++)
            CHECK_INT(atomic_load(&seen.runs[k]), 1);
        for (int k = 0; k < SLICES; k++)
            CHECK(atomic_load(&seen.runs[k]) <= 1);
    }
    fake_pool_join();
}

/* All other threads are busy until the batch is over, and its frame and stack are gone. */
static void test_late_tasks(void)
{
    fake_pool_set(4, false);
    fake_pool_hold(true);
    begin(c, ++next_id, true);
    seen.pause_ns = LONG_NS / 10;
    run(c, 100, KB_SLICES_AUTO);
    CHECK_INT(atomic_load(&seen.others), 0);
    memset(c, 0xFF, sizeof *c);
    fake_pool_hold(false);
    fake_pool_join();
    CHECK_INT(atomic_load(&seen.n_runs), 100);
}

static void test_no_memory(void)
{
    fake_pool_set(4, false);
    begin(c, ++next_id, true);
    torture_fail_nth(1);
    run(c, 40, KB_SLICES_AUTO);
    torture_fail_nth(0);
    CHECK_INT(atomic_load(&seen.others), 0);
}

/* Whether a short batch takes memory. */
static bool takes_memory(bool concurrent)
{
    forget(concurrent, 3);
    begin(c, ++next_id, concurrent);
    seen.pause_ns = 0;
    torture_fail_nth(1);
    run(c, 3, KB_SLICES_AUTO);
    void *next = torture_calloc(1, 1); /* the allocation that was to fail */
    torture_fail_nth(0);
    torture_free(next);
    return next != NULL;
}

/* A batch that is too short takes none, unless another process made it long; one that is not shared
 * never does. */
static void test_takes_no_memory(void)
{
    enum { TRIES = 1000 };
    fake_pool_set(4, false);
    CHECK(!takes_memory(false));
    int i = 0;
    while (takes_memory(true) && i < TRIES)
        i++;
    CHECK(i < TRIES);
    fake_pool_join();
}

static void *batch_of_one_thread(void *data)
{
    scene *own = data;
    CHECK_INT(run_at(own, SLICES / 10, KB_SLICES_AUTO, own->out), KB_OK);
    return NULL;
}

static void test_many_at_once(void)
{
    enum { BATCHES = 6 };
    scene *all = calloc(BATCHES, sizeof *all);
    pthread_t threads[BATCHES];
    fake_pool_set(3, false);
    for (int i = 0; i < BATCHES; i++)
        begin(&all[i], ++next_id, true);
    for (int i = 0; i < BATCHES; i++)
        pthread_create(&threads[i], NULL, batch_of_one_thread, &all[i]);
    for (int i = 0; i < BATCHES; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < BATCHES; i++)
        for (int k = 0; k < SLICES / 10 * WIDTH; k++)
            if (all[i].out[k] != all[i].x[k] + all[i].n)
                CHECK_INT(all[i].out[k], all[i].x[k] + all[i].n);
    fake_pool_join();
    free(all);
}

/* Two levels of which each input has one, and more buffers than a cursor has room for. */
static void test_levels_and_many_buffers(void)
{
    enum { OUTER = 5, INNER = 60, OUTPUTS = 20 };
    static double out[OUTPUTS][OUTER * INNER];
    static double x[INNER], n[OUTER];
    const int64_t inner[] = {INNER, 1}, outer[] = {OUTER}, both[] = {OUTER, INNER, 1};
    const int64_t masks[] = {1, 2};
    fake_pool_set(4, false);
    begin(c, ++next_id, true);
    for (int i = 1; i < OUTPUTS; i++)
        sample_output(&c->s, KB_DTYPE_F64, 1, "more");
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c->f, KB_DTYPE_F64, x, 2, inner);
    fake_arg(&c->f, KB_DTYPE_F64, n, 1, outer);
    for (int i = 0; i < OUTPUTS; i++)
        fake_ret(&c->f, KB_DTYPE_F64, out[i], 3, both);
    for (int i = 0; i < INNER; i++)
        x[i] = i;
    for (int i = 0; i < OUTER; i++)
        n[i] = 1000 * i;
    kb_xla_array *call = sample_call(&c->f, &c->s.kernel, 2, masks);
    kb_frame frame;
    CHECK_INT(kb_frame_read(&frame, &c->s.kernel, &c->f.frame, call, &c->err), KB_OK);
    seen.patient_from = 1;
    CHECK_INT(kb_batch_run(&frame, &c->err), KB_OK);
    for (int o = 0; o < OUTER; o++)
        for (int i = 0; i < INNER; i++)
            CHECK_INT(out[0][o * INNER + i], 1000 * o + i);
    CHECK(atomic_load(&seen.others) > 0);

    /* How long it takes is known now. Without other threads there is no second cursor. */
    fake_pool_join();
    fake_pool_set(1, false);
    seen.patient_from = -1;
    torture_fail_nth(2);
    CHECK_INT(kb_batch_run(&frame, &c->err), KB_OK);
    void *next = torture_calloc(1, 1); /* the allocation that was to fail */
    torture_fail_nth(0);
    CHECK_PTR(next, NULL);
    torture_free(next);
    fake_frame_free(&c->f);
}

static void test_unknown_order(void)
{
    begin(c, ++next_id, true);
    const int64_t dims[] = {2, WIDTH}, masks[] = {1, 0};
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c->f, KB_DTYPE_F64, c->x, 2, dims);
    fake_arg(&c->f, KB_DTYPE_F64, &c->n, 0, NULL);
    fake_ret(&c->f, KB_DTYPE_F64, c->out, 2, dims);
    kb_xla_array *call =
        sample_call(&c->f, &c->s.kernel, 1 + KB_BATCH_ORDER * KB_SLICE_ORDERS, masks);
    kb_frame frame;
    CHECK_INT(kb_frame_read(&frame, &c->s.kernel, &c->f.frame, call, &c->err), KB_INVALID_ARGUMENT);
    CHECK(strstr(c->err.message, "got a batch of 1025 nested levels, expected 0 to 16") != NULL);
    fake_frame_free(&c->f);
}

int main(void)
{
    test_shared();
    test_remembered();
    test_short();
    test_in_order();
    test_told();
    test_aliases();
    test_same_outputs();
    test_failures();
    test_late_tasks();
    test_no_memory();
    test_takes_no_memory();
    test_many_at_once();
    test_levels_and_many_buffers();
    test_unknown_order();
    return kb_test_end("test_share");
}
