/* Proves that a write outside of a result is an error that names it and leaves the memory of XLA
 * alone, that results and inputs of the same memory move together, and what a bool may be. */
#include "hostcuda/kb_guard.h"

#include "allocation.h"
#include "core/kb_dtype.h"
#include "kb_test.h"
#include "sample.h"

enum { N = 4, NOTHING = 1000 };

static float x[N], y[N], out[N];
static uint8_t mask[N], hidden[N], value;
static int at = NOTHING, result = 0; /* the byte that the kernel writes, and to which result */
static bool fails, aliased;

static kb_status run(const kb_frame *frame, kb_error *err)
{
    const kb_xla_buffer *in = kb_frame_buffer(frame, 0);
    float *to = kb_frame_buffer(frame, 2)->data;
    CHECK((uintptr_t)to % 64 == 0);
    CHECK(to != out && to != x);
    CHECK((in->data == to) == aliased);
    CHECK(kb_frame_buffer(frame, 1)->data == y);
    CHECK(kb_frame_raw(frame, 2)->data == to); /* the batch finds the same */
    for (int i = 0; i < N; i++)
        to[i] = 2 * ((const float *)in->data)[i];
    memset(kb_frame_buffer(frame, 3)->data, value, N);
    memset(kb_frame_buffer(frame, 4)->data, 9, N);
    if (at != NOTHING)
        ((uint8_t *)kb_frame_buffer(frame, 2 + (uint32_t)result)->data)[at] = 1;
    return fails ? kb_error_set(err, KB_UNIMPLEMENTED, "the kernel failed") : KB_OK;
}

static kb_status call(kb_error *err)
{
    const int64_t dims[] = {N}, none[] = {0};
    sample s;
    fake_frame f;
    kb_frame frame;
    sample_init(&s, 3, sample_record);
    sample_input(&s, KB_DTYPE_F32, 1, "x");
    sample_input(&s, KB_DTYPE_F32, 1, "y");
    sample_output(&s, KB_DTYPE_F32, 1, "out");
    sample_output(&s, KB_DTYPE_PRED, 1, "mask");
    sample_hidden(&s, KB_DTYPE_PRED, 1, "hidden");
    sample_hidden(&s, KB_DTYPE_F32, 1, "empty");
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F32, x, 1, dims);
    fake_arg(&f, KB_DTYPE_F32, y, 1, dims);
    fake_ret(&f, KB_DTYPE_F32, aliased ? x : out, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, mask, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, hidden, 1, dims);
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
    return (aliased ? x : out)[1] == 2;
}

static void test_right(void)
{
    kb_error err;
    for (int i = 0; i < 2; i++) {
        aliased = i;
        CHECK_INT(call(&err), KB_OK);
        CHECK(copied() && y[1] == 1 && hidden[1] == 9);
        fails = true;
        CHECK_INT(call(&err), KB_UNIMPLEMENTED);
        CHECK_TEXT(err.message, "the kernel failed");
        CHECK(!copied());
        fails = false;
    }
    aliased = false;
}

static void test_outside(void)
{
    static const struct {
        int at, result;
        const char *words;
    } cases[] = {
        {-1, 0, "output 0 (out), up to 1 bytes before its 4 elements of float32;"},
        {-4096, 0, "output 0 (out), up to 4096 bytes before its"},
        {4 * N, 0, "output 0 (out), up to 1 bytes after its 4 elements of float32;"},
        {4 * N + 4096, 0, "output 0 (out), up to 4097 bytes after its"},
        {N, 1, "output 1 (mask), up to 1 bytes after its 4 elements of bool;"},
        {N + 1, 2, "output 2 (hidden), up to 2 bytes after its"},
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
    CHECK_HAS(err.message, "op3: 4 of the 4 elements of output 1 (mask) are neither 0 nor 1, as "
                           "bool requires, the first of them element 0, the byte 4;");
    CHECK(!copied());
    value = 2;
    at = 0;
    result = 1;
    CHECK_INT(call(&err), KB_INTERNAL);
    CHECK_HAS(err.message, "op3: 3 of the 4 elements of output 1 (mask) are neither 0 nor 1, as "
                           "bool requires, the first of them element 1, the byte 2;");
    value = 0;
    at = NOTHING;
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
