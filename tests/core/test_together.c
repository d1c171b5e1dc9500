/* Proves that the error of one device fails the call that ends what devices do together. */
#include "core/kb_handler.h"

#include "core/kb_dtype.h"
#include "core/kb_handler.h"
#include "kb_test.h"
#include "sample.h"

static void begin(fake_frame *f, int64_t run, int64_t call)
{
    fake_run_set(run);
    fake_frame_init(f, fake_api(4), KB_XLA_STAGE_EXECUTE);
    fake_attr_scalar(f, "together", KB_DTYPE_S64, &call, sizeof call);
}

static kb_status keep(int64_t run, int64_t call, const char *text)
{
    fake_frame f;
    kb_error err;
    begin(&f, run, call);
    kb_error_set(&err, KB_INTERNAL, "%s", text);
    kb_status s = kb_together_keep(&f.frame, &err);
    fake_frame_free(&f);
    return s;
}

static void expect(int64_t run, int64_t call, const char *text)
{
    fake_frame f;
    begin(&f, run, call);
    kb_xla_error *error = kb_together_execute(&f.frame);
    if (!text)
        CHECK_PTR(error, NULL);
    else if (CHECK(error != NULL))
        CHECK_TEXT(error->message, text);
    fake_error_destroy(error);
    fake_frame_free(&f);
}

static void test_an_error_fails_the_same_call_of_the_same_run(void)
{
    expect(1, 1, NULL);
    CHECK_INT(keep(1, 1, "first [KB3001]"), KB_OK);
    CHECK_INT(keep(1, 1, "second [KB3001]"), KB_OK);
    expect(1, 1, "first [KB3001]");
    expect(1, 1, "first [KB3001]"); /* of another device */
    expect(1, 2, NULL);
    expect(2, 1, NULL);
}

static void test_the_latest_errors_are_kept(void)
{
    for (int64_t run = 100; run < 100 + KB_TOGETHER_MAX; run++)
        CHECK_INT(keep(run, 7, "late [KB3001]"), KB_OK);
    expect(1, 1, NULL);
    expect(100, 7, "late [KB3001]");
    expect(100 + KB_TOGETHER_MAX - 1, 7, "late [KB3001]");
}

static void test_other_calls_fail_at_once(void)
{
    fake_frame f;
    kb_error err;
    CHECK_INT(keep(-1, 1, "without a run"), KB_INTERNAL);
    fake_run_set(1);
    kb_error_set(&err, KB_INTERNAL, "alone");
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    CHECK_INT(kb_together_keep(&f.frame, &err), KB_INTERNAL);
    int32_t narrow = 1;
    fake_attr_scalar(&f, "together", KB_DTYPE_S32, &narrow, sizeof narrow);
    CHECK_INT(kb_together_keep(&f.frame, &err), KB_INTERNAL);
    fake_frame_free(&f);
    begin(&f, 1, 1);
    f.frame.api = fake_api(3);
    CHECK_INT(kb_together_keep(&f.frame, &err), KB_INTERNAL);
    kb_xla_error *error = kb_together_execute(&f.frame); /* nobody knows of which run it is */
    CHECK_PTR(error, NULL);
    fake_frame_free(&f);
    CHECK_INT(fake_errors_alive(), 0);
}

static void test_damaged(void)
{
    fake_frame f;
    begin(&f, 1, 1);
    f.frame.attrs.struct_size -= 1;
    kb_error err;
    kb_error_set(&err, KB_INTERNAL, "of a damaged call");
    CHECK_INT(kb_together_keep(&f.frame, &err), KB_INTERNAL);
    kb_xla_error *error = kb_together_execute(&f.frame);
    if (CHECK(error != NULL))
        CHECK_HAS(error->message, "XLA's list of attributes has 47 bytes, expected 48 or more");
    fake_error_destroy(error);
    fake_frame_free(&f);
}

/* Neither may be part of a CUDA graph. */
static void test_metadata(void)
{
    kb_xla_error *(*const handlers[])(kb_xla_frame *) = {kb_together_execute, kb_handler_idle};
    for (int i = 0; i < 2; i++) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_ask_metadata(&f);
        CHECK_PTR(handlers[i](&f.frame), NULL);
        CHECK_INT(f.metadata.traits, 0);
        fake_frame_free(&f);
    }
}

int main(void)
{
    test_an_error_fails_the_same_call_of_the_same_run();
    test_the_latest_errors_are_kept();
    test_other_calls_fail_at_once();
    test_damaged();
    test_metadata();
    return kb_test_end("test_together");
}
