/* Proves that a write outside of a result is an error that names it and leaves the memory of XLA
 * alone, that results and inputs of the same memory move together, and what a bool may be; that a
 * call which changes an input is an error that names the input and the element, that the input is
 * put back, also where the kernel itself fails, and that what shares its memory with a result may
 * change. */
#include "ext/emulator/kb_guard.h"

#include "allocation.h"
#include "core/kb_dtype.h"
#include "kb_test.h"
#include "sample.h"

enum { N = 4, NOTHING = 1000, Y_FROM = 5 * N, OUT = 3, TEMPORARY = 7 }; /* buffers */

static float x[N], y[N], out[N], temporary[N];
static uint8_t mask[N], last[N], hidden, value, last_value;
static int at = NOTHING, result; /* the byte that the kernel writes, and to which result */
static float *aliased;           /* the input whose memory a result has, or NULL */
static int which = OUT;          /* that result */
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

/* Runs a frame in one of the guarded ways. */
static kb_status call_in(kb_status (*way)(const kb_frame *, kb_run *, kb_error *), kb_run *of,
                         kb_error *err)
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
    sample_hidden(&s, KB_DTYPE_F32, 1, "temporary");
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F32, x, 1, dims);
    fake_arg(&f, KB_DTYPE_F32, y, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, mask, 1, dims);
    fake_ret(&f, KB_DTYPE_F32, aliased && which == OUT ? aliased : out, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, last, 1, dims);
    fake_ret(&f, KB_DTYPE_PRED, &hidden, 1, one);
    fake_ret(&f, KB_DTYPE_F32, NULL, 1, none);
    fake_ret(&f, KB_DTYPE_F32, aliased && which == TEMPORARY ? aliased : temporary, 1, dims);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = (float)(i + Y_FROM);
        out[i] = -1;
    }
    *err = (kb_error){.status = KB_OK};
    kb_status status =
        kb_frame_read(&frame, &s.kernel, &f.frame, sample_call(&f, &s.kernel, 0, NULL), err);
    if (CHECK_INT(status, KB_OK))
        status = way(&frame, of, err);
    fake_frame_free(&f);
    return status;
}

static kb_status call(kb_error *err)
{
    return call_in(kb_guard_results, run, err);
}

static bool copied(void)
{
    return (aliased ? aliased : out)[1] == 2 + Y_FROM;
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

/* The inputs that the kernel changes from element `from` on, or NULL. */
static float *changed, *changed_too;
static int from;

static kb_status change(const kb_frame *frame, kb_error *err)
{
    (void)frame;
    out[0] = 9;
    for (int i = from; changed && i < N; i += 2)
        changed[i] = 7;
    for (int i = from; changed_too && i < N; i += 2)
        changed_too[i] = 8;
    return fails ? kb_error_set(err, KB_UNIMPLEMENTED, "the kernel failed") : KB_OK;
}

static kb_status call_changing(kb_error *err)
{
    return call_in(kb_guard_inputs, change, err);
}

static void test_changes(void)
{
    static const char *const words[] = {
        "wrote to input 0 (x), which JAX does not allow: it changed 2 of the 4 elements, the first "
        "of them element 1;",
        "wrote to input 1 (y), which JAX does not allow: it changed 2 of the 4 elements, the first "
        "of them element 1;"};
    kb_error err;
    CHECK_INT(call_changing(&err), KB_OK);
    CHECK(out[0] == 9);
    from = 1;
    for (int i = 0; i < 4; i++) {
        changed = i / 2 ? y : x;
        fails = i % 2;
        CHECK_INT(call_changing(&err), fails ? KB_UNIMPLEMENTED : KB_INTERNAL);
        CHECK_HAS(err.message, fails ? "the kernel failed" : words[i / 2]);
        for (int k = 0; k < N; k++)
            CHECK(x[k] == (float)k && y[k] == (float)(k + Y_FROM));
    }
    fails = false;
    changed = y;
    changed_too = x;
    CHECK_INT(call_changing(&err), KB_INTERNAL);
    CHECK_HAS(err.message, words[0]); /* the first one is named, and both are put back */
    for (int k = 0; k < N; k++)
        CHECK(x[k] == (float)k && y[k] == (float)(k + Y_FROM));
    changed_too = NULL;
    from = 0;
}

/* An input whose memory a result has, an output or one that is hidden, may change. */
static void test_aliased_changes(void)
{
    const int results[] = {OUT, TEMPORARY};
    kb_error err;
    for (int i = 0; i < 8; i++) {
        which = results[i / 4];
        aliased = i / 2 % 2 ? y : x;
        changed = i % 2 ? y : x;
        CHECK_INT(call_changing(&err), aliased == changed ? KB_OK : KB_INTERNAL);
        if (aliased == changed)
            CHECK(changed[0] == 7 && changed[2] == 7 && changed[1] != 7);
        else
            CHECK_HAS(err.message, changed == x ? "input 0 (x)" : "input 1 (y)");
    }
    which = OUT;
    aliased = changed = NULL;
}

static bool make_changing_call(void)
{
    kb_error err;
    kb_status s = call_changing(&err);
    if (s != KB_OK) { /* it did not run */
        CHECK_TEXT(err.message, "op3: no memory to compare inputs with");
        CHECK(out[0] == -1);
    }
    return s == KB_OK;
}

int main(void)
{
    test_right();
    test_outside();
    test_bool();
    test_changes();
    test_aliased_changes();
    each_allocation("a call", make_call, 7);
    each_allocation("a call that compares", make_changing_call, 2);
    return kb_test_end("test_guard");
}
