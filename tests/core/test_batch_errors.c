/* Proves that a batch that cannot be right is refused before any slice runs, that a failing slice
 * is named and is the last, and that hidden results stay as they were. */
#include "core/kb_batch.h"
#include "kb_test.h"
#include "sample.h"

/* op1(x, y: f32[:]) -> (out: f32[:]; copy: hidden f32[:]) */
typedef struct scene {
    sample s;
    fake_frame f;
    kb_xla_buffer *x, *y, *out, *hidden;
    kb_xla_array *call;
    kb_error err;
} scene;

static float x[64], y[64], out[64], hidden[64];

static void set_dtype(scene *c, int64_t x_mask, int64_t y_mask, int32_t dtype)
{
    const int64_t dims[] = {3, 4, 2};
    sample_init(&c->s, 1, sample_record);
    sample_input(&c->s, dtype, 1, "x");
    sample_input(&c->s, KB_DTYPE_F32, 1, "y");
    sample_output(&c->s, KB_DTYPE_F32, 1, "out");
    sample_hidden(&c->s, KB_DTYPE_F32, 1, "copy");
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    int n_x = __builtin_popcount((unsigned)x_mask), n_y = __builtin_popcount((unsigned)y_mask);
    c->x = fake_arg(&c->f, dtype, x, 1 + n_x, n_x ? dims : dims + 2);
    c->y = fake_arg(&c->f, KB_DTYPE_F32, y, 1 + n_y, n_y ? dims : dims + 2);
    c->out = fake_ret(&c->f, KB_DTYPE_F32, out, 3, dims);
    c->hidden = fake_ret(&c->f, KB_DTYPE_F32, hidden, 3, dims);
    c->call = sample_call(&c->f, &c->s.kernel, 2, (const int64_t[]){x_mask, y_mask});
    sample_recorder_reset(&c->s.kernel);
}

static void set(scene *c, int64_t x_mask, int64_t y_mask)
{
    set_dtype(c, x_mask, y_mask, KB_DTYPE_F32);
}

static kb_status run(scene *c)
{
    kb_frame frame;
    kb_status s = kb_frame_read(&frame, &c->s.kernel, &c->f.frame, c->call, &c->err);
    return s == KB_OK ? kb_batch_run(&frame, &c->err) : s;
}

/* Closes the scene; no slice may have run. */
static void refused(scene *c, const char *message)
{
    if (CHECK_INT(run(c), KB_INVALID_ARGUMENT)) {
        CHECK_INT(c->err.status, KB_INVALID_ARGUMENT);
        CHECK_TEXT(c->err.message, message);
    }
    CHECK_INT(recorder.n_calls, 0);
    fake_frame_free(&c->f);
}

static void test_inconsistent(void)
{
    scene c;
    set(&c, 3, 3);
    c.y->dims[0] = 5;
    refused(&c, "op1: buffer 1 (y) has 5 slices where others have 3");
    set(&c, 3, 3);
    c.x->dims[0] = 0;
    refused(&c, "op1: buffer 1 (y) has 3 slices where others have 0");
    set(&c, 3, 0);
    c.out->dims[1] = 1;
    refused(&c, "op1: buffer 2 (out) has 1 slices where others have 4");
    set(&c, 0, 0);
    c.hidden->dims[0] = 0;
    refused(&c, "op1: buffer 3 (copy) has 0 slices where others have 3");
}

static void test_negative(void)
{
    const int64_t bad[] = {-1, -3, INT64_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[80];
        scene c;
        set(&c, 0, 0);
        c.out->dims[0] = c.hidden->dims[0] = bad[i];
        snprintf(message, sizeof message, "op1: buffer 2 (out) has %lld slices", (long long)bad[i]);
        refused(&c, message);
        set(&c, 3, 3); /* one operand alone */
        c.x->dims[0] = bad[i];
        snprintf(message, sizeof message, "op1: buffer 0 (x) has %lld slices", (long long)bad[i]);
        refused(&c, message);
        set(&c, 3, 3); /* an extent of its own */
        c.x->dims[2] = bad[i];
        refused(&c, "op1: buffer 0 (x) cannot be cut into slices (float32)");
    }
}

static void test_too_large(void)
{
    scene c;
    set(&c, 0, 0);
    c.out->dims[0] = c.hidden->dims[0] = INT64_MAX;
    refused(&c, "op1: batch level 1 belongs to no buffer, or its extent is too large");
    set(&c, 3, 0);
    c.x->dims[2] = INT64_MAX / 2;
    refused(&c, "op1: buffer 0 (x) cannot be cut into slices (float32)");
    set(&c, 3, 0);
    c.x->dims[2] = INT64_MAX / 16; /* only the outer stride overflows */
    refused(&c, "op1: buffer 0 (x) cannot be cut into slices (float32)");
    set_dtype(&c, 3, 0, KB_DTYPE_U8); /* which is not packed */
    c.x->dims[2] = INT64_MAX;
    refused(&c, "op1: buffer 0 (x) cannot be cut into slices (uint8)");
}

static void test_packed(void)
{
    const int32_t packed[] = {KB_DTYPE_S1, KB_DTYPE_U2, KB_DTYPE_S4, KB_DTYPE_F4E2M1FN};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        scene c;
        set_dtype(&c, 3, 0, packed[i]);
        char message[240];
        snprintf(message, sizeof message,
                 "op1: buffer 0 (x) cannot be cut into slices (%s), since several elements share a "
                 "byte; convert it to int8, or to another dtype of whole bytes, before jax.vmap "
                 "[KB2003]",
                 kb_dtype_name(packed[i]));
        refused(&c, message);
        set_dtype(&c, 0, 3, packed[i]); /* the same in every slice: nothing to cut */
        CHECK_INT(run(&c), KB_OK);
        CHECK_INT(recorder.n_calls, 12);
        fake_frame_free(&c.f);
    }
}

/* Without results, a level may belong to no operand: its extent is not to be known. */
static void test_level_of_nobody(void)
{
    const int64_t dims[] = {3, 2};
    for (int64_t mask = 0; mask < 4; mask++) {
        scene c;
        sample_init(&c.s, 1, sample_record);
        sample_input(&c.s, KB_DTYPE_F32, 1, "x");
        fake_frame_init(&c.f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        int n = __builtin_popcount((unsigned)mask);
        fake_arg(&c.f, KB_DTYPE_F32, x, n > 1 ? 3 : n + 1,
                 n > 1 ? (const int64_t[]){3, 4, 2} : dims + 1 - n);
        c.call = sample_call(&c.f, &c.s.kernel, 2, &mask);
        sample_recorder_reset(&c.s.kernel);
        if (mask == 3) {
            CHECK_INT(run(&c), KB_OK);
            CHECK_INT(recorder.n_calls, 12);
            fake_frame_free(&c.f);
        } else {
            refused(&c, mask == 1 ? "op1: batch level 1 belongs to no buffer, or its extent is too "
                                    "large"
                                  : "op1: batch level 0 belongs to no buffer, or its extent is too "
                                    "large");
        }
    }
}

static void test_failing_slice(void)
{
    for (long k = 0; k < 12; k++) {
        scene c;
        set(&c, 3, 1 << 1);
        c.y->dims[1] = 2; /* y has the outer level alone */
        recorder.fail_at = k;
        recorder.status = 9;
        CHECK_INT(run(&c), KB_INTERNAL);
        CHECK_INT(recorder.n_calls, k + 1);
        char message[120];
        snprintf(message, sizeof message,
                 "op1: the kernel failed with status 9 [slice %ld of a batch of 12] [KB3001]", k);
        CHECK_TEXT(c.err.message, message);
        fake_frame_free(&c.f);
    }
    scene c;
    set(&c, 3, 0);
    recorder.fail_at = 12;
    CHECK_INT(run(&c), KB_OK);
    fake_frame_free(&c.f);
}

/* Sums its operands into the result, as a kernel would. */
static int32_t add(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)exception;
    const kb_xla_buffer *a = inputs[0], *b = inputs[1], *sum = outputs[0];
    for (int64_t i = 0; i < sum->dims[0]; i++)
        ((float *)sum->data)[i] = ((float *)a->data)[i] + ((float *)b->data)[i];
    return KB_NUMBA_OK;
}

static void test_hidden_untouched(void)
{
    scene c;
    set(&c, 3, 0);
    c.s.step.host.entry = add;
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
        y[i] = (float)(100 * i);
        out[i] = hidden[i] = -1;
    }
    CHECK_INT(run(&c), KB_OK);
    for (int i = 0; i < 24; i++)
        CHECK_INT(out[i], i + 100 * (i % 2));
    for (int i = 0; i < 64; i++)
        CHECK_INT(hidden[i], -1);
    for (int i = 24; i < 64; i++)
        CHECK_INT(out[i], -1);
    fake_frame_free(&c.f);
}

int main(void)
{
    test_inconsistent();
    test_negative();
    test_too_large();
    test_packed();
    test_level_of_nobody();
    test_failing_slice();
    test_hidden_untouched();
    return kb_test_end("test_batch_errors");
}
