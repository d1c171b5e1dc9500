/* Proves by value which addresses and extents a kernel sees in each slice of a batch: every
 * combination of batch levels over its operands, against an index computed from the definition. */
#include "core/kb_batch.h"
#include "kb_test.h"
#include "sample.h"

enum { LEVELS = 4, PARAMS = 3 };

/* op1(x: f32[2, 3], n: i16) -> (out: f64[5]; hidden c64[2]), called with a batch. */
typedef struct scene {
    sample s;
    fake_frame f;
    kb_xla_array *call;
    kb_error err;
} scene;

static const int32_t rank[] = {2, 0, 1, 1};
static const int64_t own[][2] = {{2, 3}, {0}, {5}, {2}};
static const int64_t bytes[] = {2 * 3 * 4, 2, 5 * 8, 2 * 8}; /* of one slice */

/* Addresses that are never read: far enough apart that no two buffers can be confused. */
static char *base(int i)
{
    return (char *)((uintptr_t)(i + 1) << 32);
}

static void set(scene *c, int n_levels, const int64_t *size, const int64_t *masks)
{
    const int32_t dtypes[] = {KB_DTYPE_F32, KB_DTYPE_S16, KB_DTYPE_F64, KB_DTYPE_C64};
    sample_init(&c->s, 1, sample_record);
    sample_input(&c->s, dtypes[0], rank[0], "x");
    sample_input(&c->s, dtypes[1], rank[1], "n");
    sample_output(&c->s, dtypes[2], rank[2], "out");
    sample_hidden(&c->s, dtypes[3], rank[3], "copy");
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    for (int i = 0; i < 4; i++) {
        int64_t dims[LEVELS + 2];
        int n = 0;
        for (int level = n_levels - 1; level >= 0; level--)
            if (i >= 2 || masks[i] >> level & 1)
                dims[n++] = size[level];
        for (int d = 0; d < rank[i]; d++)
            dims[n++] = own[i][d];
        (i < 2 ? fake_arg : fake_ret)(&c->f, dtypes[i], base(i), n, dims);
    }
    c->call = sample_call(&c->f, &c->s.kernel, n_levels, masks);
    sample_recorder_reset(&c->s.kernel);
}

static kb_status run(scene *c)
{
    kb_frame frame;
    kb_status s = kb_frame_read(&frame, &c->s.kernel, &c->f.frame, c->call, &c->err);
    return s == KB_OK ? kb_batch_run(&frame, &c->err) : s;
}

/* Where slice `at` of buffer i begins: row-major over the levels that it has, outermost first. */
static int64_t expected_address(int i, int n_levels, const int64_t *size, int64_t mask,
                                const int64_t *at)
{
    int64_t index = 0;
    for (int level = n_levels - 1; level >= 0; level--)
        if (mask >> level & 1)
            index = index * size[level] + at[level];
    return (int64_t)(intptr_t)base(i) + index * bytes[i];
}

/* Steps to the next slice, level 0 fastest. */
static void next(int n_levels, const int64_t *size, int64_t *at)
{
    for (int level = 0; level < n_levels; level++) {
        if (++at[level] < size[level])
            return;
        at[level] = 0;
    }
}

static void check_slices(int n_levels, const int64_t *size, const int64_t *masks)
{
    int64_t n_slices = 1, at[LEVELS] = {0};
    for (int level = 0; level < n_levels; level++)
        n_slices *= size[level];
    CHECK_INT(recorder.n_calls, n_slices);
    CHECK_INT(recorder.n_words, n_slices * (3 + 1 + 2));
    if (recorder.n_words > RECORD_WORDS || recorder.n_calls != n_slices)
        return;
    const int64_t *word = recorder.words;
    for (int64_t slice = 0; slice < n_slices; slice++, next(n_levels, size, at)) {
        for (int i = 0; i < PARAMS; i++) {
            int64_t mask = i < 2 ? masks[i] : (1 << n_levels) - 1;
            CHECK_INT(*word++, expected_address(i, n_levels, size, mask, at));
            for (int d = 0; d < rank[i]; d++)
                CHECK_INT(*word++, own[i][d]);
        }
    }
}

static void check_batch(int n_levels, const int64_t *size, const int64_t *masks)
{
    scene c;
    set(&c, n_levels, size, masks);
    CHECK_INT(run(&c), KB_OK);
    check_slices(n_levels, size, masks);
    fake_frame_free(&c.f);
}

static void test_no_batch(void)
{
    check_batch(0, NULL, (const int64_t[]){0, 0});
}

static void test_one_level(void)
{
    const int64_t sizes[] = {1, 2, 3, 64, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t x = 0; x < 2; x++)
            for (int64_t n = 0; n < 2; n++)
                check_batch(1, &sizes[i], (const int64_t[]){x, n});
}

static void test_nested(void)
{
    static const int64_t sizes[][LEVELS] = {
        {3, 2, 5, 4}, {1, 3, 1, 2}, {2, 1, 1, 1}, {7, 2, 2, 2}, {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int n_levels = 2; n_levels <= LEVELS; n_levels++)
            for (int64_t x = 0; x < 1 << n_levels; x++)
                for (int64_t n = 0; n < 1 << n_levels; n++)
                    check_batch(n_levels, sizes[i], (const int64_t[]){x, n});
}

static void test_empty(void)
{
    static const int64_t sizes[][3] = {{0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int n_levels = 1; n_levels <= 3; n_levels++)
            check_batch(n_levels, sizes[i], (const int64_t[]){1, 0});
}

/* All levels that are possible: only the outermost and the innermost have two slices. */
static void test_most_levels(void)
{
    enum { MOST = KB_BATCH_LEVELS_MAX };
    sample s;
    sample_init(&s, 2, sample_record);
    sample_input(&s, KB_DTYPE_F32, 1, "x");
    for (int i = 0; i < 8; i++)
        sample_output(&s, KB_DTYPE_F32, 1, "out");
    int64_t dims[MOST + 1];
    for (int d = 0; d < MOST; d++)
        dims[d] = 1 + (d == 0 || d == MOST - 1);
    dims[MOST] = 3;
    scene c;
    fake_frame_init(&c.f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c.f, KB_DTYPE_F32, base(0), MOST + 1, dims);
    for (int i = 0; i < 8; i++)
        fake_ret(&c.f, KB_DTYPE_F32, base(1 + i), MOST + 1, dims);
    c.call = sample_call(&c.f, &s.kernel, MOST, (const int64_t[]){(1 << MOST) - 1});
    sample_recorder_reset(&s.kernel);
    kb_frame frame;
    if (CHECK_INT(kb_frame_read(&frame, &s.kernel, &c.f.frame, c.call, &c.err), KB_OK))
        CHECK_INT(kb_batch_run(&frame, &c.err), KB_OK);
    CHECK_INT(recorder.n_calls, 4);
    for (int slice = 0; slice < 4; slice++)
        for (int i = 0; i < 9; i++)
            CHECK_INT(recorder.words[slice * 18 + 2 * i],
                      (int64_t)(intptr_t)base(i) + INT64_C(12) * slice);
    fake_frame_free(&c.f);
}

/* Arrays without elements: XLA may hand over no address; a kernel gets one all the same. */
static void test_zero_extents(void)
{
    const int64_t dims[] = {3, 0, 4}, out_dims[] = {3, 2};
    int32_t out[6];
    scene c;
    sample_init(&c.s, 3, sample_record);
    sample_input(&c.s, KB_DTYPE_F64, 2, "x");
    sample_output(&c.s, KB_DTYPE_S32, 1, "out");
    fake_frame_init(&c.f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c.f, KB_DTYPE_F64, NULL, 3, dims);
    fake_ret(&c.f, KB_DTYPE_S32, out, 2, out_dims);
    c.call = sample_call(&c.f, &c.s.kernel, 1, (const int64_t[]){1});
    sample_recorder_reset(&c.s.kernel);
    CHECK_INT(run(&c), KB_OK);
    CHECK_INT(recorder.n_calls, 3);
    for (int slice = 0; slice < 3; slice++) {
        const int64_t *word = &recorder.words[slice * 5];
        CHECK(word[0] == 0);
        CHECK_INT(word[1], 0);
        CHECK_INT(word[2], 4);
        CHECK_PTR((void *)(intptr_t)word[3], &out[2 * slice]);
    }
    fake_frame_free(&c.f);
}

/* An aliased result has the operand's address, and moves with it. */
static void test_aliased(void)
{
    const int64_t dims[] = {2, 3, 5};
    char memory[2 * 3 * 5];
    scene c;
    sample_init(&c.s, 4, sample_record);
    sample_input(&c.s, KB_DTYPE_U8, 1, "x");
    sample_output(&c.s, KB_DTYPE_U8, 1, "x");
    fake_frame_init(&c.f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c.f, KB_DTYPE_U8, memory, 3, dims);
    fake_ret(&c.f, KB_DTYPE_U8, memory, 3, dims);
    c.call = sample_call(&c.f, &c.s.kernel, 2, (const int64_t[]){3});
    sample_recorder_reset(&c.s.kernel);
    CHECK_INT(run(&c), KB_OK);
    CHECK_INT(recorder.n_calls, 6);
    for (int slice = 0; slice < 6; slice++) {
        CHECK_PTR((void *)(intptr_t)recorder.words[slice * 4], &memory[5 * slice]);
        CHECK_PTR((void *)(intptr_t)recorder.words[slice * 4 + 2], &memory[5 * slice]);
    }
    fake_frame_free(&c.f);
}

int main(void)
{
    test_no_batch();
    test_one_level();
    test_nested();
    test_empty();
    test_most_levels();
    test_zero_extents();
    test_aliased();
    return kb_test_end("test_batch");
}
