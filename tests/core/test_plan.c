/* Proves that a plan runs its steps in order on the frame's buffers, each by the runner of its
 * kind, and stops at the first failure. */
#include "core/kb_frame.h"
#include "core/kb_plan.h"
#include "kb_test.h"
#include "sample.h"

#include <stdio.h>

static char order[16];

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
    frame.driver = &frame; /* for a target of GPUs */
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
    static const int kinds[] = {77, KB_STEP_KINDS, KB_STEP_LAUNCH, -1};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char text[64];
        steps[1].kind = (kb_step_kind)kinds[i];
        CHECK_INT(run(steps, 3, &err), KB_INTERNAL);
        CHECK_TEXT(order, "1");
        snprintf(text, sizeof text, "a plan holds a step of kind %d, which nothing runs", kinds[i]);
        CHECK_TEXT(err.message, text);
        CHECK_INT(kb_plan_concurrency(&steps[1], NULL), KB_CONCURRENT_NEVER);
    }
}

static kb_status append(const void *step, const kb_frame *frame, kb_error *err)
{
    CHECK(frame->kernel != NULL);
    strcat(order, step);
    return strcmp(step, "x") == 0 ? kb_error_set(err, KB_NOT_FOUND, "the end") : KB_OK;
}

static kb_status append_twice(const void *step, const kb_frame *frame, kb_error *err)
{
    (void)append(step, frame, err);
    return append(step, frame, err);
}

/* Each kind has its runner, which gets its step; kinds without one stay unknown. */
static void test_runners(void)
{
    kb_error err;
    kb_step steps[] = {
        {.kind = KB_STEP_FILL, .other = "a"}, {.kind = KB_STEP_COPY, .other = "b"}, HOST(first),
        {.kind = KB_STEP_FILL, .other = "c"}, {.kind = KB_STEP_COPY, .other = "x"}, HOST(first)};
    CHECK_INT(run(steps, 6, &err), KB_INTERNAL);
    kb_plan_runners[KB_STEP_FILL] = append;
    CHECK_INT(run(steps, 6, &err), KB_INTERNAL);
    CHECK_TEXT(order, "a");
    kb_plan_runners[KB_STEP_COPY] = append_twice;
    CHECK_INT(run(steps, 4, &err), KB_OK);
    CHECK_TEXT(order, "abb1c");
    CHECK_INT(run(steps, 6, &err), KB_NOT_FOUND);
    CHECK_TEXT(order, "abb1cxx");
    CHECK_TEXT(err.message, "the end");
    steps[1].kind = KB_STEP_CALLBACK;
    CHECK_INT(run(steps, 6, &err), KB_INTERNAL);
    CHECK_TEXT(order, "a");
}

static kb_status called_before(const void *handle, const kb_frame *frame, kb_error *err)
{
    CHECK(frame->kernel != NULL);
    strcat(order, "p");
    const int64_t number = *(const int64_t *)handle;
    return number < 0 ? kb_error_set(err, KB_NOT_FOUND, "%d", (int)number) : KB_OK;
}

/* Python is called before a function that has a handle, which does not run if that fails. */
static void test_handles(void)
{
    kb_error err;
    kb_step steps[] = {HOST(first), HOST(second)};
    kb_plan_runners[KB_STEP_CALLBACK] = called_before;
    steps[1].host.handle = 3;
    CHECK_INT(run(steps, 2, &err), KB_OK);
    CHECK_TEXT(order, "1p2");
    steps[0].host.handle = -3;
    CHECK_INT(run(steps, 2, &err), KB_NOT_FOUND);
    CHECK_TEXT(order, "p");
    CHECK_TEXT(err.message, "-3");
}

int main(void)
{
    test_order();
    test_stops();
    test_unknown_kind();
    test_runners();
    test_handles();
    return kb_test_end("test_plan");
}
