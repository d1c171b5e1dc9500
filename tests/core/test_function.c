/* Proves how images become kernels: once a device, the right one for its compute capability, shared
 * by content, by eight threads at a time. */
#include "cuda/kb_function.h"
#include "gpu.h"

#include <pthread.h>

static const kb_driver *cu;

static size_t known(void)
{
    const struct kb_function_stats stats = kb_function_count;
    CHECK((stats.bytes > 0) == (stats.functions > 0));
    CHECK((stats.images > 0) == (stats.functions > 0));
    return stats.functions;
}

static size_t loaded(void)
{
    return kb_function_count.loads;
}

static void start_anew(void)
{
    kb_function_free_all();
    CHECK_INT(known(), 0);
    CHECK_INT(loaded(), 0);
    CHECK_INT(fake_cuda_n_libraries(), 0);
    fake_cuda_reset();
    gpu_use_device(0);
}

static void test_once_a_device(void)
{
    kb_error err;
    kb_cu_kernel kernel[3];
    start_anew();
    kb_function *f = gpu_function("once", 2);
    CHECK_PTR(kb_function_kernel(f, 0), NULL);
    CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel[i], &err), KB_OK);
        CHECK_PTR(kb_function_kernel(f, 0), kernel[i]);
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 1);
        CHECK_INT(fake_cuda_calls("cuLibraryGetKernel"), 1);
        CHECK_INT(loaded(), 1);
    }
    CHECK_PTR(kb_function_kernel(f, 1), NULL);
    gpu_use_device(1);
    CHECK_INT(kb_function_load(f, cu, 1, "op", &kernel[2], &err), KB_OK);
    CHECK_PTR(kb_function_kernel(f, 1), kernel[2]);
    CHECK_INT(loaded(), 2);
    CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 1); /* one library serves both */
    CHECK_INT(fake_cuda_calls("cuKernelGetFunction"), 2);
    CHECK_INT(f->loaded[0].best_block, 256);
}

static kb_status get(kb_function *from, kb_function **f, kb_error *err)
{
    *f = NULL;
    return kb_function_hold(from, f, err);
}

/* The same content is the same function; any difference under one digest is refused. */
static void test_content(void)
{
    const char text[] = "FAKE same 2\n", other_text[] = "FAKE same 3\n";
    kb_image images[] = {{90, text, sizeof text}, {80, text, sizeof text}};
    kb_function from = {.entry = "same", .n_words = 2, .n_images = 2, .images = images};
    kb_function *f, *g;
    kb_error err;
    start_anew();
    sample_digest(from.digest, 7);
    CHECK_INT(get(&from, &f, &err), KB_OK);
    CHECK_INT(known(), 1);
    CHECK_INT(get(&from, &g, &err), KB_OK);
    CHECK_PTR(g, f);
    CHECK_INT(known(), 1);
    CHECK(f->images != images && f->images[0].bytes != text && f->entry != from.entry);
    CHECK_INT((uintptr_t)f->images[1].bytes % 16, 0);
    CHECK_TEXT(f->images[1].bytes, text);
    CHECK_TEXT(f->entry, "same");

    kb_function changed[6];
    kb_image other_bytes[] = {{90, other_text, sizeof other_text}, images[1]};
    kb_image other_size[] = {{90, text, sizeof text - 1}, images[1]};
    kb_image other_cc[] = {images[0], {86, text, sizeof text}};
    for (int i = 0; i < 6; i++)
        changed[i] = from;
    changed[0].entry = "other";
    changed[1].n_words = 3;
    changed[2].n_images = 1;
    changed[3].images = other_bytes;
    changed[4].images = other_cc;
    changed[5].images = other_size;
    for (int i = 0; i < 6; i++) {
        CHECK_INT(get(&changed[i], &g, &err), KB_ALREADY_EXISTS);
        CHECK_HAS(err.message, "differs from one of the same digest: the program is damaged");
    }
    from.shared = 1;
    CHECK_INT(get(&from, &g, &err), KB_ALREADY_EXISTS);
    CHECK_HAS(err.message, "the image of same");
    CHECK_INT(known(), 1);
    sample_digest(from.digest, 8);
    CHECK_INT(get(&from, &g, &err), KB_OK);
    CHECK(g != f);
    CHECK_INT(known(), 2);
}

/* So are sizes of parameters, wherever they differ. */
static void test_sizes(void)
{
    const char text[] = "FAKE sizes 3\n";
    const kb_image image = {90, text, sizeof text};
    const uint32_t sizes[] = {4, 8, 4};
    kb_function from = {.entry = "sizes", .n_words = 3, .n_sizes = 3, .sizes = sizes};
    kb_function *f, *g;
    kb_error err;
    start_anew();
    from.n_images = 1;
    from.images = &image;
    sample_digest(from.digest, 9);
    CHECK_INT(get(&from, &f, &err), KB_OK);
    CHECK(f->sizes != sizes && memcmp(f->sizes, sizes, sizeof sizes) == 0);
    CHECK_INT(f->n_sizes, 3);
    CHECK_INT(f->images[0].cc, 90);
    CHECK_INT(f->images[0].size, sizeof text);
    CHECK_TEXT(f->entry, "sizes");
    for (int device = 0; device < KB_DEVICES_MAX; device++) { /* nothing is loaded yet */
        CHECK_PTR(kb_function_kernel(f, device), NULL);
        CHECK_INT(f->loaded[device].best_block, 0);
        CHECK_INT(atomic_load(&f->loaded[device].shared), 0);
    }
    CHECK_INT(get(&from, &g, &err), KB_OK);
    for (int i = 0; i < 3; i++) {
        uint32_t other[] = {4, 8, 4};
        kb_function changed = from;
        other[i]++;
        changed.sizes = other;
        CHECK_INT(get(&changed, &g, &err), KB_ALREADY_EXISTS);
        changed.sizes = sizes;
        changed.n_sizes = 2;
        CHECK_INT(get(&changed, &g, &err), KB_ALREADY_EXISTS);
    }
}

/* The image of the device's own major version that is newest and not newer than the device. */
static void test_image_choice(void)
{
    static const char *const texts[] = {"FAKE k 0\n", "FAKE k 1\n", "FAKE k 2\n", "FAKE k 3\n",
                                        "FAKE k 4\n"};
    static const uint32_t ccs[] = {86, 90, 80, 100, 103};
    const struct {
        int cc, image;
    } cases[] = {{80, 2}, {86, 0}, {89, 0}, {90, 1}, {91, 1}, {100, 3}, {102, 3}, {103, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_image images[5];
        kb_error err;
        kb_function *f;
        kb_cu_kernel kernel;
        size_t offset, size;
        start_anew();
        for (int k = 0; k < 5; k++)
            images[k] = (kb_image){ccs[k], texts[k], strlen(texts[k])};
        int n = cases[i].image; /* the words of the image that must be taken */
        kb_function from = {.entry = "k", .n_words = (uint32_t)n, .n_images = 5, .images = images};
        sample_digest(from.digest, i);
        CHECK_INT(kb_function_hold(&from, &f, &err), KB_OK);
        fake_cuda_set_cc(0, cases[i].cc);
        if (!CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK))
            fprintf(stderr, "compute capability %d: %s\n", cases[i].cc, err.message);
        CHECK(cu->cuKernelGetParamInfo(kernel, (size_t)n, &offset, &size) != KB_CU_SUCCESS);
    }
    fake_cuda_set_cc(0, 90);
}

static void test_no_image(void)
{
    const int ccs[] = {75, 79, 100, 120, 89};
    for (size_t i = 0; i < sizeof ccs / sizeof *ccs; i++) {
        kb_error err;
        kb_cu_kernel kernel;
        char text[128];
        start_anew();
        kb_function *f = gpu_function("absent", 1);
        fake_cuda_set_cc(0, ccs[i]);
        CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_FAILED_PRECONDITION);
        snprintf(text, sizeof text,
                 "op: compiled for compute capability 9.0, and GPU 0 has %d.%d; ", ccs[i] / 10,
                 ccs[i] % 10);
        CHECK_HAS(err.message, text);
        CHECK_HAS(err.message, "kernbridge.config.set_cuda_architectures");
        CHECK_PTR(kernel, NULL);
        CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), 0);
    }
    fake_cuda_set_cc(0, 90);
}

static void test_no_image_lists_all(void)
{
    kb_image images[KB_IMAGES_MAX];
    kb_function from = {.entry = "k", .n_images = KB_IMAGES_MAX, .images = images};
    kb_function *f;
    kb_cu_kernel kernel;
    kb_error err;
    start_anew();
    for (uint32_t i = 0; i < KB_IMAGES_MAX; i++)
        images[i] = (kb_image){i % 2 ? UINT32_MAX - i : 100 + i, "FAKE k 0\n", 9};
    sample_digest(from.digest, 1);
    CHECK_INT(kb_function_hold(&from, &f, &err), KB_OK);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "capability 10.0, 29.4, 10.2, 29.2, 10.4, 29.0, 10.6, 28.8, 10.8, ");
    CHECK_HAS(err.message, ", and GPU 0 has 9.0");
}

/* Of two images for the same capability, the first. */
static void test_first_of_equal_images(void)
{
    const kb_image images[] = {{90, "FAKE k 0\n", 9}, {90, "FAKE j 0\n", 9}};
    kb_function from = {.entry = "k", .n_images = 2, .images = images};
    kb_function *f;
    kb_cu_kernel kernel;
    kb_error err;
    start_anew();
    CHECK_INT(kb_function_hold(&from, &f, &err), KB_OK);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK(kb_function_ready(f, 0, 0) == kernel && kernel);
}

static void test_shared_memory(void)
{
    enum { K = 1024 };
    kb_error err;
    kb_cu_kernel kernel;
    start_anew();
    kb_function *f = gpu_function("shared", 0);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 0, "op", &err), KB_OK);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 48 * K, "op", &err), KB_OK);
    CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 0);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 48 * K + 1, "op", &err), KB_OK);
    CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 1);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 100 * K, "op", &err), KB_OK);
    CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 2);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 64 * K, "op", &err), KB_OK); /* never less */
    CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 2);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 227 * K, "op", &err), KB_OK);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 227 * K + 1, "op", &err), KB_INTERNAL);
    CHECK_HAS(err.message, "op: cuKernelSetAttribute failed: CUDA_ERROR_INVALID_VALUE");
    CHECK_HAS(err.message, "; 232449 bytes of dynamic shared memory were asked for, the device has "
                           "232448 a block");
    fake_cuda_fail("cuDeviceGetAttribute", 1, 2);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 227 * K + 1, "op", &err), KB_INTERNAL);
    CHECK_HAS(err.message, "the device has 0 a block"); /* it is not known */
    int allowed = 0;
    CHECK_INT(cu->cuKernelGetAttribute(&allowed, KB_CU_KERNEL_MAX_DYNAMIC_SHARED, kernel, 0), 0);
    CHECK_INT(allowed, 227 * K);
    CHECK_INT(cu->cuKernelGetAttribute(&allowed, KB_CU_KERNEL_MAX_DYNAMIC_SHARED, kernel, 1), 0);
    CHECK_INT(allowed, 48 * K);
}

static kb_function *function_of(const char *image, uint32_t shared)
{
    kb_image images = {90, image, strlen(image)};
    kb_function from = {.entry = "k", .shared = shared, .n_images = 1, .images = &images};
    kb_function *f = NULL;
    kb_error err;
    CHECK_INT(kb_function_hold(&from, &f, &err), KB_OK);
    return f;
}

/* What the kernel declares statically is part of the 48 KiB that it may have without asking. */
static void test_static_shared_memory(void)
{
    enum { K = 1024 };
    kb_error err;
    kb_cu_kernel kernel;
    start_anew();
    kb_function *f = function_of("FAKE k 0 8 8 16384\n", 0);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK(kb_function_ready(f, 0, 32 * K) != NULL);
    CHECK(kb_function_ready(f, 0, 32 * K + 1) == NULL);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 32 * K, "op", &err), KB_OK);
    CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 0);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 40 * K, "op", &err), KB_OK);
    CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), 1);
    CHECK(kb_function_ready(f, 0, 40 * K) == kernel);
    CHECK(kb_function_ready(f, 1, 0) == NULL);
    CHECK_INT(kb_function_allow_shared(f, cu, 0, 227 * K, "op", &err), KB_INTERNAL);
    CHECK_HAS(err.message, "the device has 232448 a block, less what the kernel declares");
    CHECK(kb_function_ready(f, 0, 40 * K) == kernel);
    start_anew();
    f = function_of("FAKE k 0 8 8 49152\n", 0); /* all of it */
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK(kb_function_ready(f, 0, 0) == kernel);
    CHECK(kb_function_ready(f, 0, 1) == NULL);
    start_anew();
    f = function_of("FAKE k 0 8 8 49151\n", 0);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK(kb_function_ready(f, 0, 1) == kernel);
}

/* The best block is asked for with the shared memory that the launches will have: the driver
 * answers 0 as long as that is not allowed. */
static void test_best_block(void)
{
    enum { K = 1024 };
    static const uint32_t sizes[] = {0, 48 * K, 48 * K + 1, 100 * K, 227 * K};
    kb_error err;
    kb_cu_kernel kernel = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        start_anew();
        kb_function *f = function_of("FAKE k 0\n", sizes[i]);
        CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
        CHECK_INT(f->loaded[0].best_block, 256);
        CHECK(kb_function_ready(f, 0, sizes[i]) == kernel);
        CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), sizes[i] > 48 * K);
    }
    start_anew();
    kb_function *f = function_of("FAKE k 0\n", 300 * K);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "op: cuKernelSetAttribute failed: CUDA_ERROR_INVALID_VALUE");
    CHECK_PTR(kb_function_kernel(f, 0), NULL);
    start_anew();
    fake_cuda_set_best_block(0);
    f = function_of("FAKE k 0\n", 0);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_INTERNAL);
    CHECK_TEXT(err.message, "op: no block of k fits on GPU 0");
    CHECK_PTR(kb_function_kernel(f, 0), NULL);
    fake_cuda_set_best_block(1);
    CHECK_INT(kb_function_load(f, cu, 0, "op", &kernel, &err), KB_OK);
    CHECK_INT(f->loaded[0].best_block, 1);
    fake_cuda_set_best_block(256);
}

enum { THREADS = 8, FUNCTIONS = 20 };

typedef struct worker {
    pthread_t thread;
    int device;
    kb_function *functions[FUNCTIONS];
    kb_cu_kernel kernels[FUNCTIONS];
} worker;

static void *work(void *memory)
{
    worker *w = memory;
    kb_error err;
    gpu_use_device(w->device);
    for (int i = 0; i < FUNCTIONS; i++) {
        char entry[32];
        snprintf(entry, sizeof entry, "thread%d", i);
        w->functions[i] = gpu_function(entry, (uint32_t)i);
        CHECK_INT(kb_function_load(w->functions[i], cu, w->device, "op", &w->kernels[i], &err),
                  KB_OK);
        CHECK_PTR(kb_function_kernel(w->functions[i], w->device), w->kernels[i]);
        CHECK_INT(w->functions[i]->loaded[w->device].best_block, 256);
    }
    return NULL;
}

static void test_threads(void)
{
    worker workers[THREADS];
    start_anew();
    for (int i = 0; i < THREADS; i++) {
        workers[i].device = i % 2;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 2; i < THREADS; i++)
        for (int k = 0; k < FUNCTIONS; k++) {
            CHECK_PTR(workers[i].functions[k], workers[0].functions[k]);
            CHECK_PTR(workers[i].kernels[k], workers[i % 2].kernels[k]);
        }
    CHECK_INT(known(), FUNCTIONS);
    CHECK_INT(loaded(), 2 * FUNCTIONS);
    CHECK_INT(fake_cuda_calls("cuLibraryLoadData"), FUNCTIONS);
    CHECK_INT(fake_cuda_calls("cuLibraryGetKernel"), 2 * FUNCTIONS);
    CHECK_INT(fake_cuda_n_libraries(), FUNCTIONS);
}

int main(void)
{
    cu = gpu_start();
    test_once_a_device();
    test_content();
    test_sizes();
    test_image_choice();
    test_no_image();
    test_no_image_lists_all();
    test_first_of_equal_images();
    test_shared_memory();
    test_static_shared_memory();
    test_best_block();
    test_threads();
    start_anew();
    return kb_test_end("test_function");
}
