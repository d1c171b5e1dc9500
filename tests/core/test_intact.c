/* Proves that a call which changes an input is an error that names the input and the element, that
 * the input is put back, also where the kernel itself fails, and that what shares its memory with a
 * result may change. */
#include "core/kb_dtype.h"
#include "core/kb_memory.h"
#include "hostcuda/kb_intact.h"
#include "kb_test.h"
#include "sample.h"

enum { N = 4, X = 0, Y = 1, NOTHING = -1, N_RESULTS = 3 };

static float x[N], y[N], out[N], other[N], hidden[N];
static int changes = NOTHING, fails, at; /* what the kernel does */

static kb_status run(const kb_frame *frame, kb_error *err)
{
    (void)frame;
    out[0] = 9;
    if (changes != NOTHING)
        for (int i = at; i < N; i += 2)
            (changes == X ? x : y)[i] = 7;
    return fails ? kb_error_set(err, KB_UNIMPLEMENTED, "the kernel failed") : KB_OK;
}

/* `result` has the memory of one of the results: two outputs and one that is hidden. */
static kb_status call_with(int which, float *result, kb_error *err)
{
    const int64_t dims[] = {N};
    sample s;
    fake_frame f;
    kb_frame frame;
    sample_init(&s, 3, sample_record);
    sample_input(&s, KB_DTYPE_F32, 1, "x");
    sample_input(&s, KB_DTYPE_F32, 1, "y");
    sample_output(&s, KB_DTYPE_F32, 1, "out");
    sample_output(&s, KB_DTYPE_F32, 1, "other");
    sample_hidden(&s, KB_DTYPE_F32, 1, "hidden");
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F32, x, 1, dims);
    fake_arg(&f, KB_DTYPE_F32, y, 1, dims);
    float *const results[N_RESULTS] = {out, other, hidden};
    for (int i = 0; i < N_RESULTS; i++)
        fake_ret(&f, KB_DTYPE_F32, i == which ? result : results[i], 1, dims);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = (float)(i + 5 * N);
    }
    *err = (kb_error){.status = KB_OK};
    kb_status status =
        kb_frame_read(&frame, &s.kernel, &f.frame, sample_call(&f, &s.kernel, 0, NULL), err);
    if (CHECK_INT(status, KB_OK))
        status = kb_intact_run(&frame, run, err);
    fake_frame_free(&f);
    return status;
}

static kb_status call(float *result, kb_error *err)
{
    return call_with(0, result, err);
}

static void check_inputs(void)
{
    for (int i = 0; i < N; i++)
        CHECK(x[i] == (float)i && y[i] == (float)(i + 5 * N));
}

static void test_changes(void)
{
    static const char *const words[] = {
        "wrote to input 0 (x), which JAX does not allow: it changed 2 of the 4 elements, the first "
        "of them element 1;",
        "wrote to input 1 (y), which JAX does not allow: it changed 2 of the 4 elements, the first "
        "of them element 1;"};
    kb_error err;
    at = 1;
    for (changes = X; changes <= Y; changes++)
        for (fails = 0; fails < 2; fails++) {
            CHECK_INT(call(out, &err), fails ? KB_UNIMPLEMENTED : KB_INTERNAL);
            CHECK_HAS(err.message, fails ? "the kernel failed" : words[changes]);
            check_inputs();
        }
    fails = at = 0;
}

static void test_right(void)
{
    kb_error err;
    changes = NOTHING;
    CHECK_INT(call(out, &err), KB_OK);
    CHECK(out[0] == 9);
    fails = 1;
    CHECK_INT(call(out, &err), KB_UNIMPLEMENTED);
    CHECK_TEXT(err.message, "the kernel failed");
    fails = 0;
}

/* An input whose memory a result has. */
static void test_alias(void)
{
    kb_error err;
    for (int i = 0; i < N_RESULTS; i++) {
        changes = X;
        CHECK_INT(call_with(i, x, &err), KB_OK);
        CHECK(x[0] == 7 && x[1] == 1);
        CHECK_INT(call_with(i, y, &err), KB_INTERNAL);
        CHECK_HAS(err.message, "input 0 (x)");
        changes = Y;
        CHECK_INT(call_with(i, x, &err), KB_INTERNAL);
        CHECK_HAS(err.message, "input 1 (y)");
        CHECK_INT(call_with(i, y, &err), KB_OK);
        CHECK(y[2] == 7 && y[1] == 1 + 5 * N);
    }
    changes = NOTHING;
}

static void test_no_memory(void)
{
    kb_error err;
    kb_status s = KB_RESOURCE_EXHAUSTED;
    int n = 0;
    while (s != KB_OK && ++n < 10) {
        out[0] = 0;
        kb_memory_fail_nth(n);
        s = call(out, &err);
        kb_memory_fail_nth(0);
        if (s == KB_OK)
            break;
        CHECK_INT(s, KB_RESOURCE_EXHAUSTED);
        CHECK_TEXT(err.message, "op3: no memory to compare inputs with");
        CHECK(out[0] == 0); /* it did not run */
    }
    CHECK(n > 1 && n < 10);
}

int main(void)
{
    test_right();
    test_changes();
    test_alias();
    test_no_memory();
    return kb_test_end("test_intact");
}
