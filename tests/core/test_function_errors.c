/* Proves that whatever goes wrong while a function is loaded is told with the name of the call,
 * that nothing half-loaded stays, and that the next attempt works. */
#include "cuda/kb_function.h"
#include "gpu.h"

static const kb_driver *cu;

static void start_anew(void)
{
    kb_function_free_all();
    CHECK_INT(fake_cuda_n_libraries(), 0);
    fake_cuda_reset();
}

/* Each call of the driver that loading makes, the nth of them, fails once. */
static void test_each_call(void)
{
    const struct {
        const char *function;
        int nth;
    } calls[] = {
        {"cuDeviceGetAttribute", 1}, {"cuDeviceGetAttribute", 2},
        {"cuLibraryLoadData", 1},    {"cuLibraryGetKernel", 1},
        {"cuKernelGetFunction", 1},  {"cuOccupancyMaxPotentialBlockSize", 1},
    };
    const int codes[] = {1, 2, 200, 209, 999};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
            kb_error err;
            kb_cu_kernel kernel = (kb_cu_kernel)1;
            char text[128];
            start_anew();
            kb_function *f = gpu_function("k", 3);
            fake_cuda_fail(calls[i].function, calls[i].nth, codes[c]);
            CHECK_INT(kb_function_load(f, cu, 0, "the operation", &kernel, &err), KB_INTERNAL);
            snprintf(text, sizeof text, "the operation: %s failed: CUDA_ERROR_", calls[i].function);
            CHECK_HAS(err.message, text);
            snprintf(text, sizeof text, "code %d)", codes[c]);
            CHECK_HAS(err.message, text);
            CHECK_PTR(kernel, NULL);
            CHECK_PTR(kb_function_kernel(f, 0), NULL);
            CHECK_INT(kb_function_count.loads, 0);
            CHECK_INT(kb_function_load(f, cu, 0, "the operation", &kernel, &err), KB_OK);
            CHECK(kernel && kb_function_kernel(f, 0) == kernel);
            CHECK_INT(fake_cuda_n_libraries(), 1); /* loaded once, also after a failure behind it */
        }
}

static void test_shared_memory(void)
{
    kb_error err;
    kb_cu_kernel kernel;
    start_anew();
    kb_function *f = gpu_function("k", 3);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    fake_cuda_fail("cuKernelSetAttribute", 1, 999);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 65536, "op", &err), KB_INTERNAL);
    CHECK_HAS(err.message, "op: cuKernelSetAttribute failed: CUDA_ERROR_UNKNOWN");
    CHECK_PTR(kb_function_ready(f, 0, 65536), NULL);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 65536, "op", &err), KB_OK);
    CHECK_PTR(kb_function_ready(f, 0, 65536), kernel);
}

/* The parameters of the image are not those that launches hand over. */
static void test_layout(void)
{
    const struct {
        const char *image;
        uint32_t n_words;
        const char *text;
    } cases[] = {
        {"FAKE k 3\n", 3, NULL},
        {"FAKE k 0\n", 0, NULL},
        {"FAKE k 3\n", 4, "op: parameter 3 of k is not the word that was expected"},
        {"FAKE k 3\n", 2, "op: k takes more than the 2 parameters expected"},
        {"FAKE k 1\n", 0, "op: k takes more than the 0 parameters expected"},
        {"FAKE k 0\n", 1, "op: parameter 0 of k is not the word that was expected"},
        {"FAKE k 3 4\n", 3, "op: parameter 0 of k is not the word that was expected"},
        {"FAKE k 3 8 16\n", 3, "op: parameter 1 of k is not the word that was expected"},
        {"FAKE k 3 16\n", 3, "op: parameter 0 of k is not the word that was expected"},
        {"FAKE other 3\n", 3, "op: cuLibraryGetKernel failed: CUDA_ERROR_NOT_FOUND"},
        {"a cubin?", 3, "op: cuLibraryLoadData failed: CUDA_ERROR_INVALID_IMAGE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_image image = {90, cases[i].image, strlen(cases[i].image)};
        kb_function from = {
            .entry = "k", .n_words = cases[i].n_words, .n_images = 1, .images = &image};
        kb_function *f;
        kb_cu_kernel kernel;
        kb_error err;
        start_anew();
        sample_digest(from.digest, i);
        CHECK_INT(kb_function_hold(&from, &f, &err), KB_OK);
        kb_status s = kb_function_load(f, cu, 0, "op", &kernel, &err);
        CHECK_INT(s, cases[i].text ? KB_INTERNAL : KB_OK);
        CHECK((kernel == NULL) == (cases[i].text != NULL));
        if (cases[i].text && s != KB_OK)
            CHECK_HAS(err.message, cases[i].text);
    }
}

/* What the driver says of a parameter but that there is none is a failure; that there is one more
 * is what it does not say then. */
static void test_parameter_info_fails(void)
{
    const int codes[] = {2, 400, 999};
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
        for (int nth = 1; nth <= 4; nth++) {
            kb_error err;
            kb_cu_kernel kernel;
            char text[64];
            start_anew();
            kb_function *f = gpu_function("k", 3);
            fake_cuda_fail("cuKernelGetParamInfo", nth, codes[c]);
            CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err),
                      nth < 4 ? KB_INTERNAL : KB_OK);
            CHECK_INT(kernel == NULL, nth < 4);
            snprintf(text, sizeof text, ", code %d)", codes[c]);
            if (nth < 4) {
                CHECK_HAS(err.message, "op: cuKernelGetParamInfo failed: CUDA_ERROR_");
                CHECK_HAS(err.message, text);
            }
        }
}

/* A driver that does not tell parameters is believed. */
static void test_no_parameter_info(void)
{
    kb_driver older = *cu;
    older.cuKernelGetParamInfo = NULL;
    kb_error err;
    kb_cu_kernel kernel;
    start_anew();
    kb_function *f = gpu_function("k", 3);
    CHECK_INT(kb_function_load(f, &older, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(fake_cuda_calls("cuKernelGetParamInfo"), 0);
}

/* Nothing can be loaded while a stream captures; what is loaded already is given. */
static void test_capture(void)
{
    void *stream = fake_cuda_stream_create(0);
    kb_error err;
    kb_cu_kernel kernel;
    start_anew();
    kb_function *f = gpu_function("k", 3), *g = gpu_function("g", 3);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(fake_cuda_capture_begin(stream), 0);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(kb_function_load(g, cu, 0, "op", &kernel, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "cuLibraryLoadData failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    CHECK_INT(fake_cuda_capture_end(stream), 0);
    CHECK_INT(kb_function_load(g, cu, 0, "op", &kernel, &err), KB_OK);
}

int main(void)
{
    cu = gpu_start();
    test_each_call();
    test_shared_memory();
    test_layout();
    test_parameter_info_fails();
    test_no_parameter_info();
    test_capture();
    start_anew();
    return kb_test_end("test_function_errors");
}
