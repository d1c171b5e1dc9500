/* Proves that calls on the CPU survive whatever the system and XLA refuse: kernels that are
 * registered, that come as machine code or in a library, batches on many threads, and functions
 * of modules and their public targets. See scenario.h. */
#include "core/kb_batch.h"
#include "core/kb_handler.h"
#include "host_code.h"
#include "kb_test.h"
#include "library.h"
#include "module/kb_slot.h"
#include "object/kb_host_code.h"
#include "sample.h"
#include "scenario.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 40 };

/* y = x + 1, by Numba's convention. */
static int32_t add_one(void **result, void **exception, void *const *inputs, void *const *outputs)
{
    (void)result;
    *exception = NULL;
    const kb_xla_buffer *x = inputs[0], *y = outputs[0];
    for (int64_t i = 0; i < x->dims[0]; i++)
        ((double *)y->data)[i] = ((const double *)x->data)[i] + 1;
    return KB_NUMBA_OK;
}

/* The same, for long enough that slices are shared among threads. */
static int32_t add_slowly(void **result, void **exception, void *const *inputs,
                          void *const *outputs)
{
    nanosleep(&(struct timespec){0, 20000}, NULL);
    return add_one(result, exception, inputs, outputs);
}

static sample offered;

static kb_status resolve(const uint8_t digest[KB_DIGEST_SIZE], kb_xla_bytes origin, kb_error *err)
{
    (void)digest, (void)origin;
    bool inserted;
    return kb_registry_add(&kb_handler_registry, &offered.kernel, &inserted, err);
}

/* A call of the kernel as XLA makes it: compiled, then executed. */
static kb_status compile_and_run(kb_error *err)
{
    const int64_t dims[] = {WIDTH};
    double x[WIDTH] = {0.5}, y[WIDTH];
    fake_frame f;
    kb_handler_resolve = resolve;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    sample_attrs(&f, &offered.kernel);
    fake_arg(&f, KB_DTYPE_F64, x, 1, dims);
    fake_ret(&f, KB_DTYPE_F64, y, 1, dims);
    kb_status s = scenario_answer(kb_handler_host_instantiate(&f.frame), err);
    if (s == KB_OK)
        s = scenario_answer(kb_handler_host_execute(&f.frame), err);
    if (s == KB_OK)
        CHECK(y[0] == 1.5 && y[WIDTH - 1] == 1);
    fake_frame_free(&f);
    return s;
}

/* Far enough that the table doubles. */
static kb_status fill_registry(kb_error *err)
{
    kb_registry registry = {.lock = PTHREAD_MUTEX_INITIALIZER};
    kb_status s = KB_OK;
    for (uint64_t id = 0; s == KB_OK && id < 40; id++) {
        bool inserted;
        sample k;
        sample_init(&k, id, add_one);
        s = kb_registry_add(&registry, &k.kernel, &inserted, err);
    }
    sample_free_registry(&registry);
    return s;
}

/* A batch of many levels and buffers, of which the slices are shared among threads. */
static kb_status run_batch(kb_error *err)
{
    enum { SLICES = 64, OUTPUTS = 20 };
    static double x[SLICES], y[OUTPUTS][SLICES];
    int64_t dims[] = {SLICES, 1, 1, 1}, masks[] = {7};
    static sample k;
    fake_frame f;
    kb_frame frame;
    sample_init(&k, 3, add_slowly);
    k.step.host.concurrent = true;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    sample_input(&k, KB_DTYPE_F64, 1, "x");
    fake_arg(&f, KB_DTYPE_F64, x, 4, dims);
    for (int i = 0; i < OUTPUTS; i++) {
        sample_output(&k, KB_DTYPE_F64, 1, "y");
        fake_ret(&f, KB_DTYPE_F64, y[i], 4, dims);
    }
    for (int i = 0; i < SLICES; i++)
        x[i] = i, y[0][i] = 0;
    kb_xla_array *call = sample_call(&f, &k.kernel, 3 + KB_BATCH_ORDER * KB_SLICES_AT_ONCE, masks);
    kb_status s = kb_frame_read(&frame, &k.kernel, &f.frame, call, err);
    if (s == KB_OK)
        s = kb_batch_run(&frame, err);
    for (int i = 0; s == KB_OK && i < SLICES; i++)
        CHECK(y[0][i] == i + 1);
    fake_frame_free(&f);
    return s;
}

/* y of x = (0.5, second) by a kernel that comes with the call. */
static kb_status run_carried(const uint8_t *digest, const uint8_t *bytes, size_t size,
                             double second, double y[2], kb_error *err)
{
    const int64_t dims[] = {2};
    double x[] = {0.5, second};
    fake_frame f;
    kb_kernel named = {0};
    memcpy(named.digest, digest, KB_DIGEST_SIZE);
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    sample_attrs(&f, &named);
    fake_attr_remove(&f, "origin");
    fake_attr_array(&f, "program", KB_DTYPE_U8, size, bytes, size);
    fake_arg(&f, KB_DTYPE_F64, x, 1, dims);
    fake_ret(&f, KB_DTYPE_F64, y, 1, dims);
    kb_status s = scenario_answer(kb_handler_host_instantiate(&f.frame), err);
    if (s == KB_OK)
        s = scenario_answer(kb_handler_host_execute(&f.frame), err);
    fake_frame_free(&f);
    return s;
}

static const kb_handler_format formats[] = {
    {KB_HOST_CODE_MAGIC, kb_host_code_register},
    {KB_LIBRARY_MAGIC, kb_library_register},
    {NULL, NULL},
};

/* A kernel as machine code, also where it raises an exception, whose words need memory. */
static kb_status run_machine_code(kb_error *err)
{
    uint8_t digest[KB_DIGEST_SIZE];
    host_code_text t;
    kb_error raised = {0};
    double y[2];
    size_t size;
    sample_digest(digest, 4);
    host_code_init(&t);
    uint8_t *bytes = host_code_write(&t, digest, &size);
    kb_handler_formats = formats;
    kb_status s = run_carried(digest, bytes, size, 1, y, err);
    if (s == KB_OK) {
        CHECK(y[0] == exp(0.5) + 1 && y[1] == exp(1) + 1);
        CHECK_INT(run_carried(digest, bytes, size, -5, y, &raised), KB_INTERNAL);
        CHECK_HAS(raised.message, "numba_kernel 'op': ValueError");
        CHECK_HAS(raised.message, "(in op at op.py:4)");
    }
    free(bytes);
    return s;
}

static kb_status run_library(kb_error *err)
{
    uint8_t digest[KB_DIGEST_SIZE];
    library_text t;
    double y[2];
    size_t size;
    sample_digest(digest, 5);
    library_init(&t);
    uint8_t *bytes = library_write(&t, digest, &size);
    kb_handler_formats = formats;
    kb_status s = run_carried(digest, bytes, size, 4, y, err);
    if (s == KB_OK)
        CHECK(y[0] == 1.25 && y[1] == 10);
    free(bytes);
    return s;
}

static void add_range(void *data, int64_t begin, int64_t end)
{
    atomic_fetch_add((atomic_long *)data, (long)(end - begin));
}

/* Takes memory and threads as functions of modules do. */
static int use_all(const kb_call *call)
{
    atomic_long sum = 0;
    for (int i = 0; i < 3; i++)
        if (!kb_scratch(call, 1000))
            return kb_fail(call, KB_RESOURCE_EXHAUSTED, "no memory for block %d", i);
    kb_parallel_for(call, 1000, add_range, &sum);
    return atomic_load(&sum) == 1000 && call->n_inputs == WIDTH ? 0 : 1;
}

/* Binds a public target and calls it as XLA does. */
static kb_status call_target(kb_error *err)
{
    static kb_slot slot;
    static kb_slot_attribute attributes[] = {{.name = "alpha", .dtype = KB_DTYPE_F32}};
    const kb_slot_target target = {
        .name = "load 'm.f'",
        .n_inputs = KB_ANY_COUNT,
        .n_outputs = 1,
        .step = {.run = use_all, .n_attributes = 1},
        .attributes = attributes,
    };
    const int64_t dims[] = {1, 1, 1, 1};
    const float alpha = 1;
    static float x;
    static bool is_bound; /* what a slot was bound to is kept */
    kb_status s = is_bound ? KB_OK : kb_slot_bind(&slot, sample_target(&target), err);
    if (s != KB_OK)
        return s;
    is_bound = true;
    fake_frame f;
    fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
    fake_attr_scalar(&f, "alpha", KB_DTYPE_F32, &alpha, sizeof alpha);
    for (int i = 0; i < WIDTH; i++)
        fake_arg(&f, KB_DTYPE_F32, &x, 4, dims);
    fake_ret(&f, KB_DTYPE_F32, &x, 4, dims);
    s = scenario_answer(slot.handle(&slot, &f.frame), err);
    fake_frame_free(&f);
    return s;
}

int main(void)
{
    sample_init(&offered, 1, add_one);
    sample_input(&offered, KB_DTYPE_F64, 1, "x");
    sample_output(&offered, KB_DTYPE_F64, 1, "y");
    scenario_torture(&(scenario){
        .name = "compile and run",
        .run = compile_and_run,
        .at_least = {[TORTURE_MEMORY] = 2},
    });
    scenario_torture(
        &(scenario){.name = "registry", .run = fill_registry, .at_least = {[TORTURE_MEMORY] = 40}});
    scenario_torture(&(scenario){
        .name = "batch",
        .run = run_batch,
        .at_least = {[TORTURE_MEMORY] = 1, [TORTURE_XLA] = 1},
        .survives = "malloc schedule num_threads",
    });
    scenario_torture(&(scenario){
        .name = "machine code",
        .run = run_machine_code,
        .at_least = {[TORTURE_MEMORY] = 8, [TORTURE_MAPPING] = 3, [TORTURE_LIBRARY] = 1},
        .survives = "malloc calloc dlsym",
        .words = "which this process does not have",
    });
    scenario_torture(&(scenario){
        .name = "library",
        .run = run_library,
        .at_least = {[TORTURE_MEMORY] = 6, [TORTURE_FILE] = 3, [TORTURE_LIBRARY] = 2},
        .survives = "dlsym", /* of what only modules of CUDA C++ define */
        .words = "the check of what it defines failed",
    });
    scenario_torture(&(scenario){
        .name = "public target",
        .run = call_target,
        .at_least = {[TORTURE_MEMORY] = 5, [TORTURE_XLA] = 1},
        .survives = "malloc schedule num_threads",
    });
    return kb_test_end("test_torture");
}
