/* Proves that GPU calls survive whatever the driver, the system and XLA refuse: while the driver is
 * opened, while a call is compiled and executed, in a graph, in the debug modes, and while blocks
 * are timed. See scenario.h. */
#include "cuda/kb_program.h"
#include "cuda/kb_stream.h"
#include "cuda/kb_target.h"
#include "scenario.h"
#include "target.h"

#include <stdlib.h>

static void *stream;

/* Opens the driver, which happens once a process. */
static kb_status open_driver(kb_error *err)
{
    setenv("KERNBRIDGE_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
    return kb_driver_get(err) ? KB_OK : err->status;
}

/* Functions that restore what was, or give it back: there is nothing to be done when one fails. */
static const char *const restoring[] = {"cuCtxPopCurrent", "cuDevicePrimaryCtxRelease",
                                        "cuThreadExchangeStreamCaptureMode", "cuLibraryUnload"};

static bool could_not_restore(void)
{
    static bool ever;
    const char *failed = fake_cuda_failed();
    ever |= failed && torture_lasts();
    for (size_t i = 0; failed && i < sizeof restoring / sizeof *restoring; i++)
        ever |= strcmp(failed, restoring[i]) == 0;
    return ever;
}

/* A call leaves the thread and the driver as they were. */
static void check_restored(int n_contexts)
{
    if (could_not_restore())
        return;
    CHECK_INT(fake_cuda_n_contexts(), n_contexts);
    CHECK_INT(fake_cuda_capture_mode(), 0);
    CHECK_INT(fake_cuda_primary_users(0), 1);
}

static void init(target_call *c, uint64_t id)
{
    program_text p;
    program_simple(&p, id, "torture");
    target_call_init(c, id, &p);
}

static kb_status execute(target_call *c, kb_error *err)
{
    kb_status s = scenario_answer(kb_target_execute(&c->f.frame), err);
    if (s == KB_OK)
        CHECK(target_doubled(c));
    return s;
}

static kb_status compile_and_run(kb_error *err)
{
    target_call c;
    init(&c, 7);
    kb_status s = scenario_answer(kb_target_instantiate(&c.f.frame), err);
    if (s == KB_OK)
        s = execute(&c, err);
    target_call_free(&c);
    check_restored(1);
    return s;
}

/* XLA may execute a call that it did not compile here, in a thread without a context. */
static kb_status run_elsewhere(kb_error *err)
{
    target_call c;
    init(&c, 8);
    kb_status s = execute(&c, err);
    target_call_free(&c);
    check_restored(0);
    return s;
}

static kb_status run_in_graph(kb_error *err)
{
    target_call c;
    init(&c, 9);
    kb_stream_set_debug(KB_DEBUG_COUNT_NODES);
    CHECK_INT(fake_cuda_capture_begin(stream), 0);
    kb_status s = scenario_answer(kb_target_graph_execute(&c.f.frame), err);
    CHECK_INT(fake_cuda_capture_end(stream), 0);
    if (s == KB_OK) {
        CHECK_INT(fake_cuda_capture_replay(stream), 0);
        CHECK(target_doubled(&c));
    }
    kb_stream_set_debug(0);
    target_call_free(&c);
    check_restored(1);
    return s;
}

static kb_status run_debugged(kb_error *err)
{
    target_call c;
    init(&c, 10);
    kb_stream_set_debug(KB_DEBUG_POISON | KB_DEBUG_SYNC);
    kb_status s = execute(&c, err);
    kb_stream_set_debug(0);
    target_call_free(&c);
    check_restored(1);
    return s;
}

/* Every kind of step, of value and of word, hidden buffers, and blocks that the driver chooses. */
static kb_status run_program(kb_error *err)
{
    const int64_t dims[] = {2, 3};
    static const uint8_t digest[KB_DIGEST_SIZE] = {11};
    static char memory[4][256];
    program_text p;
    kb_kernel kernel;
    gpu_call c;
    size_t size;
    program_init(&p);
    for (uint32_t i = 0; i < p.n_functions; i++)
        fake_cuda_set_twin(p.functions[i].entry, NULL, NULL);
    p.steps[3].launch.flags |= KB_LAUNCH_AUTO_BLOCK;
    uint8_t *bytes = program_write(&p, digest, &size);
    kb_status s = kb_program_read(bytes, size, digest, false, &kernel, err);
    free(bytes);
    if (s != KB_OK)
        return s;
    gpu_call_init(&c, 11);
    gpu_arg(&c, KB_DTYPE_F32, 2, 2, dims, memory[0], 0);
    gpu_arg(&c, KB_DTYPE_S32, 0, 0, NULL, memory[1], 0);
    gpu_ret(&c, KB_DTYPE_F32, 2, 2, dims, memory[2]);
    gpu_hidden(&c, KB_DTYPE_F64, 1, 1, dims, memory[3]);
    s = gpu_run(&c, kernel.plan.steps, kernel.plan.n_steps);
    if (s != KB_OK)
        *err = c.err;
    gpu_call_free(&c);
    kernel.free_owner(kernel.owner);
    CHECK(could_not_restore() || fake_cuda_n_libraries() == 0);
    check_restored(1);
    return s;
}

/* cuKernelGetParamInfo is called once more than there are parameters, and fails in any case then.
 */
#define RESTORES                                                                                   \
    "cuCtxPopCurrent cuDevicePrimaryCtxRelease cuThreadExchangeStreamCaptureMode "                 \
    "cuKernelGetParamInfo"
#define COMPILES RESTORES " cuDevicePrimaryCtxGetState cuDeviceGetCount"

int main(void)
{
    kb_error err;
    kb_cu_context popped;
    scenario_torture(&(scenario){
        .name = "driver",
        .run = open_driver,
        .at_least = {[TORTURE_LIBRARY] = 2, [TORTURE_DRIVER] = 1},
        .words = "older than CUDA 12.0",
        .lasting = true,
    });
    gpu_start();
    stream = fake_cuda_stream_create(0);
    fake_stream_set(stream, false);
    fake_cuda_set_twin("", target_double, NULL);
    fake_cuda_set_active(0, 1);
    scenario_torture(&(scenario){
        .name = "compile and run",
        .run = compile_and_run,
        .at_least = {[TORTURE_MEMORY] = 8, [TORTURE_DRIVER] = 12, [TORTURE_XLA] = 1},
        .survives = COMPILES,
    });
    scenario_torture(&(scenario){
        .name = "graph",
        .run = run_in_graph,
        .at_least = {[TORTURE_MEMORY] = 9, [TORTURE_DRIVER] = 12},
        .survives = COMPILES " calloc cuStreamGetCaptureInfo cuGraphGetNodes cuGraphNodeGetType",
    });
    scenario_torture(&(scenario){
        .name = "debugged",
        .run = run_debugged,
        .at_least = {[TORTURE_MEMORY] = 10, [TORTURE_DRIVER] = 16},
        .survives = COMPILES " cuStreamIsCapturing",
    });
    scenario_torture(&(scenario){
        .name = "program",
        .run = run_program,
        .at_least = {[TORTURE_MEMORY] = 5, [TORTURE_DRIVER] = 10},
        .survives = RESTORES " cuLibraryUnload",
        .words = "a fill of GPU memory failed",
    });
    CHECK_INT(kb_driver_get(&err)->cuCtxPopCurrent(&popped), KB_CU_SUCCESS);
    scenario_torture(&(scenario){
        .name = "run elsewhere",
        .run = run_elsewhere,
        .at_least = {[TORTURE_MEMORY] = 8, [TORTURE_DRIVER] = 10, [TORTURE_XLA] = 1},
        .survives = COMPILES,
    });
    return kb_test_end("test_torture_cuda");
}
