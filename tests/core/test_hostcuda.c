/* Proves that the driver of the CPU runs every block of a launch once, on threads of XLA's pool
 * too, fills and copies, and refuses what it cannot run. */
#include "fake_xla.h"
#include "hostcuda/kb_hostcuda.h"
#include "kb_test.h"

#include <stdatomic.h>

enum { N_BLOCKS = 24 };

static const char digest[KB_HOSTCUDA_DIGEST + 1] =
    "0123456789012345678901234567890123456789012345678901234567890123";
static const char other[KB_HOSTCUDA_DIGEST + 1] =
    "x123456789012345678901234567890123456789012345678901234567890123";

static _Atomic(int) ran[N_BLOCKS];
static _Atomic(int) wrong;
static int n_compiled;

/* Its one parameter points at a number. */
static void kernel(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end)
{
    const uint32_t expected[6] = {2, 3, 4, 64, 8, 2};
    if (*(const int *)parameters[0] != 42 || memcmp(sizes, expected, sizeof expected) != 0)
        atomic_fetch_add(&wrong, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&ran[i], 1);
}

static kb_cu_kernel load(const char *image)
{
    const kb_driver *cu = kb_hostcuda_driver();
    kb_cu_library library = NULL;
    kb_cu_kernel found = NULL;
    CHECK_INT(cu->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), KB_CU_SUCCESS);
    CHECK_INT(cu->cuLibraryGetKernel(&found, library, "any"), KB_CU_SUCCESS);
    return found;
}

static kb_cu_result launch(kb_cu_kernel k, uint32_t grid_x, uint32_t block_x, void *stream)
{
    int number = 42;
    void *parameters[] = {&number};
    kb_cu_launch how = {.grid = {grid_x, 3, 4}, .block = {block_x, 8, 2}, .stream = stream};
    return kb_hostcuda_driver()->cuLaunchKernelEx(&how, (kb_cu_function)k, parameters, NULL);
}

static void test_launch(void)
{
    kb_error err;
    CHECK_INT(kb_hostcuda_add(digest, kernel, &err), KB_OK);
    CHECK(kb_hostcuda_has(digest) && !kb_hostcuda_has(other));
    kb_cu_kernel k = load(digest);
    for (int threads = 0; threads <= 4; threads += 2) {
        fake_frame f;
        fake_frame_init(&f, fake_api(3), KB_XLA_STAGE_EXECUTE);
        fake_pool_set(threads ? threads : 1, false);
        for (int i = 0; i < N_BLOCKS; i++)
            atomic_store(&ran[i], 0);
        CHECK_INT(launch(k, 2, 64, threads ? (void *)&f.frame : NULL), KB_CU_SUCCESS);
        fake_pool_join();
        for (int i = 0; i < N_BLOCKS; i++)
            CHECK_INT(atomic_load(&ran[i]), 1);
        fake_frame_free(&f);
    }
    CHECK_INT(atomic_load(&wrong), 0);
    CHECK_INT(launch(k, 0, 64, NULL), 1);
    CHECK_INT(launch(k, 1, 65, NULL), 1); /* 1040 threads */
}

static kb_status compile(const char *image, size_t size, kb_error *err)
{
    n_compiled++;
    if (size < KB_HOSTCUDA_DIGEST + 2)
        return kb_error_set(err, KB_INVALID_ARGUMENT, "too short");
    return kb_hostcuda_add(image, kernel, err);
}

static void test_provide(void)
{
    char bytes[KB_HOSTCUDA_DIGEST + 3] = {0};
    memcpy(bytes, other, KB_HOSTCUDA_DIGEST);
    bytes[KB_HOSTCUDA_DIGEST] = '\n';
    const kb_image images[] = {{90, "cubin", 6}, {KB_HOSTCUDA_CC, bytes, sizeof bytes}};
    kb_function f = {.n_images = 1, .images = images};
    kb_error err;
    kb_cu_library library;
    CHECK_INT(
        kb_hostcuda_driver()->cuLibraryLoadData(&library, other, NULL, NULL, 0, NULL, NULL, 0),
        200);
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: the program has no code for the CPU");
    f.n_images = 2;
    kb_hostcuda_set_compiler(NULL);
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
    CHECK_HAS(err.message, "op: nothing here compiles");
    kb_hostcuda_set_compiler(compile);
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_OK);
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_OK);
    CHECK_INT(n_compiled, 1);
    CHECK(load(other) != NULL);
    bytes[sizeof bytes - 1] = 'x'; /* a text that does not end */
    CHECK_INT(kb_hostcuda_provide(&f, "op", &err), KB_FAILED_PRECONDITION);
}

static void test_memory(void)
{
    const kb_driver *cu = kb_hostcuda_driver();
    unsigned char bytes[16] = {0}, moved[16] = {0};
    kb_cu_address to = (kb_cu_address)(uintptr_t)bytes;
    CHECK_INT(cu->cuMemsetD8Async(to, 7, 3, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemsetD16Async(to + 4, 0x0201, 2, NULL), KB_CU_SUCCESS);
    CHECK_INT(cu->cuMemsetD2D32Async(to + 8, 4, 0x04030201, 1, 2, NULL), KB_CU_SUCCESS);
    const unsigned char expected[16] = {7, 7, 7, 0, 1, 2, 1, 2, 1, 2, 3, 4, 1, 2, 3, 4};
    CHECK_INT(memcmp(bytes, expected, sizeof bytes), 0);
    CHECK_INT(cu->cuMemcpyDtoDAsync((kb_cu_address)(uintptr_t)moved, to, 16, NULL), KB_CU_SUCCESS);
    CHECK_INT(memcmp(moved, expected, sizeof moved), 0);
}

static void test_words(void)
{
    kb_error err;
    const kb_driver *cu = kb_hostcuda_driver();
    kb_driver_fail(&err, cu, 1, "cuLaunchKernelEx", "op");
    CHECK_HAS(err.message, "CUDA_ERROR_INVALID_VALUE");
    CHECK_HAS(err.message, "1 to 1024 threads");
    kb_driver_fail(&err, cu, 200, "cuLibraryLoadData", "op");
    CHECK_HAS(err.message, "CUDA_ERROR_INVALID_IMAGE");
    int value = -1;
    CHECK_INT(cu->cuDeviceGetAttribute(&value, KB_CU_DEVICE_CC_MAJOR, KB_HOSTCUDA_DEVICE), 0);
    CHECK_INT(value, KB_HOSTCUDA_CC / 10);
}

int main(void)
{
    test_launch();
    test_provide();
    test_memory();
    test_words();
    return kb_test_end("test_hostcuda");
}
