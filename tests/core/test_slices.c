/* Proves what a cursor holds, whatever memory it was made in and however many buffers it has: the
 * kernel's own axes and the addresses of one slice; and that slices run from where they begin to
 * where they end. */
#include "core/kb_plan.h"
#include "core/kb_slices.h"
#include "kb_test.h"
#include "sample.h"
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEVELS = 3, MOST = KB_CURSOR_BUFFERS + 2, SLICES = 2 * 3 * 4 };

static const int64_t size[LEVELS] = {2, 3, 4}; /* the innermost level first */

/* op8(b0: f64[5], b1: f64[5], ...) -> the second half of as many buffers; each has a stride of its
 * own on each level. */
typedef struct scene {
    sample s;
    fake_frame f;
    kb_frame frame;
    kb_slices slices;
    kb_cursor cursor;
    kb_error err;
    int64_t strides[LEVELS * MOST];
} scene;

static scene c;

/* Addresses that are never read. */
static char *base(uint32_t i)
{
    return (char *)((uintptr_t)(i + 1) << 32);
}

static void set(uint32_t n)
{
    const int64_t dims[] = {4, 3, 2, 5};
    int64_t masks[MOST];
    sample_init(&c.s, 8, sample_record);
    fake_frame_init(&c.f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (uint32_t i = 0; i < n; i++) {
        masks[i] = 7;
        (i < n / 2 ? sample_input : sample_output)(&c.s, KB_DTYPE_F64, 1, "b");
        (i < n / 2 ? fake_arg : fake_ret)(&c.f, KB_DTYPE_F64, base(i), 4, dims);
        for (uint32_t level = 0; level < LEVELS; level++)
            c.strides[level * n + i] = 1000 * (level + 1) + i;
    }
    kb_xla_array *call = sample_call(&c.f, &c.s.kernel, LEVELS, masks);
    CHECK_INT(kb_frame_read(&c.frame, &c.s.kernel, &c.f.frame, call, &c.err), KB_OK);
    c.slices = (kb_slices){
        .frame = &c.frame, .n_levels = LEVELS, .n_buffers = n, .count = 24, .strides = c.strides};
    memcpy(c.slices.size, size, sizeof size);
    memset(&c.cursor, 0xff, sizeof c.cursor);
}

/* Where buffer i is in a slice, without the levels from `first` to before `end`. */
static char *address(uint32_t i, int64_t slice, uint32_t first, uint32_t end)
{
    char *at = base(i);
    for (uint32_t level = 0; level < LEVELS; level++)
        if (level < first || level >= end) {
            at += slice % size[level] * (1000 * (level + 1) + i);
            slice /= size[level];
        }
    return at;
}

static void close_scene(void)
{
    kb_cursor_close(&c.cursor);
    fake_frame_free(&c.f);
}

static void test_cursors(void)
{
    const uint32_t numbers[] = {0, 1, 2, 15, 16, 17, 18};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        uint32_t n = numbers[k];
        set(n);
        if (!CHECK_INT(kb_cursor_open(&c.cursor, &c.slices, &c.err), KB_OK))
            return;
        CHECK_INT(c.cursor.allocated != NULL, n > KB_CURSOR_BUFFERS);
        CHECK_PTR(c.cursor.frame.kernel, &c.s.kernel);
        CHECK_PTR(c.cursor.frame.xla, &c.f.frame);
        CHECK_INT(c.cursor.frame.n_levels, LEVELS);
        for (uint32_t i = 0; i < n; i++) {
            const kb_xla_buffer *b = kb_frame_buffer(&c.cursor.frame, i);
            CHECK_PTR(b, &c.cursor.buffers[i]);
            CHECK_INT(b->dtype, KB_DTYPE_F64);
            CHECK_INT(b->rank, 1);
            CHECK_INT(b->dims[0], 5);
            CHECK_INT(kb_frame_raw(&c.frame, i)->rank, 4); /* as it was */
        }
        close_scene();
    }
}

/* Buffers that are not all of a batch keep the axes that they have. */
static void test_axes(void)
{
    set(2);
    kb_xla_buffer *lone = (kb_xla_buffer *)kb_frame_raw(&c.frame, 0);
    lone->rank = 1;
    lone->dims = NULL; /* neither read nor moved */
    CHECK_INT(kb_cursor_open(&c.cursor, &c.slices, &c.err), KB_OK);
    CHECK_INT(c.cursor.buffers[0].rank, 1);
    CHECK_PTR(c.cursor.buffers[0].dims, NULL);
    CHECK_PTR(c.cursor.buffers[1].dims, kb_frame_raw(&c.frame, 1)->dims + 3);
    close_scene();
}

static void test_no_memory(void)
{
    for (uint32_t n = 15; n <= MOST; n++) {
        set(n);
        torture_fail_nth(1);
        kb_status s = kb_cursor_open(&c.cursor, &c.slices, &c.err);
        torture_fail_nth(0);
        char text[80];
        snprintf(text, sizeof text, "op8: no memory for a batch of 3 levels over %u buffers", n);
        if (!CHECK_INT(s, n > KB_CURSOR_BUFFERS ? KB_RESOURCE_EXHAUSTED : KB_OK))
            return;
        if (s != KB_OK)
            CHECK_TEXT(c.err.message, text);
        CHECK_PTR(c.cursor.allocated, NULL);
        close_scene();
    }
}

/* Every group of levels, and none, is left where it begins. */
static void test_seek(void)
{
    set(MOST);
    ((kb_xla_buffer *)kb_frame_raw(&c.frame, 3))->data = NULL;
    CHECK_INT(kb_cursor_open(&c.cursor, &c.slices, &c.err), KB_OK);
    for (uint32_t first = 0; first <= LEVELS; first++)
        for (uint32_t end = first; end <= LEVELS; end++) {
            const kb_slice_group inner = {first, end, 1};
            int64_t outer = SLICES;
            for (uint32_t level = first; level < end; level++)
                outer /= size[level];
            for (int64_t slice = outer - 1; slice >= 0; slice--) {
                kb_cursor_seek(&c.cursor, &c.slices, &inner, slice);
                for (uint32_t i = 0; i < MOST; i++)
                    CHECK_PTR(c.cursor.buffers[i].data,
                              i == 3 ? NULL : address(i, slice, first, end));
            }
        }
    close_scene();
}

static int64_t next, fail_at;

static kb_status expect_slice(const void *step, const kb_frame *frame, kb_error *err)
{
    CHECK_PTR(step, &next);
    CHECK_PTR(frame, &c.cursor.frame);
    CHECK_INT(frame->n_slices, 1);
    CHECK_PTR(frame->strides, NULL);
    for (uint32_t i = 0; i < MOST; i++)
        CHECK_PTR(kb_frame_buffer(frame, i)->data, i == 3 ? NULL : address(i, next, 0, 0));
    return next++ == fail_at ? kb_error_set(err, KB_NOT_FOUND, "it fails") : KB_OK;
}

/* From each slice to each other: those between, in their order, and none behind one that fails. */
static void test_run(void)
{
    const kb_step step = {.kind = KB_STEP_FILL, .other = &next};
    kb_plan_runners[KB_STEP_FILL] = expect_slice;
    set(MOST);
    c.frame.driver = &c; /* for a target of GPUs */
    ((kb_xla_buffer *)kb_frame_raw(&c.frame, 3))->data = NULL;
    CHECK_INT(kb_cursor_open(&c.cursor, &c.slices, &c.err), KB_OK);
    for (int64_t begin = 0; begin < SLICES; begin++)
        for (int64_t end = begin; end <= SLICES; end++) {
            int64_t failed = -5;
            c.cursor.frame.n_slices = 9; /* as a wide step leaves them */
            c.cursor.frame.strides = c.strides;
            next = begin;
            fail_at = -1;
            CHECK_INT(kb_slices_run(&c.slices, &c.cursor, &step, begin, end, &failed, &c.err),
                      KB_OK);
            CHECK_INT(next, end);
            CHECK_INT(failed, -5);
            if (begin == end)
                continue;
            char text[80];
            next = begin;
            fail_at = (begin + end) / 2;
            CHECK_INT(kb_slices_run(&c.slices, &c.cursor, &step, begin, end, &failed, &c.err),
                      KB_NOT_FOUND);
            CHECK_INT(next, fail_at + 1);
            CHECK_INT(failed, fail_at);
            snprintf(text, sizeof text, "it fails [slice %lld of a batch of 24]",
                     (long long)fail_at);
            CHECK_TEXT(c.err.message, text);
        }
    close_scene();
}

int main(void)
{
    test_cursors();
    test_axes();
    test_no_memory();
    test_seek();
    test_run();
    return kb_test_end("test_slices");
}
