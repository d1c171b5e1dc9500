/* Proves what a public target hands to its function: counts and attributes are checked by name and
 * type, on a CPU and on a GPU, and a slot may be bound anew while it is called. */
#include "module/kb_slot.h"

#include "fake_xla.h"
#include "gpu.h"
#include "torture.h"

#include <pthread.h>

static struct {
    int n_calls;
    kb_call call;
    float alpha;
    int32_t beta;
    double z[2];
    uint16_t half;
    kb_cu_context context;
    int32_t numbers[KB_ATTRIBUTES_MAX];
    char bytes[16]; /* of a single attribute */
    size_t n_bytes;
    void *stream;
} seen;

static kb_cu_context current_context(void)
{
    kb_error err;
    kb_cu_context context = NULL;
    const kb_driver *cu = kb_driver_get(&err);
    if (CHECK(cu != NULL))
        CHECK_INT(cu->cuCtxGetCurrent(&context), KB_CU_SUCCESS);
    return context;
}

static int look(const kb_call *call)
{
    seen.n_calls++;
    seen.call = *call;
    seen.stream = call->stream;
    seen.context = current_context();
    if (call->n_attributes == 4) {
        memcpy(&seen.beta, call->attributes[0], sizeof seen.beta);
        memcpy(&seen.alpha, call->attributes[1], sizeof seen.alpha);
        memcpy(&seen.z, call->attributes[2], sizeof seen.z);
        memcpy(&seen.half, call->attributes[3], sizeof seen.half);
    }
    return 0;
}

static int look_at_numbers(const kb_call *call)
{
    for (int32_t i = 0; i < call->n_attributes; i++)
        memcpy(&seen.numbers[i], call->attributes[i], sizeof seen.numbers[i]);
    return look(call);
}

static int look_at_one(const kb_call *call)
{
    memcpy(seen.bytes, call->attributes[0], seen.n_bytes);
    return look(call);
}

static int no_error(const char **name)
{
    *name = NULL;
    return 0;
}

/* In the function's order, which is not that of the names. */
static kb_slot_attribute attributes[] = {{.name = "beta", .dtype = KB_DTYPE_S32},
                                         {.name = "alpha", .dtype = KB_DTYPE_F32},
                                         {.name = "z", .dtype = KB_DTYPE_C128},
                                         {.name = "half", .dtype = KB_DTYPE_BF16}};

static kb_slot_target target_of(int32_t n_inputs, int32_t n_outputs, uint32_t n_attributes)
{
    return (kb_slot_target){
        .name = "load 'm.f'",
        .n_inputs = n_inputs,
        .n_outputs = n_outputs,
        .step = {.run = look, .n_attributes = n_attributes},
        .attributes = attributes,
    };
}

typedef struct target_frame {
    fake_frame f;
    float x[2], y[2];
} target_frame;

static void call_init(target_frame *c)
{
    const int64_t dims[] = {2};
    fake_frame_init(&c->f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_arg(&c->f, KB_DTYPE_F32, c->x, 1, dims);
    fake_ret(&c->f, KB_DTYPE_F32, c->y, 1, dims);
    seen.n_calls = 0;
}

static void with_attributes(target_frame *c)
{
    const float alpha = 1.5f;
    const int32_t beta = -7;
    const double z[] = {3, 4};
    const uint16_t half = 0x3f80;
    fake_attr_scalar(&c->f, "alpha", KB_DTYPE_F32, &alpha, sizeof alpha);
    fake_attr_scalar(&c->f, "beta", KB_DTYPE_S32, &beta, sizeof beta);
    fake_attr_array(&c->f, "z", KB_DTYPE_F64, 2, z, sizeof z);
    fake_attr_scalar(&c->f, "half", KB_DTYPE_U16, &half, sizeof half);
}

/* Calls the slot; NULL text: it must succeed, else fail with that behind the name. */
static void expect(kb_slot *slot, target_frame *c, const char *text)
{
    kb_xla_error *error = slot->handle(slot, &c->f.frame);
    CHECK_INT(seen.n_calls, text ? 0 : 1);
    if (!text)
        CHECK_PTR(error, NULL);
    else if (CHECK(error != NULL)) {
        char whole[512];
        (void)snprintf(whole, sizeof whole, "load 'm.f': %s", text);
        CHECK_TEXT(error->message, whole);
    }
    fake_error_destroy(error);
    fake_frame_free(&c->f);
}

static void bind(kb_slot *slot, const kb_slot_target *target)
{
    kb_error err;
    CHECK_INT(kb_slot_bind(slot, sample_target(target), &err), KB_OK);
}

static void test_attributes(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(1, 1, 4);
    bind(&slot, &target);
    target_frame c;
    call_init(&c);
    with_attributes(&c);
    expect(&slot, &c, NULL);
    CHECK(seen.alpha == 1.5f && seen.beta == -7 && seen.z[0] == 3 && seen.z[1] == 4);
    CHECK_INT(seen.half, 0x3f80);
    CHECK_INT(seen.call.n_inputs, 1);
    CHECK_INT(seen.call.n_outputs, 1);

    call_init(&c);
    expect(&slot, &c,
           "attributes were left out, expected alpha:float32, beta:int32, half:bfloat16, "
           "z:complex128 [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_remove(&c.f, "beta");
    fake_attr_scalar(&c.f, "gamma", KB_DTYPE_S32, &(int32_t){1}, 4);
    expect(&slot, &c,
           "attributes alpha, gamma, half, z were passed, expected alpha:float32, beta:int32, "
           "half:bfloat16, z:complex128 [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_scalar(&c.f, "alpha", KB_DTYPE_F64, &(double){1}, 8);
    expect(&slot, &c,
           "attribute 'alpha' is float64, expected float32: pass numpy.float32(value) [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_string(&c.f, "alpha", "x", 1);
    expect(
        &slot, &c,
        "attribute 'alpha' is not a scalar, expected float32: pass numpy.float32(value) [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_scalar(&c.f, "half", KB_DTYPE_S16, &(int16_t){1}, 2);
    expect(&slot, &c,
           "attribute 'half' is int16, expected the bits of a bfloat16: pass numpy.asarray(value, "
           "bfloat16).view(numpy.uint16)[()] [KB3006]");
    for (int wrong = 0; wrong < 2; wrong++) { /* bits are taken for a number of 16 bits alone */
        call_init(&c);
        with_attributes(&c);
        fake_attr_scalar(&c.f, wrong ? "beta" : "alpha", KB_DTYPE_U16, &(uint16_t){1}, 2);
        expect(&slot, &c,
               wrong ? "attribute 'beta' is uint16, expected int32: pass numpy.int32(value) "
                       "[KB3006]"
                     : "attribute 'alpha' is uint16, expected float32: pass numpy.float32(value) "
                       "[KB3006]");
    }
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "z", KB_DTYPE_F64, 3, (double[]){1, 2, 3}, 24);
    expect(&slot, &c,
           "attribute 'z' is not a scalar, expected complex128: pass its parts, numpy.array([re, "
           "im], numpy.float64) [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "z", KB_DTYPE_F32, 2, (float[]){1, 2}, 8);
    expect(&slot, &c,
           "attribute 'z' is not a scalar, expected complex128: pass its parts, numpy.array([re, "
           "im], numpy.float64) [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "alpha", KB_DTYPE_F64, 2, (double[]){1, 2}, 16);
    expect(
        &slot, &c,
        "attribute 'alpha' is not a scalar, expected float32: pass numpy.float32(value) [KB3006]");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "beta", KB_DTYPE_S32, 2, (int32_t[]){1, 2}, 8);
    expect(&slot, &c,
           "attribute 'beta' is not a scalar, expected int32: pass numpy.int32(value) [KB3006]");
}

enum { SCALAR, STRING, PARTS };

#define PARTS_OF(given, wanted, part)                                                              \
    "attribute 'a' is " given ", expected " wanted ": pass its parts, numpy.array([re, im], "      \
    "numpy." part ") [KB3006]"
#define BITS_OF(given, wanted)                                                                     \
    "attribute 'a' is " given ", expected the bits of a " wanted                                   \
    ": pass numpy.asarray(value, " wanted ").view(numpy.uint16)[()] [KB3006]"
#define VALUE_OF(given, wanted, type)                                                              \
    "attribute 'a' is " given ", expected " wanted ": pass numpy." type "(value) [KB3006]"

/* How an attribute of each kind is passed, and what is said of one that is passed otherwise. */
static const struct {
    int32_t wanted, kind, dtype;
    uint32_t size; /* of a scalar in bytes, or the number of parts */
    const char *text;
} kinds[] = {
    {KB_DTYPE_C64, PARTS, KB_DTYPE_F32, 2, NULL},
    {KB_DTYPE_C64, PARTS, KB_DTYPE_F64, 2, PARTS_OF("not a scalar", "complex64", "float32")},
    {KB_DTYPE_C64, PARTS, KB_DTYPE_F32, 1, PARTS_OF("not a scalar", "complex64", "float32")},
    {KB_DTYPE_C64, PARTS, KB_DTYPE_F32, 3, PARTS_OF("not a scalar", "complex64", "float32")},
    {KB_DTYPE_C64, SCALAR, KB_DTYPE_F32, 4, PARTS_OF("float32", "complex64", "float32")},
    {KB_DTYPE_C128, PARTS, KB_DTYPE_F64, 2, NULL},
    {KB_DTYPE_C128, PARTS, KB_DTYPE_F32, 2, PARTS_OF("not a scalar", "complex128", "float64")},
    {KB_DTYPE_C128, SCALAR, KB_DTYPE_F64, 8, PARTS_OF("float64", "complex128", "float64")},
    {KB_DTYPE_F32, PARTS, KB_DTYPE_F32, 2, VALUE_OF("not a scalar", "float32", "float32")},
    {KB_DTYPE_F64, PARTS, KB_DTYPE_F64, 2, VALUE_OF("not a scalar", "float64", "float64")},
    {KB_DTYPE_F64, SCALAR, KB_DTYPE_F64, 8, NULL},
    {KB_DTYPE_F16, SCALAR, KB_DTYPE_U16, 2, NULL},
    {KB_DTYPE_F16, SCALAR, KB_DTYPE_F32, 4, BITS_OF("float32", "float16")},
    {KB_DTYPE_F16, STRING, 0, 0, BITS_OF("not a scalar", "float16")},
    {KB_DTYPE_F16, PARTS, KB_DTYPE_F64, 2, BITS_OF("not a scalar", "float16")},
    {KB_DTYPE_BF16, SCALAR, KB_DTYPE_U16, 2, NULL},
    {KB_DTYPE_BF16, SCALAR, KB_DTYPE_F32, 4, BITS_OF("float32", "bfloat16")},
    {KB_DTYPE_BF16, STRING, 0, 0, BITS_OF("not a scalar", "bfloat16")},
    {KB_DTYPE_U16, SCALAR, KB_DTYPE_U16, 2, NULL},
    {KB_DTYPE_U16, SCALAR, KB_DTYPE_F32, 4, VALUE_OF("float32", "uint16", "uint16")},
    {KB_DTYPE_PRED, SCALAR, KB_DTYPE_PRED, 1, NULL},
    {KB_DTYPE_PRED, SCALAR, KB_DTYPE_U16, 2, VALUE_OF("uint16", "bool", "bool_")},
    {KB_DTYPE_PRED, STRING, 0, 0, VALUE_OF("not a scalar", "bool", "bool_")},
};

static void test_kinds(void)
{
    static const char bytes[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        static kb_slot slot; /* keeps what it was bound to */
        static kb_slot_attribute attribute;
        attribute = (kb_slot_attribute){.name = "a", .dtype = kinds[i].wanted};
        kb_slot_target target = target_of(1, 1, 1);
        target.attributes = &attribute;
        target.step.run = look_at_one;
        bind(&slot, &target);
        target_frame c;
        call_init(&c);
        seen.n_bytes = kinds[i].size;
        if (kinds[i].kind == PARTS) {
            seen.n_bytes *= kinds[i].dtype == KB_DTYPE_F64 ? 8 : 4;
            fake_attr_array(&c.f, "a", kinds[i].dtype, kinds[i].size, bytes, seen.n_bytes);
        } else if (kinds[i].kind == SCALAR) {
            fake_attr_scalar(&c.f, "a", kinds[i].dtype, bytes, kinds[i].size);
        } else {
            fake_attr_string(&c.f, "a", "x", 1);
        }
        expect(&slot, &c, kinds[i].text);
        if (!kinds[i].text)
            CHECK(memcmp(seen.bytes, bytes, seen.n_bytes) == 0);
    }
}

/* Of what is declared; other arrays may be anything. */
static void test_dtypes(void)
{
    static kb_slot slot;
    const int64_t dims[] = {2};
    enum { F32 = KB_DTYPE_F32 };
    const int32_t same[] = {F32, F32, F32, F32}, any[] = {0, F32, 0, F32};
    const int32_t input[] = {KB_DTYPE_S32, 0, 0, 0}, output[] = {F32, KB_DTYPE_PRED, F32, F32};
    const int32_t last[] = {F32, F32, F32, KB_DTYPE_PRED};
    const struct {
        const int32_t *dtypes;
        const char *text;
    } cases[] = {
        {same, NULL},
        {any, NULL},
        {input, "input 0 is float32, but is declared as int32; convert it [KB3007]"},
        {output, "output 0 is float32, but is declared as bool; convert it [KB3007]"},
        {last, "output 2 is float32, but is declared as bool; convert it [KB3007]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        target_frame c;
        kb_slot_target target = target_of(1, 3, 4);
        target.dtypes = cases[i].dtypes;
        bind(&slot, &target);
        call_init(&c);
        for (int more = 0; more < 2; more++)
            fake_ret(&c.f, F32, c.y, 1, dims);
        with_attributes(&c);
        expect(&slot, &c, cases[i].text);
    }
}

static void test_counts(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(2, 1, 0);
    bind(&slot, &target);
    target_frame c;
    call_init(&c);
    expect(&slot, &c, "got 1 inputs and 1 outputs, expected 2 and 1 [KB3007]");
    call_init(&c); /* the most that there may be, and not as many as are expected */
    c.f.frame.args.size = KB_BUFFERS_MAX;
    expect(&slot, &c, "got 1024 inputs and 1 outputs, expected 2 and 1 [KB3007]");
    call_init(&c);
    c.f.frame.rets.size = KB_BUFFERS_MAX;
    expect(&slot, &c, "got 1 inputs and 1024 outputs, expected 2 and 1 [KB3007]");
    target = target_of(1, 0, 0);
    bind(&slot, &target);
    call_init(&c);
    expect(&slot, &c, "got 1 inputs and 1 outputs, expected 1 and 0 [KB3007]");
    target = target_of(KB_ANY_COUNT, KB_ANY_COUNT, 0);
    bind(&slot, &target);
    call_init(&c);
    expect(&slot, &c, NULL);
    CHECK_INT(seen.call.n_inputs, 1);
    CHECK_INT(seen.call.n_outputs, 1);
    for (int of_results = 0; of_results < 2; of_results++) {
        call_init(&c); /* nothing is read where so many would lie */
        *(of_results ? &c.f.frame.rets.size : &c.f.frame.args.size) = KB_BUFFERS_MAX + 1;
        expect(&slot, &c,
               of_results ? "got 1 inputs and 1025 outputs, at most 1024 of each are possible "
                            "[KB3007]"
                          : "got 1025 inputs and 1 outputs, at most 1024 of each are possible "
                            "[KB3007]");
        call_init(&c); /* as many as there may be */
        for (int i = 1; i < KB_BUFFERS_MAX; i++)
            (of_results ? fake_ret : fake_arg)(&c.f, KB_DTYPE_F32, c.x, 0, NULL);
        expect(&slot, &c, NULL);
        CHECK_INT(seen.call.n_inputs, of_results ? 1 : KB_BUFFERS_MAX);
        CHECK_INT(seen.call.n_outputs, of_results ? KB_BUFFERS_MAX : 1);
    }
}

/* None, one, two and as many as there may be, named in another order than the function's. */
static void test_numbers_of_attributes(void)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, KB_ATTRIBUTES_MAX};
    static char names[KB_ATTRIBUTES_MAX][8];
    static kb_slot_attribute list[KB_ATTRIBUTES_MAX];
    for (uint32_t i = 0; i < KB_ATTRIBUTES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "a%03u", KB_ATTRIBUTES_MAX - i);
        list[i] = (kb_slot_attribute){.name = names[i], .dtype = KB_DTYPE_S32};
    }
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        static kb_slot slot; /* keeps what it was bound to */
        kb_slot_target target = target_of(1, 1, numbers[k]);
        target.step.run = look_at_numbers;
        target.attributes = list;
        bind(&slot, &target);
        target_frame c;
        call_init(&c);
        for (int32_t i = 0; i < (int32_t)numbers[k]; i++)
            fake_attr_scalar(&c.f, names[i], KB_DTYPE_S32, &i, sizeof i);
        expect(&slot, &c, NULL);
        CHECK_INT(seen.call.n_attributes, numbers[k]);
        for (int32_t i = 0; i < (int32_t)numbers[k]; i++)
            CHECK_INT(seen.numbers[i], i);
    }
}

static void test_no_attributes(void)
{
    static kb_slot slot;
    kb_slot_target target = target_of(1, 1, 0);
    bind(&slot, &target);
    target_frame c;
    call_init(&c);
    with_attributes(&c);
    expect(&slot, &c, "attributes alpha, beta, half, z were passed, expected none [KB3006]");
    target = target_of(1, 1, 1);
    bind(&slot, &target);
    call_init(&c);
    expect(&slot, &c, "attributes were left out, expected beta:int32 [KB3006]");
}

static bool is_type(int32_t dtype)
{
    switch (dtype) {
#define CASE(NAME, code, bits, name, OURS, dlpack, pjrt) case code:
        KB_DTYPE_LIST(CASE)
#undef CASE
        return dtype != KB_DTYPE_TOKEN;
    default:
        return false;
    }
}

/* Nobody has compared the element types of a public target's buffers before. */
static void test_unknown_types(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(1, 1, 0);
    bind(&slot, &target);
    for (int32_t dtype = -1; dtype < 100; dtype++) {
        target_frame c;
        call_init(&c);
        ((kb_xla_buffer *)c.f.frame.args.buffers[0])->dtype = dtype;
        expect(&slot, &c,
               is_type(dtype) ? NULL : "input 0 has an element type that is unknown [KB3007]");
    }
}

/* A public target has no stage before its execution. */
static void test_short_structures(void)
{
    static kb_slot slot;
    kb_slot_target target = target_of(1, 1, 0);
    bind(&slot, &target);
    target_frame c;
    call_init(&c);
    c.f.frame.struct_size -= 1;
    expect(&slot, &c,
           "XLA's call frame has 167 bytes, expected 168 or more: kernbridge does not support this "
           "version of jaxlib [KB5107]");
    call_init(&c);
    c.f.frame.rets.struct_size -= 1;
    expect(&slot, &c,
           "XLA's list of results has 39 bytes, expected 40 or more: kernbridge does not support "
           "this version of jaxlib [KB5107]");
}

static void test_gpu(void)
{
    gpu_use_device(0);
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(1, 1, 0);
    target.step.cuda = true;
    target.step.last_error = no_error;
    target.graph = true;
    bind(&slot, &target);
    gpu_call like; /* for a stream of the fake's */
    gpu_call_init(&like, 1);
    fake_stream_set(like.stream, false);
    target_frame c;
    call_init(&c);
    expect(&slot, &c, NULL);
    CHECK_PTR(seen.stream, like.stream);
    gpu_use_device(1); /* the stream's context is current during the call, and not behind it */
    const kb_cu_context other = current_context();
    call_init(&c);
    expect(&slot, &c, NULL);
    CHECK(seen.context != other);
    CHECK_PTR(current_context(), other);
    gpu_use_device(0);
    CHECK_PTR(seen.context, current_context());
    fake_stream_set(NULL, true);
    call_init(&c);
    expect(&slot, &c, "this call has no CUDA stream [KB5107]");
    fake_stream_set(NULL, false);
    gpu_call_free(&like);

    call_init(&c);
    fake_ask_metadata(&c.f);
    CHECK_PTR(slot.handle(&slot, &c.f.frame), NULL);
    CHECK_INT(c.f.metadata.traits, KB_XLA_TRAIT_COMMAND_BUFFER);
    fake_frame_free(&c.f);

    bind(&slot, &target); /* once more, in graphs as before */
    kb_error err;
    target.graph = false;
    CHECK_INT(kb_slot_bind(&slot, &target, &err), KB_FAILED_PRECONDITION);
    CHECK_TEXT(err.message, "load 'm.f': allow_cuda_graph=False, where the target was registered "
                            "with graphs, which XLA does not forget: choose another name");
    static kb_slot plain; /* one that was never in graphs */
    bind(&plain, &target);
    call_init(&c);
    fake_ask_metadata(&c.f);
    CHECK_PTR(plain.handle(&plain, &c.f.frame), NULL);
    CHECK_INT(c.f.metadata.traits, 0);
    fake_frame_free(&c.f);
    target.graph = true; /* which only a later registration tells XLA */
    bind(&plain, &target);
}

/* A call with extensions that we do not know is a call. */
static void test_other_extensions(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(1, 1, 0);
    bind(&slot, &target);
    kb_xla_extension other = {.struct_size = sizeof other, .type = 77};
    target_frame c;
    call_init(&c);
    c.f.frame.extension_start = &other;
    expect(&slot, &c, NULL);
}

static void test_refused(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(1, 1, 4);
    kb_error err;
    target.step.n_attributes = KB_ATTRIBUTES_MAX + 1;
    CHECK_INT(kb_slot_bind(&slot, &target, &err), KB_INVALID_ARGUMENT);
    CHECK_TEXT(err.message, "load 'm.f': 257 attributes, at most 256 are possible");
    CHECK_PTR(slot.target, NULL);
}

/* One thread calls while another binds the slot to functions that return different outputs. */
static atomic_bool done;
static atomic_long first_calls, second_calls;

static int first(const kb_call *call)
{
    atomic_fetch_add(&first_calls, call->n_inputs == 1);
    return 0;
}

static int second(const kb_call *call)
{
    atomic_fetch_add(&second_calls, call->n_inputs == 1);
    return 0;
}

static void *keep_calling(void *data)
{
    kb_slot *slot = data;
    while (!atomic_load(&done)) {
        target_frame c;
        call_init(&c);
        CHECK_PTR(slot->handle(slot, &c.f.frame), NULL);
        fake_frame_free(&c.f);
    }
    return NULL;
}

static void test_rebound_while_called(void)
{
    static kb_slot slot;
    kb_slot_target target = target_of(1, 1, 0);
    target.step.run = first;
    bind(&slot, &target);
    pthread_t caller;
    pthread_create(&caller, NULL, keep_calling, &slot);
    for (int i = 0; atomic_load(&first_calls) < 50 || atomic_load(&second_calls) < 50; i++) {
        target.step.run = i % 2 ? first : second;
        bind(&slot, &target);
    }
    atomic_store(&done, true);
    pthread_join(caller, NULL);
}

static void *keep_binding(void *data)
{
    kb_slot_target target = target_of(1, 1, 0);
    for (int i = 0; i < 3000; i++) {
        target.step.run = i % 2 ? first : second;
        bind(data, &target);
    }
    return NULL;
}

/* What was bound before is kept, which LeakSanitizer proves. */
static void test_bound_by_several(void)
{
    enum { BINDERS = 4 };
    static kb_slot slot;
    pthread_t binders[BINDERS];
    for (int i = 0; i < BINDERS; i++)
        CHECK_INT(pthread_create(&binders[i], NULL, keep_binding, &slot), 0);
    for (int i = 0; i < BINDERS; i++)
        pthread_join(binders[i], NULL);
    target_frame c;
    call_init(&c);
    CHECK_PTR(slot.handle(&slot, &c.f.frame), NULL);
    fake_frame_free(&c.f);
}

int main(void)
{
    gpu_start();
    test_attributes();
    test_kinds();
    test_dtypes();
    test_counts();
    test_numbers_of_attributes();
    test_no_attributes();
    test_unknown_types();
    test_short_structures();
    test_gpu();
    test_other_extensions();
    test_refused();
    test_rebound_while_called();
    test_bound_by_several();
    return kb_test_end("test_slot");
}
