/* Proves what a launch is refused for, by us before the driver is asked, and by the driver: grids,
 * extents, shared memory, offsets that reach behind a buffer. */
#include "gpu.h"

#include "cuda/kb_stream.h"

static gpu_memory memory;

static kb_status launch(gpu_call *c, const kb_launch_step *step)
{
    return gpu_run_one(c, KB_STEP_LAUNCH, step, false);
}

static void test_grid_limits(void)
{
    static const int64_t most[] = {INT32_MAX, 65535, 65535};
    for (int d = 0; d < 3; d++) {
        int64_t grid[] = {5, 6, 7};
        char text[256];
        gpu_call c;
        gpu_call_sample(&c, memory);
        kb_launch_step step = gpu_launch("grid", 0);
        for (int i = 0; i < 3; i++)
            step.grid[i] = gpu_constant(grid[i], 1);
        step.grid[d] = gpu_constant(most[d], 1);
        CHECK_INT(launch(&c, &step), KB_OK);
        for (int i = 0; i < 3; i++)
            CHECK_INT(fake_cuda_get_launch(0)->grid[i], i == d ? most[d] : grid[i]);
        step.grid[d] = gpu_constant(grid[d] = most[d] + 1, 1);
        CHECK_INT(launch(&c, &step), KB_INVALID_ARGUMENT);
        snprintf(
            text, sizeof text,
            "op1: grid (%lld, %lld, %lld) is too large, at most (2147483647, 65535, 65535) are "
            "possible; let a thread do more than one element [KB1102]",
            (long long)grid[0], (long long)grid[1], (long long)grid[2]);
        CHECK_TEXT(c.err.message, text);
        CHECK_INT(fake_cuda_calls("cuLaunchKernelEx"), 1);
        gpu_call_free(&c);
    }
}

/* An extent that is negative, and a product that overflows. */
static void test_bad_extents(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = gpu_launch("grid", 0);
    step.grid[1] = gpu_count(GPU_X, 1);
    kb_xla_buffer *x = c.f.frame.args.buffers[0];
    x->dims[0] = x->dims[1] = INT64_C(1) << 40;
    CHECK_INT(launch(&c, &step), KB_INVALID_ARGUMENT);
    CHECK_HAS(c.err.message, "op1: the extent of buffer 0 (x) is negative or too large");
    x->dims[0] = -1;
    CHECK_INT(launch(&c, &step), KB_INVALID_ARGUMENT);
    step.grid[1] = gpu_extent(GPU_X, 0, 1);
    CHECK_INT(launch(&c, &step), KB_INVALID_ARGUMENT);
    CHECK_HAS(c.err.message, "the extent of buffer 0 (x) is negative");
    ((kb_xla_buffer *)c.f.frame.rets.buffers[0])->dims[0] = -5;
    step.grid[1] = gpu_constant(1, 1);
    step.grid[2] = gpu_count(GPU_Y, 1);
    x->dims[0] = x->dims[1] = 1;
    CHECK_INT(launch(&c, &step), KB_INVALID_ARGUMENT);
    CHECK_TEXT(c.err.message, "op1: the extent of buffer 2 (y) is negative or too large");
    CHECK_INT(fake_cuda_n_launches(), 0);
    gpu_call_free(&c);
}

/* What the driver refuses comes back with all that was launched. */
static void test_driver_refuses(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = gpu_launch("refused", 0);
    step.grid[1] = gpu_constant(3, 1);
    step.block[0] = 64;
    step.block[1] = 32;
    step.shared = 100;
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    CHECK_TEXT(c.err.message,
               "op1: launch of refused, grid (1, 3, 1), block (64, 32, 1), 100 bytes of dynamic "
               "shared memory: cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (invalid "
               "argument, code 1) [KB3004]");
    step.block[1] = 1;
    step.flags = KB_LAUNCH_COOPERATES;
    step.grid[0] = gpu_constant(100000, 1);
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    CHECK_HAS(c.err.message, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");
    step.flags = KB_LAUNCH_CLUSTERS;
    step.cluster[1] = 2;
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    CHECK_HAS(c.err.message, "CUDA_ERROR_INVALID_CLUSTER_SIZE");
    CHECK_INT(fake_cuda_n_launches(), 0);
    gpu_call_free(&c);
}

/* Where every launch is waited for, what the wait says is the launch's failure. */
static void test_wait_fails(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = gpu_launch("waited", 0);
    CHECK_INT(launch(&c, &step), KB_OK);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 0);
    kb_stream_set_debug(KB_DEBUG_SYNC);
    CHECK_INT(launch(&c, &step), KB_OK);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 1);
    fake_cuda_fail("cuStreamSynchronize", 1, 999);
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    CHECK_TEXT(c.err.message,
               "op1: launch of waited, grid (1, 1, 1), block (1, 1, 1), 0 bytes of dynamic shared "
               "memory: cuStreamSynchronize failed: CUDA_ERROR_UNKNOWN (unknown error, code 999) "
               "[KB3004]");
    fake_cuda_fail("cuLaunchKernelEx", 1, 999);
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 2); /* for nothing that was not launched */
    kb_stream_set_debug(0);
    gpu_call_free(&c);
}

/* Of an entry's name there are 255 characters, and of all that was launched 1023. */
static void test_long_names(void)
{
    enum { ENTRY = 300, NAME = 1100, SHOWN = 255, ROOM = 1023 };
    static char entry[ENTRY + 1], name[NAME + 1], image[ENTRY + 16], text[KB_ERROR_CAPACITY];
    static const char failed[] =
        ": cuLaunchKernelEx failed: CUDA_ERROR_UNKNOWN (unknown error, code 999) [KB3004]";
    memset(entry, 'e', ENTRY);
    memset(name, 'n', NAME);
    snprintf(image, sizeof image, "FAKE %s 0\n", entry);
    const kb_image one = {90, image, strlen(image)};
    const kb_function from = {.entry = entry, .n_images = 1, .images = &one};
    kb_function *f;
    gpu_call c;
    gpu_call_sample(&c, memory);
    CHECK_INT(kb_function_hold(&from, &f, &c.err), KB_OK);
    kb_launch_step step = gpu_launch("short", 0);
    step.function = f;
    fake_cuda_fail("cuLaunchKernelEx", 1, 999);
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    snprintf(text, sizeof text,
             "op1: launch of %.*s, grid (1, 1, 1), block (1, 1, 1), 0 bytes of dynamic shared "
             "memory%s",
             SHOWN, entry, failed);
    CHECK_TEXT(c.err.message, text);
    c.s.kernel.name = name;
    fake_cuda_fail("cuLaunchKernelEx", 1, 999);
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    snprintf(text, sizeof text, "%.*s%s", ROOM, name, failed);
    CHECK_TEXT(c.err.message, text);
    gpu_call_free(&c);
}

/* More than 48 KiB is asked for while the function is loaded, on each device. */
static void test_shared_memory(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = gpu_launch("shared", 0);
    step.shared = 200 * 1024;
    CHECK_INT(launch(&c, &step), KB_OK);
    CHECK_INT(fake_cuda_get_launch(0)->shared, 200 * 1024);
    step.shared = 228 * 1024;
    kb_cu_kernel kernel;
    CHECK_INT(kb_launch_prepare(&step, &c.frame, &kernel, &c.err), KB_INTERNAL);
    CHECK_HAS(c.err.message, "op1: cuKernelSetAttribute failed");
    gpu_call_free(&c);
}

/* Two steps share one function, and each asks for other amounts of shared memory. */
static void test_shared_memory_of_two_steps(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step steps[2] = {gpu_launch("twice", 0), gpu_launch("twice", 0)};
    steps[0].shared = 1024;
    steps[1].shared = 100 * 1024;
    CHECK_INT(launch(&c, &steps[0]), KB_OK);
    CHECK_INT(launch(&c, &steps[1]), KB_OK);
    CHECK_INT(fake_cuda_n_launches(), 2);
    gpu_call_free(&c);
}

static void test_reach(void)
{
    const struct {
        int64_t value, reach;
        bool fits;
    } cases[] = {
        {0, 24, true},
        {0, 25, false},
        {8, 16, true},
        {8, 17, false},
        {23, 1, true},
        {24, 1, false},
        {25, 1, false},
        {0, INT64_MAX, false},
        {24, 0, true},
        {INT64_MAX, 0, true}, /* 0: the whole buffer, which is not looked at */
        {1, INT64_MAX - 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kb_word word = {.kind = KB_WORD_ADDRESS,
                              .buffer = GPU_X,
                              .value = cases[i].value,
                              .reach = cases[i].reach};
        gpu_call c;
        gpu_call_sample(&c, memory);
        kb_launch_step step = gpu_launch("reach", 1);
        step.n_words = 1;
        step.words = &word;
        CHECK_INT(launch(&c, &step), cases[i].fits ? KB_OK : KB_INVALID_ARGUMENT);
        CHECK_INT(fake_cuda_n_launches(), cases[i].fits);
        if (!cases[i].fits) {
            char text[256];
            snprintf(text, sizeof text,
                     "op1: the plan reaches bytes %lld to %lld of buffer 0 (x), which has 24: the "
                     "program is damaged, or was recorded for other shapes",
                     (long long)cases[i].value, (long long)(cases[i].value + cases[i].reach));
            CHECK_TEXT(c.err.message, text);
        }
        gpu_call_free(&c);
    }
}

static void test_unknown_word(void)
{
    const kb_word word = {.kind = 9};
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = gpu_launch("reach", 1);
    step.n_words = 1;
    step.words = &word;
    CHECK_INT(launch(&c, &step), KB_INTERNAL);
    CHECK_TEXT(c.err.message, "a launch holds a word of unknown kind 9");
    CHECK_INT(fake_cuda_n_launches(), 0);
    gpu_call_free(&c);
}

int main(void)
{
    gpu_start();
    test_grid_limits();
    test_bad_extents();
    test_driver_refuses();
    test_wait_fails();
    test_long_names();
    test_shared_memory();
    test_shared_memory_of_two_steps();
    test_reach();
    test_unknown_word();
    kb_function_free_all();
    return kb_test_end("test_launch_refused");
}
