/* Proves fills and copies byte by byte: every size of element, offsets, batches that lie without a
 * gap and others; and that no range outside a buffer is touched. */
#include "gpu.h"

#include <stdlib.h>

static gpu_memory memory;

static kb_status fill(gpu_call *c, kb_fill_step step, bool wide)
{
    return gpu_run_one(c, KB_STEP_FILL, &step, wide);
}

static kb_status copy(gpu_call *c, kb_copy_step step, bool wide)
{
    return gpu_run_one(c, KB_STEP_COPY, &step, wide);
}

/* Bytes from `begin` to `end` of a buffer repeat the pattern, and all around is untouched. */
static void check_filled(const char *buffer, int64_t begin, int64_t end, const uint64_t *pattern,
                         uint32_t item_size)
{
    for (int64_t i = 0; i < 64; i++) {
        char want = i >= begin && i < end ? ((const char *)pattern)[(i - begin) % item_size] : 0x11;
        CHECK_INT(buffer[i], want);
    }
}

static void test_fills(void)
{
    static const uint64_t patterns[][2] = {
        {UINT64_C(0x0807060504030201), UINT64_C(0x100f0e0d0c0b0a09)},
        {0, 0},
        {UINT64_C(0x7766554477665544), UINT64_C(0x7766554477665544)}, /* uniform */
        {UINT64_C(0x7766554477665544), UINT64_C(0x7766554477665545)},
        {UINT64_C(0x3ff0000000000000), 0},
    };
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (uint32_t size = 1; size <= 16; size *= 2)
            for (int64_t offset = 0; offset <= 16; offset += size)
                for (int64_t n = 0; n * size <= 40 - offset; n++) {
                    gpu_call c;
                    gpu_call_sample(&c, memory);
                    kb_fill_step step = {.buffer = GPU_Y,
                                         .item_size = size,
                                         .offset = offset,
                                         .count = gpu_constant(n, 1)};
                    memcpy(step.pattern, patterns[p], sizeof step.pattern);
                    CHECK_INT(fill(&c, step, false), KB_OK);
                    check_filled(memory[GPU_Y], offset, offset + n * size, patterns[p], size);
                    gpu_call_free(&c);
                }
}

/* One call of the driver where one does: only patterns of 8 and 16 bytes that do not repeat need
 * columns, of 4 bytes each. */
static void test_fill_calls(void)
{
    const uint64_t twice = UINT64_C(0x7766554477665544), other = UINT64_C(0x7766554477665545);
    const struct {
        uint32_t size;
        uint64_t pattern[2];
        int n_columns;
    } cases[] = {
        {4, {UINT64_C(0x0807060504030201), 1}, 0},
        {8, {twice, 1}, 0}, /* what lies behind the element does not count */
        {8, {other, other}, 2},
        {16, {twice, twice}, 0},
        {16, {other, other}, 4},
        {16, {twice, other}, 4},
        {16, {other, twice}, 4},
        {16, {twice, twice + (UINT64_C(1) << 32)}, 4},
        {16, {twice, 0}, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_call c;
        gpu_call_sample(&c, memory);
        kb_fill_step step = {
            .buffer = GPU_Y, .item_size = cases[i].size, .count = gpu_constant(2, 1)};
        memcpy(step.pattern, cases[i].pattern, sizeof step.pattern);
        CHECK_INT(fill(&c, step, false), KB_OK);
        CHECK_INT(fake_cuda_calls("cuMemsetD8Async"), 0);
        CHECK_INT(fake_cuda_calls("cuMemsetD16Async"), 0);
        CHECK_INT(fake_cuda_calls("cuMemsetD32Async"), cases[i].n_columns == 0);
        CHECK_INT(fake_cuda_calls("cuMemsetD2D32Async"), cases[i].n_columns);
        check_filled(memory[GPU_Y], 0, 2 * (int64_t)cases[i].size, step.pattern, cases[i].size);
        gpu_call_free(&c);
    }
}

static void check_refused(const gpu_call *c, int64_t bytes, int64_t offset, const char *buffer)
{
    char text[256];
    snprintf(text, sizeof text,
             "op1: the plan touches %lld bytes from byte %lld of buffer %s: the program is "
             "damaged, or was recorded for other shapes",
             (long long)bytes, (long long)offset, buffer);
    CHECK_TEXT(c->err.message, text);
}

static void test_fill_ranges(void)
{
    const struct {
        int64_t offset, n;
        uint32_t size;
        bool fits;
    } cases[] = {
        {0, 5, 8, true},
        {0, 6, 8, false},
        {39, 1, 1, true},
        {40, 1, 1, false},
        {40, 0, 1, true},
        {41, 0, 1, false},
        {INT64_MAX, 0, 1, false},
        {36, 1, 4, true},
        {36, 2, 4, false},
        {0, INT64_MAX, 1, false},
        {8, INT64_MAX / 2, 4, false},
        {INT64_MAX, INT64_MAX, 16, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_call c;
        gpu_call_sample(&c, memory);
        kb_fill_step step = {.buffer = GPU_Y,
                             .item_size = cases[i].size,
                             .offset = cases[i].offset,
                             .count = gpu_constant(cases[i].n, 1)};
        CHECK_INT(fill(&c, step, false), cases[i].fits ? KB_OK : KB_INVALID_ARGUMENT);
        if (!cases[i].fits) {
            check_filled(memory[GPU_Y], 0, 0, step.pattern, 1);
            int64_t bytes;
            if (__builtin_mul_overflow(cases[i].n, (int64_t)cases[i].size, &bytes))
                bytes = -1;
            check_refused(&c, bytes, cases[i].offset, "2 (y), which has 40");
        }
        gpu_call_free(&c);
    }
}

static void test_bad_extents(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_xla_buffer *y = c.f.frame.rets.buffers[0];
    kb_fill_step step = {.buffer = GPU_Y, .item_size = 1, .count = gpu_constant(1, 1)};
    y->dims[0] = -1;
    CHECK_INT(fill(&c, step, false), KB_INVALID_ARGUMENT);
    CHECK_HAS(c.err.message, "which has -1");
    y->dims[0] = INT64_MAX / 4;
    CHECK_INT(fill(&c, step, false), KB_INVALID_ARGUMENT);
    step.count = gpu_extent(GPU_Y, 0, 1);
    y->dims[0] = -1;
    CHECK_INT(fill(&c, step, false), KB_INVALID_ARGUMENT);
    CHECK_HAS(c.err.message, "the extent of buffer 2 (y) is negative");
    const kb_copy_step copied = {.to = GPU_Y, .from = GPU_X, .size = gpu_extent(GPU_Y, 0, 1)};
    CHECK_INT(copy(&c, copied, false), KB_INVALID_ARGUMENT);
    CHECK_HAS(c.err.message, "the extent of buffer 2 (y) is negative");
    check_filled(memory[GPU_Y], 0, 0, step.pattern, 1);
    gpu_call_free(&c);
}

/* Without elements, the driver is not asked: it may refuse. */
static void test_empty_fill(void)
{
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_fill_step step = {.buffer = GPU_Y, .item_size = 1, .count = gpu_constant(0, 1)};
    fake_cuda_fail("cuMemsetD8Async", 1, 1);
    CHECK_INT(fill(&c, step, false), KB_OK);
    step.count = gpu_constant(1, 1);
    CHECK_INT(fill(&c, step, false), KB_INTERNAL); /* which was still to come */
    gpu_call_free(&c);
}

static void test_copies(void)
{
    const struct {
        int64_t to, from, size;
        bool fits;
    } cases[] = {
        {0, 0, 24, true},   {0, 0, 0, true},          {16, 0, 24, true},        {17, 0, 24, false},
        {0, 1, 24, false},  {5, 3, 7, true},          {40, 24, 0, true},        {41, 0, 0, false},
        {0, 25, 0, false},  {0, 0, INT64_MAX, false}, {39, 23, 1, true},        {40, 23, 1, false},
        {39, 24, 1, false}, {INT64_MAX, 0, 1, false}, {0, INT64_MAX, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpu_call c;
        gpu_call_sample(&c, memory);
        for (int k = 0; k < 24; k++)
            memory[GPU_X][k] = (char)(k + 100);
        kb_copy_step step = {.to = GPU_Y,
                             .from = GPU_X,
                             .to_offset = cases[i].to,
                             .from_offset = cases[i].from,
                             .size = gpu_constant(cases[i].size, 1)};
        CHECK_INT(copy(&c, step, false), cases[i].fits ? KB_OK : KB_INVALID_ARGUMENT);
        CHECK_INT(fake_cuda_calls("cuMemcpyDtoDAsync"), cases[i].fits && cases[i].size > 0);
        if (cases[i].to > 40 || cases[i].size > 40 - cases[i].to)
            check_refused(&c, cases[i].size, cases[i].to, "2 (y), which has 40");
        else if (!cases[i].fits)
            check_refused(&c, cases[i].size, cases[i].from, "0 (x), which has 24");
        for (int64_t k = 0; k < 64; k++) {
            bool copied = cases[i].fits && k >= cases[i].to && k - cases[i].to < cases[i].size;
            CHECK_INT(memory[GPU_Y][k], copied ? 100 + k - cases[i].to + cases[i].from : 0x11);
        }
        gpu_call_free(&c);
    }
}

/* op1(x: f32[2]) -> y: f32[2] in a batch of two levels, of which x has those of the mask. */
static void batch(gpu_call *c, float *x, float *y, int64_t x_mask)
{
    const int64_t dims[] = {3, 4, 2};
    const int64_t x_dims[] = {x_mask == 1 ? 4 : 3, x_mask == 3 ? 4 : 2, 2};
    fake_cuda_reset();
    gpu_call_init(c, 1);
    c->n_levels = 2;
    gpu_arg(c, KB_DTYPE_F32, 1,
            x_mask == 3 ? 3
            : x_mask    ? 2
                        : 1,
            x_mask ? x_dims : dims + 2, x, x_mask);
    gpu_ret(c, KB_DTYPE_F32, 1, 3, dims, y);
    for (int i = 0; i < 24; i++) {
        x[i] = (float)i;
        y[i] = -1;
    }
}

/* The whole of each slice is one fill where slices touch; half of each is one a slice. */
static void test_batched_fills(void)
{
    for (int whole = 0; whole < 2; whole++)
        for (int wide = 0; wide < 2; wide++) {
            float x[24], y[24];
            gpu_call c;
            batch(&c, x, y, 3);
            kb_fill_step step = {.buffer = 1,
                                 .item_size = 4,
                                 .offset = whole ? 0 : 4,
                                 .count = whole ? gpu_count(1, 1) : gpu_constant(1, 1),
                                 .pattern = {0x40000000, 0}};
            CHECK_INT(fill(&c, step, wide), KB_OK);
            CHECK_INT(fake_cuda_calls("cuMemsetD32Async"), whole && wide ? 1 : 12);
            for (int i = 0; i < 24; i++)
                CHECK_INT(y[i], whole || i % 2 ? 2 : -1);
            gpu_call_free(&c);
        }
}

static void test_batched_copies(void)
{
    for (int64_t mask = 0; mask < 4; mask++)
        for (int whole = 0; whole < 2; whole++)
            for (int wide = 0; wide < 2; wide++) {
                float x[24], y[24];
                gpu_call c;
                batch(&c, x, y, mask);
                kb_copy_step step = {.to = 1,
                                     .from = 0,
                                     .to_offset = whole ? 0 : 4,
                                     .size = gpu_constant(whole ? 8 : 4, 1)};
                if (!CHECK_INT(copy(&c, step, wide), KB_OK))
                    fprintf(stderr, "%s\n", c.err.message);
                bool touching =
                    whole && wide; /* x repeats itself over the levels that it has not */
                CHECK_INT(fake_cuda_calls("cuMemcpyDtoDAsync"), touching && mask == 3   ? 1
                                                                : touching && mask == 1 ? 3
                                                                                        : 12);
                for (int i = 0; i < 24; i++) {
                    int inner = i / 2 % 4, outer = i / 8;
                    int slice = mask == 3   ? outer * 4 + inner
                                : mask == 2 ? outer
                                : mask == 1 ? inner
                                            : 0;
                    int want = whole ? 2 * slice + i % 2 : i % 2 ? 2 * slice : -1;
                    CHECK_INT(y[i], want);
                }
                gpu_call_free(&c);
            }
}

/* A failure of each function that fills and copies is told. */
static void test_failures(void)
{
    const char *const functions[] = {"cuMemsetD8Async", "cuMemsetD16Async", "cuMemsetD32Async",
                                     "cuMemsetD2D32Async"};
    for (uint32_t i = 0; i < 4; i++)
        for (int nth = 1; nth <= (i == 3 ? 2 : 1); nth++) {
            gpu_call c;
            gpu_call_sample(&c, memory);
            kb_fill_step step = {.buffer = GPU_Y,
                                 .item_size = 1u << i,
                                 .count = gpu_constant(2, 1),
                                 .pattern = {1, 2}};
            fake_cuda_fail(functions[i], nth, 999);
            CHECK_INT(fill(&c, step, false), KB_INTERNAL);
            CHECK_HAS(c.err.message, "op1: a fill of GPU memory failed: CUDA_ERROR_UNKNOWN");
            CHECK_INT(fill(&c, step, false), KB_OK);
            gpu_call_free(&c);
        }
    gpu_call c;
    gpu_call_sample(&c, memory);
    kb_copy_step step = {.to = GPU_Y, .from = GPU_X, .size = gpu_constant(4, 1)};
    fake_cuda_fail("cuMemcpyDtoDAsync", 1, 700);
    CHECK_INT(copy(&c, step, false), KB_INTERNAL);
    CHECK_HAS(c.err.message, "op1: cuMemcpyDtoDAsync failed: CUDA_ERROR_ILLEGAL_ADDRESS");
    CHECK_HAS(c.err.message, "possibly an earlier one");
    gpu_call_free(&c);
}

int main(void)
{
    gpu_start();
    test_fills();
    test_fill_calls();
    test_fill_ranges();
    test_bad_extents();
    test_empty_fill();
    test_copies();
    test_batched_fills();
    test_batched_copies();
    test_failures();
    return kb_test_end("test_memory_steps");
}
