/* Proves that a plan runs its steps in order on the frame's buffers, and stops at the first
 * failure.
 */
#include "core/kb_frame.h"
#include "core/kb_plan.h"
#include "kb_test.h"
#include "sample.h"

static char order[8];

static int32_t first(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    strcat(order, "1");
    return KB_NUMBA_OK;
}

static int32_t second(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)exception;
    strcat(order, "2");
    return inputs == outputs ? KB_NUMBA_OK : 5; /* no buffers at all */
}

static int32_t failing(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)exception, (void)inputs, (void)outputs;
    strcat(order, "f");
    return 7;
}

static kb_status run(const kb_step *steps, uint32_t n, kb_error *err)
{
    sample s;
    sample_init(&s, 2, sample_record);
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    kb_frame frame;
    kb_status status =
        kb_frame_read(&frame, &s.kernel, &f.frame, sample_call(&f, &s.kernel, 0, NULL), err);
    order[0] = '\0';
    if (CHECK_INT(status, KB_OK)) {
        const kb_plan plan = {.n_steps = n, .steps = steps};
        status = kb_plan_run(&plan, &frame, err);
    }
    fake_frame_free(&f);
    return status;
}

#define HOST(function)                                                                             \
    {                                                                                              \
        .kind = KB_STEP_HOST, .host = {.entry = (function) }                                       \
    }

static void test_order(void)
{
    kb_error err;
    const kb_step steps[] = {HOST(first), HOST(second), HOST(first), HOST(second)};
    CHECK_INT(run(steps, 4, &err), KB_OK);
    CHECK_TEXT(order, "1212");
    CHECK_INT(run(steps + 1, 2, &err), KB_OK);
    CHECK_TEXT(order, "21");
    CHECK_INT(run(NULL, 0, &err), KB_OK);
    CHECK_TEXT(order, "");
}

static void test_stops(void)
{
    kb_error err;
    const kb_step steps[] = {HOST(first), HOST(failing), HOST(second)};
    CHECK_INT(run(steps, 3, &err), KB_INTERNAL);
    CHECK_TEXT(order, "1f");
    CHECK_HAS(err.message, "op2: ");
    CHECK_HAS(err.message, "status 7");
}

static void test_unknown_kind(void)
{
    kb_error err;
    kb_step steps[] = {HOST(first), HOST(first), HOST(second)};
    steps[1].kind = (kb_step_kind)77;
    CHECK_INT(run(steps, 3, &err), KB_INTERNAL);
    CHECK_TEXT(order, "1");
    CHECK_HAS(err.message, "unknown kind 77");
}

int main(void)
{
    test_order();
    test_stops();
    test_unknown_kind();
    return kb_test_end("test_plan");
}
