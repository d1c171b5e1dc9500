/* Proves what XLA is told when a GPU call cannot be compiled or run: a damaged program, a machine
 * without a driver, each call of the driver that fails, and a kernel that goes wrong. */
#include "cuda/kb_target.h"

#include "cuda/kb_stream.h"
#include "target.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *streams[2];
static uint64_t last_id = 100;

static void start_anew(void)
{
    fake_cuda_reset();
    fake_cuda_set_twin("", target_double, NULL);
    fake_stream_set(streams[0], false);
    kb_stream_set_debug(0);
    fake_cuda_set_active(0, 0);
    fake_cuda_set_active(1, 0);
    if (streams[0])
        gpu_use_device(0);
}

/* A call of an operation that is not known yet. */
static void new_call(target_call *c, program_text *p)
{
    char entry[32];
    snprintf(entry, sizeof entry, "entry%d", (int)++last_id);
    program_simple(p, last_id, entry);
    target_call_init(c, last_id, p);
}

static void test_damaged_program(void)
{
    program_text p;
    target_call c;
    uint64_t word = 0;
    start_anew();
    new_call(&c, &p);
    fake_attr_array(&c.f, "program", KB_DTYPE_S8, 8, &word, 8);
    target_expect(kb_target_instantiate, &c, KB_INVALID_ARGUMENT,
                  "a kernel's program is not an array of bytes");
    fake_attr_array(&c.f, "program", KB_DTYPE_U8, 8, &word, 8);
    target_expect(kb_target_instantiate, &c, KB_INVALID_ARGUMENT,
                  "a kernel's program is damaged, or of another version of kernbridge: the "
                  "check of its first bytes failed");
    fake_attr_array(&c.f, "program", KB_DTYPE_U8, 0, NULL, 0);
    target_expect(kb_target_instantiate, &c, KB_INVALID_ARGUMENT,
                  "check of its first bytes failed");
    fake_attr_string(&c.f, "program", "KBCU", 4);
    target_expect(kb_target_instantiate, &c, KB_NOT_FOUND, "not registered in this process");
    target_expect(kb_target_execute, &c, KB_NOT_FOUND, "not registered in this process");
    target_call_free(&c);
}

static void test_damaged_call(void)
{
    program_text p;
    target_call c;
    start_anew();
    new_call(&c, &p);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    c.f.frame.rets.size = 0;
    target_expect(kb_target_execute, &c, KB_INVALID_ARGUMENT,
                  "simple: got 1 operands and 0 results, expected 1 and 1");
    fake_attr_remove(&c.f, "call");
    target_expect(kb_target_execute, &c, KB_INVALID_ARGUMENT, "without its key");
    target_expect(kb_target_instantiate, &c, KB_INVALID_ARGUMENT, "without its key");
    target_call_free(&c);
}

/* An unknown dtype is the registry's to refuse; what was read is freed. */
static void test_unknown_dtype(void)
{
    program_text p;
    target_call c;
    start_anew();
    program_simple(&p, ++last_id, "dtype");
    p.buffers[0].dtype = 12345;
    target_call_init(&c, last_id, &p);
    target_expect(kb_target_instantiate, &c, KB_INVALID_ARGUMENT, "has dtype code 12345");
    target_call_free(&c);
}

/* Callbacks cannot come from what XLA carries. */
static void test_callback(void)
{
    program_text p;
    target_call c;
    start_anew();
    program_simple(&p, ++last_id, "callback");
    p.steps[0].kind = KB_STEP_CALLBACK;
    target_call_init(&c, last_id, &p);
    target_expect(kb_target_instantiate, &c, KB_INVALID_ARGUMENT, "a step that calls Python");
    target_call_free(&c);
}

static void test_no_stream(void)
{
    program_text p;
    target_call c;
    start_anew();
    new_call(&c, &p);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    fake_stream_set(NULL, true);
    target_expect(kb_target_execute, &c, KB_FAILED_PRECONDITION,
                  "simple: this call has no CUDA stream");
    kb_stream_set_debug(KB_DEBUG_DEFAULT_STREAM);
    target_expect(kb_target_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    CHECK_PTR(fake_cuda_get_launch(0)->stream, NULL);
    target_call_free(&c);
}

/* Each call of the driver in compiling: told, contexts and modes as before, and then it works. */
static void test_instantiate_failures(void)
{
    const char *const functions[] = {"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent",
                                     "cuDeviceGetAttribute",     "cuLibraryLoadData",
                                     "cuLibraryGetKernel",       "cuKernelGetFunction",
                                     "cuKernelGetAttribute",     "cuKernelSetAttribute"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        program_text p;
        target_call c;
        char text[64], entry[32];
        start_anew();
        fake_cuda_set_active(0, 1);
        snprintf(entry, sizeof entry, "entry%d", (int)++last_id);
        program_simple(&p, last_id, entry);
        p.steps[0].launch.shared = 100 * 1024;
        target_call_init(&c, last_id, &p);
        fake_cuda_fail(functions[i], 1, 999);
        snprintf(text, sizeof text, "simple: %s failed: CUDA_ERROR_UNKNOWN", functions[i]);
        target_expect(kb_target_instantiate, &c, KB_INTERNAL, text);
        CHECK_INT(fake_cuda_primary_users(0), 1);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        CHECK_INT(fake_cuda_capture_mode(), 0);
        target_expect(kb_target_instantiate, &c, 0, NULL);
        CHECK_INT(fake_cuda_primary_users(0), 1);
        target_expect(kb_target_execute, &c, 0, NULL);
        CHECK(target_doubled(&c));
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"),
                  strcmp(functions[i], "cuLibraryLoadData") ? 1 : 2);
        target_call_free(&c);
    }
}

/* A device whose state cannot be told is left to the first call. */
static void test_unknown_state(void)
{
    program_text p;
    target_call c;
    start_anew();
    fake_cuda_set_active(0, 1);
    new_call(&c, &p);
    fake_cuda_fail("cuDevicePrimaryCtxGetState", 1, 999);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 0);
    target_expect(kb_target_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    target_call_free(&c);
}

/* Each call of the driver in running. */
static void test_execute_failures(void)
{
    const char *const functions[] = {"cuCtxGetCurrent", "cuStreamGetCtx",    "cuCtxPushCurrent",
                                     "cuCtxGetDevice",  "cuLibraryLoadData", "cuKernelGetFunction",
                                     "cuLaunchKernelEx"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        program_text p;
        target_call c;
        start_anew();
        fake_stream_set(streams[1], false);
        new_call(&c, &p);
        target_expect(kb_target_instantiate, &c, 0, NULL);
        char text[64];
        snprintf(text, sizeof text, "%s failed: CUDA_ERROR_UNKNOWN", functions[i]);
        fake_cuda_fail(functions[i], 1, 999);
        target_expect(kb_target_execute, &c, KB_INTERNAL, text);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        target_expect(kb_target_execute, &c, 0, NULL);
        CHECK(target_doubled(&c));
        CHECK_INT(fake_cuda_n_contexts(), 1);
        target_call_free(&c);
    }
}

/* A kernel goes wrong while it runs: the next call tells, and says that it may not be its own. */
static void test_fault(void)
{
    program_text p;
    target_call guilty, innocent;
    start_anew();
    new_call(&guilty, &p);
    target_expect(kb_target_instantiate, &guilty, 0, NULL);
    fake_cuda_fault(p.functions[0].entry, KB_CU_ILLEGAL_ADDRESS);
    new_call(&innocent, &p);
    target_expect(kb_target_instantiate, &innocent, 0, NULL);
    target_expect(kb_target_execute, &innocent, 0, NULL);
    target_expect(kb_target_execute, &guilty, 0, NULL);
    for (int i = 0; i < 2; i++) {
        target_expect(kb_target_execute, &innocent, KB_INTERNAL,
                      "failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was "
                      "encountered, code 700). A kernel did this while it ran: possibly an earlier "
                      "one, of this operation or of another.");
        target_expect(kb_target_execute, &innocent, KB_INTERNAL,
                      "KERNBRIDGE_DEBUG=sync reports the launch");
    }
    target_call_free(&guilty);
    target_call_free(&innocent);
}

/* While debugging with sync the launch itself tells. */
static void test_fault_with_sync(void)
{
    program_text p;
    target_call c;
    start_anew();
    kb_stream_set_debug(KB_DEBUG_SYNC);
    new_call(&c, &p);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    target_expect(kb_target_execute, &c, 0, NULL);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 1);
    fake_cuda_fault("", KB_CU_LAUNCH_FAILED);
    kb_xla_error *error = kb_target_execute(&c.f.frame);
    if (CHECK(error != NULL)) {
        char text[256];
        snprintf(
            text, sizeof text,
            "simple: launch of %s, grid (1, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared "
            "memory: ",
            p.functions[0].entry);
        CHECK_HAS(error->message, text);
        CHECK_HAS(error->message,
                  "CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure, code 719). "
                  "The CUDA context is lost: restart the process");
        CHECK(!strstr(error->message, "earlier"));
    }
    fake_error_destroy(error);
    target_call_free(&c);
}

static void write_nothing(void *data, const char *entry, const uint32_t grid[3],
                          const uint32_t block[3], uint32_t shared, uint32_t n_words,
                          const uint64_t *words)
{
    (void)data, (void)entry, (void)grid, (void)block, (void)shared, (void)n_words, (void)words;
}

static void test_poison(void)
{
    program_text p;
    target_call c;
    start_anew();
    kb_stream_set_debug(KB_DEBUG_POISON);
    new_call(&c, &p);
    target_expect(kb_target_instantiate, &c, 0, NULL);
    target_expect(kb_target_execute, &c, 0, NULL);
    CHECK(target_doubled(&c));
    fake_cuda_set_twin(p.functions[0].entry, write_nothing, NULL);
    target_expect(kb_target_execute, &c, KB_INTERNAL,
                  "simple: no thread wrote 8 of the 8 elements of output 0 (y)");
    target_call_free(&c);
}

/* XLA compiles here for another machine: that works, and running does not. */
static void test_no_driver(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        program_text p;
        target_call c;
        setenv("KERNBRIDGE_LIBCUDA", "/nowhere/libcuda.so", 1);
        new_call(&c, &p);
        target_expect(kb_target_instantiate, &c, 0, NULL);
        target_expect(kb_target_execute, &c, KB_NOT_FOUND, "no CUDA driver: /nowhere/libcuda.so");
        target_call_free(&c);
        exit(atomic_load(&kb_test_failures) ? KB_TEST_FAIL : KB_TEST_PASS);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
          WEXITSTATUS(status) == KB_TEST_PASS);
}

int main(void)
{
    test_no_driver(); /* first: this process must not have opened one */
    gpu_start();
    streams[0] = fake_cuda_stream_create(0);
    streams[1] = fake_cuda_stream_create(1);
    test_damaged_program();
    test_damaged_call();
    test_unknown_dtype();
    test_callback();
    test_no_stream();
    test_instantiate_failures();
    test_unknown_state();
    test_execute_failures();
    test_fault();
    test_fault_with_sync();
    test_poison();
    CHECK_INT(fake_errors_alive(), 0);
    return kb_test_end("test_target_errors");
}
