/* Proves that outputs which nobody writes are found, that nothing else is, and that what a call
 * shares with its operands is the same at the second run as at the first. */
#include "core/kb_plan.h"
#include "cuda/kb_poison.h"
#include "gpu.h"

#include <stdlib.h>

static const kb_driver *cu;

/* Words: addresses of x and y. Writes y[i] = x[i] for the elements in the list. */
typedef struct writer {
    int n_runs;
    bool skip[8];
    bool parts;   /* one byte of each of y[0], ..., y[3]: the first, ..., the last */
    bool keeps;   /* the first byte of y[0] as it was, and writes the others */
    bool pattern; /* writes what the buffer was filled with, as a real value may be */
    float seen[2];
} writer;

static void write_some(void *data, const char *entry, const uint32_t grid[3],
                       const uint32_t block[3], uint32_t shared, uint32_t n_words,
                       const uint64_t *words)
{
    (void)entry, (void)grid, (void)block, (void)shared, (void)n_words;
    writer *w = data;
    const float *x = (const float *)(uintptr_t)words[0];
    float *y = (float *)(uintptr_t)words[1];
    if (w->n_runs < 2)
        w->seen[w->n_runs] = x[0];
    w->n_runs++;
    for (int i = 0; i < 8; i++)
        if (!w->skip[i])
            y[i] = x[i] + 1;
    for (int i = 0; w->parts && i < 4; i++)
        ((char *)&y[i])[i] = 0;
    if (w->keeps)
        memset((char *)y + 1, 0, sizeof *y - 1);
    if (w->pattern)
        memset(y, 0xA5, sizeof *y);
}

static const kb_word words[] = {{.kind = KB_WORD_ADDRESS, .buffer = 0},
                                {.kind = KB_WORD_ADDRESS, .buffer = 1}};

typedef struct scene {
    gpu_call c;
    kb_launch_step launch;
    kb_step step;
    float x[8], y[8], z[8];
    writer w;
} scene;

/* op1(x: f32[8]) -> (y: f32[8]; z: f32[8]), of which z is hidden or a second output */
static void scene_begin(scene *s, bool shares, bool second)
{
    const int64_t dims[] = {8};
    memset(s, 0, sizeof *s);
    fake_cuda_reset();
    fake_cuda_set_twin("write", write_some, &s->w);
    gpu_call_init(&s->c, 1);
    for (int i = 0; i < 8; i++)
        s->x[i] = (float)i;
    gpu_arg(&s->c, KB_DTYPE_F32, 1, 1, dims, s->x, 0);
    gpu_ret(&s->c, KB_DTYPE_F32, 1, 1, dims, shares ? s->x : s->y);
    (second ? gpu_ret : gpu_hidden)(&s->c, KB_DTYPE_F32, 1, 1, dims, s->z);
    s->launch = gpu_launch("write", 2);
    s->launch.n_words = 2;
    s->launch.words = words;
    s->step = (kb_step){.kind = KB_STEP_LAUNCH, .other = &s->launch};
    s->c.s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &s->step};
    CHECK_INT(gpu_read(&s->c), KB_OK);
}

static void scene_init(scene *s, bool shares)
{
    scene_begin(s, shares, false);
}

static kb_status poison(scene *s)
{
    return kb_poison_run(cu, &s->c.frame, &s->c.err);
}

static void test_all_written(void)
{
    scene s;
    scene_init(&s, false);
    CHECK_INT(poison(&s), KB_OK);
    CHECK_INT(s.w.n_runs, 2);
    for (int i = 0; i < 8; i++) {
        CHECK_INT(s.x[i], i);
        CHECK_INT(s.y[i], i + 1);
    }
    s.w.pattern = true; /* one run leaves the pattern, the other does not */
    CHECK_INT(poison(&s), KB_OK);
    s.w.pattern = false;
    s.w.keeps = s.w.skip[0] = true; /* an element of which a part is as it was */
    CHECK_INT(poison(&s), KB_OK);
    s.w.keeps = false;
    s.w.parts = s.w.skip[1] = s.w.skip[2] = s.w.skip[3] = true;
    CHECK_INT(poison(&s), KB_OK);
    gpu_call_free(&s.c);
}

static void test_unwritten(void)
{
    for (int n = 1; n <= 8; n++)
        for (int first = 0; first + n <= 8; first++) {
            char text[256];
            scene s;
            scene_init(&s, false);
            for (int i = 0; i < n; i++)
                s.w.skip[first + i] = true;
            CHECK_INT(poison(&s), KB_INTERNAL);
            snprintf(text, sizeof text,
                     "op1: no thread wrote %d of the 8 elements of output 0 (y), the first of them "
                     "element %d; launch more threads, write every element, or pass "
                     "zero_outputs=True [KB3002]",
                     n, first);
            CHECK_TEXT(s.c.err.message, text);
            gpu_call_free(&s.c);
        }
}

static kb_status run_nothing(const void *step, const kb_frame *frame, kb_error *err)
{
    (void)step, (void)frame, (void)err;
    return KB_OK;
}

static int32_t write_nothing(void **result, void **exception, void *const *inputs,
                             void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    return KB_NUMBA_OK;
}

/* Threads of a GPU write, or a function does: wherever in the plan it stands. */
static void test_who_writes(void)
{
    const char threads[] = "no thread", nothing[] = "nothing";
    const char more[] = "launch more threads, write every element, or pass zero_outputs=True";
    const char every[] = "write every element, or pass zero_outputs=True";
    const struct {
        kb_step_kind kind;
        int device;
        const char *who, *remedy;
    } cases[] = {
        {KB_STEP_FILL, 0, threads, more},
        {KB_STEP_FILL, KB_DEVICE_HOST, threads, more},
        {KB_STEP_HOST, KB_DEVICE_HOST, nothing, every},
        {KB_STEP_SOURCE, KB_DEVICE_HOST, nothing, every},
        {KB_STEP_SOURCE, 0, nothing, "write every element"},
    };
    const kb_fill_step none = {.buffer = 1, .item_size = 1, .count = gpu_constant(0, 1)};
    kb_plan_runners[KB_STEP_SOURCE] = run_nothing;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t at = 0; at < 2; at++) {
            char text[256];
            kb_step steps[2];
            scene s;
            scene_init(&s, false);
            steps[0] = steps[1] = (kb_step){.kind = KB_STEP_FILL, .other = &none};
            if (cases[i].kind != KB_STEP_FILL)
                steps[at] = (kb_step){.kind = cases[i].kind};
            if (cases[i].kind == KB_STEP_HOST)
                steps[at].host.entry = write_nothing;
            s.c.s.kernel.plan = (kb_plan){.n_steps = 2, .steps = steps};
            s.c.frame.device = cases[i].device;
            CHECK_INT(poison(&s), KB_INTERNAL);
            snprintf(text, sizeof text,
                     "op1: %s wrote 8 of the 8 elements of output 0 (y), the first of them element "
                     "0; %s [KB3002]",
                     cases[i].who, cases[i].remedy);
            CHECK_TEXT(s.c.err.message, text);
            gpu_call_free(&s.c);
        }
    kb_plan_runners[KB_STEP_SOURCE] = NULL;
}

/* The smallest output, and one of which two elements share a byte: it is not looked at. */
static void test_small(void)
{
    const int64_t dims[] = {8}, one[] = {1};
    unsigned char packed[4] = {1, 2, 3, 4}, byte = 5;
    scene s;
    scene_init(&s, false);
    gpu_call_free(&s.c);
    gpu_call_init(&s.c, 1);
    gpu_arg(&s.c, KB_DTYPE_F32, 1, 1, dims, s.x, 0);
    gpu_ret(&s.c, KB_DTYPE_F32, 1, 1, dims, s.y);
    gpu_ret(&s.c, KB_DTYPE_S4, 1, 1, dims, packed);
    gpu_ret(&s.c, KB_DTYPE_U8, 1, 1, one, &byte);
    s.c.s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &s.step};
    CHECK_INT(gpu_read(&s.c), KB_OK);
    CHECK_INT(poison(&s), KB_INTERNAL);
    CHECK_HAS(s.c.err.message,
              "op1: no thread wrote 1 of the 1 elements of output 2 (y), the first of them element "
              "0; ");
    gpu_call_free(&s.c);
}

/* All bytes are written, but these are no truth values. */
static void test_bool(void)
{
    const int64_t dims[] = {8}, bytes[] = {32};
    scene s;
    scene_init(&s, false);
    gpu_call_free(&s.c);
    gpu_call_init(&s.c, 1);
    gpu_arg(&s.c, KB_DTYPE_F32, 1, 1, dims, s.x, 0);
    gpu_ret(&s.c, KB_DTYPE_PRED, 1, 1, bytes, s.y);
    s.c.s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &s.step};
    CHECK_INT(gpu_read(&s.c), KB_OK);
    CHECK_INT(poison(&s), KB_INTERNAL); /* 1.0f is 00 00 80 3f */
    CHECK_HAS(s.c.err.message, "op1: 14 of the 32 elements of output 0 (y) are neither 0 nor 1, as "
                               "bool requires, the first of them element 2, the byte 128;");
    for (int i = 0; i < 8; i++)
        s.x[i] = -1;
    CHECK_INT(poison(&s), KB_OK);
    gpu_call_free(&s.c);
}

/* Nobody writes to the second output. */
static void test_second_output(void)
{
    scene s;
    scene_begin(&s, false, true);
    CHECK_INT(poison(&s), KB_INTERNAL);
    CHECK_HAS(s.c.err.message, "no thread wrote 8 of the 8 elements of output 1 (y), the first of "
                               "them element 0");
    gpu_call_free(&s.c);
}

/* The output is the operand's memory: not looked at, and put back before the second run. */
static void test_aliased(void)
{
    scene s;
    scene_init(&s, true);
    s.w.skip[3] = true;
    CHECK_INT(poison(&s), KB_OK);
    CHECK_INT(s.w.seen[0], 0);
    CHECK_INT(s.w.seen[1], 0);
    for (int i = 0; i < 8; i++)
        CHECK_INT(s.x[i], i == 3 ? 3 : i + 1); /* as after one run */
    gpu_call_free(&s.c);
}

/* The output is the memory of the second operand. */
static void test_aliased_with_second(void)
{
    static const kb_word in_place[] = {{.kind = KB_WORD_ADDRESS, .buffer = 1},
                                       {.kind = KB_WORD_ADDRESS, .buffer = 2}};
    const int64_t dims[] = {8};
    scene s;
    scene_init(&s, false);
    gpu_call_free(&s.c);
    gpu_call_init(&s.c, 1);
    gpu_arg(&s.c, KB_DTYPE_F32, 1, 1, dims, s.y, 0);
    gpu_arg(&s.c, KB_DTYPE_F32, 1, 1, dims, s.x, 0);
    gpu_ret(&s.c, KB_DTYPE_F32, 1, 1, dims, s.x);
    s.launch.words = in_place;
    s.c.s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &s.step};
    CHECK_INT(gpu_read(&s.c), KB_OK);
    s.x[0] = 5;
    CHECK_INT(poison(&s), KB_OK);
    CHECK_INT(s.w.seen[0], 5);
    CHECK_INT(s.w.seen[1], 5);
    CHECK_INT(s.x[0], 6); /* as after one run */
    gpu_call_free(&s.c);
}

/* Of two outputs the second is the operand's memory. */
static void test_second_aliased(void)
{
    scene s;
    scene_begin(&s, false, true);
    ((kb_xla_buffer *)s.c.f.frame.rets.buffers[1])->data = s.x;
    for (int i = 0; i < 8; i++)
        s.z[i] = 70;
    CHECK_INT(poison(&s), KB_OK);
    for (int i = 0; i < 8; i++) {
        CHECK_INT(s.x[i], i);
        CHECK_INT(s.y[i], i + 1);
    }
    gpu_call_free(&s.c);
}

/* Hidden results are nobody's to see; they are filled, so that no old value is read from them. */
static void test_hidden(void)
{
    scene s;
    scene_init(&s, false);
    CHECK_INT(poison(&s), KB_OK);
    for (size_t i = 0; i < sizeof s.z; i++)
        CHECK_INT(((const unsigned char *)s.z)[i], 0x5A);
    gpu_call_free(&s.c);
}

/* Slices of a batch, and outputs without elements or an address. */
static void test_batch(void)
{
    const int64_t dims[] = {3, 8}, none[] = {3, 0};
    float x[24], y[24];
    scene s;
    scene_init(&s, false);
    gpu_call_free(&s.c);
    gpu_call_init(&s.c, 1);
    s.c.n_levels = 1;
    gpu_arg(&s.c, KB_DTYPE_F32, 1, 2, dims, x, 1);
    gpu_ret(&s.c, KB_DTYPE_F32, 1, 2, dims, y);
    gpu_ret(&s.c, KB_DTYPE_F32, 1, 2, none, NULL);
    memset(x, 0, sizeof x);
    s.c.s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &s.step};
    CHECK_INT(gpu_read(&s.c), KB_OK);
    CHECK_INT(poison(&s), KB_OK);
    CHECK_INT(s.w.n_runs, 6);
    s.w.skip[5] = true;
    CHECK_INT(poison(&s), KB_INTERNAL);
    CHECK_HAS(s.c.err.message,
              "op1: no thread wrote 3 of the 24 elements of output 0 (y), the first "
              "of them element 5;");
    gpu_call_free(&s.c);
}

/* Each call that it makes fails; the error names it, and the next attempt works. */
static void test_failures(void)
{
    const struct {
        const char *function;
        int nth;
    } calls[] = {{"cuMemsetD8Async", 1},     {"cuMemsetD8Async", 4},     {"cuMemcpyDtoHAsync", 1},
                 {"cuMemcpyDtoHAsync", 2},   {"cuStreamSynchronize", 1}, {"cuStreamSynchronize", 2},
                 {"cuStreamSynchronize", 3}, {"cuLaunchKernelEx", 1},    {"cuLaunchKernelEx", 2}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char text[64];
        scene s;
        scene_init(&s, false);
        fake_cuda_fail(calls[i].function, calls[i].nth, 999);
        CHECK_INT(poison(&s), KB_INTERNAL);
        snprintf(text, sizeof text, "%s failed: CUDA_ERROR_UNKNOWN", calls[i].function);
        CHECK_HAS(s.c.err.message, text);
        CHECK_INT(poison(&s), KB_OK);
        gpu_call_free(&s.c);
    }
    for (int nth = 1; nth <= 2; nth++) {
        scene s;
        scene_init(&s, true);
        fake_cuda_fail("cuMemcpyHtoDAsync", nth, 999);
        CHECK_INT(poison(&s), KB_INTERNAL);
        CHECK_HAS(s.c.err.message, "op1: cuMemcpyHtoDAsync failed: CUDA_ERROR_UNKNOWN");
        gpu_call_free(&s.c);
    }
}

int main(void)
{
    cu = gpu_start();
    test_all_written();
    test_unwritten();
    test_who_writes();
    test_small();
    test_second_output();
    test_bool();
    test_aliased();
    test_aliased_with_second();
    test_second_aliased();
    test_hidden();
    test_batch();
    test_failures();
    kb_function_free_all();
    return kb_test_end("test_poison");
}
