/* Proves what a public target hands to its function: counts and attributes are checked by name and
 * type, on a CPU and on a GPU, and a slot may be bound anew while it is called. */
#include "module/kb_slot.h"

#include "core/kb_memory.h"
#include "fake_xla.h"
#include "gpu.h"

#include <pthread.h>

static struct {
    int n_calls;
    kb_call call;
    float alpha;
    int32_t beta;
    double z[2];
    uint16_t half;
    void *stream;
} seen;

static int look(const kb_call *call)
{
    seen.n_calls++;
    seen.call = *call;
    seen.stream = call->stream;
    if (call->n_attributes == 4) {
        memcpy(&seen.beta, call->attributes[0], sizeof seen.beta);
        memcpy(&seen.alpha, call->attributes[1], sizeof seen.alpha);
        memcpy(&seen.z, call->attributes[2], sizeof seen.z);
        memcpy(&seen.half, call->attributes[3], sizeof seen.half);
    }
    return 0;
}

static int no_error(const char **name)
{
    *name = NULL;
    return 0;
}

/* In the function's order, which is not that of the names. */
static const kb_slot_attribute attributes[] = {
    {"beta", KB_DTYPE_S32}, {"alpha", KB_DTYPE_F32}, {"z", KB_DTYPE_C128}, {"half", KB_DTYPE_BF16}};

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

/* Calls the slot; NULL text: it must succeed. */
static void expect(kb_slot *slot, target_frame *c, const char *text)
{
    kb_xla_error *error = slot->handle(slot, &c->f.frame);
    CHECK_INT(seen.n_calls, text ? 0 : 1);
    if (!text)
        CHECK_PTR(error, NULL);
    else if (CHECK(error != NULL)) {
        CHECK_HAS(error->message, "load 'm.f': ");
        CHECK_HAS(error->message, text);
    }
    fake_error_destroy(error);
    fake_frame_free(&c->f);
}

static void bind(kb_slot *slot, const kb_slot_target *target)
{
    kb_error err;
    CHECK_INT(kb_slot_bind(slot, target, &err), KB_OK);
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
    expect(&slot, &c, "attributes were left out, expected alpha:float32, beta:int32");
    call_init(&c);
    with_attributes(&c);
    fake_attr_remove(&c.f, "beta");
    fake_attr_scalar(&c.f, "gamma", KB_DTYPE_S32, &(int32_t){1}, 4);
    expect(&slot, &c, "gamma, half, z were passed, expected");
    call_init(&c);
    with_attributes(&c);
    fake_attr_scalar(&c.f, "alpha", KB_DTYPE_F64, &(double){1}, 8);
    expect(&slot, &c, "attribute 'alpha' is float64, expected float32: pass numpy.float32(value)");
    call_init(&c);
    with_attributes(&c);
    fake_attr_string(&c.f, "alpha", "x", 1);
    expect(&slot, &c, "attribute 'alpha' is not a scalar, expected float32");
    call_init(&c);
    with_attributes(&c);
    fake_attr_scalar(&c.f, "half", KB_DTYPE_S16, &(int16_t){1}, 2);
    expect(&slot, &c, "attribute 'half' is int16, expected the bits of a bfloat16");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "z", KB_DTYPE_F64, 3, (double[]){1, 2, 3}, 24);
    expect(&slot, &c, "attribute 'z' is not a scalar, expected complex128: pass its parts");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "z", KB_DTYPE_F32, 2, (float[]){1, 2}, 8);
    expect(&slot, &c, "numpy.array([re, im], numpy.float64)");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "alpha", KB_DTYPE_F64, 2, (double[]){1, 2}, 16);
    expect(&slot, &c, "attribute 'alpha' is not a scalar, expected float32");
    call_init(&c);
    with_attributes(&c);
    fake_attr_array(&c.f, "beta", KB_DTYPE_S32, 2, (int32_t[]){1, 2}, 8);
    expect(&slot, &c, "attribute 'beta' is not a scalar, expected int32");
}

static void test_counts(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(2, 1, 0);
    bind(&slot, &target);
    target_frame c;
    call_init(&c);
    expect(&slot, &c, "got 1 inputs and 1 outputs, expected 2 and 1");
    target = target_of(1, 0, 0);
    bind(&slot, &target);
    call_init(&c);
    expect(&slot, &c, "got 1 inputs and 1 outputs, expected 1 and 0");
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
               of_results ? "got 1 inputs and 1025 outputs" : "got 1025 inputs and 1 outputs");
    }
}

static bool is_type(int32_t dtype)
{
    switch (dtype) {
#define CASE(NAME, code, bits, name) case code:
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
        expect(&slot, &c, is_type(dtype) ? NULL : "input 0 has an element type that is unknown");
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
    expect(&slot, &c, "XLA's call frame has 167 bytes, expected 168 or more");
    call_init(&c);
    c.f.frame.rets.struct_size -= 1;
    expect(&slot, &c, "XLA's list of results has 39 bytes, expected 40 or more");
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
    fake_stream_set(NULL, true);
    call_init(&c);
    expect(&slot, &c, "no CUDA stream");
    fake_stream_set(NULL, false);
    gpu_call_free(&like);

    call_init(&c);
    fake_ask_metadata(&c.f);
    CHECK_PTR(slot.handle(&slot, &c.f.frame), NULL);
    CHECK_INT(c.f.metadata.traits, KB_XLA_TRAIT_COMMAND_BUFFER);
    fake_frame_free(&c.f);

    kb_error err;
    target.graph = false;
    CHECK_INT(kb_slot_bind(&slot, &target, &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "allow_cuda_graph=False");
}

static void test_refused(void)
{
    static kb_slot slot; /* keeps what it was bound to */
    kb_slot_target target = target_of(1, 1, 4);
    kb_error err;
    kb_memory_fail_nth(1);
    CHECK_INT(kb_slot_bind(&slot, &target, &err), KB_RESOURCE_EXHAUSTED);
    kb_memory_fail_nth(0);
    target.step.n_attributes = KB_ATTRIBUTES_MAX + 1;
    CHECK_INT(kb_slot_bind(&slot, &target, &err), KB_INVALID_ARGUMENT);
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
    test_counts();
    test_unknown_types();
    test_short_structures();
    test_gpu();
    test_refused();
    test_rebound_while_called();
    test_bound_by_several();
    return kb_test_end("test_slot");
}
