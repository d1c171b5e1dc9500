/* Proves how a call gets to its stream: the stream's context current and its device known, the
 * context as it was afterwards, whatever failed; and what is told of captures. */
#include "cuda/kb_stream.h"
#include "gpu.h"

static const kb_driver *cu;
static void *streams[2];

static kb_cu_context now(void)
{
    kb_cu_context current = NULL;
    CHECK_INT(cu->cuCtxGetCurrent(&current), KB_CU_SUCCESS);
    return current;
}

/* No context is current on this thread. */
static void use_none(void)
{
    kb_cu_context popped;
    gpu_use_device(0);
    CHECK_INT(cu->cuCtxPopCurrent(&popped), KB_CU_SUCCESS);
    CHECK_INT(fake_cuda_n_contexts(), 0);
}

static void enter_and_leave(void *stream, int device, bool pushes)
{
    gpu_call c;
    kb_stream_scope scope;
    int contexts = fake_cuda_n_contexts();
    kb_cu_context before = now();
    gpu_call_init(&c, 1);
    CHECK_INT(gpu_read(&c), KB_OK);
    c.frame.device = -1;
    fake_stream_set(stream, false);
    if (CHECK_INT(kb_stream_enter(&scope, &c.frame, &c.err), KB_OK)) {
        CHECK_PTR(c.frame.stream, stream);
        CHECK_INT(c.frame.device, device);
        CHECK_PTR(now(), fake_cuda_context(device));
        CHECK_INT(scope.pushed, pushes);
        CHECK_INT(fake_cuda_n_contexts(), contexts + pushes);
        kb_stream_leave(&scope);
    }
    CHECK_PTR(now(), before);
    CHECK_INT(fake_cuda_n_contexts(), contexts);
    gpu_call_free(&c);
}

static void test_contexts(void)
{
    for (int current = 0; current < 2; current++)
        for (int device = 0; device < 2; device++) {
            gpu_use_device(current);
            enter_and_leave(streams[device], device, device != current);
        }
    use_none();
    enter_and_leave(streams[0], 0, true);
    enter_and_leave(streams[1], 1, true);
}

/* Of the stream that a thread used last, in the same context, the driver is asked no more. */
static void test_same_stream(void)
{
    const struct {
        int stream, current;
        bool known;
    } calls[] = {{1, 0, false}, {0, 0, false}, {0, 0, true}, {0, 1, false}, {0, 0, true},
                 {0, 0, true},  {1, 1, false}, {1, 1, true}, {0, 0, false}, {1, 1, false}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        gpu_use_device(calls[i].current);
        long contexts = fake_cuda_calls("cuStreamGetCtx"),
             devices = fake_cuda_calls("cuCtxGetDevice");
        enter_and_leave(streams[calls[i].stream], calls[i].stream,
                        calls[i].stream != calls[i].current);
        CHECK_INT(fake_cuda_calls("cuStreamGetCtx"), contexts + !calls[i].known);
        CHECK_INT(fake_cuda_calls("cuCtxGetDevice"), devices + !calls[i].known);
    }
}

/* The default stream is that of the context that is current, or of the first device. */
static void test_default_stream(void)
{
    gpu_use_device(1);
    enter_and_leave(NULL, 1, false);
    gpu_use_device(0);
    enter_and_leave(NULL, 0, false);
    use_none();
    enter_and_leave(NULL, 0, true);
}

static void test_no_stream(void)
{
    gpu_call c;
    kb_stream_scope scope;
    gpu_use_device(1);
    gpu_call_init(&c, 1);
    CHECK_INT(gpu_read(&c), KB_OK);
    fake_stream_set(streams[0], true);
    CHECK_INT(kb_stream_enter(&scope, &c.frame, &c.err), KB_FAILED_PRECONDITION);
    CHECK_TEXT(c.err.message, "op1: this call has no CUDA stream");
    CHECK_INT(fake_errors_alive(), 0);
    kb_stream_set_debug(KB_DEBUG_DEFAULT_STREAM);
    c.frame.stream = streams[0];
    CHECK_INT(kb_stream_enter(&scope, &c.frame, &c.err), KB_OK);
    CHECK_PTR(c.frame.stream, NULL);
    CHECK_INT(c.frame.device, 1);
    kb_stream_leave(&scope);
    CHECK_INT(fake_errors_alive(), 0);
    kb_stream_set_debug(0);
    gpu_call_free(&c);
}

/* Each call of the driver fails; the contexts are as before, and the next attempt works. */
static void test_failures(void)
{
    const char *const functions[] = {"cuCtxGetCurrent", "cuStreamGetCtx", "cuCtxPushCurrent",
                                     "cuCtxGetDevice"};
    for (int i = 0; i < 4; i++) {
        char text[64];
        gpu_call c;
        kb_stream_scope scope;
        fake_cuda_reset();
        gpu_use_device(0);
        gpu_call_init(&c, 1);
        CHECK_INT(gpu_read(&c), KB_OK);
        fake_stream_set(streams[1], false);
        fake_cuda_fail(functions[i], 1, 999);
        CHECK_INT(kb_stream_enter(&scope, &c.frame, &c.err), KB_INTERNAL);
        snprintf(text, sizeof text, "op1: %s failed: CUDA_ERROR_UNKNOWN", functions[i]);
        CHECK_HAS(c.err.message, text);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        CHECK_PTR(now(), fake_cuda_context(0));
        gpu_call_free(&c);
        enter_and_leave(streams[1], 1, true);
    }
    gpu_call c;
    kb_stream_scope scope;
    char no_stream;
    gpu_call_init(&c, 1);
    CHECK_INT(gpu_read(&c), KB_OK);
    fake_stream_set(&no_stream, false);
    CHECK_INT(kb_stream_enter(&scope, &c.frame, &c.err), KB_INTERNAL);
    CHECK_HAS(c.err.message, "op1: cuStreamGetCtx failed: CUDA_ERROR_INVALID_HANDLE");
    gpu_call_free(&c);
}

static kb_cu_device played;

static kb_cu_result say_played(kb_cu_device *device)
{
    *device = played;
    return KB_CU_SUCCESS;
}

/* As many GPUs as there is room for. */
static void test_devices(void)
{
    const struct {
        kb_cu_device device;
        kb_status expected;
    } cases[] = {{-1, KB_UNIMPLEMENTED},
                 {0, KB_OK},
                 {KB_DEVICE_HOST - 1, KB_OK},
                 {KB_DEVICE_HOST, KB_UNIMPLEMENTED},
                 {KB_DEVICE_HOST + 1, KB_UNIMPLEMENTED}};
    kb_driver *driver = (kb_driver *)(uintptr_t)cu, real = *cu;
    driver->cuCtxGetDevice = say_played;
    gpu_use_device(0);
    fake_stream_set(NULL, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        gpu_call c;
        kb_stream_scope scope;
        gpu_call_init(&c, 1);
        CHECK_INT(gpu_read(&c), KB_OK);
        played = cases[i].device;
        CHECK_INT(kb_stream_enter(&scope, &c.frame, &c.err), cases[i].expected);
        snprintf(text, sizeof text, "op1: GPU %d, at most %d are possible", played, KB_DEVICE_HOST);
        if (cases[i].expected != KB_OK)
            CHECK_TEXT(c.err.message, text);
        else if (CHECK_INT(c.frame.device, played))
            kb_stream_leave(&scope);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        gpu_call_free(&c);
    }
    *driver = real;
}

static void test_flags(void)
{
    CHECK_INT(kb_stream_debug(), 0);
    CHECK(!(kb_stream_debug() & KB_DEBUG_SYNC));
    kb_stream_set_debug(KB_DEBUG_POISON | KB_DEBUG_COUNT_NODES);
    CHECK_INT(kb_stream_debug(), KB_DEBUG_POISON | KB_DEBUG_COUNT_NODES);
    CHECK(!(kb_stream_debug() & KB_DEBUG_SYNC));
    kb_stream_set_debug(KB_DEBUG_SYNC);
    CHECK(kb_stream_debug() & KB_DEBUG_SYNC);
    kb_stream_set_debug(0);
}

static void test_captures(void)
{
    kb_cu_stream stream = streams[0];
    char memory[16];
    fake_cuda_reset();
    gpu_use_device(0);
    CHECK(!kb_stream_captures(cu, stream));
    CHECK(!kb_stream_captures(cu, NULL));
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), -1);
    CHECK_INT(kb_stream_kernel_nodes(cu, NULL), -1);
    CHECK_INT(kb_stream_wait(cu, stream), KB_CU_SUCCESS);
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 1);

    CHECK_INT(fake_cuda_capture_begin(stream), 0);
    CHECK(kb_stream_captures(cu, stream));
    CHECK(!kb_stream_captures(cu, streams[1]));
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), 0);
    CHECK_INT(kb_stream_wait(cu, stream), KB_CU_SUCCESS); /* and does not spoil the capture */
    CHECK_INT(fake_cuda_calls("cuStreamSynchronize"), 1);
    CHECK(kb_stream_captures(cu, stream));

    kb_driver relaxed = *cu;
    int mode = KB_CU_CAPTURE_MODE_RELAXED;
    CHECK_INT(relaxed.cuThreadExchangeStreamCaptureMode(&mode), 0);
    kb_error err;
    kb_cu_kernel kernel;
    kb_function *f = gpu_function("node", 0);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(cu->cuThreadExchangeStreamCaptureMode(&mode), 0);
    kb_cu_launch how = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = stream};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(cu->cuLaunchKernelEx(&how, (kb_cu_function)kernel, NULL, NULL), 0);
        CHECK_INT(cu->cuMemsetD8Async((kb_cu_address)(uintptr_t)memory, 1, 16, stream), 0);
        CHECK_INT(kb_stream_kernel_nodes(cu, stream), i + 1);
    }

    const char *const functions[] = {"cuStreamGetCaptureInfo", "cuGraphGetNodes"};
    for (int i = 0; i < 2; i++)
        for (int nth = 1; nth <= 1 + i; nth++) {
            fake_cuda_fail(functions[i], nth, 1);
            CHECK_INT(kb_stream_kernel_nodes(cu, stream), -1);
        }
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), 3);
    fake_cuda_fail("cuGraphNodeGetType", 1, 1); /* a node of which the kind is not known is none */
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), 2);
    fake_cuda_fail("cuStreamIsCapturing", 1, 1);
    CHECK(!kb_stream_captures(cu, stream));
    CHECK_INT(fake_cuda_capture_end(stream), 0);
    CHECK_INT(kb_stream_kernel_nodes(cu, stream), -1);
    fake_cuda_fail("cuStreamSynchronize", 1, 719);
    CHECK_INT(kb_stream_wait(cu, stream), 719);
    fake_cuda_reset();
}

int main(void)
{
    cu = gpu_start();
    streams[0] = fake_cuda_stream_create(0);
    streams[1] = fake_cuda_stream_create(1);
    test_contexts();
    test_same_stream();
    test_default_stream();
    test_no_stream();
    test_failures();
    test_devices();
    test_flags();
    test_captures();
    kb_function_free_all();
    return kb_test_end("test_stream");
}
