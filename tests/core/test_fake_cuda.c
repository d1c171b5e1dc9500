/* Proves that the fake driver refuses what the real one refuses, so that tests on it mean
 * something, and that its controls do what they say. */
#include "gpu.h"

#include <stdlib.h>

static const kb_driver *cu;
static void *stream;

static kb_cu_kernel kernel_of(const char *image, const char *entry)
{
    kb_cu_library library = NULL;
    kb_cu_kernel kernel = NULL;
    if (CHECK_INT(cu->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), 0))
        CHECK_INT(cu->cuLibraryGetKernel(&kernel, library, entry), 0);
    return kernel;
}

static int launch(kb_cu_kernel kernel, const kb_cu_launch *how)
{
    return cu->cuLaunchKernelEx(how, (kb_cu_function)kernel, NULL, NULL);
}

static void test_images(void)
{
    const char *const bad[] = {"",
                               "FAKE",
                               "FAKE \n",
                               "FAKE k\n",
                               "FAKE k x\n",
                               "fake k 1\n",
                               "\x7f"
                               "ELF is not enough to be one, and this has to be 64 bytes or so.."};
    kb_cu_library library;
    kb_cu_kernel kernel;
    size_t offset, size;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(cu->cuLibraryLoadData(&library, bad[i], NULL, NULL, 0, NULL, NULL, 0), 200);
    CHECK_INT(
        cu->cuLibraryLoadData(&library, "FAKE a 1\nFAKE b 2 4\n", NULL, NULL, 0, NULL, NULL, 0), 0);
    CHECK_INT(cu->cuLibraryGetKernel(&kernel, library, "c"), 500);
    CHECK_INT(cu->cuLibraryGetKernel(&kernel, library, "b"), 0);
    CHECK_INT(cu->cuKernelGetParamInfo(kernel, 1, &offset, &size), 0);
    CHECK_INT(offset, 4);
    CHECK_INT(size, 4);
    CHECK_INT(cu->cuKernelGetParamInfo(kernel, 2, &offset, &size), 1);
    CHECK_INT(cu->cuLibraryUnload(library), 0);
    CHECK_INT(cu->cuLibraryUnload(library), 400);
    CHECK_INT(cu->cuKernelGetParamInfo(kernel, 0, &offset, &size), 400);
    CHECK_INT(cu->cuLibraryGetKernel(&kernel, library, "a"), 400);
}

/* One field of a good launch at a time. */
static void test_launches(void)
{
    const kb_cu_launch good = {.grid = {4, 4, 4}, .block = {32, 4, 4}, .stream = stream};
    kb_cu_kernel kernel = kernel_of("FAKE k 0\n", "k"), one = kernel_of("FAKE one 1\n", "one");
    kb_cu_launch how;
    CHECK_INT(launch(kernel, &good), 0);
    for (int d = 0; d < 3; d++) {
        static const uint32_t grid_max[] = {INT32_MAX, 65535, 65535},
                              block_max[] = {1024, 1024, 64};
        how = good;
        how.grid[d] = 0;
        CHECK_INT(launch(kernel, &how), 1);
        how.grid[d] = grid_max[d];
        CHECK_INT(launch(kernel, &how), 0);
        how.grid[d]++;
        CHECK_INT(launch(kernel, &how), 1);
        how = good;
        how.block[0] = how.block[1] = how.block[2] = 1;
        how.block[d] = block_max[d];
        CHECK_INT(launch(kernel, &how), 0);
        how.block[d]++;
        CHECK_INT(launch(kernel, &how), 1);
        how.block[d] = 0;
        CHECK_INT(launch(kernel, &how), 1);
    }
    how = good;
    how.block[0] = 65; /* 1040 threads */
    CHECK_INT(launch(kernel, &how), 1);
    how = good;
    how.shared = 48 * 1024 + 1;
    CHECK_INT(launch(kernel, &how), 1);
    CHECK_INT(cu->cuKernelSetAttribute(KB_CU_KERNEL_MAX_DYNAMIC_SHARED, 227 * 1024, kernel, 0), 0);
    CHECK_INT(cu->cuKernelSetAttribute(KB_CU_KERNEL_MAX_DYNAMIC_SHARED, 228 * 1024, kernel, 0), 1);
    CHECK_INT(launch(kernel, &how), 0);
    CHECK_INT(launch(one, &good), 1); /* no parameters */
    CHECK_INT(launch((kb_cu_kernel)&how, &good), 400);
    how.stream = (kb_cu_stream)&how;
    CHECK_INT(launch(kernel, &how), 400);
    how.stream = fake_cuda_stream_create(1); /* not of the current context */
    CHECK_INT(launch(kernel, &how), 400);
}

/* Static and dynamic shared memory share the 48 KiB, and what can be asked for. */
static void test_shared(void)
{
    enum { K = 1024, ALLOWED = KB_CU_KERNEL_MAX_DYNAMIC_SHARED };
    kb_cu_kernel kernel = kernel_of("FAKE k 0 8 8 16384\n", "k");
    kb_cu_function function;
    kb_cu_launch how = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = stream};
    int value = 0, grid, block;
    CHECK_INT(cu->cuKernelGetFunction(&function, kernel), 0);
    CHECK_INT(cu->cuKernelGetAttribute(&value, KB_CU_KERNEL_STATIC_SHARED, kernel, 0), 0);
    CHECK_INT(value, 16 * K);
    CHECK_INT(cu->cuKernelGetAttribute(&value, ALLOWED, kernel, 0), 0);
    CHECK_INT(value, 32 * K);
    how.shared = 32 * K + 1;
    CHECK_INT(launch(kernel, &how), 1);
    CHECK_INT(cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, how.shared, 0),
              0);
    CHECK_INT(block, 0);
    CHECK_INT(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 32, how.shared), 0);
    CHECK_INT(value, 0);
    CHECK_INT(cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 0, 0), 1);
    CHECK_INT(cu->cuKernelSetAttribute(ALLOWED, 227 * K, kernel, 0), 1);
    CHECK_INT(cu->cuKernelSetAttribute(ALLOWED, 211 * K, kernel, 0), 0);
    CHECK_INT(launch(kernel, &how), 0);
    CHECK_INT(cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, how.shared, 0),
              0);
    CHECK_INT(block, 256);
}

static void test_attributes(void)
{
    kb_cu_kernel kernel = kernel_of("FAKE k 0\n", "k");
    kb_cu_launch_attribute a = {.id = KB_CU_LAUNCH_COOPERATIVE, .value.cooperative = 1};
    kb_cu_launch how = {.grid = {132 * 2, 1, 1},
                        .block = {1024, 1, 1},
                        .stream = stream,
                        .attributes = &a,
                        .n_attributes = 1};
    CHECK_INT(launch(kernel, &how), 0);
    how.grid[0]++;
    CHECK_INT(launch(kernel, &how), 720);
    a = (kb_cu_launch_attribute){.id = KB_CU_LAUNCH_CLUSTER, .value.cluster = {2, 1, 1}};
    CHECK_INT(launch(kernel, &how), 912); /* 265 is odd */
    how.grid[0]++;
    CHECK_INT(launch(kernel, &how), 0);
    a.value.cluster[0] = 14; /* more than 8 */
    CHECK_INT(launch(kernel, &how), 912);
    a.value.cluster[0] = 0;
    CHECK_INT(launch(kernel, &how), 912);
    a.id = 99;
    CHECK_INT(launch(kernel, &how), 1);
}

static void test_controls(void)
{
    kb_cu_context context;
    fake_cuda_reset();
    CHECK_INT(fake_cuda_calls("cuCtxGetCurrent"), 0);
    fake_cuda_fail("cuCtxGetCurrent", 2, 999);
    CHECK_INT(cu->cuCtxGetCurrent(&context), 0);
    CHECK_INT(cu->cuCtxGetCurrent(&context), 999);
    CHECK_INT(cu->cuCtxGetCurrent(&context), 0);
    CHECK_INT(fake_cuda_calls("cuCtxGetCurrent"), 3);
    fake_cuda_fail("cuCtxGetCurrent", 1, 701); /* no fault */
    CHECK_INT(cu->cuCtxGetCurrent(&context), 701);
    CHECK_INT(cu->cuCtxGetCurrent(&context), 0);
    fake_cuda_fail("cuStreamSynchronize", 1, 719);
    CHECK_INT(cu->cuStreamSynchronize(stream), 719);
    int value;
    CHECK_INT(cu->cuStreamIsCapturing(stream, &value), 719);
    CHECK_INT(cu->cuStreamGetCtx(stream, &context), 719);
    CHECK_INT(cu->cuCtxGetCurrent(&context), 0);
    CHECK_INT(cu->cuDeviceGetCount(&value), 0);
    const char *name = NULL;
    CHECK_INT(cu->cuGetErrorName((kb_cu_result)719, &name), 0);
    CHECK_TEXT(name, "CUDA_ERROR_LAUNCH_FAILED");
    fake_cuda_reset();
    CHECK_INT(cu->cuDeviceGetCount(&value), 0);
    CHECK_INT(value, 2);
    CHECK_PTR(fake_cuda_get_launch(0), NULL);
    CHECK_PTR(fake_cuda_get_launch(-1), NULL);
}

static void test_contexts(void)
{
    kb_cu_context context = NULL;
    kb_cu_device device = -1;
    gpu_use_device(1);
    CHECK_INT(cu->cuCtxGetDevice(&device), 0);
    CHECK_INT(device, 1);
    CHECK_INT(cu->cuCtxPopCurrent(&context), 0);
    CHECK_PTR(context, fake_cuda_context(1));
    CHECK_INT(cu->cuCtxPopCurrent(&context), 201);
    CHECK_INT(cu->cuCtxGetDevice(&device), 201);
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)&device, 0, 1, NULL), 201);
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)&device, 0, 1, stream), 0);
    CHECK_INT(cu->cuCtxPushCurrent((kb_cu_context)&device), 201);
    CHECK_INT(cu->cuStreamGetCtx(NULL, &context), 0);
    CHECK_PTR(context, fake_cuda_context(0));
    CHECK_PTR(fake_cuda_context(2), NULL);
    gpu_use_device(0);
}

static void count(void *data, const char *entry, const uint32_t grid[3], const uint32_t block[3],
                  uint32_t shared, uint32_t n_words, const uint64_t *words)
{
    (void)grid, (void)block, (void)shared, (void)n_words, (void)words;
    ((int *)data)[*entry == 'a' ? 0 : 1]++;
}

static void test_twins(void)
{
    int own[2] = {0}, all[2] = {0};
    kb_cu_kernel a = kernel_of("FAKE a 0\n", "a"), b = kernel_of("FAKE b 0\n", "b");
    const kb_cu_launch how = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = stream};
    CHECK_INT(launch(a, &how), 0);
    fake_cuda_set_twin("", count, all);
    fake_cuda_set_twin("a", count, own);
    CHECK_INT(launch(a, &how), 0);
    CHECK_INT(launch(b, &how), 0);
    CHECK_INT(own[0], 1);
    CHECK_INT(all[0], 0);
    CHECK_INT(all[1], 1);
    fake_cuda_set_twin("a", NULL, NULL);
    CHECK_INT(launch(a, &how), 0);
    CHECK_INT(own[0] + all[0], 1);
    fake_cuda_reset();
    CHECK_INT(launch(b, &how), 0);
    CHECK_INT(all[1], 1);
}

static void check_nodes(const int *types, size_t n)
{
    int status, type;
    kb_cu_graph graph;
    kb_cu_graph_node nodes[4];
    size_t found = 99;
    CHECK_INT(cu->cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL), 0);
    CHECK_INT(status, 1);
    CHECK_INT(cu->cuGraphGetNodes(graph, NULL, &found), 0);
    CHECK_INT(found, (long long)n);
    found = 4;
    CHECK_INT(cu->cuGraphGetNodes(graph, nodes, &found), n ? 0 : 1);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(cu->cuGraphNodeGetType(nodes[i], &type), 0);
        CHECK_INT(type, types[i]);
    }
    if (n > 1) {
        found = 1;
        CHECK_INT(cu->cuGraphGetNodes(graph, nodes, &found), 0);
        CHECK_INT(found, 1);
    }
}

static void test_captures(void)
{
    int seen[2] = {0};
    char bytes[4] = {0}, from[4] = "abc";
    kb_cu_library library;
    kb_cu_kernel a = kernel_of("FAKE a 0\n", "a"), lazy = kernel_of("FAKE lazy 0\n", "lazy");
    kb_cu_function function;
    const kb_cu_launch how = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = stream};
    fake_cuda_set_twin("a", count, seen);
    CHECK_INT(launch(a, &how), 0);
    CHECK_INT(fake_cuda_capture_end(stream), 903);
    CHECK_INT(fake_cuda_capture_begin(NULL), 400);
    CHECK_INT(fake_cuda_capture_begin(stream), 0);
    CHECK_INT(fake_cuda_capture_begin(stream), 1);
    check_nodes(NULL, 0);
    CHECK_INT(cu->cuLibraryLoadData(&library, "FAKE a 0\n", NULL, NULL, 0, NULL, NULL, 0), 900);
    CHECK_INT(cu->cuKernelGetFunction(&function, lazy), 900);
    CHECK_INT(launch(lazy, &how), 900);
    CHECK_INT(launch(a, &how), 0);
    CHECK_INT(cu->cuMemcpyDtoDAsync((uintptr_t)bytes, (uintptr_t)from, 4, stream), 0);
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)bytes, 'x', 1, stream), 0);
    CHECK_INT(cu->cuMemsetD8Async((uintptr_t)bytes, 'x', 0, stream), 0); /* no node */
    check_nodes((const int[]){0, 1, 2}, 3);
    CHECK_INT(seen[0], 1);
    CHECK_INT(bytes[0], 0);
    CHECK_INT(fake_cuda_capture_end(stream), 0);
    CHECK_INT(fake_cuda_capture_replay(stream), 0);
    CHECK_INT(seen[0], 2);
    CHECK_TEXT(bytes, "xbc");

    CHECK_INT(fake_cuda_capture_begin(stream), 0);
    CHECK_INT(cu->cuStreamSynchronize(stream), 900);
    CHECK_INT(cu->cuStreamSynchronize(stream), 900);
    CHECK_INT(launch(a, &how), 901);
    int status;
    CHECK_INT(cu->cuStreamIsCapturing(stream, &status), 0);
    CHECK_INT(status, 2);
    CHECK_INT(fake_cuda_capture_end(stream), 901);
    CHECK_INT(launch(a, &how), 0);
    fake_cuda_reset();
}

int main(void)
{
    cu = gpu_start();
    stream = fake_cuda_stream_create(0);
    test_images();
    test_launches();
    test_shared();
    test_attributes();
    test_controls();
    test_contexts();
    test_twins();
    test_captures();
    return kb_test_end("test_fake_cuda");
}
