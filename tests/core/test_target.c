/* Proves what XLA gets from the GPU targets: metadata, a kernel from the call's own program, loaded
 * when XLA compiles or at the latest when it runs, by value; in a graph, and by eight threads. */
#include "cuda/kb_target.h"

#include "core/kb_handler.h"
#include "core/kb_plan.h"
#include "cuda/kb_program.h"
#include "cuda/kb_stream.h"
#include "sealed.h"
#include "target.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static void *streams[2];
static atomic_long runs;

static void start_anew(void)
{
    fake_cuda_reset();
    fake_cuda_set_twin("", target_double, &runs);
    atomic_store(&runs, 0);
    fake_stream_set(streams[0], false);
    kb_stream_set_debug(0);
    for (int d = 0; d < 2; d++)
        fake_cuda_set_active(d, 0);
}

static size_t kernels(void)
{
    return kb_registry_count(&kb_handler_registry).kernels;
}

static void test_metadata(void)
{
    const struct {
        kb_xla_handler *handler;
        uint32_t traits;
    } handlers[] = {{kb_target_instantiate, 0},
                    {kb_target_execute, 0},
                    {kb_target_carrier_prepare, 0},
                    {kb_target_graph_instantiate, KB_XLA_TRAIT_COMMAND_BUFFER},
                    {kb_target_graph_execute, KB_XLA_TRAIT_COMMAND_BUFFER}};
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        for (int minor = 1; minor < 10; minor++) {
            fake_frame f;
            fake_frame_init(&f, minor > 1 ? fake_api(minor) : NULL, KB_XLA_STAGE_EXECUTE);
            fake_ask_metadata(&f);
            CHECK_PTR(handlers[i].handler(&f.frame), NULL);
            CHECK_INT(f.metadata.api_version.major_version, 0);
            CHECK_INT(f.metadata.api_version.minor_version,
                      minor < KB_XLA_API_MINOR ? minor : KB_XLA_API_MINOR);
            CHECK_INT(f.metadata.traits, handlers[i].traits);
            fake_frame_free(&f);
        }
}

/* XLA executes calls of a program that it has loaded without instantiating them: the first call of
 * each kernel reads its program, in a capture too. */
static void test_program_that_was_not_instantiated(bool captures)
{
    program_text p;
    target_call with, without;
    start_anew();
    program_simple(&p, 50 + captures, "not_instantiated");
    target_call_init(&with, 50 + captures, &p);
    target_call_init(&without, 50 + captures, NULL);
    size_t before = kernels();
    fake_stream_set(streams[0], false);
    if (captures)
        CHECK_INT(fake_cuda_capture_begin(streams[0]), 0);
    target_expect(kb_target_graph_execute, &with, 0, NULL);
    if (captures) {
        CHECK_INT(fake_cuda_capture_end(streams[0]), 0);
        CHECK_INT(fake_cuda_capture_replay(streams[0]), 0);
    }
    CHECK(target_doubled(&with));
    CHECK_INT(kernels(), (long long)before + 1);
    target_expect(kb_target_execute, &without, 0, NULL);
    CHECK(target_doubled(&without));
    CHECK_INT(atomic_load(&runs), 2);
    target_call_free(&with);
    target_call_free(&without);
}

/* A call that carries a kernel brings it before others are executed. */
static void test_carrier_that_was_not_instantiated(void)
{
    program_text p;
    target_call carrier, elsewhere;
    const bool yes = true;
    start_anew();
    program_simple(&p, 52, "carried");
    target_call_init(&carrier, 52, &p);
    target_call_init(&elsewhere, 52, NULL);
    fake_attr_remove(&elsewhere.f, "digest");
    fake_attr_scalar(&elsewhere.f, "elsewhere", KB_DTYPE_PRED, &yes, sizeof yes);
    target_expect(kb_target_execute, &elsewhere, KB_NOT_FOUND, "not registered in this process");
    target_expect(kb_target_carrier_prepare, &carrier, 0, NULL);
    target_expect(kb_target_carrier_prepare, &carrier, 0, NULL);
    target_expect(kb_target_execute, &elsewhere, 0, NULL);
    CHECK(target_doubled(&elsewhere));
    target_call_free(&carrier);
    target_call_free(&elsewhere);
}

/* The program is read once a process; calls without it follow. */
static void test_program_from_call(void)
{
    program_text p;
    target_call with, without;
    start_anew();
    program_simple(&p, 1, "from_call");
    target_call_init(&with, 1, &p);
    target_call_init(&without, 1, NULL);
    size_t before = kernels();
    target_expect(kb_target_execute, &without, KB_NOT_FOUND, "not registered in this process");
    target_expect(kb_target_instantiate, &without, KB_NOT_FOUND, "not registered in this process");
    target_expect(kb_target_instantiate, &with, 0, NULL);
    CHECK_INT(kernels(), (long long)before + 1);
    target_expect(kb_target_instantiate, &with, 0, NULL);
    target_expect(kb_target_instantiate, &without, 0, NULL);
    CHECK_INT(kernels(), (long long)before + 1);
    target_expect(kb_target_execute, &without, 0, NULL);
    CHECK(target_doubled(&without));
    target_expect(kb_target_graph_execute, &with, 0, NULL);
    CHECK(target_doubled(&with));
    CHECK_INT(atomic_load(&runs), 2);
    CHECK_INT(fake_cuda_n_launches(), 2);
    const fake_cuda_launch *l = fake_cuda_get_launch(1);
    CHECK_TEXT(l->entry, "from_call");
    CHECK_INT(l->grid[0], 1);
    CHECK_INT(l->block[0], 256);
    CHECK_PTR(l->stream, streams[0]);
    target_call_free(&with);
    target_call_free(&without);
}

/* XLA compiles: loaded for those GPUs whose context is there, and contexts are as before. */
static void test_loads_when_instantiated(void)
{
    for (int active = 0; active < 4; active++) {
        program_text p;
        target_call c;
        uint64_t id = 10 + (uint64_t)active;
        char entry[32];
        start_anew();
        gpu_use_device(0);
        for (int d = 0; d < 2; d++)
            fake_cuda_set_active(d, active >> d & 1);
        snprintf(entry, sizeof entry, "compiled%d", active);
        program_simple(&p, id, entry);
        target_call_init(&c, id, &p);
        for (int i = 0; i < 3; i++) {
            target_expect(kb_target_graph_instantiate, &c, 0, NULL);
            CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), active != 0);
            CHECK_INT(fake_cuda_calls("cuKernelGetFunction"), (active & 1) + (active >> 1));
            CHECK_INT(fake_cuda_calls("cuDevicePrimaryCtxRetain"), (active & 1) + (active >> 1));
            CHECK_INT(fake_cuda_n_contexts(), 1);
            CHECK_INT(fake_cuda_primary_users(0), active & 1);
            CHECK_INT(fake_cuda_primary_users(1), active >> 1);
            CHECK_INT(fake_cuda_capture_mode(), 0);
        }
        for (int d = 0; d < 2; d++) { /* loads what was not, and nothing twice */
            fake_stream_set(streams[d], false);
            target_expect(kb_target_execute, &c, 0, NULL);
            CHECK(target_doubled(&c));
            CHECK_INT(fake_cuda_get_launch(d)->device, d);
        }
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 1);
        CHECK_INT(fake_cuda_calls("cuKernelGetFunction"), 2);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        target_call_free(&c);
    }
}

/* Every kind of step has its runner from the first kernel on. */
static void test_kinds_of_steps(void)
{
    program_text p;
    target_call c;
    start_anew();
    program_simple(&p, 90, "steps");
    p.n_steps = 3;
    p.steps[2] = p.steps[0];
    p.steps[0] = (program_step){
        .kind = KB_STEP_FILL,
        .fill = {.buffer = 1, .item_size = 4, .count = gpu_count(1, 1), .pattern = {7}}};
    p.steps[1] = (program_step){.kind = KB_STEP_COPY,
                                .copy = {.to = 1, .from = 0, .size = gpu_constant(4, 1)}};
    target_call_init(&c, 90, &p);
    target_expect(kb_target_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    CHECK_INT(fake_cuda_calls("cuMemsetD32Async"), 1);
    CHECK_INT(fake_cuda_calls("cuMemcpyDtoDAsync"), 1);
    CHECK_INT(fake_cuda_n_launches(), 1);
    target_call_free(&c);
}

/* Of two launches, the first or the second has a function that is loaded already: XLA's compilation
 * loads the other. */
static void test_loads_what_is_not(void)
{
    static const char *const names[][2] = {{"loaded0", "other0"}, {"loaded1", "other1"}};
    static const char *const images[] = {"FAKE other0 3\n", "FAKE other1 3\n"};
    for (uint32_t loaded = 0; loaded < 2; loaded++) {
        program_text p;
        target_call c;
        start_anew();
        fake_cuda_set_active(0, 1);
        program_simple(&p, 60 + loaded, names[loaded][0]);
        target_call_init(&c, 60 + loaded, &p);
        target_expect(kb_target_instantiate, &c, 0, NULL);
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 1);
        target_call_free(&c);

        p.n_functions = p.n_steps = 2;
        p.functions[1] = p.functions[0];
        p.functions[1].id = 70 + loaded;
        p.functions[1].entry = names[loaded][1];
        p.functions[1].images[0].text = images[loaded];
        p.steps[1] = p.steps[0];
        p.steps[0].function = loaded;
        p.steps[1].function = !loaded;
        target_call_init(&c, 80 + loaded, &p);
        for (int i = 0; i < 2; i++) {
            target_expect(kb_target_instantiate, &c, 0, NULL);
            CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 2);
        }
        target_expect(kb_target_execute, &c, 0, NULL);
        CHECK(target_doubled(&c));
        CHECK_INT(fake_cuda_n_launches(), 2);
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 2);
        target_call_free(&c);
    }
}

static kb_cu_result count_many(int *n)
{
    *n = KB_DEVICE_HOST + 5;
    return KB_CU_SUCCESS;
}

/* Of more GPUs than there is room for, as many are looked at as there is. */
static void test_many_devices(void)
{
    program_text p;
    target_call c;
    kb_error err;
    kb_driver *driver = (kb_driver *)(uintptr_t)kb_driver_get(&err), real = *driver;
    start_anew();
    fake_cuda_set_active(0, 1);
    program_simple(&p, 92, "many");
    target_call_init(&c, 92, &p);
    driver->cuDeviceGetCount = count_many;
    target_expect(kb_target_instantiate, &c, 0, NULL);
    CHECK_INT(fake_cuda_calls("cuDevicePrimaryCtxGetState"), KB_DEVICE_HOST);
    CHECK_INT(fake_cuda_calls("cuKernelGetFunction"), 1);
    *driver = real;
    target_call_free(&c);
}

/* The plan ends with its last step, though a truth value behind it looks like a launch. */
static void test_end_of_plan(void)
{
    program_text p;
    target_call c;
    start_anew();
    fake_cuda_set_active(0, 1);
    program_simple(&p, 91, "ends");
    p.buffers[0].dtype = KB_DTYPE_PRED;
    target_call_init(&c, 91, &p);
    for (int i = 0; i < 2; i++)
        target_expect(kb_target_instantiate, &c, 0, NULL);
    CHECK_INT(fake_cuda_calls("cuKernelGetFunction"), 1);
    target_call_free(&c);
}

/* Two operations have one function; the second asks for more shared memory than the first. */
static void test_one_function_two_sizes(void)
{
    static const uint32_t sizes[] = {0, 60 * 1024, 50 * 1024, 200 * 1024};
    /* Times that more was asked for, after compiling and after running. */
    static const int allowed[2][4][2] = {{{0, 0}, {0, 1}, {1, 1}, {1, 2}},
                                         {{0, 0}, {1, 1}, {1, 1}, {2, 2}}};
    for (int active = 0; active < 2; active++) {
        start_anew();
        fake_cuda_set_active(0, active);
        for (uint32_t i = 0; i < 4; i++) {
            program_text p;
            target_call c;
            program_simple(&p, 20 + (uint64_t)active, active ? "sizes" : "lazy_sizes");
            p.steps[0].launch.shared = sizes[i];
            target_call_init(&c, 100 + 10 * (uint64_t)active + i, &p);
            target_expect(kb_target_instantiate, &c, 0, NULL);
            CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), allowed[active][i][0]);
            target_expect(kb_target_execute, &c, 0, NULL);
            CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), allowed[active][i][1]);
            CHECK(target_doubled(&c));
            CHECK_INT(fake_cuda_get_launch((int)i)->shared, sizes[i]);
            target_call_free(&c);
        }
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 1);
        CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 2);
    }
}

/* Recorded, not run; then replayed, with what the memory holds by then. Loading, if need be, is
 * allowed in the capture. */
static void test_capture(void)
{
    for (int loaded = 0; loaded < 2; loaded++) {
        program_text p;
        target_call c;
        long calls, nodes, calls_before, nodes_before;
        uint64_t id = 30 + (uint64_t)loaded;
        start_anew();
        program_simple(&p, id, loaded ? "captured" : "captured_lazily");
        p.n_steps = 2;
        p.steps[1] = p.steps[0];
        target_call_init(&c, id, &p);
        fake_cuda_set_active(0, loaded);
        target_expect(kb_target_graph_instantiate, &c, 0, NULL);
        kb_stream_set_debug(KB_DEBUG_COUNT_NODES | KB_DEBUG_SYNC | KB_DEBUG_POISON);
        calls_before = kb_target_captured_calls, nodes_before = kb_target_captured_nodes;
        CHECK_INT(fake_cuda_capture_begin(streams[0]), 0);
        target_expect(kb_target_graph_execute, &c, 0, NULL);
        CHECK_INT(fake_cuda_capture_end(streams[0]), 0);
        calls = kb_target_captured_calls, nodes = kb_target_captured_nodes;
        CHECK_INT(calls - calls_before, 1);
        CHECK_INT(nodes - nodes_before, 2);
        CHECK_INT(atomic_load(&runs), 0);
        CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 0);
        CHECK_INT(fake_cuda_get_launch(0)->captured, 1);
        CHECK_INT(fake_cuda_capture_mode(), 0);
        for (int i = 0; i < 3; i++) {
            c.x[0] = (float)i;
            CHECK_INT(fake_cuda_capture_replay(streams[0]), 0);
            CHECK(target_doubled(&c));
        }
        CHECK_INT(atomic_load(&runs), 6);
        CHECK_INT(fake_cuda_n_launches(), 2);

        kb_stream_set_debug(KB_DEBUG_COUNT_NODES); /* outside of a capture nothing is counted */
        target_expect(kb_target_execute, &c, 0, NULL);
        calls = kb_target_captured_calls, nodes = kb_target_captured_nodes;
        CHECK_INT(calls - calls_before, 1);
        CHECK(target_doubled(&c));
        target_call_free(&c);
    }
}

/* Nodes that a graph has already are not those of a call. */
static void test_captured_twice(void)
{
    program_text p;
    target_call c;
    long calls, nodes, calls_before, nodes_before;
    start_anew();
    program_simple(&p, 32, "captured_twice");
    target_call_init(&c, 32, &p);
    target_expect(kb_target_graph_instantiate, &c, 0, NULL);
    kb_stream_set_debug(KB_DEBUG_COUNT_NODES);
    calls_before = kb_target_captured_calls, nodes_before = kb_target_captured_nodes;
    CHECK_INT(fake_cuda_capture_begin(streams[0]), 0);
    for (int i = 0; i < 3; i++)
        target_expect(kb_target_graph_execute, &c, 0, NULL);
    CHECK_INT(fake_cuda_capture_end(streams[0]), 0);
    calls = kb_target_captured_calls, nodes = kb_target_captured_nodes;
    CHECK_INT(calls - calls_before, 3);
    CHECK_INT(nodes - nodes_before, 3);
    target_call_free(&c);

    program_simple(&p, 33, "captured_nothing");
    p.n_steps = 0;
    target_call_init(&c, 33, &p);
    target_expect(kb_target_graph_instantiate, &c, 0, NULL);
    CHECK_INT(fake_cuda_capture_begin(streams[0]), 0);
    target_expect(kb_target_graph_execute, &c, 0, NULL);
    CHECK_INT(fake_cuda_capture_end(streams[0]), 0);
    calls = kb_target_captured_calls, nodes = kb_target_captured_nodes;
    CHECK_INT(calls - calls_before, 4);
    CHECK_INT(nodes - nodes_before, 3);

    for (int nth = 1; nth <= 2; nth++) { /* what cannot be counted is not */
        CHECK_INT(fake_cuda_capture_begin(streams[0]), 0);
        fake_cuda_fail("cuStreamGetCaptureInfo", nth, 1);
        target_expect(kb_target_graph_execute, &c, 0, NULL);
        CHECK_INT(fake_cuda_capture_end(streams[0]), 0);
        calls = kb_target_captured_calls, nodes = kb_target_captured_nodes;
        CHECK_INT(calls - calls_before, 4);
        CHECK_INT(nodes - nodes_before, 3);
    }

    kb_stream_set_debug(KB_DEBUG_POISON); /* no count was asked for */
    CHECK_INT(fake_cuda_capture_begin(streams[0]), 0);
    target_expect(kb_target_graph_execute, &c, 0, NULL);
    CHECK_INT(fake_cuda_capture_end(streams[0]), 0);
    calls = kb_target_captured_calls, nodes = kb_target_captured_nodes;
    CHECK_INT(calls - calls_before, 4);
    kb_stream_set_debug(0);
    target_call_free(&c);
}

static void test_register(void)
{
    program_text p = {.magic = "KBCU", .version = KB_PROGRAM_VERSION, .name = "n", .source = "s"};
    p.n_steps = 1;
    uint8_t digest[KB_DIGEST_SIZE], bytes[] = {1, 2, 3};
    const bool callbacks = true;
    bool inserted = true;
    kb_error err;
    size_t size;
    p.steps[0].kind = KB_STEP_CALLBACK;
    sample_digest(digest, 40);
    uint8_t *program = program_write(&p, digest, &size);
    CHECK_INT(kb_target_register(bytes, 3, digest, &callbacks, &inserted, &err),
              KB_INVALID_ARGUMENT);
    CHECK(!inserted);
    CHECK_INT(kb_target_register(program, size, digest, NULL, &inserted, &err),
              KB_INVALID_ARGUMENT);
    CHECK(!inserted);
    CHECK_INT(kb_target_register(program, size, digest, &callbacks, &inserted, &err), KB_OK);
    CHECK(inserted);
    CHECK_INT(kb_target_register(program, size, digest, &callbacks, &inserted, &err), KB_OK);
    CHECK(!inserted);
    digest[KB_DIGEST_SIZE - 1] ^= 1; /* the same key */
    sealed_sign(program, size, digest, KB_DIGEST_SIZE);
    CHECK_INT(kb_target_register(program, size, digest, &callbacks, &inserted, &err),
              KB_ALREADY_EXISTS);
    CHECK(!inserted);
    free(program);
}

enum { THREADS = 8, CALLS = 200 };

static void *work(void *memory)
{
    int device = *(int *)memory;
    fake_stream_set(streams[device], false);
    for (int i = 0; i < CALLS; i++) {
        program_text p;
        target_call c;
        uint64_t id = 1000 + (uint64_t)(i % 10);
        char entry[32];
        snprintf(entry, sizeof entry, "thread%d", i % 10);
        program_simple(&p, id, entry);
        target_call_init(&c, id, &p);
        target_expect(kb_target_instantiate, &c, 0, NULL);
        target_expect(kb_target_execute, &c, 0, NULL);
        CHECK(target_doubled(&c));
        target_call_free(&c);
    }
    CHECK_INT(fake_cuda_n_contexts(), 0);
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    int devices[THREADS];
    start_anew();
    fake_cuda_set_active(0, 1);
    size_t before = kernels();
    for (int i = 0; i < THREADS; i++) {
        devices[i] = i % 2;
        pthread_create(&threads[i], NULL, work, &devices[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(kernels(), (long long)before + 10);
    CHECK_INT(atomic_load(&runs), THREADS * CALLS);
    CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 10);
    CHECK_INT(fake_cuda_primary_users(0), 1);
    CHECK_INT(fake_cuda_primary_users(1), 0);
}

int main(void)
{
    gpu_start();
    streams[0] = fake_cuda_stream_create(0);
    streams[1] = fake_cuda_stream_create(1);
    for (kb_step_kind kind = 0; kind < KB_STEP_KINDS; kind++)
        kb_plan_runners[kind] = NULL; /* which gpu_start has set */
    test_metadata();
    test_kinds_of_steps();
    test_program_from_call();
    test_program_that_was_not_instantiated(false);
    test_program_that_was_not_instantiated(true);
    test_carrier_that_was_not_instantiated();
    test_loads_when_instantiated();
    test_loads_what_is_not();
    test_end_of_plan();
    test_many_devices();
    test_one_function_two_sizes();
    test_capture();
    test_captured_twice();
    test_register();
    test_threads();
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_target");
}
