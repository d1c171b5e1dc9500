/* Proves the times that come back, block by block, on which launches they were measured, what is
 * refused, and that nothing is left behind, whichever call of the driver fails. */
#include "allocation.h"
#include "cuda/kb_function.h"
#include "cuda/kb_tune.h"
#include "gpu.h"
#include "program.h"

#include <stdlib.h>
#include <unistd.h>

enum { N = 1000, ROUNDS = 3 };

static const int64_t extent[] = {N};
static const int64_t *const dims[] = {extent, extent, extent};

typedef struct tuning {
    kb_tune_request request;
    double us[ROUNDS * 4];
    uint32_t auto_block;
    kb_error err;
} tuning;

static kb_status tune(tuning *t, const program_text *p, uint32_t n_blocks, const uint32_t *blocks)
{
    size_t size;
    uint8_t *bytes = program_write(p, &size);
    t->request = (kb_tune_request){bytes, size, 2, dims, n_blocks, blocks, ROUNDS};
    kb_status s = kb_tune_run(&t->request, t->us, &t->auto_block, &t->err);
    free(bytes);
    CHECK_INT(fake_cuda_n_taken(), 0);
    CHECK_INT(fake_cuda_n_libraries(), 0);
    CHECK_INT(fake_cuda_n_contexts(), 1);
    CHECK_INT(fake_cuda_primary_users(0), 0);
    CHECK_INT(fake_cuda_capture_mode(), 0);
    return s;
}

static void automatic(program_text *p)
{
    fake_cuda_reset();
    program_simple(p, 77, "tuned");
    p->steps[0].launch.grid[0].divisor = 1;
    p->steps[0].launch.block[0] = 1;
    p->steps[0].launch.flags = KB_LAUNCH_AUTO_BLOCK;
}

static void test_times(void)
{
    program_text p;
    tuning t;
    automatic(&p);
    const double scripted[] = {80, 30, 40};
    for (int i = 0; i < 3; i++) {
        fake_cuda_set_time(256, 80); /* the one by occupancy */
        fake_cuda_set_time(64, scripted[1]);
        fake_cuda_set_time(96, scripted[2]);
    }
    const uint32_t blocks[] = {0, 64, 96, 2048};
    CHECK_INT(tune(&t, &p, 4, blocks), KB_OK);
    CHECK_INT(t.auto_block, 256);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(t.us[round * 4 + i] > scripted[i] - 0.01 &&
                  t.us[round * 4 + i] < scripted[i] + 0.01);
        CHECK(t.us[round * 4 + 3] == -1); /* no GPU has such blocks */
    }
    /* The first two launches are to load the kernel; then two each, as the first takes 80 of 200
     * us. */
    const fake_cuda_launch *l = fake_cuda_get_launch(2);
    CHECK_INT(l->block[0], 256);
    CHECK_INT(l->grid[0], 4);
    l = fake_cuda_get_launch(4);
    CHECK_INT(l->block[0], 64);
    CHECK_INT(l->grid[0], 16);
    CHECK_INT(l->words[2], N);
    CHECK(l->words[0] != 0);
    CHECK(l->words[0] % 256 == l->words[1] % 256 && l->words[1] >= l->words[0] + 4 * N);
    CHECK_INT(fake_cuda_n_launches(), 2 + ROUNDS * 3 * 2);
}

/* Blocks at the limit, above it, and of which the driver does not say whether they fit. */
static void test_refused_blocks(void)
{
    const uint32_t blocks[] = {1025, 1024};
    program_text p;
    tuning t;
    automatic(&p);
    fake_cuda_set_time(256, 300);
    fake_cuda_set_time(1024, 300);
    CHECK_INT(tune(&t, &p, 2, blocks), KB_OK);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(t.us[2 * round] == -1);
        CHECK(t.us[2 * round + 1] > 299);
    }
    CHECK_INT(fake_cuda_n_launches(), 2 + ROUNDS);
    automatic(&p);
    fake_cuda_fail("cuKernelGetAttribute", 3, 1); /* the first is to load the kernel */
    CHECK_INT(tune(&t, &p, 2, blocks), KB_OK);
    CHECK(t.us[0] == -1 && t.us[1] == -1 && t.us[2] == -1 && t.us[3] > 0);
}

/* Without a grid nothing is launched, and outputs are zeroed in its place. */
static void test_empty_grid(void)
{
    const int64_t none[] = {0};
    const int64_t *const given[] = {none, extent};
    const uint32_t blocks[] = {0};
    program_text p;
    double us[ROUNDS];
    uint32_t auto_block;
    kb_error err;
    size_t size;
    automatic(&p);
    p.steps[0].launch.grid[0].buffer = 0;
    p.steps[0].launch.flags |= KB_LAUNCH_ZEROES_IF_EMPTY;
    p.steps[0].launch.n_zeroed = 1;
    p.steps[0].zeroed[0] = 1;
    uint8_t *bytes = program_write(&p, &size);
    const kb_tune_request request = {bytes, size, 2, given, 1, blocks, ROUNDS};
    CHECK_INT(kb_tune_run(&request, us, &auto_block, &err), KB_OK);
    CHECK(us[0] == 0 && us[ROUNDS - 1] == 0);
    CHECK_INT(fake_cuda_n_launches(), 0);
    CHECK_INT(fake_cuda_calls("cuMemsetD32Async"), 2 + ROUNDS * 200);
    free(bytes);
}

typedef struct watch {
    int n_zero, n_written; /* launches before which all memory was zero, and was written */
} watch;

static bool holds_only(const unsigned char *bytes, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void look_and_write(void *data, const char *entry, const uint32_t grid[3],
                           const uint32_t block[3], uint32_t shared, uint32_t n_words,
                           const uint64_t *words)
{
    (void)entry, (void)grid, (void)block, (void)shared, (void)n_words;
    enum { X_SIZE = 4096, Y_SIZE = 4 * N }; /* of x with what lies behind it */
    watch *w = data;
    unsigned char *x = (unsigned char *)(uintptr_t)words[0]; // NOLINT(performance-no-int-to-ptr)
    CHECK_INT(words[1] - words[0], X_SIZE);
    w->n_zero += holds_only(x, X_SIZE + Y_SIZE, 0);
    w->n_written += holds_only(x, X_SIZE + Y_SIZE, 1);
    memset(x, 1, X_SIZE + Y_SIZE);
}

/* The memory holds zeros before each measurement, whatever the one before wrote. */
static void test_zeros(void)
{
    program_text p;
    tuning t;
    watch w = {0};
    automatic(&p);
    fake_cuda_set_twin("tuned", look_and_write, &w);
    for (int i = 0; i < 2; i++)
        fake_cuda_set_time(i ? 64 : 256, 60); /* three launches each */
    const uint32_t blocks[] = {64, 0};
    CHECK_INT(tune(&t, &p, 2, blocks), KB_OK);
    CHECK_INT(w.n_zero, 2 + ROUNDS * 2);
    CHECK_INT(w.n_written, ROUNDS * 2 * 2);
    CHECK_INT(fake_cuda_n_launches(), 2 + ROUNDS * 2 * 3);
    for (int i = 0; i < fake_cuda_n_launches(); i++)
        CHECK_INT(fake_cuda_get_launch(i)->device, 0);
}

static void test_a_long_kernel(void)
{
    program_text p;
    tuning t;
    automatic(&p);
    fake_cuda_set_time(256, 2e6);
    const uint32_t blocks[] = {0};
    CHECK_INT(tune(&t, &p, 1, blocks), KB_OK);
    CHECK(t.us[0] > 1.9e6 && t.us[2] > 1.9e6); /* three rounds in any case */
    CHECK_INT(fake_cuda_n_launches(), 2 + ROUNDS);
}

/* Launches for 200 us, at most 200, and rounds for a second. */
static void test_how_often(void)
{
    static const struct {
        double us;
        int launches;
    } cases[] = {{0.5, 200}, {0.99, 200}, {1.01, 198}, {1.99, 100}, {150, 1}, {199, 1}, {201, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_text p;
        tuning t;
        automatic(&p);
        fake_cuda_set_time(256, cases[i].us);
        const uint32_t blocks[] = {0};
        CHECK_INT(tune(&t, &p, 1, blocks), KB_OK);
        CHECK_INT(fake_cuda_n_launches(), 2 + ROUNDS * cases[i].launches);
        CHECK(t.us[2] > 0.99 * cases[i].us && t.us[2] < 1.01 * cases[i].us);
    }
}

/* The rounds that there is no time for have no times: `n` of 16 are measured. A block of 256
 * threads takes as long as said, which is how often each is launched, and one of 64 so many times
 * as long. */
static void test_most_time(double microseconds, double factor, int n)
{
    program_text p;
    size_t size;
    double us[16 * 2];
    uint32_t auto_block;
    kb_error err;
    automatic(&p);
    fake_cuda_set_time(256, microseconds);
    fake_cuda_set_time(64, factor * microseconds);
    const uint32_t blocks[] = {0, 64};
    uint8_t *bytes = program_write(&p, &size);
    const kb_tune_request request = {bytes, size, 2, dims, 2, blocks, 16};
    CHECK_INT(kb_tune_run(&request, us, &auto_block, &err), KB_OK);
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 2; k++) {
            double want = k ? factor * microseconds : microseconds, got = us[2 * i + k];
            CHECK(i < n ? got > 0.99 * want && got < 1.01 * want : got == -1);
        }
    free(bytes);
}

static void refused(const program_text *p, const char *why)
{
    tuning t;
    const uint32_t blocks[] = {0};
    CHECK_INT(tune(&t, p, 1, blocks), KB_INVALID_ARGUMENT);
    CHECK_HAS(t.err.message, "simple: its blocks cannot be timed: ");
    CHECK_HAS(t.err.message, why);
    CHECK_INT(fake_cuda_n_launches(), 0);
}

static void test_refusals(void)
{
    program_text p;
    automatic(&p);
    p.steps[0].launch.flags = 0;
    refused(&p, "no launch whose block is chosen by occupancy");
    automatic(&p);
    p.steps[1] = p.steps[0];
    p.n_steps = 2;
    refused(&p, "several launches");
    automatic(&p);
    p.n_hidden = 1;
    p.buffers[2] = p.buffers[0];
    refused(&p, "the number of its arrays is another");
    tuning t;
    automatic(&p);
    p.magic = "KBCX";
    CHECK_INT(tune(&t, &p, 0, NULL), KB_INVALID_ARGUMENT);
    automatic(&p);
    p.steps[1].kind = KB_STEP_CALLBACK;
    p.n_steps = 2;
    CHECK_INT(tune(&t, &p, 0, NULL), KB_INVALID_ARGUMENT);
    CHECK_HAS(t.err.message, "the check of a step that calls Python failed");
}

/* All arrays together may have half of what there are addresses for; x has 4096 bytes. */
static void test_sizes(void)
{
    const int64_t most = INT64_MAX / 2 - 4096;
    const struct {
        int32_t dtype;
        int64_t extent;
        const char *why; /* NULL: nothing is wrong */
    } cases[] = {
        {KB_DTYPE_F32, INT64_MAX, "an array is too large"},
        {KB_DTYPE_F32, INT64_MAX / 4, "an array is too large"},
        {KB_DTYPE_F32, INT64_MAX / 8 + 1, "an array is too large"},
        {KB_DTYPE_F32, -1, "an array is too large"},
        {KB_DTYPE_U8, most + 1, "an array is too large"},
        {KB_DTYPE_U8, most, "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"},
        {KB_DTYPE_F32, 0, NULL},
        {KB_DTYPE_F32, 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *const given[] = {extent, &cases[i].extent};
        double us[ROUNDS];
        uint32_t auto_block, blocks[] = {0};
        kb_error err;
        size_t size;
        program_text p;
        automatic(&p);
        p.buffers[1].dtype = cases[i].dtype;
        uint8_t *bytes = program_write(&p, &size);
        const kb_tune_request request = {bytes, size, 2, given, 1, blocks, ROUNDS};
        kb_status s = kb_tune_run(&request, us, &auto_block, &err);
        if (!cases[i].why && CHECK_INT(s, KB_OK))
            CHECK_INT(us[ROUNDS - 1] > 0, cases[i].extent > 0); /* no grid, no launch */
        if (cases[i].why && CHECK(s != KB_OK))
            CHECK_HAS(err.message, cases[i].why);
        CHECK_INT(fake_cuda_n_taken(), 0);
        free(bytes);
    }
}

static void test_failures(void)
{
    const char *const functions[] = {"cuDevicePrimaryCtxRetain",
                                     "cuCtxPushCurrent",
                                     "cuMemAlloc",
                                     "cuStreamCreate",
                                     "cuEventCreate",
                                     "cuMemsetD8Async",
                                     "cuEventRecord",
                                     "cuLaunchKernelEx",
                                     "cuStreamSynchronize",
                                     "cuEventElapsedTime",
                                     "cuLibraryLoadData"};
    const uint32_t blocks[] = {0, 64};
    program_text p;
    tuning t;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int nth = 1; nth < 3; nth++) {
            automatic(&p);
            fake_cuda_fail(functions[i], nth, 2);
            kb_status s = tune(&t, &p, 2, blocks);
            if (s == KB_OK) { /* it is called once */
                CHECK_INT(nth, 2);
                continue;
            }
            CHECK_INT(s, KB_INTERNAL);
            CHECK_HAS(t.err.message, functions[i]);
            CHECK_HAS(t.err.message, "CUDA_ERROR_OUT_OF_MEMORY");
        }
}

static bool tune_it(void)
{
    const uint32_t blocks[] = {0, 64};
    program_text p;
    tuning t;
    automatic(&p);
    return had_memory(tune(&t, &p, 2, blocks), &t.err);
}

int main(void)
{
    if (!getenv("FAKE_CUDA_DEVICES")) { /* with one GPU: no call is about another */
        setenv("FAKE_CUDA_DEVICES", "1", 1);
        execl("/proc/self/exe", "test_tune", (char *)NULL);
    }
    gpu_start();
    test_times();
    test_refused_blocks();
    test_empty_grid();
    test_zeros();
    test_a_long_kernel();
    test_how_often();
    test_most_time(125e3, 1, 4);    /* not after a second */
    test_most_time(166666.6, 1, 4); /* but just before */
    test_most_time(1, 1100, 5);     /* 200 launches of either: 220 ms a round */
    test_most_time(2e6, 1, 3);      /* in any case */
    test_refusals();
    test_sizes();
    test_failures();
    each_allocation("tuning", tune_it, 6);
    return kb_test_end("test_tune");
}
