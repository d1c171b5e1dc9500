/* Proves that a write outside of a result is an error that names it and leaves the memory of XLA
 * alone, that results and inputs of the same memory move together, and what a bool may be. */
#include "hostcuda/kb_guard.h"

#include "allocation.h"
#include "core/kb_dtype.h"
#include "kb_test.h"
#include "sample.h"

enum { N = 4, NOTHING = 1000 };

static float x[N], y[N], out[N];
static uint8_t mask[N], last[N], hidden, value, last_value;
static int at = NOTHING, result; /* the byte that the kernel writes, and to which result */
static float *aliased;           /* the input whose memory `out` has, or NULL */
static bool fails;

static kb_status run(const kb_frame *frame, kb_error *err)
{
    const float *in[] = {kb_frame_buffer(frame, 0)->data, kb_frame_buffer(frame, 1)->data};
    float *to = kb_frame_buffer(frame, 3)->data;
    CHECK((uintptr_t)to % 64 == 0);
    CHECK(to != out && to != x && to != y);
    CHECK_PTR(in[0], aliased == x ? to : x);
    CHECK_PTR(in[1], aliased == y ? to : y);
    CHECK_PTR(kb_frame_raw(frame, 3)->data, to); /* the batch finds the same */
    CHECK_PTR(frame->xla->api, fake_api(3));
    for (int i = 0; i < N; i++)
        to[i] = in[0][i] + in[1][i];
    memset(kb_frame_buffer(frame, 2)->data, value, N);
    memset(kb_frame_buffer(frame, 4)->data, last_value, N);
    memset(kb_frame_buffer(frame, 5)->data, 9, 1);
    if (at != NOTHING)
        ((uint8_t *)kb_frame_buffer(frame, 2 + (uint32_t)result)->data)[at] = 1;
    return fails ? kb_error_set(err, KB_UNIMPLEMENTED, "the kernel failed") : KB_OK;
}

static kb_status call(kb_error *err)
{
    const int64_t dims[] = {N}, one[] = {1}, none[] = {0};
    sample s;
    fake_frame f;
    kb_frame frame;
    sample_init(&s, 3, sample_record);
    sample_input(&s, KB_DTYPE_F32, 1, "x");
    sample_input(&s, KB_DTYPE_F32, 1, "y");
    sample_output(&s, KB_DTYPE_PRED, 1, "mask");
    sample_output(&s, KB_DTYPE_F32, 1, "out");
    sample_output(&s, KB_DTYPE_PRED, 1, "last");
    sample_hidden(&s, KB_DTYPE_PRED, 1, "hidden");
    sample_hidden(&s, KB_DTYPE_F32, 1, "empty");
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F32, x, 1, dims);
    fake_arg(&f, KB_DTYPE_F32, y, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, mask, 1, dims);
    fake_ret(&f, KB_DTYPE_F32, aliased ? aliased : out, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, last, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, &hidden, 1, one);
    fake_ret(&f, KB_DTYPE_F32, NULL, 1, none);
    for (int i = 0; i < N; i++) {
        x[i] = y[i] = (float)i;
        out[i] = -1;
    }
    *err = (kb_error){.status = KB_OK};
    kb_status status =
        kb_frame_read(&frame, &s.kernel, &f.frame, sample_call(&f, &s.kernel, 0, NULL), err);
    if (CHECK_INT(status, KB_OK))
        status = kb_guard_run(&frame, run, err);
    fake_frame_free(&f);
    return status;
}

static bool copied(void)
{
    return (aliased ? aliased : out)[1] == 2;
}

static void test_right(void)
{
    float *const inputs[] = {NULL, x, y};
    kb_error err;
    for (int i = 0; i < 3; i++) {
        aliased = inputs[i];
        CHECK_INT(call(&err), KB_OK);
        CHECK(copied() && hidden == 9);
        CHECK(aliased == x || x[1] == 1);
        fails = true;
        CHECK_INT(call(&err), KB_UNIMPLEMENTED);
        CHECK_TEXT(err.message, "the kernel failed");
        CHECK(!copied());
        fails = false;
    }
    aliased = NULL;
}

static void test_outside(void)
{
    static const struct {
        int at, result;
        const char *words;
    } cases[] = {
        {N, 0, "output 0 (mask), up to 1 bytes after its 4 elements of bool;"},
        {-1, 1, "output 1 (out), up to 1 bytes before its 4 elements of float32;"},
        {-4096, 1, "output 1 (out), up to 4096 bytes before its"},
        {4 * N, 1, "output 1 (out), up to 1 bytes after its 4 elements of float32;"},
        {4 * N + 4096, 1, "output 1 (out), up to 4097 bytes after its"},
        {2, 3, "output 3 (hidden), up to 2 bytes after its"},
    };
    kb_error err;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        at = cases[i / 2].at;
        result = cases[i / 2].result;
        fails = i % 2;
        CHECK_INT(call(&err), KB_INTERNAL);
        CHECK_HAS(err.message, "op3: the kernel wrote outside of ");
        CHECK_HAS(err.message, cases[i / 2].words);
        CHECK(!copied());
    }
    fails = false;
    at = NOTHING;
}

static void test_bool(void)
{
    kb_error err;
    value = 1;
    CHECK_INT(call(&err), KB_OK);
    CHECK_INT(mask[N - 1], 1);
    value = 4;
    CHECK_INT(call(&err), KB_INTERNAL);
    CHECK_HAS(err.message, "op3: 4 of the 4 elements of output 0 (mask) are neither 0 nor 1, as "
                           "bool requires, the first of them element 0, the byte 4;");
    CHECK(!copied());
    value = 2;
    at = result = 0;
    CHECK_INT(call(&err), KB_INTERNAL);
    CHECK_HAS(err.message, "op3: 3 of the 4 elements of output 0 (mask) are neither 0 nor 1, as "
                           "bool requires, the first of them element 1, the byte 2;");
    value = 0;
    at = NOTHING;
    last_value = 255;
    CHECK_INT(call(&err), KB_INTERNAL);
    CHECK_HAS(err.message, "op3: 4 of the 4 elements of output 2 (last) are neither 0 nor 1");
    last_value = 0;
}

static bool make_call(void)
{
    kb_error err;
    return call(&err) == KB_OK;
}

int main(void)
{
    test_right();
    test_outside();
    test_bool();
    each_allocation("a call", make_call, 6);
    return kb_test_end("test_guard");
}
