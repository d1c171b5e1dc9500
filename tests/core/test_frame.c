/* Proves that a call is decoded where it is right, and refused with the operation, the argument,
 * what was expected and what came where it is not. */
#include "core/kb_frame.h"
#include "kb_test.h"
#include "sample.h"

static char memory[4][64];
static const int64_t dims23[] = {2, 3}, dims5[] = {5}, dims7[] = {7};

/* op6(x: f32[:, :], n: i32) -> (out: f64[:]; x again: hidden i8[:]) and a call of it. */
typedef struct scene {
    sample s;
    fake_frame f;
    kb_xla_buffer *x, *n, *out, *hidden;
    kb_xla_array *call;
    kb_frame frame;
    kb_error err;
} scene;

static void set(scene *c)
{
    sample_init(&c->s, 6, sample_record);
    sample_input(&c->s, KB_DTYPE_F32, 2, "x");
    sample_input(&c->s, KB_DTYPE_S32, 0, "n");
    sample_output(&c->s, KB_DTYPE_F64, 1, "out");
    sample_hidden(&c->s, KB_DTYPE_S8, 1, "x again");
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    c->x = fake_arg(&c->f, KB_DTYPE_F32, memory[0], 2, dims23);
    c->n = fake_arg(&c->f, KB_DTYPE_S32, memory[1], 0, NULL);
    c->out = fake_ret(&c->f, KB_DTYPE_F64, memory[2], 1, dims5);
    c->hidden = fake_ret(&c->f, KB_DTYPE_S8, memory[3], 1, dims7);
    c->call = sample_call(&c->f, &c->s.kernel, 0, NULL);
}

/* Into a frame that holds anything. */
static kb_status open_frame(scene *c)
{
    memset(&c->frame, 0xff, sizeof c->frame);
    return kb_frame_read(&c->frame, &c->s.kernel, &c->f.frame, c->call, &c->err);
}

/* Closes the scene. */
static void refused(scene *c, const char *message)
{
    if (CHECK_INT(open_frame(c), KB_INVALID_ARGUMENT)) {
        CHECK_INT(c->err.status, KB_INVALID_ARGUMENT);
        CHECK_TEXT(c->err.message, message);
    }
    fake_frame_free(&c->f);
}

/* A negative extent, and more elements than can be counted, have neither a count nor a size. */
static void test_uncountable(void)
{
    static const int64_t negative[] = {2, -1}, many[] = {INT64_MAX, 2},
                         wide[] = {INT64_MAX / 4 + 1, 1};
    const struct {
        const int64_t *dims;
        int64_t count;
    } cases[] = {{negative, -1}, {many, -1}, {wide, INT64_MAX / 4 + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kb_xla_buffer buffer = {
            .dtype = KB_DTYPE_F32, .rank = 2, .dims = (int64_t *)(uintptr_t)cases[i].dims};
        CHECK_INT(kb_buffer_count(&buffer), cases[i].count);
        CHECK_INT(kb_buffer_size(&buffer), -1);
    }
}

static void test_sizes(void)
{
    int64_t dims[] = {3, 5, 7, 2};
    for (int64_t rank = 0; rank <= 4; rank++) {
        static const int64_t counts[] = {1, 3, 15, 105, 210};
        const kb_xla_buffer buffer = {.dtype = KB_DTYPE_F64, .rank = rank, .dims = dims};
        CHECK_INT(kb_buffer_count(&buffer), counts[rank]);
        CHECK_INT(kb_buffer_size(&buffer), 8 * counts[rank]);
        CHECK_INT(kb_buffer_bytes(&buffer), 8 * counts[rank]);
    }
}

/* An extent of 0 is none that cannot be counted: there are no elements. */
static void test_empty(void)
{
    int64_t dims[] = {3, 0};
    const kb_xla_buffer buffer = {.dtype = KB_DTYPE_F32, .rank = 2, .dims = dims};
    CHECK_INT(kb_buffer_count(&buffer), 0);
    CHECK_INT(kb_buffer_size(&buffer), 0);
}

static void test_right(void)
{
    scene c;
    set(&c);
    if (CHECK_INT(open_frame(&c), KB_OK)) {
        CHECK_INT(c.frame.n_levels, 0);
        CHECK_INT(c.frame.n_slices, 1);
        CHECK_PTR(c.frame.strides, NULL);
        CHECK_PTR(c.frame.driver, NULL);
        CHECK_PTR(c.frame.kernel, &c.s.kernel);
        CHECK_PTR(c.frame.xla, &c.f.frame);
        for (uint32_t i = 0; i < 4; i++) {
            CHECK_PTR(sample_buffer(&c.s.kernel, c.frame.inputs, c.frame.outputs, i)->data,
                      memory[i]);
            CHECK_INT(kb_frame_mask(&c.frame, i), 0);
        }
        CHECK_PTR(c.frame.inputs[0], c.x);
        CHECK_PTR(c.frame.outputs[0], c.out);
        CHECK_PTR(kb_frame_raw(&c.frame, 0), c.x);
        CHECK_PTR(kb_frame_raw(&c.frame, 1), c.n);
        CHECK_PTR(kb_frame_raw(&c.frame, 2), c.out);
        CHECK_PTR(kb_frame_raw(&c.frame, 3), c.hidden);
    }
    fake_frame_free(&c.f);
}

static void test_dtype(void)
{
    scene c;
    set(&c);
    c.x->dtype = KB_DTYPE_F64;
    refused(&c, "op6: input 0 (x) is float64, expected float32 [KB3007]");
    set(&c);
    c.n->dtype = 99;
    refused(&c, "op6: input 1 (n) is unknown dtype, expected int32 [KB3007]");
    set(&c);
    c.n->dtype = -KB_DTYPE_S32;
    refused(&c, "op6: input 1 (n) is unknown dtype, expected int32 [KB3007]");
    set(&c);
    c.out->dtype = KB_DTYPE_S64;
    refused(&c, "op6: output 0 (out) is int64, expected float64 [KB3007]");
    set(&c);
    c.hidden->dtype = KB_DTYPE_U8;
    refused(&c, "op6: output 1 (x again) is uint8, expected int8 [KB3007]");
}

static void test_rank(void)
{
    scene c;
    set(&c);
    c.x->rank = 1;
    refused(&c, "op6: input 0 (x) has rank 1, expected 2 [KB3007]");
    set(&c);
    c.n->rank = -1;
    refused(&c, "op6: input 1 (n) has rank -1, expected 0 [KB3007]");
    set(&c);
    c.out->rank = 1 + (INT64_C(1) << 32); /* equal in its low half */
    refused(&c, "op6: output 0 (out) has rank 4294967297, expected 1 [KB3007]");
    set(&c);
    c.hidden->rank = 2;
    refused(&c, "op6: output 1 (x again) has rank 2, expected 1 [KB3007]");
}

static void test_type(void)
{
    static const char text[] = "op6: an operand or result is not a buffer";
    scene c;
    set(&c);
    c.f.frame.args.types[1] = 2;
    refused(&c, text);
    set(&c);
    c.f.frame.rets.types[1] = 0;
    refused(&c, text);
}

static void test_counts(void)
{
    scene c;
    set(&c);
    c.f.frame.args.size = 1;
    refused(&c, "op6: got 1 operands and 2 results, expected 2 and 2");
    set(&c);
    fake_arg(&c.f, KB_DTYPE_S32, memory[1], 0, NULL);
    refused(&c, "op6: got 3 operands and 2 results, expected 2 and 2");
    set(&c);
    fake_ret(&c.f, KB_DTYPE_S32, memory[1], 0, NULL);
    refused(&c, "op6: got 2 operands and 3 results, expected 2 and 2");
    set(&c);
    c.f.frame.rets.size = 0;
    refused(&c, "op6: got 2 operands and 0 results, expected 2 and 2");
    set(&c);
    c.f.frame.args.size = -1;
    refused(&c, "op6: got -1 operands and 2 results, expected 2 and 2");
    set(&c);
    c.f.frame.args.size = 2 + (INT64_C(1) << 32);
    refused(&c, "op6: got 4294967298 operands and 2 results, expected 2 and 2");
}

/* A call with two levels: x has the first, n the second. `word` is what tells how many they are. */
static void set_batch(scene *c, int64_t word)
{
    const int64_t x_dims[] = {4, 2, 3}, out_dims[] = {9, 4, 5}, hidden_dims[] = {9, 4, 7};
    set(c);
    fake_frame_free(&c->f);
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    c->x = fake_arg(&c->f, KB_DTYPE_F32, memory[0], 3, x_dims);
    c->n = fake_arg(&c->f, KB_DTYPE_S32, memory[1], 1, out_dims);
    c->out = fake_ret(&c->f, KB_DTYPE_F64, memory[2], 3, out_dims);
    c->hidden = fake_ret(&c->f, KB_DTYPE_S8, memory[3], 3, hidden_dims);
    c->call = sample_call(&c->f, &c->s.kernel, word, (const int64_t[]){1, 2});
}

static void test_batch(void)
{
    for (int order = 0; order < KB_SLICES_OF_ROWS; order++) {
        scene c;
        set_batch(&c, 2 + KB_BATCH_ORDER * order);
        if (CHECK_INT(open_frame(&c), KB_OK)) {
            const uint32_t masks[] = {1, 2, 3, 3};
            CHECK_INT(c.frame.n_levels, 2);
            CHECK_INT(c.frame.n_slices, 1);
            CHECK_INT(c.frame.order, order);
            CHECK_PTR(c.frame.strides, NULL);
            CHECK_PTR(c.frame.driver, NULL);
            for (uint32_t i = 0; i < 4; i++)
                CHECK_INT(kb_frame_mask(&c.frame, i), masks[i]);
        }
        fake_frame_free(&c.f);
    }
}

/* Batch axes count as axes, and each buffer is looked at. */
static void test_wrong_in_batch(void)
{
    scene c;
    set_batch(&c, 2);
    c.x->rank = 2;
    refused(&c, "op6: input 0 (x) has rank 2, expected 3 [KB3007]");
    set_batch(&c, 2);
    c.n->dtype = KB_DTYPE_U32;
    refused(&c, "op6: input 1 (n) is uint32, expected int32 [KB3007]");
    set_batch(&c, 2);
    c.out->rank = 2;
    refused(&c, "op6: output 0 (out) has rank 2, expected 3 [KB3007]");
    set_batch(&c, 2);
    c.hidden->rank = 4;
    refused(&c, "op6: output 1 (x again) has rank 4, expected 3 [KB3007]");
    for (int i = 0; i < 4; i++) {
        set_batch(&c, 2);
        (i < 2 ? c.f.frame.args.types : c.f.frame.rets.types)[i % 2] = 2;
        refused(&c, "op6: an operand or result is not a buffer");
    }
}

/* The words after the key: the levels, then a mask for each input. */
static void test_damaged_batch(void)
{
    static const struct {
        size_t size;
        int64_t words[5];
        const char *message;
    } cases[] = {
        {2, {0, 1}, "op6: the call describes its batch in 1 words, expected 3"},
        {3, {0, 1, 1}, "op6: the call describes its batch in 2 words, expected 3"},
        {5, {0, 1, 1, 1, 1}, "op6: the call describes its batch in 4 words, expected 3"},
        {4, {0, -1, 0, 0}, "op6: got a batch of -1 nested levels, expected 0 to 16"},
        {4, {0, 17, 0, 0}, "op6: got a batch of 17 nested levels, expected 0 to 16"},
        {4, {0, 255, 0, 0}, "op6: got a batch of 255 nested levels, expected 0 to 16"},
        {4, {0, 256 + 17, 0, 0}, "op6: got a batch of 273 nested levels, expected 0 to 16"},
        {4, {0, 1024, 0, 0}, "op6: got a batch of 1024 nested levels, expected 0 to 16"},
        {4, {0, 1025, 1, 1}, "op6: got a batch of 1025 nested levels, expected 0 to 16"},
        {4,
         {0, INT64_MAX, 0, 0},
         "op6: got a batch of 9223372036854775807 nested levels, expected 0 to 16"},
        {4,
         {0, INT64_MIN, 0, 0},
         "op6: got a batch of -9223372036854775808 nested levels, expected 0 to 16"},
        {4,
         {0, (INT64_C(1) << 32) + 1, 1, 1},
         "op6: got a batch of 4294967297 nested levels, expected 0 to 16"},
        {4, {0, 1, 2, 0}, "op6: input 0 (x) names batch levels that do not exist"},
        {4, {0, 1, 0, 3}, "op6: input 1 (n) names batch levels that do not exist"},
        {4, {0, 1, 0, -1}, "op6: input 1 (n) names batch levels that do not exist"},
        {4, {0, 0, 1, 0}, "op6: input 0 (x) names batch levels that do not exist"},
        {4, {0, 2, 0, INT64_C(1) << 32}, "op6: input 1 (n) names batch levels that do not exist"},
        {4, {0, 1, INT64_MIN, 0}, "op6: input 0 (x) names batch levels that do not exist"},
        {4, {0, 16, 65536, 0}, "op6: input 0 (x) names batch levels that do not exist"},
        {4, {0, 16, 65535, 0}, "op6: input 0 (x) has rank 2, expected 18 [KB3007]"},
        {4, {0, 1, 0, 0}, "op6: output 0 (out) has rank 1, expected 2 [KB3007]"},
        {4, {0, 1, 0, 1}, "op6: input 1 (n) has rank 0, expected 1 [KB3007]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene c;
        set(&c);
        c.call = fake_attr_array(&c.f, "call", KB_DTYPE_S64, cases[i].size, cases[i].words,
                                 cases[i].size * sizeof(int64_t));
        refused(&c, cases[i].message);
    }
    scene c;
    set(&c); /* a batch of no levels is none */
    const int64_t none[] = {0, 0, 0, 0};
    c.call = fake_attr_array(&c.f, "call", KB_DTYPE_S64, 4, none, sizeof none);
    if (CHECK_INT(open_frame(&c), KB_OK)) {
        CHECK_INT(c.frame.n_levels, 0);
        for (uint32_t i = 0; i < 4; i++)
            CHECK_INT(kb_frame_mask(&c.frame, i), 0);
    }
    fake_frame_free(&c.f);
}

/* The first structure that ends too soon is named, whatever the others are. */
static void test_short_structures(void)
{
    static const char *const messages[] = {
        "call frame has 167 bytes, expected 168", "list of operands has 39 bytes, expected 40",
        "list of results has 39 bytes, expected 40", "list of attributes has 47 bytes, expected 48",
        "table of functions has 151 bytes, expected 152"};
    scene c;
    set(&c);
    kb_xla_api api = *fake_api(3);
    c.f.frame.api = &api;
    size_t *const sizes[] = {&api.struct_size, &c.f.frame.attrs.struct_size,
                             &c.f.frame.rets.struct_size, &c.f.frame.args.struct_size,
                             &c.f.frame.struct_size};
    for (int i = 0; i < 5; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "who: XLA's %s or more: kernbridge does not support this version of jaxlib",
                 messages[4 - i]);
        *sizes[i] -= 1;
        CHECK_INT(kb_frame_refuse(&c.f.frame, "who", &c.err), KB_FAILED_PRECONDITION);
        CHECK_INT(c.err.status, KB_FAILED_PRECONDITION);
        CHECK_TEXT(c.err.message, text);
        CHECK_INT(kb_frame_is_whole(&c.f.frame), i == 0);
    }
    fake_frame_free(&c.f);
}

static void test_wrong_target(void)
{
    scene c;
    set(&c);
    CHECK_INT(open_frame(&c), KB_OK);
    CHECK_INT(kb_frame_refuse_target(&c.frame, &c.err), KB_INVALID_ARGUMENT);
    CHECK_TEXT(c.err.message, "op6: the target of the call does not run kernels of this kind: the "
                              "program is damaged, or was changed");
    fake_frame_free(&c.f);
}

static void test_many_buffers(void)
{
    static char bytes[SAMPLE_BUFFERS];
    for (uint32_t n = 15; n < SAMPLE_BUFFERS; n += n < 20 ? 1 : 11) {
        scene c;
        sample_init(&c.s, 6, sample_record);
        fake_frame_init(&c.f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        for (uint32_t i = 0; i < n; i++) {
            int64_t dim = i;
            if (i < n / 2)
                sample_input(&c.s, KB_DTYPE_U8, 1, "in");
            else
                sample_output(&c.s, KB_DTYPE_U8, 1, "out");
            (i < n / 2 ? fake_arg : fake_ret)(&c.f, KB_DTYPE_U8, &bytes[i], 1, &dim);
        }
        c.call = sample_call(&c.f, &c.s.kernel, 0, NULL);
        if (CHECK_INT(open_frame(&c), KB_OK)) {
            for (uint32_t i = 0; i < n; i++) {
                const kb_xla_buffer *b =
                    sample_buffer(&c.s.kernel, c.frame.inputs, c.frame.outputs, i);
                CHECK_PTR(b->data, &bytes[i]);
                CHECK_INT(b->dims[0], i);
            }
        }
        ((kb_xla_buffer *)c.f.frame.rets.buffers[n - n / 2 - 1])->dtype = KB_DTYPE_S8;
        char text[80];
        snprintf(text, sizeof text, "op6: output %u (out) is int8, expected uint8 [KB3007]",
                 n - n / 2 - 1);
        refused(&c, text);
    }
}

int main(void)
{
    test_uncountable();
    test_sizes();
    test_empty();
    test_right();
    test_dtype();
    test_rank();
    test_type();
    test_counts();
    test_batch();
    test_wrong_in_batch();
    test_damaged_batch();
    test_short_structures();
    test_wrong_target();
    test_many_buffers();
    return kb_test_end("test_frame");
}
