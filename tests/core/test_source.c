/* Proves what a function built from source is called with, on a CPU and on a GPU, and what becomes
 * of its failures, its scratch memory and its loops. */
#include "module/kb_source.h"

#include "copies.h"
#include "core/kb_batch.h"
#include "core/kb_plan.h"
#include "cuda/kb_stream.h"
#include "gpu.h"
#include "module/kb_tensors.h"
#include "torture.h"

#include <stdlib.h>
#include <wchar.h>

static struct {
    int n_calls;
    kb_call call;
    kb_tensor inputs[SAMPLE_BUFFERS], outputs[SAMPLE_BUFFERS];
    int64_t shapes[SAMPLE_BUFFERS][8], strides[SAMPLE_BUFFERS][8];
    int code;
    const char *message;
    int message_code;
    int last_error;
    bool is_nameless;
    int taken;
} seen;

static void copy_tensor(kb_tensor *to, const kb_tensor *from, int i)
{
    *to = *from;
    for (int d = 0; d < from->ndim && d < 8; d++) {
        seen.shapes[i][d] = from->shape[d];
        seen.strides[i][d] = from->strides[d];
    }
}

static int look(const kb_call *call)
{
    seen.n_calls++;
    seen.call = *call;
    for (int i = 0; i < call->n_inputs; i++)
        copy_tensor(&seen.inputs[i], &call->inputs[i], i);
    for (int i = 0; i < call->n_outputs; i++)
        copy_tensor(&seen.outputs[i], &call->outputs[i], call->n_inputs + i);
    if (seen.message)
        (void)kb_fail(call, seen.message_code, "%s %d", seen.message, 42);
    return seen.code;
}

static int last_error(const char **name)
{
    int code = seen.last_error;
    seen.taken++;
    *name = code && !seen.is_nameless ? "a bad launch" : NULL;
    return code;
}

static kb_source_step step_of(kb_source_function *run, bool cuda)
{
    return (kb_source_step){
        .run = run, .last_error = cuda ? last_error : NULL, .cuda = cuda, .n_attributes = 0};
}

static kb_status run(gpu_call *c, const kb_source_step *step)
{
    memset(&seen.call, 0, sizeof seen.call);
    seen.taken = 0;
    seen.n_calls = 0;
    return gpu_run_one(c, KB_STEP_SOURCE, step, false);
}

static void test_tensors(void)
{
    static float x[24];
    static double y[5];
    static char z[3];
    const int64_t dims[] = {2, 3, 4};
    gpu_call c;
    gpu_call_init(&c, 1);
    gpu_arg(&c, KB_DTYPE_F32, 3, 3, dims, x, 0);
    gpu_arg(&c, KB_DTYPE_PRED, 0, 0, NULL, z, 0);
    gpu_ret(&c, KB_DTYPE_F64, 1, 1, (int64_t[]){5}, y);
    gpu_ret(&c, KB_DTYPE_F8E4M3FN, 2, 2, (int64_t[]){0, 3}, NULL);
    const kb_source_step step = step_of(look, false);
    CHECK_INT(run(&c, &step), KB_OK);
    CHECK_INT(seen.n_calls, 1);
    CHECK_INT(seen.call.abi, KB_ABI);
    CHECK_INT(seen.call.struct_size, sizeof(kb_call));
    CHECK_INT(seen.call.n_inputs, 2);
    CHECK_INT(seen.call.n_outputs, 2);
    CHECK_PTR(seen.call.stream, NULL);
    const kb_tensor *t = &seen.inputs[0];
    CHECK_PTR(t->data, x);
    CHECK_INT(t->ndim, 3);
    CHECK_INT(t->size, 24);
    CHECK_INT(t->type, KB_TYPE_FLOAT32);
    CHECK_INT(t->dl_dtype.code, 2);
    CHECK_INT(t->dl_dtype.bits, 32);
    CHECK_INT(t->dl_dtype.lanes, 1);
    CHECK_INT(t->device.type, KB_DEVICE_CPU);
    CHECK_INT(seen.call.device, 0);
    CHECK_INT(t->byte_offset, 0);
    for (int d = 0; d < 3; d++)
        CHECK_INT(seen.shapes[0][d], dims[d]);
    CHECK_INT(seen.strides[0][0], 12);
    CHECK_INT(seen.strides[0][1], 4);
    CHECK_INT(seen.strides[0][2], 1);
    CHECK_INT(seen.inputs[1].ndim, 0);
    CHECK_INT(seen.inputs[1].size, 1);
    CHECK_INT(seen.inputs[1].type, KB_TYPE_BOOL);
    CHECK_INT(seen.outputs[0].type, KB_TYPE_FLOAT64);
    CHECK_INT(seen.outputs[1].type, KB_TYPE_FLOAT8_E4M3FN);
    CHECK_INT(seen.outputs[1].dl_dtype.code, 10);
    CHECK_INT(seen.outputs[1].size, 0);
    gpu_call_free(&c);
}

/* Every element type of XLA's has a number and a width, but for tokens. */
static void test_types(void)
{
    static char memory[16];
    const struct {
        int32_t dtype;
        uint32_t bits;
        const char *name;
    } all[] = {
#define DTYPE_ENTRY(NAME, code, bits, name, OURS, dlpack, pjrt) {code, bits, name},
        KB_DTYPE_LIST(DTYPE_ENTRY)
#undef DTYPE_ENTRY
    };
    const kb_source_step step = step_of(look, false);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gpu_call c;
        gpu_call_init(&c, 1);
        gpu_arg(&c, all[i].dtype, 0, 0, NULL, memory, 0);
        kb_status s = run(&c, &step);
        if (all[i].dtype == KB_DTYPE_TOKEN) {
            CHECK_INT(s, KB_INVALID_ARGUMENT);
            CHECK_HAS(c.err.message, "op1: input 0 has an element type that is unknown");
        } else {
            CHECK_INT(s, KB_OK);
            CHECK_INT(seen.inputs[0].dl_dtype.bits, all[i].bits);
            const char *name = "";
            switch (seen.inputs[0].type) {
#define TYPE_CASE(NAME, number, type_name, bits)                                                   \
    case number:                                                                                   \
        name = type_name;                                                                          \
        break;
                KB_TYPE_LIST(TYPE_CASE)
#undef TYPE_CASE
            }
            CHECK_TEXT(name, all[i].name);
        }
        gpu_call_free(&c);
    }
}

static void test_many_buffers(void)
{
    enum { N = 40 };
    static float memory[N];
    const int64_t dims[] = {1, 1, 1, 1, 1, 1};
    gpu_call c;
    gpu_call_init(&c, 1);
    for (int i = 0; i < N; i++)
        gpu_arg(&c, KB_DTYPE_F32, 6, 6, dims, &memory[i], 0);
    const kb_source_step step = step_of(look, false);
    CHECK_INT(run(&c, &step), KB_OK);
    for (int i = 0; i < N; i++) {
        CHECK_PTR(seen.inputs[i].data, &memory[i]);
        CHECK_INT(seen.strides[i][0], 1);
    }
    torture_fail_nth(1);
    CHECK_INT(run(&c, &step), KB_RESOURCE_EXHAUSTED);
    CHECK_INT(seen.n_calls, 0);
    torture_fail_nth(0);
    gpu_call_free(&c);
}

static void test_extents(void)
{
    static float memory[1];
    const int64_t bad[][2] = {{-1, 2}, {INT64_MAX, 3}, {-1, -1}};
    const kb_source_step step = step_of(look, false);
    for (int i = 0; i < 3; i++) {
        gpu_call c;
        gpu_call_init(&c, 1);
        gpu_ret(&c, KB_DTYPE_F32, 2, 2, bad[i], memory);
        CHECK_INT(run(&c, &step), KB_INVALID_ARGUMENT);
        CHECK_HAS(c.err.message, "output 0 has an extent that is negative or too large");
        gpu_call_free(&c);
    }
}

/* Which tensor it is that is refused. */
static void test_places(void)
{
    static float memory[1];
    static const char *const names[] = {"input 0", "input 1", "output 0", "output 1", "output 2"};
    const int64_t good[] = {1}, bad[] = {-1};
    const kb_source_step step = step_of(look, false);
    for (int i = 0; i < 5; i++) {
        gpu_call c;
        char expected[128];
        gpu_call_init(&c, 1);
        for (int k = 0; k < 2; k++)
            gpu_arg(&c, KB_DTYPE_F32, 1, 1, k == i ? bad : good, memory, 0);
        for (int k = 2; k < 5; k++)
            gpu_ret(&c, KB_DTYPE_F32, 1, 1, k == i ? bad : good, memory);
        (void)snprintf(expected, sizeof expected,
                       "op1: %s has an extent that is negative or too large [KB3007]", names[i]);
        CHECK_INT(run(&c, &step), KB_INVALID_ARGUMENT);
        CHECK_TEXT(c.err.message, expected);
        gpu_call_free(&c);
    }
}

static void expect_failure(int code, const char *message, int message_code, kb_status status,
                           const char *text)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    seen.code = code;
    seen.message = message;
    seen.message_code = message_code;
    const kb_source_step step = step_of(look, false);
    CHECK_INT(run(&c, &step), status);
    CHECK_INT(c.err.status, status);
    CHECK_TEXT(kb_error_text(&c.err), text);
    seen.code = 0;
    seen.message = NULL;
    gpu_call_free(&c);
}

static void test_failures(void)
{
    expect_failure(5, NULL, 0, KB_NOT_FOUND, "op1: the function returned 5 [KB3005]");
    expect_failure(77, NULL, 0, KB_INTERNAL, "op1: the function returned 77 [KB3005]");
    expect_failure(-1, NULL, 0, KB_INTERNAL, "op1: the function returned -1 [KB3005]");
    expect_failure(3, "no", 3, KB_INVALID_ARGUMENT, "op1: no 42 [KB3005]");
    expect_failure(1, "no", 12, KB_UNIMPLEMENTED, "op1: no 42 [KB3005]");
    expect_failure(1, "no", 99, KB_INTERNAL, "op1: no 42 [KB3005]");
    expect_failure(1, "no", 0, KB_INTERNAL, "op1: no 42 [KB3005]");
    expect_failure(0, "told, and then returned 0", 3, KB_INVALID_ARGUMENT,
                   "op1: told, and then returned 0 42 [KB3005]");
}

static int fail_with_long_text(const kb_call *call)
{
    char *text = calloc(1, 3 * KB_ERROR_CAPACITY);
    memset(text, 'x', 3 * KB_ERROR_CAPACITY - 1);
    int code = kb_fail(call, KB_INTERNAL, "%s", text);
    (void)kb_fail(call, KB_NOT_FOUND, "a second failure is not told");
    free(text);
    return code;
}

static void test_long_failure(void)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    const kb_source_step step = step_of(fail_with_long_text, false);
    CHECK_INT(run(&c, &step), KB_INTERNAL);
    CHECK_INT(strlen(c.err.message), KB_ERROR_CAPACITY - 1);
    gpu_call_free(&c);
}

/* A text that cannot be written, since it has a character that is none. */
static int fail_with_bad_text(const kb_call *call)
{
    static const wchar_t none[] = {'b', (wchar_t)0x7fffffff, 0};
    return kb_fail(call, KB_INTERNAL, "a%ls", none);
}

/* In memory of exactly the size of an error. */
static void test_texts(void)
{
    kb_error *err = malloc(sizeof *err);
    if (!err)
        abort();
    kb_source_function *const functions[] = {fail_with_long_text, fail_with_bad_text};
    for (int i = 0; i < 2; i++) {
        gpu_call c;
        gpu_call_init(&c, 1);
        const kb_source_step step = step_of(functions[i], false);
        CHECK_INT(gpu_read(&c), KB_OK);
        c.frame.device = KB_DEVICE_HOST;
        CHECK_INT(kb_source_run(&step, &c.frame, err), KB_INTERNAL);
        if (i)
            CHECK_TEXT(err->message, "op1:  [KB3005]");
        else
            CHECK_INT(strlen(err->message), KB_ERROR_CAPACITY - 1);
        gpu_call_free(&c);
    }
    free(err);
}

static int use_scratch(const kb_call *call)
{
    const size_t sizes[] = {1, 63, 64, 65, 4096, 1};
    char *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = kb_scratch(call, sizes[i]);
        if (!blocks[i])
            return kb_fail(call, KB_RESOURCE_EXHAUSTED, "no block %d", i);
        CHECK_INT((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < 6; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            CHECK_INT(blocks[i][k], i + 1);
    CHECK_PTR(kb_scratch(call, 0), NULL);
    CHECK_PTR(kb_scratch(call, SIZE_MAX), NULL);
    CHECK_PTR(kb_scratch(call, SIZE_MAX - 63), NULL);
    return 0;
}

static void test_scratch(void)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    const kb_source_step host = step_of(use_scratch, false), gpu = step_of(use_scratch, true);
    CHECK_INT(run(&c, &host), KB_OK);
    for (int n = 1; n <= 6; n++) {
        torture_fail_nth(n);
        CHECK_INT(run(&c, &host), KB_RESOURCE_EXHAUSTED);
        CHECK_HAS(c.err.message, "no block");
    }
    torture_fail_nth(0);
    CHECK_INT(run(&c, &gpu), KB_RESOURCE_EXHAUSTED); /* the host's memory is no use there */
    gpu_call_free(&c);
}

static int look_at_scratch(const kb_call *call)
{
    const unsigned char *block = kb_scratch(call, 1000);
    for (int i = 0; block && i < 1000; i++)
        if (block[i] != 0xFF)
            return 1;
    return block ? 0 : 2;
}

/* New memory of that size has no such bytes unless they are written. */
static int look_for_other_bytes(const kb_call *call)
{
    enum { SIZE = 1 << 20 };
    const unsigned char *block = kb_scratch(call, SIZE);
    for (int i = 0; block && i < SIZE; i++)
        if (block[i] != 0xFF)
            return 0;
    return 1;
}

static void test_poisoned_scratch(void)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    const kb_source_step plain = step_of(look_for_other_bytes, false);
    CHECK_INT(run(&c, &plain), KB_OK);
    const kb_source_step step = step_of(look_at_scratch, false);
    kb_stream_set_debug(KB_DEBUG_POISON);
    CHECK_INT(run(&c, &step), KB_OK);
    kb_stream_set_debug(0);
    gpu_call_free(&c);
}

static void add_range(void *data, int64_t begin, int64_t end)
{
    atomic_fetch_add((atomic_long *)data, (long)(end - begin));
}

static void count_part(void *data, int64_t begin, int64_t end)
{
    atomic_fetch_add((atomic_long *)data, begin < end);
}

static int use_loop(const kb_call *call)
{
    atomic_long sum = 0;
    kb_parallel_for(call, 1000, add_range, &sum);
    kb_parallel_for(call, 0, add_range, &sum);
    return atomic_load(&sum) == 1000 ? 0 : 1;
}

static struct {
    int n;
    int64_t begin, end;
} parts;

static void note_part(void *data, int64_t begin, int64_t end)
{
    parts.n += data == &parts;
    parts.begin = begin;
    parts.end = end;
}

/* A loop of a function of CUDA is one part, on the thread that the GPU is used from. */
static int use_loops(const kb_call *call)
{
    static const int64_t counts[] = {-1, 0, 1, 2, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        memset(&parts, 0, sizeof parts);
        kb_parallel_for(call, counts[i], note_part, &parts);
        CHECK_INT(parts.n, counts[i] > 0);
        CHECK_INT(parts.begin, 0);
        CHECK_INT(parts.end, counts[i] > 0 ? counts[i] : 0);
    }
    return 0;
}

static int count_loop(const kb_call *call)
{
    atomic_long n = 0;
    kb_parallel_for(call, 1000, count_part, &n);
    return atomic_load(&n) > 1 ? 0 : 1;
}

static void test_parts(void)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    const kb_source_step host = step_of(count_loop, false), gpu = step_of(use_loops, true);
    fake_pool_set(3, false);
    CHECK_INT(run(&c, &host), KB_OK);
    CHECK_INT(run(&c, &gpu), KB_OK);
    fake_pool_join();
    fake_pool_set(0, false);
    gpu_call_free(&c);
}

static void test_parallel_for(void)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    const kb_source_step host = step_of(use_loop, false), gpu = step_of(use_loop, true);
    CHECK_INT(run(&c, &host), KB_OK);
    CHECK_INT(run(&c, &gpu), KB_OK);
    fake_pool_join();
    gpu_call_free(&c);
}

static void test_gpu(void)
{
    static float x[2];
    gpu_call c;
    gpu_call_init(&c, 1);
    gpu_arg(&c, KB_DTYPE_F32, 1, 1, (int64_t[]){2}, x, 0);
    const kb_source_step step = step_of(look, true);
    CHECK_INT(run(&c, &step), KB_OK);
    CHECK_PTR(seen.call.stream, c.stream);
    CHECK_INT(seen.call.device, c.device);
    CHECK_INT(seen.inputs[0].device.type, KB_DEVICE_CUDA);
    CHECK_INT(seen.taken, 1);
    seen.last_error = 98;
    CHECK_INT(run(&c, &step), KB_INTERNAL);
    CHECK_TEXT(c.err.message,
               "op1: a launch failed with CUDA runtime error 98, a bad launch [KB3004]");
    CHECK_INT(c.err.status, KB_INTERNAL);
    seen.is_nameless = true;
    CHECK_INT(run(&c, &step), KB_INTERNAL);
    CHECK_TEXT(c.err.message, "op1: a launch failed with CUDA runtime error 98, unknown [KB3004]");
    seen.is_nameless = false;
    seen.last_error = 0;
    gpu_call_free(&c);
}

/* Where every launch is waited for, what the wait says counts. */
static void test_waits(void)
{
    gpu_call c;
    gpu_call_init(&c, 1);
    const kb_source_step step = step_of(look, true);
    fake_cuda_reset();
    CHECK_INT(run(&c, &step), KB_OK);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 0);
    kb_stream_set_debug(KB_DEBUG_SYNC);
    CHECK_INT(run(&c, &step), KB_OK);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 1);
    fake_cuda_fail("cuStreamSynchronize", 1, 999);
    CHECK_INT(run(&c, &step), KB_INTERNAL);
    CHECK_HAS(c.err.message, "op1: cuStreamSynchronize failed: ");
    kb_stream_set_debug(0);
    fake_cuda_reset();
    gpu_call_free(&c);
}

enum { ZEROED_INPUTS = 20, ZEROED_OUTPUTS = 4 };

/* Outputs are zeroed but for those that are an input's memory. So many tensors are in memory of
 * exactly their size. */
static void test_zeroed(void)
{
    static uint8_t in[ZEROED_INPUTS][4], out[ZEROED_OUTPUTS][4];
    const int64_t dims[] = {3}, none[] = {0};
    gpu_call c;
    gpu_call_init(&c, 1);
    memset(in, 7, sizeof in);
    memset(out, 7, sizeof out);
    for (int i = 0; i < ZEROED_INPUTS; i++)
        gpu_arg(&c, KB_DTYPE_U8, 1, 1, dims, in[i], 0);
    gpu_ret(&c, KB_DTYPE_U8, 1, 1, dims, in[0]);
    gpu_ret(&c, KB_DTYPE_U8, 1, 1, dims, out[0]);
    gpu_ret(&c, KB_DTYPE_U8, 1, 1, dims, in[ZEROED_INPUTS - 1]);
    gpu_ret(&c, KB_DTYPE_U8, 1, 1, none, NULL);
    gpu_ret(&c, KB_DTYPE_U16, 1, 1, (int64_t[]){1}, out[1]);
    gpu_ret(&c, KB_DTYPE_U4, 1, 1, (int64_t[]){4}, out[2]);
    gpu_ret(&c, KB_DTYPE_PRED, 0, 0, NULL, out[3]);
    kb_source_step step = step_of(look, false);
    CHECK_INT(run(&c, &step), KB_OK);
    CHECK_INT(out[0][0], 7);
    step.zeroed = true;
    CHECK_INT(run(&c, &step), KB_OK);
    static const int zeroed[] = {3, 2, 2, 1}; /* bytes */
    for (int i = 0; i < ZEROED_OUTPUTS; i++)
        for (int k = 0; k < 4; k++)
            CHECK_INT(out[i][k], k < zeroed[i] ? 0 : 7);
    for (int i = 0; i < ZEROED_INPUTS; i++)
        CHECK_INT(in[i][0], 7);
    gpu_call_free(&c);
    gpu_call_init(&c, 1); /* outputs alone */
    for (int i = 0; i < ZEROED_INPUTS; i++)
        gpu_ret(&c, KB_DTYPE_U8, 1, 1, dims, in[i]);
    CHECK_INT(run(&c, &step), KB_OK);
    for (int i = 0; i < ZEROED_INPUTS; i++)
        CHECK(!in[i][0] && !in[i][2] && in[i][3] == 7);
    gpu_call_free(&c);
}

/* A row of outputs ends with the last; what lies behind the tensors is no tensor, though it looks
 * like one with an address and a size that would be zeroed. */
static void test_zeroed_to_the_last(void)
{
    static uint8_t x[ZEROED_INPUTS], y[20];
    const int64_t large[] = {1, 1, 1, 1, 1, 1, 1, 1, INT64_C(1) << 41};
    gpu_call c;
    gpu_call_init(&c, 1);
    for (int i = 0; i < ZEROED_INPUTS; i++)
        gpu_arg(&c, KB_DTYPE_U8, 9, 9, large, &x[i], 0);
    gpu_ret(&c, KB_DTYPE_U8, 1, 1, (int64_t[]){16}, y);
    gpu_ret(&c, KB_DTYPE_U8, 1, 1, (int64_t[]){0}, NULL);
    memset(y, 7, sizeof y);
    kb_source_step step = step_of(look, false);
    step.zeroed = true;
    CHECK_INT(run(&c, &step), KB_OK);
    for (int i = 0; i < 20; i++)
        CHECK_INT(y[i], i < 16 ? 0 : 7);
    gpu_call_free(&c);
}

static int check_values(const kb_call *call)
{
    CHECK_INT(call->n_attributes, 3);
    float scale;
    memcpy(&scale, call->attributes[0], sizeof scale);
    CHECK(scale == 2.5f);
    CHECK_INT(*(const int8_t *)call->attributes[1], -3);
    const double *z = call->attributes[2];
    CHECK_INT((uintptr_t)z % 16, 0);
    CHECK(z[0] == 1.0 && z[1] == -1.0);
    return 0;
}

static int count_attributes(const kb_call *call)
{
    int sum = 0;
    for (int32_t i = 0; i < call->n_attributes; i++)
        sum += *(const unsigned char *)call->attributes[i];
    return sum == call->n_attributes ? 0 : 1;
}

/* What a plan says that it takes: 16 bytes for each attribute and 8 for its address, in lines of
 * 16. */
static void test_bytes(void)
{
    static const unsigned char value[KB_ATTRIBUTE_SIZE_MAX] = {1};
    const void *values[KB_ATTRIBUTES_MAX];
    size_t sizes[KB_ATTRIBUTES_MAX], none = 0;
    for (uint32_t n = 0; n <= KB_ATTRIBUTES_MAX; n += n < 3 ? 1 : KB_ATTRIBUTES_MAX - 3) {
        kb_source_step step = step_of(count_attributes, false);
        kb_kernel kernel = {.name = "op2", .source = ""};
        kb_step plan_step;
        kb_error err;
        step.n_attributes = n;
        step.attributes = values;
        for (uint32_t i = 0; i < n; i++) {
            values[i] = value;
            sizes[i] = sizeof value;
        }
        CHECK_INT(kb_source_plan(&step, sizes, &kernel, &plan_step, &err), KB_OK);
        none = n ? none : kernel.bytes;
        CHECK(none >= sizeof step && none < sizeof step + 16);
        CHECK_INT(kernel.bytes, (sizeof step + (size_t)8 * n + 15) / 16 * 16 + (size_t)16 * n);
        gpu_call c;
        gpu_call_init(&c, 2);
        CHECK_INT(gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps), KB_OK);
        gpu_call_free(&c);
        kernel.free_owner(kernel.owner);
    }
}

/* The plan of an operation, as the registry has it: its attributes are its own. */
static void test_plan(void)
{
    float scale = 2.5f;
    int8_t small = -3;
    double z[2] = {1.0, -1.0};
    const void *values[] = {&scale, &small, z};
    const size_t sizes[] = {sizeof scale, sizeof small, sizeof z};
    kb_source_step step = step_of(check_values, false);
    step.n_attributes = 3;
    step.attributes = values;
    kb_kernel kernel = {.name = "op2", .source = ""};
    kb_step plan_step;
    kb_error err;
    torture_fail_nth(1);
    CHECK_INT(kb_source_plan(&step, sizes, &kernel, &plan_step, &err), KB_RESOURCE_EXHAUSTED);
    torture_fail_nth(0);
    CHECK_INT(kb_source_plan(&step, sizes, &kernel, &plan_step, &err), KB_OK);
    scale = 0, small = 0, z[0] = z[1] = 0;
    gpu_call c;
    gpu_call_init(&c, 2);
    CHECK_INT(gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps), KB_OK);
    CHECK_INT(kb_plan_concurrency(&plan_step, &c.frame), KB_CONCURRENT_IF_TOLD);
    gpu_call_free(&c);
    kernel.free_owner(kernel.owner);
    step.cuda = true;
    CHECK_INT(kb_source_plan(&step, sizes, &kernel, &plan_step, &err), KB_OK);
    CHECK_INT(kb_plan_concurrency(&plan_step, &c.frame), KB_CONCURRENT_NEVER);
    kernel.free_owner(kernel.owner);
    step.n_attributes = KB_ATTRIBUTES_MAX + 1;
    CHECK_INT(kb_source_plan(&step, sizes, &kernel, &plan_step, &err), KB_RESOURCE_EXHAUSTED);
    CHECK_TEXT(err.message, "op2: no memory for 257 attributes, or over 256");
}

static bool is_held;

static int look_there(const kb_call *call)
{
    is_held = pthread_mutex_trylock(&there.lock) != 0;
    return look(call) + 1000;
}

static void test_variables(void)
{
    static double values[KB_TENSORS_INLINE + 1];
    there.offset = (const char *)(uintptr_t)look_there - (const char *)(uintptr_t)look;
    long before = torture_count().blocks;
    gpu_call c;
    gpu_call_init(&c, 1);
    for (int i = 0; i < KB_TENSORS_INLINE + 1; i++) /* more than fit, for which memory is taken */
        gpu_arg(&c, KB_DTYPE_F64, 0, 0, NULL, &values[i], 0);
    kb_source_step step = step_of(look, false);
    step.variables = &variables;
    CHECK_INT(run(&c, &step), KB_RESOURCE_EXHAUSTED);
    CHECK_TEXT(c.err.message, "no copy");
    CHECK_INT(seen.n_calls, 0);
    CHECK_INT(torture_count().blocks, before);
    has_copy = true;
    CHECK_INT(run(&c, &step), KB_INTERNAL);
    CHECK_HAS(c.err.message, "the function returned 1000");
    CHECK_INT(seen.n_calls, 1);
    CHECK_INT(seen.call.n_inputs, KB_TENSORS_INLINE + 1);
    CHECK_PTR(entered_for, &c.f.frame);
    CHECK(is_held);
    CHECK_INT(pthread_mutex_trylock(&there.lock), 0);
    CHECK_INT(pthread_mutex_unlock(&there.lock), 0);
    CHECK_INT(torture_count().blocks, before);
    step.variables = NULL;
    CHECK_INT(run(&c, &step), KB_OK);
    gpu_call_free(&c);
}

int main(void)
{
    gpu_start();
    test_plan(); /* sets the runner */
    test_tensors();
    test_types();
    test_many_buffers();
    test_extents();
    test_places();
    test_failures();
    test_long_failure();
    test_texts();
    test_scratch();
    test_poisoned_scratch();
    test_parallel_for();
    test_parts();
    test_gpu();
    test_waits();
    test_zeroed();
    test_zeroed_to_the_last();
    test_bytes();
    test_variables();
    return kb_test_end("test_source");
}
