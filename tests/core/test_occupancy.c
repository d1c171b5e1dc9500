/* Proves the share that comes back, that nothing stays loaded, and that each call which fails is
 * told and leaves the contexts as they were. */
#include "cuda/kb_function.h"
#include "gpu.h"

#include <stdlib.h>
#include <unistd.h>

static const char image[] = "FAKE k 3\n";

/* The fake has 2048 threads and 228 KiB a multiprocessor, and at most 32 blocks. */
static void test_shares(void)
{
    const struct {
        int threads;
        uint32_t shared;
        double share;
    } cases[] = {{1024, 0, 1},
                 {32, 0, 0.5},
                 {1000, 0, 2000.0 / 2048},
                 {0, 0, 1},
                 {256, 100 * 1024, 2 * 256.0 / 2048},
                 {1, 0, 1 / 64.0},
                 {1024, 200 * 1024, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kb_error err;
        double share = -1;
        CHECK_INT(kb_occupancy(image, "k", cases[i].threads, cases[i].shared, &share, &err), KB_OK);
        CHECK(share == cases[i].share);
        CHECK_INT(fake_cuda_n_libraries(), 0);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        CHECK_INT(fake_cuda_primary_users(0), 0);
    }
}

/* A kernel is allowed what it needs, and asked for nothing that it may have anyway. */
static void test_allowed(void)
{
    enum { K = 1024 };
    static const uint32_t sizes[] = {0, 48 * K - 1, 48 * K, 48 * K + 1, 227 * K};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kb_error err;
        double share = -1;
        fake_cuda_reset();
        CHECK_INT(kb_occupancy(image, "k", 32, sizes[i], &share, &err), KB_OK);
        CHECK(share > 0);
        CHECK_INT(fake_cuda_calls("cuKernelSetAttribute"), sizes[i] > 48 * K);
    }
}

static void test_failures(void)
{
    const char *const functions[] = {"cuDevicePrimaryCtxRetain",
                                     "cuCtxPushCurrent",
                                     "cuLibraryLoadData",
                                     "cuLibraryGetKernel",
                                     "cuKernelGetFunction",
                                     "cuKernelGetAttribute",
                                     "cuOccupancyMaxPotentialBlockSize",
                                     "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                     "cuDeviceGetAttribute"};
    kb_error err;
    double share;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        fake_cuda_reset();
        fake_cuda_fail(functions[i], 1, 999);
        CHECK_INT(kb_occupancy(image, "k", 0, 65536, &share, &err), KB_INTERNAL);
        CHECK_HAS(err.message, "k: ");
        CHECK_HAS(err.message, " failed: CUDA_ERROR_UNKNOWN");
        CHECK_INT(fake_cuda_n_libraries(), 0);
        CHECK_INT(fake_cuda_n_contexts(), 1);
        CHECK_INT(fake_cuda_primary_users(0), 0);
    }
    CHECK_INT(kb_occupancy(image, "other", 0, 0, &share, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "other: the question for the occupancy failed: CUDA_ERROR_NOT_FOUND");
    fake_cuda_fail("cuKernelSetAttribute", 1, 999);
    CHECK_INT(kb_occupancy(image, "k", 32, 65536, &share, &err), KB_INTERNAL);
    CHECK_INT(kb_occupancy(image, "k", 32, 300 * 1024, &share, &err), KB_INTERNAL);
    CHECK_INT(kb_occupancy("no cubin", "k", 0, 0, &share, &err), KB_INTERNAL);
    CHECK_HAS(err.message, "CUDA_ERROR_INVALID_IMAGE");
    CHECK_INT(fake_cuda_n_libraries(), 0);
}

int main(void)
{
    if (!getenv("FAKE_CUDA_DEVICES")) { /* with one GPU: no call is about another */
        setenv("FAKE_CUDA_DEVICES", "1", 1);
        execl("/proc/self/exe", "test_occupancy", (char *)NULL);
    }
    gpu_start();
    test_shares();
    test_allowed();
    test_failures();
    return kb_test_end("test_occupancy");
}
