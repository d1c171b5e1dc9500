/* Proves what a launch hands to the driver: every kind of word, grids from every kind of value,
 * attributes, blocks chosen by occupancy. */
#include "gpu.h"

#include <stdlib.h>

static gpu_memory memory;

static kb_status launch(gpu_call *c, const kb_launch_step *step)
{
    return gpu_run_one(c, KB_STEP_LAUNCH, step, false);
}

static void test_words(void)
{
    const kb_word words[] = {
        {.kind = KB_WORD_CONSTANT, .value = -7},
        {.kind = KB_WORD_CONSTANT, .value = INT64_MIN},
        {.kind = KB_WORD_ADDRESS, .buffer = GPU_X},
        {.kind = KB_WORD_ADDRESS, .buffer = GPU_N},
        {.kind = KB_WORD_ADDRESS, .buffer = GPU_Y, .value = 8, .reach = 32},
        {.kind = KB_WORD_ADDRESS, .buffer = GPU_Z, .value = 7, .reach = 0},
        {.kind = KB_WORD_EXTENT, .buffer = GPU_X, .axis = 0},
        {.kind = KB_WORD_EXTENT, .buffer = GPU_X, .axis = 1},
        {.kind = KB_WORD_EXTENT, .buffer = GPU_Y, .axis = 0},
        {.kind = KB_WORD_STRIDE, .buffer = GPU_X}, /* 0 without a batch */
    };
    enum { WORDS = sizeof words / sizeof *words };
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = gpu_launch("words", WORDS);
    step.n_words = WORDS;
    step.words = words;
    step.grid[0] = gpu_constant(11, 1);
    step.grid[1] = gpu_constant(12, 1);
    step.grid[2] = gpu_constant(13, 1);
    step.block[0] = 3;
    step.block[1] = 4;
    step.block[2] = 5;
    step.shared = 1234;
    CHECK_INT(launch(&c, &step), KB_OK);
    CHECK_INT(fake_cuda_n_launches(), 1);
    const fake_cuda_launch *l = fake_cuda_get_launch(0);
    const int64_t want[] = {-7,
                            INT64_MIN,
                            (intptr_t)memory[GPU_X],
                            (intptr_t)memory[GPU_N],
                            (intptr_t)memory[GPU_Y] + 8,
                            (intptr_t)memory[GPU_Z] + 7,
                            2,
                            3,
                            5,
                            0};
    CHECK_TEXT(l->entry, "words");
    CHECK_INT(l->n_words, WORDS);
    for (int i = 0; i < WORDS; i++)
        CHECK_INT((int64_t)l->words[i], want[i]);
    for (uint32_t d = 0; d < 3; d++) {
        CHECK_INT(l->grid[d], 11 + d);
        CHECK_INT(l->block[d], 3 + d);
        CHECK_INT(l->cluster[d], 0);
    }
    CHECK_INT(l->shared, 1234);
    CHECK_INT(l->cooperative, 0);
    CHECK_INT(l->overlaps, 0);
    CHECK_PTR(l->stream, c.stream);
    CHECK_INT(l->device, 0);
    gpu_call_free(&c);
}

static void test_grids(void)
{
    const struct {
        kb_value value;
        uint32_t grid;
    } cases[] = {
        {gpu_constant(1, 1), 1},
        {gpu_constant(1, 256), 1},
        {gpu_constant(256, 256), 1},
        {gpu_constant(257, 256), 2},
        {gpu_constant(65535, 1), 65535},
        {gpu_constant(INT64_MAX, UINT32_MAX), 0}, /* too large for y, and for x */
        {gpu_extent(GPU_X, 0, 1), 2},
        {gpu_extent(GPU_X, 1, 1), 3},
        {gpu_extent(GPU_X, 1, 2), 2},
        {gpu_extent(GPU_X, 1, 3), 1},
        {gpu_extent(GPU_Y, 0, 4), 2},
        {gpu_extent(GPU_Y, 0, UINT32_MAX), 1},
        {gpu_count(GPU_X, 1), 6},
        {gpu_count(GPU_X, 6), 1},
        {gpu_count(GPU_X, 5), 2},
        {gpu_count(GPU_N, 1), 1},
        {gpu_count(GPU_Z, 2), 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int d = 0; d < 3; d++) {
            gpu_call c;
            gpu_call_sample(&c, memory);
            kb_launch_step step = gpu_launch("grid", 0);
            step.grid[d] = cases[i].value;
            CHECK_INT(launch(&c, &step), cases[i].grid ? KB_OK : KB_INVALID_ARGUMENT);
            CHECK_INT(fake_cuda_n_launches(), cases[i].grid != 0);
            if (cases[i].grid)
                CHECK_INT(fake_cuda_get_launch(0)->grid[d], cases[i].grid);
            gpu_call_free(&c);
        }
}

/* No thread, no launch; outputs are zeroed where the step says so. */
static void test_empty_grid(void)
{
    static const uint32_t zeroed[] = {GPU_Y, GPU_Z};
    for (int d = 0; d < 3; d++)
        for (int zeroes = 0; zeroes < 2; zeroes++) {
            gpu_call c;
            gpu_call_sample(&c, memory);
            kb_launch_step step = gpu_launch("grid", 0);
            step.grid[d] = gpu_constant(0, 7);
            step.n_zeroed = 2;
            step.zeroed = zeroed;
            step.flags = zeroes ? KB_LAUNCH_ZEROES_IF_EMPTY : 0;
            CHECK_INT(launch(&c, &step), KB_OK);
            CHECK_INT(fake_cuda_calls("cuLaunchKernelEx"), 0);
            for (int i = 0; i < 64; i++) {
                CHECK_INT(memory[GPU_X][i], 0x11);
                CHECK_INT(memory[GPU_Y][i], zeroes && i < 5 * 8 ? 0 : 0x11);
                CHECK_INT(memory[GPU_Z][i], zeroes && i < 7 ? 0 : 0x11);
            }
            gpu_call_free(&c);
        }
}

/* The driver refuses to zero the first output, of float64, or the second, of bytes: that is told,
 * and the next one is left as it was. */
static void test_zeroing_fails(void)
{
    static const uint32_t zeroed[] = {GPU_Y, GPU_Z};
    for (int second = 0; second < 2; second++) {
        gpu_call c;
        gpu_call_sample(&c, memory);
        kb_launch_step step = gpu_launch("grid", 0);
        step.grid[0] = gpu_constant(0, 1);
        step.n_zeroed = 2;
        step.zeroed = zeroed;
        step.flags = KB_LAUNCH_ZEROES_IF_EMPTY;
        fake_cuda_fail(second ? "cuMemsetD8Async" : "cuMemsetD32Async", 1, 999);
        CHECK_INT(launch(&c, &step), KB_INTERNAL);
        CHECK_HAS(c.err.message, "op1: a fill of GPU memory failed: CUDA_ERROR_UNKNOWN");
        CHECK_INT(fake_cuda_calls("cuMemsetD8Async"), second);
        CHECK_INT(memory[GPU_Y][0], second ? 0 : 0x11);
        CHECK_INT(memory[GPU_Z][0], 0x11);
        gpu_call_free(&c);
    }
}

static void test_many_words(void)
{
    static const uint32_t sizes[] = {0, 1, 127, 128, 129, 256, 1000, KB_WORDS_MAX};
    static kb_word words[KB_WORDS_MAX];
    for (uint32_t i = 0; i < KB_WORDS_MAX; i++)
        words[i] = (kb_word){.kind = KB_WORD_CONSTANT, .value = 3 * i + 1};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char entry[32];
        gpu_call c;
        gpu_call_sample(&c, memory);
        snprintf(entry, sizeof entry, "many%u", sizes[k]);
        kb_launch_step step = gpu_launch(entry, sizes[k]);
        step.n_words = sizes[k];
        step.words = words;
        CHECK_INT(launch(&c, &step), KB_OK);
        const fake_cuda_launch *l = fake_cuda_get_launch(0);
        CHECK_INT(l->n_words, sizes[k]);
        for (uint32_t i = 0; i < sizes[k] && i < FAKE_CUDA_WORDS; i++)
            CHECK_INT(l->words[i], 3 * i + 1);
        gpu_call_free(&c);
    }
}

static void check_all_words(void *data, const char *entry, const uint32_t grid[3],
                            const uint32_t block[3], uint32_t shared, uint32_t n_words,
                            const uint64_t *words)
{
    (void)entry, (void)grid, (void)block, (void)shared;
    for (uint32_t i = 0; i < n_words; i++)
        CHECK_INT(words[i], 3 * i + 1);
    *(uint32_t *)data = n_words;
}

static void test_last_words(void)
{
    static kb_word words[KB_WORDS_MAX];
    uint32_t seen = 0;
    gpu_call c;
    gpu_call_sample(&c, memory);
    for (uint32_t i = 0; i < KB_WORDS_MAX; i++)
        words[i] = (kb_word){.kind = KB_WORD_CONSTANT, .value = 3 * i + 1};
    fake_cuda_set_twin("many2048", check_all_words, &seen);
    kb_launch_step step = gpu_launch("many2048", KB_WORDS_MAX);
    step.n_words = KB_WORDS_MAX;
    step.words = words;
    CHECK_INT(launch(&c, &step), KB_OK);
    CHECK_INT(seen, KB_WORDS_MAX);
    gpu_call_free(&c);
}

static void test_auto_block(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    fake_cuda_set_best_block(4);
    kb_launch_step step = gpu_launch("auto", 0);
    fake_cuda_set_best_block(4);
    step.flags = KB_LAUNCH_AUTO_BLOCK;
    step.grid[0] = gpu_count(GPU_X, 100); /* its divisor does not count */
    step.grid[1] = gpu_constant(7, 2);
    step.block[0] = 99;
    step.block[1] = 2;
    CHECK_INT(launch(&c, &step), KB_OK);
    const fake_cuda_launch *l = fake_cuda_get_launch(0);
    CHECK_INT(l->grid[0], 2);
    CHECK_INT(l->grid[1], 4);
    CHECK_INT(l->block[0], 4);
    CHECK_INT(l->block[1], 2);
    fake_cuda_set_best_block(256);
    gpu_call_free(&c);
}

/* With parameters, which are the same whatever attributes there are. */
static void test_attributes(void)
{
    const kb_word words[] = {{.kind = KB_WORD_CONSTANT, .value = 5},
                             {.kind = KB_WORD_CONSTANT, .value = 6}};
    for (uint32_t flags = 0; flags < 8; flags++) {
        gpu_call c;
        gpu_call_sample(&c, memory);
        kb_launch_step step = gpu_launch("attributes", 2);
        step.n_words = 2;
        step.words = words;
        step.flags = flags;
        step.grid[0] = gpu_constant(8, 1);
        step.grid[1] = gpu_constant(6, 1);
        step.cluster[0] = 4;
        step.cluster[1] = 2;
        CHECK_INT(launch(&c, &step), KB_OK);
        const fake_cuda_launch *l = fake_cuda_get_launch(0);
        bool clusters = flags & KB_LAUNCH_CLUSTERS;
        CHECK_INT(l->cooperative, (flags & KB_LAUNCH_COOPERATES) != 0);
        CHECK_INT(l->overlaps, (flags & KB_LAUNCH_OVERLAPS) != 0);
        CHECK_INT(l->cluster[0], clusters ? 4 : 0);
        CHECK_INT(l->cluster[1], clusters ? 2 : 0);
        CHECK_INT(l->cluster[2], clusters ? 1 : 0);
        CHECK_INT(l->grid[0], 8);
        CHECK_INT(l->grid[1], 6);
        CHECK_INT(l->grid[2], 1);
        CHECK_INT(l->words[0], 5);
        CHECK_INT(l->words[1], 6);
        gpu_call_free(&c);
    }
}

int main(void)
{
    gpu_start();
    test_words();
    test_grids();
    test_empty_grid();
    test_zeroing_fails();
    test_many_words();
    test_last_words();
    test_auto_block();
    test_attributes();
    kb_function_free_all();
    return kb_test_end("test_launch");
}
