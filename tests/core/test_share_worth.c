/* Proves when the slices of a batch are worth other threads, and between which buffers they may be
 * shared: a batch asks XLA for its threads just where both hold, and before its first slice just
 * where it was measured before. */
#include "core/kb_batch.h"
#include "core/kb_ticks.h"
#include "kb_test.h"
#include "sample.h"
#include "torture.h"

enum { MOST_LEVELS = 2, MOST_BUFFERS = 20, KERNELS = 512, LONG = 200, TRIES = 100 };

/* Whether a slice takes hardly more than it should. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_SHORT_SLICES = false };
#else
enum { HAS_SHORT_SLICES = true };
#endif

/* What the slices do. */
static struct {
    uint64_t ticks; /* that each takes */
    int64_t fails;  /* from this slice on; -1: none */
    bool patient;   /* the first waits until all others have run */
    const char *begin;
    int64_t bytes; /* of a slice of the last output, which begins there */
    int64_t count;
    atomic_long n_runs;
} slices;

static int32_t work(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)inputs;
    const kb_xla_buffer *last = outputs[0];
    int64_t slice = ((const char *)last->data - slices.begin) / slices.bytes;
    uint64_t begun = kb_ticks();
    *exception = NULL;
    atomic_fetch_add(&slices.n_runs, 1);
    while (slices.patient && slice == 0 && atomic_load(&slices.n_runs) < slices.count)
        kb_ticks_pause();
    while (kb_ticks() - begun < slices.ticks)
        continue;
    return slices.fails >= 0 && slice >= slices.fails ? KB_NUMBA_USER_EXCEPTION : KB_NUMBA_OK;
}

static void take_us(double us)
{
    slices.ticks = (uint64_t)(us * KB_TICKS_PER_US);
}

/* Kernels of which nobody has measured a slice. */
static sample kernels[KERNELS];
static int n_kernels;

static sample *new_kernel(void)
{
    CHECK(n_kernels < KERNELS);
    sample *s = &kernels[n_kernels++ % KERNELS];
    sample_init(s, (uint64_t)n_kernels, work);
    s->step.host.concurrent = true;
    return s;
}

/* A batch: its levels, the innermost first, and its buffers. */
typedef struct batch {
    sample *kernel; /* without buffers at first */
    int n_levels;
    int64_t size[MOST_LEVELS];
    int n_inputs, n_outputs;
    struct {
        double *data;
        int64_t width; /* elements of a slice */
        int64_t mask;  /* of an input */
    } buffers[MOST_BUFFERS];
} batch;

/* Runs it, in which an error has been left behind. */
static kb_status run(const batch *b)
{
    fake_frame f;
    kb_frame frame;
    kb_error err;
    int64_t masks[MOST_BUFFERS];
    sample *s = b->kernel;
    s->kernel.n_inputs = s->kernel.n_outputs = 0;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int i = 0; i < b->n_inputs + b->n_outputs; i++) {
        bool is_input = i < b->n_inputs;
        int64_t dims[MOST_LEVELS + 1];
        int n = 0;
        masks[i] = b->buffers[i].mask;
        for (int level = b->n_levels - 1; level >= 0; level--)
            if (!is_input || masks[i] >> level & 1)
                dims[n++] = b->size[level];
        dims[n++] = b->buffers[i].width;
        (is_input ? sample_input : sample_output)(s, KB_DTYPE_F64, 1, "b");
        (is_input ? fake_arg : fake_ret)(&f, KB_DTYPE_F64, b->buffers[i].data, n, dims);
    }
    slices.begin = (const char *)b->buffers[b->n_inputs].data;
    slices.bytes = b->buffers[b->n_inputs].width * (int64_t)sizeof(double);
    slices.n_runs = 0;
    slices.count = 1;
    for (int level = 0; level < b->n_levels; level++)
        slices.count *= b->size[level];
    kb_xla_array *call = sample_call(&f, &s->kernel, b->n_levels, masks);
    CHECK_INT(kb_frame_read(&frame, &s->kernel, &f.frame, call, &err), KB_OK);
    (void)kb_error_set(&err, KB_INTERNAL, "of an earlier call");
    kb_status status = kb_batch_run(&frame, &err);
    fake_frame_free(&f);
    return status;
}

/* Whether it asks XLA for threads, which are refused. */
static bool asks(const batch *b)
{
    slices.fails = -1;
    torture_arm(TORTURE_XLA, 1, true);
    CHECK_INT(run(b), KB_OK);
    bool has = torture_disarm() != NULL;
    CHECK_INT(slices.n_runs, slices.count);
    return has;
}

/* Whether it does before it has measured a slice. */
static bool is_known(const batch *b)
{
    slices.fails = 0;
    torture_arm(TORTURE_XLA, 1, true);
    CHECK_INT(run(b), KB_INTERNAL);
    bool has = torture_disarm() != NULL;
    slices.fails = -1;
    CHECK_INT(slices.n_runs, 1);
    return has;
}

static double memory[1 << 18];

/* So many slices of one element each, from an input to an output. */
static batch plain(int64_t count)
{
    CHECK(2 * count <= (int64_t)(sizeof memory / sizeof *memory));
    return (batch){
        .kernel = new_kernel(),
        .n_levels = 1,
        .size = {count},
        .n_inputs = 1,
        .n_outputs = 1,
        .buffers = {{memory, 1, 1}, {memory + count, 1, 0}},
    };
}

/* An output beside an input, on it, and over a part of it. */
static void test_spread(void)
{
    enum { COUNT = 4, IN = 3, AT = 40 };
    static const struct {
        int64_t width, at;
        bool apart;
    } cases[] = {
        {3, -13, true}, {3, -12, true}, {3, -11, false}, {3, -1, false}, {3, 0, true},
        {3, 1, false},  {3, 11, false}, {3, 12, true},   {3, 13, true},  {1, -5, true},
        {1, -4, true},  {1, -3, false}, {1, 0, false},   {1, 8, false},  {1, 11, false},
        {1, 12, true},  {4, -16, true}, {4, -15, false}, {4, 0, false},  {4, 12, true},
    };
    take_us(LONG);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        batch b = plain(COUNT);
        b.buffers[0].data = memory + AT;
        b.buffers[0].width = IN;
        b.buffers[1].data = memory + AT + cases[i].at;
        b.buffers[1].width = cases[i].width;
        for (int k = 0; k < 2; k++) /* not measured, then measured */
            if (!CHECK(asks(&b) == cases[i].apart))
                fprintf(stderr, "case %zu\n", i);
    }
}

/* Which of several buffers it is that another one shares its memory with. */
static void test_each_buffer(void)
{
    enum { ALL = 4 };
    batch b = plain(3);
    take_us(LONG);
    for (b.n_inputs = 0; b.n_inputs <= 2; b.n_inputs++)
        for (int i = -1; i < ALL; i++)
            for (int o = b.n_inputs > i + 1 ? b.n_inputs : i + 1; o < ALL; o++) {
                b.n_outputs = ALL - b.n_inputs;
                for (int k = 0; k < ALL; k++) {
                    b.buffers[k].data = memory + (ptrdiff_t)100 * k;
                    b.buffers[k].width = 1;
                    b.buffers[k].mask = 1;
                }
                if (i >= 0)
                    b.buffers[o].data = b.buffers[i].data;
                CHECK(asks(&b) == (i < b.n_inputs)); /* -1: all are apart */
            }
}

/* In place, an input must be cut as the output in every level. */
static void test_cut_alike(void)
{
    static const struct {
        int64_t inner, outer, mask;
        bool apart;
    } cases[] = {
        {4, 1, 3, true}, {4, 1, 1, false}, {1, 4, 3, true}, {1, 4, 2, false}, {2, 2, 3, true},
    };
    take_us(LONG);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        batch b = plain(4);
        b.n_levels = 2;
        b.size[0] = cases[i].inner;
        b.size[1] = cases[i].outer;
        b.buffers[0].mask = cases[i].mask;
        b.buffers[1].data = b.buffers[0].data;
        if (!CHECK(asks(&b) == cases[i].apart))
            fprintf(stderr, "case %zu\n", i);
    }
}

/* One slice is not shared, whether it is the only one or the last. */
static void test_few(void)
{
    take_us(LONG);
    for (int64_t count = 1; count <= 3; count++) {
        batch b = plain(count);
        CHECK(!is_known(&b));
        CHECK(asks(&b) == (count > 2));
        CHECK(asks(&b) == (count > 1));
        CHECK(is_known(&b) == (count > 1));
    }
}

/* Slices that take less than others are waited for are not worth it. Another process may take the
 * processor meanwhile, so one try of many is enough; the next ones, too. */
static void test_fast(void)
{
    bool once = false;
    take_us(0.8);
    for (int i = 0; i < TRIES && !once; i++) {
        batch b = plain(24);
        once = !asks(&b);
    }
    CHECK(once);
}

/* However many are measured first, no slice is left out or done twice. */
static void test_counts(void)
{
    batch b = plain(100);
    take_us(0);
    for (b.size[0] = 0; b.size[0] <= 100; b.size[0]++)
        (void)asks(&b);
}

/* What a slice takes on average helps a shorter batch of the same. */
static void test_average(void)
{
    bool once = false;
    for (int i = 0; i < TRIES && !once; i++) {
        take_us(0.8);
        batch b = plain(100);
        CHECK(asks(&b));
        CHECK(is_known(&b));
        b.size[0] = 20;
        once = !is_known(&b);
    }
    CHECK(once);
}

/* As does what each thread has seen. */
static void test_average_of_threads(void)
{
    bool once = false;
    fake_pool_set(4, false);
    for (int i = 0; i < TRIES && !once; i++) {
        take_us(0.8);
        batch b = plain(300);
        once = true;
        for (int k = 0; k < 2; k++) { /* whose parts may differ */
            slices.fails = -1;
            b.size[0] = 300;
            CHECK_INT(run(&b), KB_OK);
            fake_pool_join();
            b.size[0] = 20;
            once &= !is_known(&b);
        }
    }
    CHECK(once);
    take_us(60);
    batch b = plain(300);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(run(&b), KB_OK);
        CHECK_INT(slices.n_runs, 300);
        fake_pool_join();
    }
    b.size[0] = 2;
    CHECK(is_known(&b));
}

/* What was known before is kept if all slices fail. */
static void test_all_fail(void)
{
    fake_pool_set(4, false);
    take_us(60);
    batch b = plain(20);
    CHECK(asks(&b));
    for (int i = 0; i < 2; i++) {
        slices.fails = 0;
        CHECK_INT(run(&b), KB_INTERNAL);
        fake_pool_join();
        CHECK(is_known(&b));
    }
}

/* No part is begun behind a slice that has failed. All other threads are busy meanwhile. */
static void test_ends(void)
{
    fake_pool_set(4, false);
    take_us(60);
    batch b = plain(40);
    CHECK(asks(&b));
    for (int64_t failing = 0; failing < 40; failing += 13) {
        fake_pool_hold(true);
        slices.fails = failing;
        CHECK_INT(run(&b), KB_INTERNAL);
        CHECK_INT(slices.n_runs, failing + 1);
        fake_pool_hold(false);
        fake_pool_join();
        CHECK_INT(slices.n_runs, failing + 1);
    }
}

/* However many slices there are, the first is measured. */
static void test_many_slices(void)
{
    take_us(0);
    batch b = plain(sizeof memory / sizeof *memory / 2);
    CHECK(!is_known(&b));
}

/* Slices in a part, as the first two parts run on this thread alone and the third has no memory. */
static int64_t in_a_part(const batch *b)
{
    enum { CURSOR = 1, LOOP = 1, PARTS = 3 };
    fake_pool_hold(true);
    slices.fails = -1;
    torture_fail_nth(CURSOR + LOOP + PARTS);
    CHECK_INT(run(b), KB_RESOURCE_EXHAUSTED);
    torture_fail_nth(0);
    fake_pool_hold(false);
    fake_pool_join();
    CHECK_INT(slices.n_runs % (PARTS - 1), 0);
    return slices.n_runs / (PARTS - 1);
}

/* Slow slices are handed out one by one, and of fast ones an eighth of what each thread has. */
static void test_parts(void)
{
    static const int64_t cases[][2] = {{95, 1 + 95 / 4 / 8}, {96, 1 + 96 / 4 / 8}};
    fake_pool_set(4, false);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int64_t n = 0;
        for (int i = 0; i < TRIES && n != cases[k][1]; i++) {
            batch b = plain(cases[k][0]);
            b.n_outputs = MOST_BUFFERS - 1; /* so that a part takes memory */
            for (int o = 1; o < MOST_BUFFERS; o++) {
                b.buffers[o].data = memory + o * cases[k][0];
                b.buffers[o].width = 1;
            }
            take_us(60);
            CHECK(asks(&b));
            CHECK_INT(in_a_part(&b), 1);
            b.kernel = new_kernel();
            take_us(0.6);
            CHECK(asks(&b));
            n = in_a_part(&b);
        }
        CHECK_INT(n, cases[k][1]);
    }
}

/* Threads that are called for slices of 50 us to 75 us in all: one for each 25 us, and this one.
 * How long 24 slices take depends on the machine, too, so several times are tried. */
static void test_threads(void)
{
    enum { TIMES = 20 };
    int n = 0;
    for (int i = 0; i < TRIES && n == 0; i++) {
        batch b = plain(24);
        fake_pool_set(8, false);
        take_us(1 + 2.0 * (i % TIMES) / TIMES);
        (void)asks(&b);
        b.size[0] = 16;
        bool more = is_known(&b);
        b.size[0] = 24;
        if (more || !is_known(&b))
            continue;
        slices.patient = true;
        CHECK_INT(run(&b), KB_OK);
        slices.patient = false;
        n = fake_pool_scheduled();
        fake_pool_join();
    }
    CHECK_INT(n, 2);
}

/* Each kernel and each size has a measure of its own, wherever it is kept. */
static void test_sites(void)
{
    take_us(60);
    batch b = plain(2);
    b.buffers[0].width = 1;
    b.buffers[1].width = 2;
    b.buffers[1].data = memory + 100;
    CHECK(!asks(&b));
    CHECK(is_known(&b));
    b.buffers[0].width = 2;
    CHECK(!is_known(&b));
    b.buffers[1].width = 1;
    CHECK(!is_known(&b));
    b.buffers[0].width = 1;
    CHECK(!is_known(&b));
    b.buffers[1].width = 2;
    CHECK(is_known(&b));
    b.kernel = new_kernel();
    CHECK(!is_known(&b));
}

static void test_many_sites(void)
{
    enum { SLOW = 1000, FAST = 100, ALL = 4000, PLACES = 256 };
    int n_slow = 0, n_fast = 0;
    batch b = plain(2);
    b.buffers[1].data = memory + sizeof memory / sizeof *memory / 2;
    take_us(60);
    for (int64_t i = 1; i <= SLOW; i++) {
        b.buffers[1].width = i;
        CHECK(!asks(&b));
        CHECK(is_known(&b));
    }
    for (int64_t i = 1; i <= SLOW; i++) { /* most places are taken, each by the last */
        b.buffers[1].width = i;
        n_slow += is_known(&b);
    }
    CHECK(n_slow > PLACES / 2 + PLACES / 8);
    CHECK(n_slow <= PLACES);
    take_us(0);
    slices.fails = -1;
    for (int64_t i = 1; i <= FAST; i++) {
        b.buffers[1].width = SLOW + i;
        CHECK_INT(run(&b), KB_OK);
        n_fast += is_known(&b);
    }
    CHECK(n_fast < FAST / 4); /* another process took the processor */
    for (int64_t i = 1; i <= ALL; i++) {
        b.buffers[0].width = i;
        CHECK_INT(run(&b), KB_OK);
    }
}

int main(void)
{
    test_spread();
    test_each_buffer();
    test_cut_alike();
    test_few();
    if (HAS_SHORT_SLICES) {
        test_fast();
        test_average();
        test_average_of_threads();
        test_parts();
        test_threads();
    }
    test_counts();
    test_all_fail();
    test_ends();
    test_many_slices();
    test_sites();
    test_many_sites();
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_share_worth");
}
