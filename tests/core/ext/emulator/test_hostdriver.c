/* Proves each function of the driver that plays a GPU on the CPU, and what may run at once there.
 */
#include "../../../fake_cuda/fake_constants.h"
#include "core/kb_frame.h"
#include "core/kb_plan.h"
#include "cuda/kb_function.h"
#include "cuda/kb_step.h"
#include "cuda/kb_target.h"
#include "ext/emulator/kb_check.h"
#include "ext/emulator/kb_hostcuda.h"
#include "kb_test.h"

#include <stdlib.h>

enum { LEFT = 100 }; /* of shared memory */

static const char digests[4][KB_HOSTCUDA_DIGEST + 1] = {
    "a123456789012345678901234567890123456789012345678901234567890123",
    "b123456789012345678901234567890123456789012345678901234567890123",
    "c123456789012345678901234567890123456789012345678901234567890123",
    "d123456789012345678901234567890123456789012345678901234567890123"};
static const char unknown[KB_HOSTCUDA_DIGEST + 1] =
    "x123456789012345678901234567890123456789012345678901234567890123";

static void nothing(void *const *parameters, const uint32_t sizes[6], int64_t begin, int64_t end,
                    const char **outside)
{
    (void)parameters, (void)sizes, (void)begin, (void)end, (void)outside;
}

static void no_thread(void *const *parameters, kb_thread *thread)
{
    (void)parameters, (void)thread;
}

static const kb_check_table table;

static void add_code(void)
{
    const kb_hostcuda_code codes[] = {
        {.blocks = nothing,
         .concurrent = true,
         .threads = {.shared = KB_HOSTCUDA_SHARED_MAX - LEFT}},
        {.blocks = nothing},
        {.blocks = nothing, .concurrent = true, .cooperative = true},
        {.concurrent = true, .threads = {.run = no_thread, .checked = &table}},
    };
    kb_error err;
    for (int i = 0; i < 4; i++)
        CHECK_INT(kb_hostcuda_add(digests[i], &codes[i], &err), KB_OK);
}

static kb_cu_kernel load(const char *image)
{
    const kb_driver *cu = &kb_hostcuda_driver;
    kb_cu_library library = NULL;
    kb_cu_kernel kernel = NULL;
    kb_cu_function function = NULL;
    CHECK_INT(cu->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0), 0);
    CHECK_INT(cu->cuLibraryGetKernel(&kernel, library, "any"), 0);
    CHECK_INT(cu->cuKernelGetFunction(&function, kernel), 0);
    CHECK(kernel != NULL && (void *)function == (void *)kernel);
    return kernel;
}

static void test_attributes(void)
{
    const kb_driver *cu = &kb_hostcuda_driver;
    kb_cu_kernel k = load(digests[0]);
    int value = -1;
    CHECK_INT(cu->cuKernelGetAttribute(&value, KB_CU_KERNEL_MAX_DYNAMIC_SHARED, k, 0), 0);
    CHECK_INT(value, LEFT);
    CHECK_INT(cu->cuKernelGetAttribute(&value, KB_CU_KERNEL_STATIC_SHARED, k, 0), 0);
    CHECK_INT(value, KB_HOSTCUDA_SHARED_MAX - LEFT);
    CHECK_INT(cu->cuKernelGetAttribute(&value, KB_CU_KERNEL_MAX_THREADS, k, 0), 0);
    CHECK_INT(value, 0);
    for (int more = 0; more < 2; more++)
        CHECK_INT(cu->cuKernelSetAttribute(KB_CU_KERNEL_MAX_DYNAMIC_SHARED, LEFT + more, k, 0),
                  more ? KB_CU_INVALID_VALUE : 0);
    CHECK_INT(cu->cuDeviceGetAttribute(&value, KB_CU_DEVICE_CC_MAJOR, KB_DEVICE_HOST), 0);
    CHECK_INT(value, KB_HOSTCUDA_CC / 10);
    CHECK_INT(cu->cuDeviceGetAttribute(&value, KB_CU_DEVICE_MAX_SHARED_OPTIN, KB_DEVICE_HOST), 0);
    CHECK_INT(value, KB_HOSTCUDA_SHARED_MAX);
    value = 7;
    CHECK_INT(cu->cuDeviceGetAttribute(&value, 0, KB_DEVICE_HOST), 0);
    CHECK_INT(value, 0);
}

static void test_little_things(void)
{
    const kb_driver *cu = &kb_hostcuda_driver;
    kb_cu_library library = NULL;
    int mode = 7, status = 7, grid = 0, block = 0;
    CHECK_INT(cu->cuLibraryLoadData(&library, unknown, NULL, NULL, 0, NULL, NULL, 0), 200);
    CHECK_PTR(library, NULL);
    CHECK_INT(cu->cuLibraryUnload((kb_cu_library)load(digests[0])), 0);
    CHECK_INT(cu->cuThreadExchangeStreamCaptureMode(&mode), 0);
    CHECK_INT(mode, 0);
    CHECK_INT(cu->cuStreamIsCapturing(NULL, &status), 0);
    CHECK_INT(status, 0);
    CHECK_INT(cu->cuStreamSynchronize(NULL), 0);
    CHECK_INT(cu->cuOccupancyMaxPotentialBlockSize(&grid, &block, NULL, NULL, 0, 0), 0);
    CHECK_INT(grid, 1);
    CHECK_INT(block, 256);
}

/* An image that ends before its digest would: not a byte behind is read. */
static void test_short_image(void)
{
    static const char *const texts[] = {"", "c", "no digest"};
    for (int i = 0; i < 3; i++) {
        char *image = strdup(texts[i]);
        kb_cu_library library = NULL;
        CHECK_INT(
            kb_hostcuda_driver.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0),
            200);
        free(image);
    }
}

static void test_errors(void)
{
    static const struct {
        int code;
        const char *name, *text;
    } cases[] = {{1, "CUDA_ERROR_INVALID_VALUE", "a block has 1 to 1024 threads"},
                 {200, "CUDA_ERROR_INVALID_IMAGE", "its code was not provided"},
                 {KB_HOSTCUDA_FAULT, "", ""},
                 {801, "CUDA_ERROR_NOT_SUPPORTED", "not possible on the CPU"}};
    const kb_driver *cu = &kb_hostcuda_driver;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = NULL, *text = NULL;
        CHECK_INT(cu->cuGetErrorName((kb_cu_result)cases[i].code, &name), 0);
        CHECK_TEXT(name, cases[i].name);
        CHECK_INT(cu->cuGetErrorString((kb_cu_result)cases[i].code, &text), 0);
        CHECK_HAS(text, cases[i].text);
    }
}

/* Fills touch the elements that they name, and no byte more. */
static void test_fills(void)
{
    const kb_driver *cu = &kb_hostcuda_driver;
    uint32_t words[12];
    kb_cu_address to = (kb_cu_address)(uintptr_t)(words + 1);
    memset(words, 0xff, sizeof words);
    CHECK_INT(cu->cuMemsetD32Async(to, 5, 2, NULL), 0);
    CHECK_INT(cu->cuMemsetD2D32Async(to + 8, 12, 6, 2, 3, NULL), 0);
    const uint32_t expected[12] = {UINT32_MAX, 5, 5,          6, 6, UINT32_MAX,
                                   6,          6, UINT32_MAX, 6, 6, UINT32_MAX};
    for (int i = 0; i < 12; i++)
        CHECK_INT(words[i], expected[i]);
    CHECK_INT(cu->cuMemcpyDtoDAsync(to, to + 4, 12, NULL), 0); /* which overlap */
    CHECK_INT(words[1], 5);
    CHECK_INT(words[2], 6);
    CHECK_INT(words[3], 6);
}

/* Code that threads may enter at once, unless its threads wait for each other or are checked. */
static void test_concurrency(void)
{
    static const kb_concurrency expected[] = {KB_CONCURRENT, KB_CONCURRENT_IF_TOLD,
                                              KB_CONCURRENT_NEVER, KB_CONCURRENT_NEVER};
    for (int i = 0; i < 4; i++) {
        const kb_image images[] = {{90, "cubin", 6},
                                   {KB_HOSTCUDA_CC, digests[i], sizeof digests[i]}};
        kb_function from = {.entry = "any", .n_images = 2, .images = images};
        kb_function *function = NULL;
        kb_error err;
        memset(from.digest, 'A' + i, sizeof from.digest);
        if (!CHECK_INT(kb_function_hold(&from, &function, &err), KB_OK))
            return;
        const kb_xla_frame xla = {0};
        kb_frame frame = {.xla = &xla};
        kb_launch_step step = {.function = function};
        CHECK_INT(kb_hostcuda_checked(function) != NULL, i == 3);
        CHECK_INT(kb_hostcuda_concurrency(&step, &frame), KB_CONCURRENT_NEVER);
        kb_hostcuda_enter(&frame);
        CHECK_INT(frame.device, KB_DEVICE_HOST);
        CHECK_PTR(frame.driver, &kb_hostcuda_driver);
        CHECK_PTR(frame.stream, &xla); /* whose threads take part in launches */
        CHECK_INT(kb_hostcuda_concurrency(&step, &frame), KB_CONCURRENT_NEVER); /* not ready */
        kb_cu_kernel kernel;
        CHECK_INT(kb_function_load(function, frame.driver, frame.device, "op", &kernel, &err),
                  KB_OK);
        CHECK_INT(kb_hostcuda_concurrency(&step, &frame), expected[i]);
        kb_function_drop(function);
    }
    const kb_image foreign = {90, "cubin", 6}, lost = {KB_HOSTCUDA_CC, unknown, sizeof unknown};
    kb_function f = {.n_images = 1, .images = &foreign};
    CHECK(!kb_hostcuda_checked(&f));
    f.images = &lost;
    CHECK(!kb_hostcuda_checked(&f));
}

int main(void)
{
    add_code();
    test_attributes();
    test_little_things();
    test_short_image();
    test_errors();
    test_fills();
    test_concurrency();
    return kb_test_end("test_hostdriver");
}
