/* Proves that a kernel which is called for ranges of its rows gets each row once, with the right
 * addresses and extents, and that calls whose buffers do not have these rows are refused. */
#include "core/kb_batch.h"
#include "kb_test.h"
#include "sample.h"
#include "torture.h"

#include <pthread.h>
#include <time.h>

enum { ROW = 4, MOST = 1 << 16 };

static struct {
    atomic_int n_calls;
    atomic_int wrong;      /* calls whose extents are not those of a range of rows */
    atomic_int fail_from;  /* the first row that fails; -1: none */
    int64_t first, second; /* the extents of the first two axes, in a call for all rows */
    long pause_ns;         /* that a call takes for each row */
} seen;

static double x[MOST * ROW], n[ROW], out[MOST * ROW];

/* out[i, j] = x[i, j] + n, where out has two axes for the last one of x and n; x begins with the
 * number of its row. */
static int32_t add(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result;
    const kb_xla_buffer *from = inputs[0], *by = inputs[1], *to = outputs[0];
    *exception = NULL;
    atomic_fetch_add(&seen.n_calls, 1);
    bool is_part = from->dims[1] == 1, is_whole = from->dims[1] == seen.second;
    if (!(is_part || is_whole) || (to->dims[0] == 0 && seen.first > 0) ||
        from->dims[0] != to->dims[0] || from->dims[2] != ROW || to->dims[2] != 2 ||
        to->dims[3] != ROW / 2 || by->dims[0] != ROW || by->data != n)
        atomic_fetch_add(&seen.wrong, 1);
    int64_t n_rows = to->dims[0] * to->dims[1];
    struct timespec pause = {0, seen.pause_ns * n_rows};
    if (seen.pause_ns)
        nanosleep(&pause, NULL);
    const double *a = from->data;
    for (int64_t i = 0; i < n_rows * ROW; i++) {
        if (seen.fail_from >= 0 && i % ROW == 0 && a[i] >= seen.fail_from)
            return KB_NUMBA_USER_EXCEPTION;
        ((double *)to->data)[i] += a[i] + n[i % ROW];
    }
    return KB_NUMBA_OK;
}

static kb_status run(int64_t first, int64_t second, int64_t axes, const int64_t *masks,
                     bool concurrent, kb_error *err)
{
    static sample s;
    static fake_frame f;
    static uint64_t id;
    const int64_t dims[] = {first, second, ROW}, of_n[] = {ROW},
                  of_out[] = {first, second, 2, ROW / 2};
    atomic_store(&seen.n_calls, 0);
    seen.first = first;
    seen.second = second;
    for (int64_t i = 0; i < first * second * ROW; i++) {
        x[i] = (double)(i / ROW);
        out[i] = 0;
    }
    sample_init(&s, ++id, add);
    sample_input(&s, KB_DTYPE_F64, 3, "x");
    sample_input(&s, KB_DTYPE_F64, 1, "n");
    sample_output(&s, KB_DTYPE_F64, 4, "out");
    s.step.host.concurrent = concurrent;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&f, KB_DTYPE_F64, x, 3, dims);
    fake_arg(&f, KB_DTYPE_F64, n, 1, of_n);
    fake_ret(&f, KB_DTYPE_F64, out, 4, of_out);
    kb_xla_array *call =
        sample_call(&f, &s.kernel, axes + KB_BATCH_ORDER * KB_SLICES_OF_ROWS, masks);
    kb_frame frame;
    kb_status status = kb_frame_read(&frame, &s.kernel, &f.frame, call, err);
    if (status == KB_OK)
        status = kb_batch_run(&frame, err);
    fake_frame_free(&f);
    return status;
}

static void check_rows(int64_t first, int64_t second, int64_t axes)
{
    static const int64_t masks[] = {1, 0};
    kb_error err;
    CHECK_INT(run(first, second, axes, masks, true, &err), KB_OK);
    CHECK_INT(atomic_load(&seen.wrong), 0);
    for (int64_t i = 0; i < first * second * ROW; i++)
        if (out[i] != x[i] + n[i % ROW])
            CHECK_INT(out[i], x[i] + n[i % ROW]);
}

static void test_each_row_once(void)
{
    static const int64_t sizes[] = {0, 1, 127, 128, 129, 256, 1000, 5000};
    for (int threads = 2; threads <= 4; threads++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (seen.pause_ns = 0; seen.pause_ns < 1000; seen.pause_ns += 500) {
                fake_pool_set(threads, false);
                check_rows(sizes[i], 1, 1);
                check_rows(sizes[i], 1, 2);
                check_rows(1, sizes[i], 2);
                check_rows(sizes[i], 3, 2);
                fake_pool_join();
            }
    seen.pause_ns = 500;
    fake_pool_set(3, false);
    check_rows(5000, 1, 1);
    CHECK(atomic_load(&seen.n_calls) > 1);
    fake_pool_join();
    seen.pause_ns = 0;
}

static void test_in_one_call(void)
{
    static const int64_t masks[] = {1, 0};
    kb_error err;
    seen.pause_ns = 500;
    CHECK_INT(run(5000, 1, 1, masks, false, &err), KB_OK);
    CHECK_INT(atomic_load(&seen.n_calls), 1);
    seen.pause_ns = 0;
    check_rows(128, 1, 1);
    CHECK_INT(atomic_load(&seen.n_calls), 1);
}

static void test_failure(void)
{
    static const int64_t masks[] = {1, 0};
    kb_error err;
    seen.pause_ns = 500;
    seen.fail_from = 3000;
    fake_pool_set(3, false);
    CHECK(run(5000, 1, 1, masks, true, &err) != KB_OK);
    fake_pool_join();
    seen.fail_from = -1;
    seen.pause_ns = 0;
}

static int32_t count(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)inputs, (void)outputs;
    *exception = NULL;
    atomic_fetch_add(&seen.n_calls, 1);
    return KB_NUMBA_OK;
}

/* Rows of an input may have no elements where the rows of the others have some. */
static void test_rows_without_elements(void)
{
    static sample s;
    static fake_frame f;
    for (int64_t n_rows = 0; n_rows <= 5; n_rows++) {
        sample_init(&s, (uint64_t)(1000000 + n_rows), count);
        sample_input(&s, KB_DTYPE_F64, 2, "x");
        sample_output(&s, KB_DTYPE_F64, 1, "out");
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_arg(&f, KB_DTYPE_F64, x, 2, (const int64_t[]){5, 0});
        fake_ret(&f, KB_DTYPE_F64, out, 1, &n_rows);
        kb_xla_array *call = sample_call(&f, &s.kernel, 1 + KB_BATCH_ORDER * KB_SLICES_OF_ROWS,
                                         (const int64_t[]){1});
        kb_error err;
        kb_frame frame;
        atomic_store(&seen.n_calls, 0);
        CHECK_INT(kb_frame_read(&frame, &s.kernel, &f.frame, call, &err), KB_OK);
        CHECK_INT(kb_batch_run(&frame, &err), n_rows == 5 ? KB_OK : KB_INVALID_ARGUMENT);
        CHECK_INT(atomic_load(&seen.n_calls), n_rows == 5);
        fake_frame_free(&f);
    }
}

/* A call of `touch`, and whether it is made in parts. */
typedef struct shape {
    int64_t n_rows, width, depth; /* of x, and of out but for the depth */
    uint32_t n_inputs, n_steps;
    bool bytes, hidden, wide, in_place, other_in_place, is_cut;
} shape;

static struct {
    atomic_int others;      /* calls on another thread than the caller's */
    _Atomic(int64_t) least; /* rows of a call */
    pthread_t caller;
    bool bytes; /* are the elements, in place of doubles */
} touched;

/* out[i, j] += 1 */
static int32_t touch(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result, (void)inputs;
    const kb_xla_buffer *to = outputs[0];
    struct timespec pause = {0, touched.bytes ? 100000 : 2000 * to->dims[0]};
    *exception = NULL;
    atomic_fetch_add(&seen.n_calls, 1);
    if (!pthread_equal(pthread_self(), touched.caller))
        atomic_fetch_add(&touched.others, 1);
    int64_t least = atomic_load(&touched.least);
    while (to->dims[0] < least &&
           !atomic_compare_exchange_weak(&touched.least, &least, to->dims[0]))
        continue;
    nanosleep(&pause, NULL);
    for (int64_t i = 0; i < to->dims[0] * to->dims[1]; i++)
        if (touched.bytes)
            ((uint8_t *)to->data)[i]++;
        else
            ((double *)to->data)[i]++;
    return KB_NUMBA_OK;
}

static void check_shape(const shape *p, uint64_t id)
{
    static sample s;
    static fake_frame f;
    const int64_t dims[] = {p->n_rows, p->width, p->depth}, one[] = {p->width};
    int64_t masks[SAMPLE_BUFFERS];
    kb_step steps[2];
    kb_error err;
    kb_frame frame;
    memset(out, 0, sizeof out);
    memset(&seen, 0, sizeof seen);
    atomic_store(&touched.others, 0);
    atomic_store(&touched.least, MOST);
    touched.caller = pthread_self();
    touched.bytes = p->bytes;
    const kb_dtype dtype = p->bytes ? KB_DTYPE_U8 : KB_DTYPE_F64;
    sample_init(&s, id, touch);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        bool is_row = p->other_in_place && i == 0; /* one for all rows */
        masks[i] = !is_row;
        sample_input(&s, dtype, is_row ? 1 : p->depth ? 3 : 2, "x");
        fake_arg(&f, dtype, p->in_place || is_row ? out : x,
                 is_row     ? 1
                 : p->depth ? 3
                            : 2,
                 is_row ? one : dims);
    }
    sample_output(&s, dtype, 2, "out");
    fake_ret(&f, dtype, out, 2, dims);
    if (p->hidden) {
        sample_hidden(&s, KB_DTYPE_F64, 2, "hidden");
        fake_ret(&f, KB_DTYPE_F64, x, 2, dims);
    }
    s.step.host.concurrent = true;
    s.step.wide = p->wide;
    steps[0] = steps[1] = s.step;
    s.kernel.plan = (kb_plan){.n_steps = p->n_steps, .steps = steps};
    kb_xla_array *call = sample_call(&f, &s.kernel, 1 + KB_BATCH_ORDER * KB_SLICES_OF_ROWS, masks);
    fake_pool_set(3, false);
    CHECK_INT(kb_frame_read(&frame, &s.kernel, &f.frame, call, &err), KB_OK);
    CHECK_INT(kb_batch_run(&frame, &err), KB_OK);
    fake_pool_join();
    for (int64_t i = 0; i < p->n_rows * p->width; i++)
        if ((p->bytes ? ((uint8_t *)out)[i] : out[i]) != p->n_steps)
            CHECK_INT(i, -1); /* this element was not, or not only once, in a call */
    int n_calls = atomic_load(&seen.n_calls);
    int64_t row = p->width * (int64_t)kb_dtype_size(dtype), least = row < 4096 ? 4096 / row : 1;
    CHECK_INT(n_calls > (int)p->n_steps, p->is_cut || p->other_in_place);
    CHECK_INT(atomic_load(&touched.least), n_calls > (int)p->n_steps ? least : p->n_rows);
    if (!p->is_cut)
        CHECK_INT(atomic_load(&touched.others), 0);
    fake_frame_free(&f);
}

/* Only one step that serves one slice at a time is called for parts of the rows, without hidden
 * results, for at most 16 buffers, whose rows have at most 32 axes, and by several threads only
 * where each row of an output has memory of its own. */
static void test_what_is_cut(void)
{
    static const shape shapes[] = {
        {1024, 4, 0, 1, 1, .is_cut = true},
        {64, 1024, 0, 1, 1, .is_cut = true},
        {64, 512, 0, 1, 1, .is_cut = true},
        {1024, 4, 0, 1, 2, .is_cut = false},
        {1024, 4, 0, 1, 1, .hidden = true},
        {1024, 4, 0, 1, 1, .wide = true},
        {1024, 4, 0, 15, 1, .is_cut = true},
        {1024, 4, 0, 16, 1, .is_cut = false},
        {1024, 4, 1, 10, 1, .is_cut = true},
        {1024, 4, 1, 11, 1, .is_cut = false},
        {1024, 4, 0, 1, 1, .in_place = true, .is_cut = true},
        {1024, 4, 0, 2, 1, .other_in_place = true},
        {32768, 1, 0, 1, 1, .bytes = true, .in_place = true, .is_cut = true},
        {32768, 1, 0, 2, 1, .bytes = true, .other_in_place = true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], 2000000 + i);
    seen.fail_from = -1;
}

static void test_refused(void)
{
    static const int64_t masks[] = {1, 0}, both[] = {1, 1}, unknown[] = {4, 0};
    kb_error err;
    CHECK_INT(run(500, 3, 4, masks, true, &err), KB_INVALID_ARGUMENT);
    CHECK_HAS(err.message, "does not have the rows of the others");
    CHECK_INT(run(500, 3, 1, both, true, &err), KB_INVALID_ARGUMENT);
    CHECK_INT(run(500, 3, 1, unknown, true, &err), KB_INVALID_ARGUMENT);
}

int main(void)
{
    seen.fail_from = -1;
    for (int i = 0; i < ROW; i++)
        n[i] = 0.5 * i;
    test_each_row_once();
    test_in_one_call();
    test_failure();
    test_rows_without_elements();
    test_what_is_cut();
    test_refused();
    return kb_test_end("test_rows");
}
