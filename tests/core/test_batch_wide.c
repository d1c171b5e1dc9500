/* Proves which slices a wide step is given: for every combination of levels over the operands, the
 * addresses that it can reach by its number of slices and their distances are those of the narrow
 * steps beside it, each once; and that a plan of both goes step by step. */
#include "core/kb_batch.h"
#include "core/kb_plan.h"
#include "kb_test.h"
#include "sample.h"

#include <stdio.h>

enum { LEVELS = 3, BUFFERS = 3, SLICES_MAX = 200 };

/* op1(x: f32[2], n: s16) -> out: f64[3] */
static const int32_t dtypes[] = {KB_DTYPE_F32, KB_DTYPE_S16, KB_DTYPE_F64};
static const int64_t bytes[] = {8, 2, 24};

typedef struct seen {
    int n_calls, n_slices;
    int64_t address[SLICES_MAX][BUFFERS];
} seen;

static seen narrow, wide;
static char order[64];
static int fail_at = -1;

static kb_status note(seen *s, const kb_frame *frame, const char *name, kb_error *err)
{
    if (strlen(order) + 2 < sizeof order)
        strcat(order, name);
    if (s->n_calls++ == fail_at)
        return kb_error_set(err, KB_INTERNAL, "it fails");
    for (int64_t k = 0; k < frame->n_slices; k++) {
        if (!CHECK(s->n_slices < SLICES_MAX))
            return KB_OK;
        for (uint32_t i = 0; i < BUFFERS; i++) {
            int64_t stride = frame->strides ? frame->strides[i] : 0;
            s->address[s->n_slices][i] =
                (int64_t)(intptr_t)kb_frame_buffer(frame, i)->data + k * stride;
        }
        s->n_slices++;
    }
    return KB_OK;
}

static kb_status run_narrow(const void *step, const kb_frame *frame, kb_error *err)
{
    CHECK_INT(frame->n_slices, 1);
    CHECK(frame->strides == NULL);
    return note(&narrow, frame, step, err);
}

static kb_status run_wide(const void *step, const kb_frame *frame, kb_error *err)
{
    CHECK((frame->strides != NULL) == (frame->n_levels > 0));
    return note(&wide, frame, step, err);
}

static char *base(int i)
{
    return (char *)((uintptr_t)(i + 1) << 32);
}

static kb_status run(const kb_step *steps, uint32_t n, int n_levels, const int64_t *size,
                     const int64_t *masks, kb_error *err)
{
    sample s;
    fake_frame f;
    kb_frame frame;
    sample_init(&s, 1, NULL);
    sample_input(&s, dtypes[0], 1, "x");
    sample_input(&s, dtypes[1], 0, "n");
    sample_output(&s, dtypes[2], 1, "out");
    s.kernel.plan = (kb_plan){.n_steps = n, .steps = steps};
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int i = 0; i < BUFFERS; i++) {
        int64_t dims[LEVELS + 1];
        int rank = 0;
        for (int level = n_levels - 1; level >= 0; level--)
            if (i == 2 || masks[i] >> level & 1)
                dims[rank++] = size[level];
        if (i != 1)
            dims[rank++] = i == 0 ? 2 : 3;
        (i < 2 ? fake_arg : fake_ret)(&f, dtypes[i], base(i), rank, dims);
    }
    kb_xla_array *call = sample_call(&f, &s.kernel, n_levels, masks);
    narrow = wide = (seen){0};
    order[0] = '\0';
    kb_status status = kb_frame_read(&frame, &s.kernel, &f.frame, call, err);
    frame.driver = &frame; /* for a target of GPUs */
    if (CHECK_INT(status, KB_OK))
        status = kb_batch_run(&frame, err);
    fake_frame_free(&f);
    return status;
}

/* Index of the slice of the result that lies at this address. */
static int64_t slice_at(const int64_t *address)
{
    int64_t distance = address[2] - (int64_t)(intptr_t)base(2);
    CHECK_INT(distance % bytes[2], 0);
    return distance / bytes[2];
}

/* Both saw every slice of the result once, and with it the same operands. */
static void compare(int64_t n_slices)
{
    static int64_t by_slice[SLICES_MAX][BUFFERS];
    memset(by_slice, 0, sizeof by_slice);
    CHECK_INT(narrow.n_slices, n_slices);
    CHECK_INT(wide.n_slices, n_slices);
    for (int k = 0; k < narrow.n_slices; k++)
        memcpy(by_slice[slice_at(narrow.address[k])], narrow.address[k], sizeof by_slice[0]);
    for (int k = 0; k < wide.n_slices; k++) {
        int64_t slice = slice_at(wide.address[k]);
        if (!CHECK(slice >= 0 && slice < n_slices))
            return;
        for (int i = 0; i < BUFFERS; i++)
            CHECK_INT(wide.address[k][i], by_slice[slice][i]);
        by_slice[slice][2] = 0; /* not twice */
    }
}

/* Calls that a wide step needs: all slices by those of the group with most. */
static int64_t calls_needed(int n_levels, const int64_t *size, const int64_t *masks)
{
    int64_t all = 1, best = 0;
    for (int first = 0; first < n_levels;) {
        int64_t group = size[first];
        int end = first + 1;
        while (end < n_levels && (masks[0] >> end & 1) == (masks[0] >> (end - 1) & 1) &&
               (masks[1] >> end & 1) == (masks[1] >> (end - 1) & 1))
            group *= size[end++];
        best = group > best ? group : best;
        all *= group;
        first = end;
    }
    return all / best;
}

static void test_all_levels(void)
{
    static const int64_t sizes[][LEVELS] = {{2, 3, 4}, {4, 3, 2}, {1, 5, 1}, {5, 1, 5}, {1, 1, 1}};
    const kb_step steps[] = {{.kind = KB_STEP_FILL, .other = "n"},
                             {.kind = KB_STEP_COPY, .wide = true, .other = "w"}};
    kb_error err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int n_levels = 1; n_levels <= LEVELS; n_levels++)
            for (int64_t x = 0; x < 1 << n_levels; x++)
                for (int64_t n = 0; n < 1 << n_levels; n++) {
                    int64_t masks[] = {x, n}, n_slices = 1;
                    for (int level = 0; level < n_levels; level++)
                        n_slices *= sizes[i][level];
                    CHECK_INT(run(steps, 2, n_levels, sizes[i], masks, &err), KB_OK);
                    compare(n_slices);
                    CHECK_INT(wide.n_calls, calls_needed(n_levels, sizes[i], masks));
                }
}

/* Of groups with as many slices each, the innermost is served at once. */
static void test_ties(void)
{
    static const int64_t sizes[][LEVELS] = {{2, 2, 2}, {3, 3, 1}, {1, 4, 4}};
    static const int64_t masks[] = {5, 0}; /* no two levels are alike */
    const kb_step step = {.kind = KB_STEP_COPY, .wide = true, .other = "w"};
    kb_error err;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t n_slices = sizes[i][0] * sizes[i][1] * sizes[i][2];
        int64_t most = sizes[i][0] > sizes[i][1] ? sizes[i][0] : sizes[i][1];
        CHECK_INT(run(&step, 1, LEVELS, sizes[i], masks, &err), KB_OK);
        CHECK_INT(wide.n_calls, n_slices / most);
        CHECK_INT(wide.n_slices, n_slices);
        for (int k = 0; k < wide.n_slices; k++)
            CHECK_INT(slice_at(wide.address[k]), k);
    }
}

static kb_status read_strides(const void *step, const kb_frame *frame, kb_error *err)
{
    (void)err;
    CHECK_TEXT(step, "w");
    CHECK_INT(frame->n_slices, 1);
    for (uint32_t i = 0; i < kb_kernel_n_buffers(frame->kernel); i++)
        CHECK_INT(frame->strides[i], 4);
    wide.n_calls++;
    return KB_OK;
}

/* A batch of one slice has its distances, too, whether they are kept on the stack or not. */
static void test_one_slice(void)
{
    static const int numbers[] = {1, 2, 7, 33, SAMPLE_BUFFERS};
    static const int64_t dims[] = {1, 1, 1};
    static char memory[4];
    kb_plan_runners[KB_STEP_COPY] = read_strides;
    for (int n_levels = 1; n_levels <= 2; n_levels++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            const kb_step step = {.kind = KB_STEP_COPY, .wide = true, .other = "w"};
            const int64_t mask = (1 << n_levels) - 1;
            sample s;
            fake_frame f;
            kb_frame frame;
            kb_error err;
            sample_init(&s, 1, NULL);
            fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
            sample_input(&s, KB_DTYPE_F32, 1, "x");
            fake_arg(&f, KB_DTYPE_F32, memory, n_levels + 1, dims);
            for (int i = 1; i < numbers[k]; i++) {
                sample_output(&s, KB_DTYPE_F32, 1, "y");
                fake_ret(&f, KB_DTYPE_F32, memory, n_levels + 1, dims);
            }
            s.kernel.plan = (kb_plan){.n_steps = 1, .steps = &step};
            kb_xla_array *call = sample_call(&f, &s.kernel, n_levels, &mask);
            wide = (seen){0};
            if (!CHECK_INT(kb_frame_read(&frame, &s.kernel, &f.frame, call, &err), KB_OK))
                return;
            frame.driver = &frame; /* for a target of GPUs */
            CHECK_INT(kb_batch_run(&frame, &err), KB_OK);
            CHECK_INT(wide.n_calls, 1);
            fake_frame_free(&f);
        }
    kb_plan_runners[KB_STEP_COPY] = run_wide;
}

static void test_no_batch(void)
{
    const kb_step steps[] = {{.kind = KB_STEP_COPY, .wide = true, .other = "w"},
                             {.kind = KB_STEP_FILL, .other = "n"},
                             {.kind = KB_STEP_COPY, .wide = true, .other = "W"}};
    kb_error err;
    CHECK_INT(run(steps, 3, 0, NULL, NULL, &err), KB_OK);
    CHECK_TEXT(order, "wnW");
    CHECK_INT(wide.n_slices, 2);
}

static void test_no_slices(void)
{
    const kb_step steps[] = {{.kind = KB_STEP_COPY, .wide = true, .other = "w"},
                             {.kind = KB_STEP_FILL, .other = "n"}};
    kb_error err;
    for (int level = 0; level < LEVELS; level++)
        for (int64_t mask = 0; mask < 8; mask++) {
            int64_t size[] = {2, 3, 4}, masks[] = {mask, 7 - mask};
            size[level] = 0;
            CHECK_INT(run(steps, 2, 3, size, masks, &err), KB_OK);
            CHECK_TEXT(order, "");
        }
}

/* A step has all its slices before the next has any, whichever way it takes them. */
static void test_order(void)
{
    const kb_step steps[] = {{.kind = KB_STEP_FILL, .other = "a"},
                             {.kind = KB_STEP_COPY, .wide = true, .other = "B"},
                             {.kind = KB_STEP_FILL, .other = "c"},
                             {.kind = KB_STEP_COPY, .wide = true, .other = "D"}};
    kb_error err;
    CHECK_INT(run(steps, 4, 1, (const int64_t[]){3}, (const int64_t[]){1, 0}, &err), KB_OK);
    CHECK_TEXT(order, "aaaBcccD");
    CHECK_INT(run(steps, 4, 2, (const int64_t[]){3, 2}, (const int64_t[]){3, 1}, &err), KB_OK);
    CHECK_TEXT(order, "aaaaaaBBccccccDD");
    CHECK_INT(run(steps, 0, 2, (const int64_t[]){3, 2}, (const int64_t[]){3, 1}, &err), KB_OK);
    CHECK_TEXT(order, "");
}

static void test_failure(void)
{
    const kb_step steps[] = {{.kind = KB_STEP_FILL, .other = "a"},
                             {.kind = KB_STEP_COPY, .wide = true, .other = "B"},
                             {.kind = KB_STEP_FILL, .other = "c"}};
    const int64_t size[] = {2, 3}, masks[] = {3, 1};
    kb_error err;
    fail_at = 4;
    CHECK_INT(run(steps, 3, 2, size, masks, &err), KB_INTERNAL);
    CHECK_TEXT(order, "aaaaa");
    CHECK_TEXT(err.message, "it fails [slice 4 of a batch of 6]");
    fail_at = 1;
    CHECK_INT(run(steps + 1, 2, 2, size, masks, &err), KB_INTERNAL);
    CHECK_TEXT(order, "BB");
    CHECK_TEXT(err.message, "it fails [a batch of 6]");
    CHECK_INT(run(steps + 1, 1, 0, NULL, NULL, &err), KB_OK);
    fail_at = 0;
    CHECK_INT(run(steps + 1, 1, 0, NULL, NULL, &err), KB_INTERNAL);
    CHECK_TEXT(err.message, "it fails");
    fail_at = -1;
}

int main(void)
{
    kb_plan_runners[KB_STEP_FILL] = run_narrow;
    kb_plan_runners[KB_STEP_COPY] = run_wide;
    test_all_levels();
    test_ties();
    test_one_slice();
    test_no_batch();
    test_no_slices();
    test_order();
    test_failure();
    return kb_test_end("test_batch_wide");
}
