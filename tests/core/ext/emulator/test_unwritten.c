/* Proves what is known of the unwritten memory of a call: which buffers hold nothing at first, and
 * what fills and copies change. */
#include "ext/emulator/kb_guard.h"

#include "allocation.h"
#include "core/kb_dtype.h"
#include "cuda/kb_driver.h"
#include "ext/emulator/kb_hostcuda.h"
#include "fake_xla.h"

enum { N = 128, ITEM = 4 }; /* so many that each map takes memory of its own */

static int32_t input[N], aliased[2][N], output[N], hidden[N];
static uint8_t tiny;
static int32_t is_fresh_outside;

static uint64_t at(const int32_t *p)
{
    return (uintptr_t)p;
}

static bool is_fresh(const int32_t *first, size_t n)
{
    return kb_unwritten_find(at(first), n * sizeof *first) != NULL;
}

static kb_status steps(const kb_frame *frame, kb_error *err)
{
    const kb_driver *cu = frame->driver;
    int32_t source[2] = {7, 8};
    (void)err;
    CHECK(!is_fresh(input, N));
    CHECK(!is_fresh(aliased[0], N));
    CHECK(!is_fresh(aliased[1], N));
    CHECK(is_fresh(output, N));
    CHECK(is_fresh(hidden, 1));
    CHECK(!kb_unwritten_find(at(output) - 1, 4));
    CHECK(!kb_unwritten_find(at(output), sizeof output + 1)); /* not all of it is the output's */

    CHECK_INT(cu->cuMemsetD32Async(at(output), 5, 2, NULL), KB_CU_SUCCESS);
    CHECK_INT(output[1], 5);
    CHECK(!is_fresh(output, 2));
    CHECK(is_fresh(output + 1, 2));
    CHECK(is_fresh(output + 2, N - 2));

    /* a copy takes with it what was not written */
    CHECK_INT(cu->cuMemcpyDtoDAsync(at(hidden), at(output), 4 * ITEM, NULL), KB_CU_SUCCESS);
    CHECK_INT(hidden[1], 5);
    CHECK(!is_fresh(hidden, 2));
    CHECK(is_fresh(hidden + 2, 1));
    CHECK_INT(cu->cuMemcpyDtoDAsync(at(hidden + 2), at(input), 2 * ITEM, NULL), KB_CU_SUCCESS);
    CHECK(!is_fresh(hidden, 4));
    CHECK_INT(cu->cuMemcpyDtoDAsync(at(hidden), at(output + 2), 2 * ITEM, NULL), KB_CU_SUCCESS);
    CHECK(is_fresh(hidden, 1));

    CHECK_INT(cu->cuMemcpyHtoDAsync(at(output + 2), source, sizeof source, NULL), KB_CU_SUCCESS);
    CHECK_INT(output[3], 8);
    CHECK(!is_fresh(output, 4));
    CHECK_INT(cu->cuMemsetD8Async(at(output + 4), 1, ITEM, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemsetD16Async(at(output + 5), 1, 1, NULL), KB_CU_SUCCESS);
    CHECK(!is_fresh(output, 5));
    CHECK(is_fresh(output + 5, 1));
    CHECK(!kb_unwritten_find(at(output + 5), 2));
    CHECK(kb_unwritten_find(at(output + 5) + 2, 1));
    CHECK_INT(cu->cuMemsetD2D32Async(at(output + 5), 2 * ITEM, 9, 1, 2, NULL), KB_CU_SUCCESS);
    CHECK(!is_fresh(output + 5, 1));
    CHECK(is_fresh(output + 6, 1));
    CHECK(!is_fresh(output + 7, 1));
    CHECK(kb_unwritten_find(at(output + 6), 1)); /* nothing behind a row, nor behind the last one */
    CHECK(kb_unwritten_find(at(output + 8), 1));
    CHECK(kb_unwritten_find(at(output + 9), 1));

    kb_unwritten_fill(output + 8, 2 * ITEM); /* as the host says */
    CHECK(!is_fresh(output + 7, 3));
    CHECK(is_fresh(output + 10, 1));
    kb_unwritten_fill(&is_fresh_outside, ITEM); /* of no call */

    CHECK(kb_unwritten_find((uintptr_t)&tiny, 1));
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)&tiny, 3, 1, NULL), KB_CU_SUCCESS);
    CHECK(!kb_unwritten_find((uintptr_t)&tiny, 1));

    /* the rest of the driver is that of the CPU */
    CHECK(cu->cuLaunchKernelEx == kb_hostcuda_driver.cuLaunchKernelEx);
    CHECK_INT(cu->cuMemcpyDtoHAsync(source, at(output), sizeof source, NULL), KB_CU_SUCCESS);
    CHECK_INT(source[1], 5);
    return KB_OK;
}

/* Writes the first output, and nothing of the others. */
static kb_status first_output(const kb_frame *frame, kb_error *err)
{
    const kb_driver *cu = frame->driver;
    (void)err;
    CHECK_INT(cu->cuMemsetD32Async(at(output), 5, N, NULL), KB_CU_SUCCESS);
    return KB_OK;
}

/* Writes all of the others, too. */
static kb_status all_outputs(const kb_frame *frame, kb_error *err)
{
    const kb_driver *cu = frame->driver;
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)&tiny, 3, 1, NULL), KB_CU_SUCCESS);
    return first_output(frame, err);
}

static kb_error error;

/* A fill, and a second step of this kind. */
static kb_status call_with(kb_run *run, kb_step_kind second, uint32_t n_steps)
{
    const int64_t dims[1] = {N}, one[1] = {1}, none[1] = {0};
    const kb_step plan[2] = {
        {.kind = KB_STEP_FILL},
        {.kind = second},
    };
    const kb_buffer_spec buffers[9] = {[3] = {.name = "output"}, [6] = {.name = "tiny"}};
    const kb_kernel kernel = {.name = "kernel",
                              .n_inputs = 3,
                              .n_outputs = 5,
                              .n_hidden = 1,
                              .buffers = buffers,
                              .plan = {.steps = plan, .n_steps = n_steps}};
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_S32, aliased[0], 1, dims);
    fake_arg(&f, KB_DTYPE_S32, input, 1, dims);
    fake_arg(&f, KB_DTYPE_S32, aliased[1], 1, dims);
    fake_ret(&f, KB_DTYPE_S32, output, 1, dims);
    fake_ret(&f, KB_DTYPE_S32, aliased[1], 1, dims);
    fake_ret(&f, KB_DTYPE_S32, aliased[0], 1, dims);
    fake_ret(&f, KB_DTYPE_U8, &tiny, 1, one);
    fake_ret(&f, KB_DTYPE_S32, NULL, 1, none);
    fake_ret(&f, KB_DTYPE_S32, hidden, 1, dims);
    kb_frame frame = {.kernel = &kernel, .xla = &f.frame, .driver = &kb_hostcuda_driver};
    kb_status s = kb_unwritten_run(&frame, run, &error);
    fake_frame_free(&f);
    return s;
}

/* What the last of two steps writes is not known. */
static kb_status call(kb_run *run, uint32_t n_steps)
{
    return call_with(run, KB_STEP_HOST, n_steps);
}

static kb_status nothing(const kb_frame *frame, kb_error *err)
{
    (void)frame, (void)err;
    return KB_OK;
}

static bool make_call(void)
{
    return call(nothing, 2) == KB_OK;
}

int main(void)
{
    CHECK(!is_fresh(output, N)); /* before a call, and after it */
    CHECK_INT(call(steps, 2), KB_OK);
    CHECK(!is_fresh(output, N));
    kb_unwritten_fill(output, sizeof output); /* which nobody asks about */
    CHECK_INT(call(first_output, 1), KB_INTERNAL);
    CHECK_HAS(error.message, "wrote 1 of the 1 elements of output 3 (tiny)");
    CHECK_INT(call(nothing, 1), KB_INTERNAL);
    CHECK_HAS(error.message, "wrote 128 of the 128 elements of output 0 (output)");
    CHECK_INT(call(all_outputs, 1), KB_OK);
    for (kb_step_kind second = KB_STEP_HOST; second < KB_STEP_KINDS; second++) {
        bool is_seen = second >= KB_STEP_LAUNCH && second <= KB_STEP_COPY;
        CHECK_INT(call_with(first_output, second, 2), is_seen ? KB_INTERNAL : KB_OK);
    }
    each_allocation("a call", make_call, 4);
    return kb_test_end("test_unwritten");
}
