/* Proves that a batch in the grid's z axis gives every slice its own addresses, in as many launches
 * as the axis needs: a twin adds up what each slice is given, where the device would. */
#include "core/kb_batch.h"
#include "gpu.h"

#include <stdlib.h>

/* op1(x: f32[3], w: f32[1]) -> y: f32[3]: y = x + w, slice by slice. Words: addresses of x, w and
 * y, then their strides. */
static const kb_word words[] = {
    {.kind = KB_WORD_ADDRESS, .buffer = 0}, {.kind = KB_WORD_ADDRESS, .buffer = 1},
    {.kind = KB_WORD_ADDRESS, .buffer = 2}, {.kind = KB_WORD_STRIDE, .buffer = 0},
    {.kind = KB_WORD_STRIDE, .buffer = 1},  {.kind = KB_WORD_STRIDE, .buffer = 2},
};

static void add(void *data, const char *entry, const uint32_t grid[3], const uint32_t block[3],
                uint32_t shared, uint32_t n_words, const uint64_t *word)
{
    (void)entry, (void)block, (void)shared;
    CHECK_INT(n_words, 6);
    for (uint64_t z = 0; z < grid[2]; z++)
        for (uint64_t i = 0; i < 3; i++) {
            const float *x = (const float *)(uintptr_t)(word[0] + z * word[3]);
            const float *w = (const float *)(uintptr_t)(word[1] + z * word[4]);
            ((float *)(uintptr_t)(word[2] + z * word[5]))[i] += x[i] + *w;
        }
    *(long *)data += grid[2];
}

typedef struct batch {
    gpu_call c;
    float *x, *w, *y;
    long n; /* slices of y */
} batch;

static kb_launch_step add_step(void)
{
    kb_launch_step step = gpu_launch("add", 6);
    step.n_words = 6;
    step.words = words;
    return step;
}

/* `size`: of each level, innermost first; masks of x and w. */
static void batch_init(batch *b, int n_levels, const int64_t *size, int64_t x_mask, int64_t w_mask)
{
    int64_t dims[3][KB_BATCH_LEVELS_MAX + 1], masks[] = {x_mask, w_mask, (1 << n_levels) - 1};
    int64_t n_dims[3] = {0}, n[3] = {1, 1, 1};
    for (int i = 0; i < 3; i++) {
        for (int level = n_levels - 1; level >= 0; level--)
            if (masks[i] >> level & 1) {
                dims[i][n_dims[i]++] = size[level];
                n[i] *= size[level];
            }
        dims[i][n_dims[i]++] = i == 1 ? 1 : 3;
    }
    b->n = n[2];
    b->x = malloc((size_t)n[0] * 3 * sizeof(float) + 1);
    b->w = malloc((size_t)n[1] * sizeof(float) + 1);
    b->y = calloc((size_t)n[2] * 3 + 1, sizeof(float));
    for (int64_t i = 0; i < 3 * n[0]; i++)
        b->x[i] = (float)(i % 1000);
    for (int64_t i = 0; i < n[1]; i++)
        b->w[i] = (float)(i % 777) * 1000;
    gpu_call_init(&b->c, 1);
    b->c.n_levels = n_levels;
    gpu_arg(&b->c, KB_DTYPE_F32, 1, n_dims[0], dims[0], b->x, masks[0]);
    gpu_arg(&b->c, KB_DTYPE_F32, 1, n_dims[1], dims[1], b->w, masks[1]);
    gpu_ret(&b->c, KB_DTYPE_F32, 1, n_dims[2], dims[2], b->y);
}

static void batch_free(batch *b)
{
    gpu_call_free(&b->c);
    free(b->x);
    free(b->w);
    free(b->y);
}

/* Index of an operand's slice, of the levels in `mask`, for slice `s` of the result; both count the
 * innermost level fastest. */
static int64_t slice_of(int64_t s, int n_levels, const int64_t *size, int64_t mask)
{
    int64_t index = 0, step = 1;
    for (int level = 0; level < n_levels; level++) {
        int64_t at = s % size[level];
        s /= size[level];
        if (mask >> level & 1) {
            index += at * step;
            step *= size[level];
        }
    }
    return index;
}

static void check_result(const batch *b, int n_levels, const int64_t *size, int64_t x_mask,
                         int64_t w_mask)
{
    long wrong = 0;
    for (int64_t s = 0; s < b->n; s++) {
        int64_t x = slice_of(s, n_levels, size, x_mask), w = slice_of(s, n_levels, size, w_mask);
        for (int64_t i = 0; i < 3; i++)
            wrong += b->y[3 * s + i] != (float)((3 * x + i) % 1000) + (float)(w % 777) * 1000;
    }
    CHECK_INT(wrong, 0);
}

static void run(int n_levels, const int64_t *size, int64_t x_mask, int64_t w_mask, bool wide,
                int launches)
{
    long slices = 0;
    batch b;
    fake_cuda_reset();
    fake_cuda_set_twin("add", add, &slices);
    batch_init(&b, n_levels, size, x_mask, w_mask);
    kb_launch_step step = add_step();
    if (!CHECK_INT(gpu_run_one(&b.c, KB_STEP_LAUNCH, &step, wide), KB_OK))
        fprintf(stderr, "%s\n", b.c.err.message);
    CHECK_INT(slices, b.n);
    CHECK_INT(fake_cuda_n_launches(), launches);
    check_result(&b, n_levels, size, x_mask, w_mask);
    batch_free(&b);
}

static void test_one_level(void)
{
    const struct {
        int64_t size;
        int launches;
    } cases[] = {{1, 1},     {2, 1},      {65534, 1},  {65535, 1}, {65536, 2},
                 {65537, 2}, {131070, 2}, {131071, 3}, {200000, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t masks = 0; masks < 4; masks++)
            run(1, &cases[i].size, masks & 1, masks >> 1, true, cases[i].launches);
    run(1, &(int64_t){100}, 1, 0, false, 100); /* narrow: one launch a slice */
}

static void test_empty(void)
{
    run(1, &(int64_t){0}, 1, 1, true, 0);
    run(2, (const int64_t[]){3, 0}, 3, 1, true, 0);
    run(2, (const int64_t[]){0, 3}, 3, 1, true, 0);
}

/* Levels that all buffers have alike are one axis; of the others the largest is. */
static void test_nested(void)
{
    run(2, (const int64_t[]){5, 7}, 3, 3, true, 1);
    run(2, (const int64_t[]){5, 7}, 3, 0, true, 1);
    run(2, (const int64_t[]){5, 7}, 3, 1, true, 5);
    run(2, (const int64_t[]){7, 5}, 3, 1, true, 5);
    run(2, (const int64_t[]){7, 5}, 1, 2, true, 5);
    run(3, (const int64_t[]){2, 3, 4}, 7, 3, true, 4);  /* {0, 1} of 6, {2} of 4 */
    run(3, (const int64_t[]){2, 3, 40}, 7, 3, true, 6); /* {2} of 40 */
    run(3, (const int64_t[]){2, 3, 4}, 5, 5, true, 6);
    run(2, (const int64_t[]){300, 300}, 3, 3, true, 2); /* 90000 slices of one axis */
    run(2, (const int64_t[]){70000, 2}, 3, 1, true, 4); /* twice, each of two launches */
    for (int64_t x = 0; x < 8; x++)
        for (int64_t w = 0; w < 8; w++) {
            long slices = 0;
            const int64_t size[] = {3, 2, 4};
            batch b;
            fake_cuda_reset();
            fake_cuda_set_twin("add", add, &slices);
            batch_init(&b, 3, size, x, w);
            kb_launch_step step = add_step();
            CHECK_INT(gpu_run_one(&b.c, KB_STEP_LAUNCH, &step, true), KB_OK);
            check_result(&b, 3, size, x, w);
            batch_free(&b);
        }
}

/* The grid's other axes, and words that are no addresses, are the same in every launch. */
static void test_other_words(void)
{
    const kb_word other[] = {{.kind = KB_WORD_CONSTANT, .value = 42},
                             {.kind = KB_WORD_EXTENT, .buffer = 0},
                             {.kind = KB_WORD_ADDRESS, .buffer = 1, .value = 0},
                             {.kind = KB_WORD_ADDRESS, .buffer = 2, .value = 4, .reach = 8}};
    batch b;
    fake_cuda_reset();
    batch_init(&b, 1, &(int64_t){65536}, 1, 0);
    kb_launch_step step = gpu_launch("other", 4);
    step.n_words = 4;
    step.words = other;
    step.grid[0].constant = 9;
    step.grid[1].constant = 8;
    CHECK_INT(gpu_run_one(&b.c, KB_STEP_LAUNCH, &step, true), KB_OK);
    CHECK_INT(fake_cuda_n_launches(), 2);
    for (int i = 0; i < 2 && fake_cuda_n_launches() == 2; i++) {
        const fake_cuda_launch *l = fake_cuda_get_launch(i);
        CHECK_INT(l->grid[0], 9);
        CHECK_INT(l->grid[1], 8);
        CHECK_INT(l->grid[2], i ? 1 : 65535);
        CHECK_INT(l->words[0], 42);
        CHECK_INT(l->words[1], 3);
        CHECK_INT((int64_t)l->words[2], (intptr_t)b.w);
        CHECK_INT((int64_t)l->words[3], (intptr_t)(b.y + 1 + (i ? 65535 * 3 : 0)));
    }
    batch_free(&b);
}

/* A batch whose launch has no thread zeroes all slices of the output. */
static void test_empty_grid(void)
{
    static const uint32_t zeroed[] = {2};
    batch b;
    fake_cuda_reset();
    batch_init(&b, 2, (const int64_t[]){4, 5}, 1, 2);
    memset(b.y, 0x55, (size_t)b.n * 3 * sizeof(float));
    kb_launch_step step = add_step();
    step.grid[0].constant = 0;
    step.flags = KB_LAUNCH_ZEROES_IF_EMPTY;
    step.n_zeroed = 1;
    step.zeroed = zeroed;
    CHECK_INT(gpu_run_one(&b.c, KB_STEP_LAUNCH, &step, true), KB_OK);
    CHECK_INT(fake_cuda_calls("cuLaunchKernelEx"), 0);
    long wrong = 0;
    for (long i = 0; i < b.n * 3; i++)
        wrong += b.y[i] != 0;
    CHECK_INT(wrong, 0);
    batch_free(&b);
}

/* The second of four launches fails: it is told, and no other follows. */
static void test_failure(void)
{
    batch b;
    fake_cuda_reset();
    batch_init(&b, 1, &(int64_t){200000}, 1, 1);
    kb_launch_step step = add_step();
    fake_cuda_fail("cuLaunchKernelEx", 2, 1);
    CHECK_INT(gpu_run_one(&b.c, KB_STEP_LAUNCH, &step, true), KB_INTERNAL);
    CHECK_HAS(b.c.err.message, "op1: launch of add, grid (1, 1, 65535), block (1, 1, 1)");
    CHECK_HAS(b.c.err.message, " [a batch of 200000]");
    CHECK_INT(fake_cuda_calls("cuLaunchKernelEx"), 2);
    fake_cuda_fail("cuLaunchKernelEx", 3, 1);
    CHECK_INT(gpu_run_one(&b.c, KB_STEP_LAUNCH, &step, false), KB_INTERNAL);
    CHECK_HAS(b.c.err.message, " [slice 2 of a batch of 200000]");
    batch_free(&b);
}

int main(void)
{
    gpu_start();
    test_one_level();
    test_empty();
    test_nested();
    test_other_words();
    test_empty_grid();
    test_failure();
    kb_function_free_all();
    return kb_test_end("test_launch_batch");
}
