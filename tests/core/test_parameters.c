/* Proves how kernels are launched whose parameters are not all words: numbers of any size between
 * addresses, and numbers that the call decides. */
#include "gpu.h"
#include "program.h"

#include <stdlib.h>

static gpu_memory memory;
static const uint32_t sizes[] = {8, 4, 16, 1, 8, 4};

/* "FAKE" images have parameters of one size: this is what a cubin of `sizes` would say. */
static kb_function *function_of(const char *entry, const char *image, uint32_t n_sizes,
                                const uint32_t *list, uint32_t n_words)
{
    const kb_image one = {90, image, strlen(image) + 1};
    kb_function from = {.entry = entry,
                        .n_words = n_words,
                        .n_sizes = n_sizes,
                        .sizes = list,
                        .n_images = 1,
                        .images = &one};
    kb_function *function = NULL;
    kb_error err;
    sample_digest(from.digest, (uint64_t)(uintptr_t)entry & 0xffffffff);
    CHECK_INT(kb_function_hold(&from, &function, &err), KB_OK);
    return function;
}

static kb_launch_step step_of(kb_function *function, const kb_word *words, uint32_t n)
{
    return (kb_launch_step){
        .function = function,
        .grid = {gpu_constant(1, 1), gpu_constant(1, 1), gpu_constant(1, 1)},
        .block = {1, 1, 1},
        .cluster = {1, 1, 1},
        .n_words = n,
        .words = words,
    };
}

/* Numbers of four bytes: each a word of its own. */
static void test_small(void)
{
    static const uint32_t small[] = {4, 4, 4};
    const kb_word words[] = {{.kind = KB_WORD_CONSTANT, .value = -2},
                             {.kind = KB_WORD_EXTENT, .buffer = GPU_X, .axis = 1},
                             {.kind = KB_WORD_COUNT, .buffer = GPU_X}};
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = step_of(function_of("small", "FAKE small 3 4\n", 3, small, 3), words, 3);
    CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_OK);
    const fake_cuda_launch *l = fake_cuda_get_launch(0);
    CHECK_INT(l->n_words, 3);
    CHECK_INT(l->words[0], 0xfffffffe);
    CHECK_INT(l->words[1], 3);
    CHECK_INT(l->words[2], 6);
    gpu_call_free(&c);
}

/* One of sixteen bytes takes two words. */
static void test_wide(void)
{
    static const uint32_t wide[] = {16, 16};
    const kb_word words[] = {{.kind = KB_WORD_CONSTANT, .value = 1},
                             {.kind = KB_WORD_CONSTANT, .value = 2},
                             {.kind = KB_WORD_CONSTANT, .value = 3},
                             {.kind = KB_WORD_CONSTANT, .value = 4}};
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = step_of(function_of("wide", "FAKE wide 2 16\n", 2, wide, 4), words, 4);
    CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_OK);
    const fake_cuda_launch *l = fake_cuda_get_launch(0);
    CHECK_INT(l->n_words, 4);
    for (int i = 0; i < 4; i++)
        CHECK_INT(l->words[i], i + 1);
    gpu_call_free(&c);
}

static void test_layout_is_checked(void)
{
    const kb_word words[8] = {{.kind = KB_WORD_CONSTANT}};
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_launch_step step = step_of(function_of("other", "FAKE other 6 8\n", 6, sizes, 7), words, 7);
    CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_INTERNAL);
    CHECK_HAS(c.err.message, "parameter 1 of other is not");
    gpu_call_free(&c);
}

/* An extent beyond what the kernel's int holds; 8 bytes hold any. */
static void test_too_large(void)
{
    static const uint32_t small[] = {4}, wide[] = {8};
    static char byte;
    const int64_t dims[] = {(int64_t)INT32_MAX + 1};
    const int64_t most[] = {INT32_MAX};
    const uint8_t kinds[] = {KB_WORD_EXTENT, KB_WORD_COUNT};
    for (int i = 0; i < 2; i++) {
        const kb_word words[] = {{.kind = kinds[i], .buffer = 0}};
        gpu_call c;
        gpu_call_init(&c, 1);
        gpu_arg(&c, KB_DTYPE_U8, 1, 1, dims, &byte, 0);
        kb_launch_step step =
            step_of(function_of("large", "FAKE large 1 4\n", 1, small, 1), words, 1);
        CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_INVALID_ARGUMENT);
        CHECK_TEXT(c.err.message,
                   "op1: large takes a number of 4 bytes where this call has 2147483648");
        step = step_of(function_of("extent", "FAKE extent 1 8\n", 1, wide, 1), words, 1);
        CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_OK);
        gpu_call_free(&c);
        gpu_call_init(&c, 1);
        gpu_arg(&c, KB_DTYPE_U8, 1, 1, most, &byte, 0);
        step = step_of(function_of("large", "FAKE large 1 4\n", 1, small, 1), words, 1);
        CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_OK);
        gpu_call_free(&c);
    }
}

/* Fewer than four bytes hold no number that the call decides, and one byte of others is a word. */
static void test_narrow(void)
{
    static const uint32_t narrow[] = {1, 2, 8, 9, 7};
    const kb_word words[] = {
        {.kind = KB_WORD_CONSTANT, .value = 1}, {.kind = KB_WORD_CONSTANT, .value = 2},
        {.kind = KB_WORD_CONSTANT, .value = 3}, {.kind = KB_WORD_CONSTANT, .value = 4},
        {.kind = KB_WORD_CONSTANT, .value = 5}, {.kind = KB_WORD_CONSTANT, .value = 6}};
    for (uint32_t size = 1; size <= 7; size++) {
        const kb_word word = {.kind = KB_WORD_EXTENT, .buffer = GPU_X, .axis = 1};
        char image[32], text[128];
        gpu_call c;
        gpu_call_sample(&c, memory);
        snprintf(image, sizeof image, "FAKE less 1 %u\n", size);
        kb_function *f = function_of("less", image, 1, &size, 1);
        kb_launch_step step = step_of(f, &word, 1);
        CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false),
                  size == 4 ? KB_OK : KB_INVALID_ARGUMENT);
        snprintf(text, sizeof text, "op1: less takes a number of %u bytes where this call has 3",
                 size);
        if (size != 4)
            CHECK_TEXT(c.err.message, text);
        gpu_call_free(&c);
        kb_function_drop(f);
    }
    for (int i = 0; i < 5; i++) {
        const uint32_t n = (narrow[i] + 7) / 8, two[] = {narrow[i], narrow[i]};
        char image[32];
        gpu_call c;
        gpu_call_sample(&c, memory);
        snprintf(image, sizeof image, "FAKE narrow 2 %u\n", narrow[i]);
        kb_function *f = function_of("narrow", image, 2, two, 2 * n);
        kb_launch_step step = step_of(f, words, 2 * n);
        CHECK_INT(gpu_run_one(&c, KB_STEP_LAUNCH, &step, false), KB_OK);
        const fake_cuda_launch *l = fake_cuda_get_launch(0);
        CHECK_INT(l->n_words, 2 * n);
        for (uint32_t k = 0; k < 2 * n; k++)
            CHECK_INT(l->words[k], k + 1);
        gpu_call_free(&c);
        kb_function_drop(f);
    }
}

int main(void)
{
    gpu_start();
    test_narrow();
    test_small();
    test_wide();
    test_layout_is_checked();
    test_too_large();
    return kb_test_end("test_parameters");
}
