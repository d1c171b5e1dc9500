/* Owns the question for the occupancy of an image that may not be loaded. */
#include "cuda/kb_occupancy.h"

#include "cuda/kb_driver.h"

static kb_cu_result ask(const kb_driver *cu, kb_cu_function function, int threads, uint32_t shared,
                        double *share)
{
    int grid, blocks, most;
    kb_cu_result code = KB_CU_SUCCESS;
    if (threads == 0)
        code = cu->cuOccupancyMaxPotentialBlockSize(&grid, &threads, function, NULL, shared, 0);
    if (code == KB_CU_SUCCESS)
        code = cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, shared);
    if (code == KB_CU_SUCCESS)
        code = cu->cuDeviceGetAttribute(&most, KB_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR, 0);
    if (code == KB_CU_SUCCESS)
        *share = (double)blocks * threads / most;
    return code;
}

/* What a kernel is not allowed fits nowhere, in the driver's answer. */
static kb_cu_result allow(const kb_driver *cu, kb_cu_kernel kernel, uint32_t shared)
{
    int allowed = 0;
    kb_cu_result code =
        cu->cuKernelGetAttribute(&allowed, KB_CU_KERNEL_MAX_DYNAMIC_SHARED, kernel, 0);
    if (code != KB_CU_SUCCESS || (int64_t)shared <= allowed)
        return code;
    return cu->cuKernelSetAttribute(KB_CU_KERNEL_MAX_DYNAMIC_SHARED, (int)shared, kernel, 0);
}

/* With the context of GPU 0 current. */
static kb_cu_result load_and_ask(const kb_driver *cu, const void *image, const char *entry,
                                 int threads, uint32_t shared, double *share)
{
    kb_cu_library library;
    kb_cu_kernel kernel;
    kb_cu_function function;
    kb_cu_result code = cu->cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);
    if (code != KB_CU_SUCCESS)
        return code;
    code = cu->cuLibraryGetKernel(&kernel, library, entry);
    if (code == KB_CU_SUCCESS)
        code = cu->cuKernelGetFunction(&function, kernel);
    if (code == KB_CU_SUCCESS)
        code = allow(cu, kernel, shared);
    if (code == KB_CU_SUCCESS)
        code = ask(cu, function, threads, shared, share);
    (void)cu->cuLibraryUnload(library);
    return code;
}

kb_status kb_occupancy(const void *image, const char *entry, int threads, uint32_t shared,
                       double *share, kb_error *err)
{
    const kb_driver *cu = kb_driver_get(err);
    if (!cu)
        return err->status;
    kb_cu_context context, popped;
    kb_cu_result code = cu->cuDevicePrimaryCtxRetain(&context, 0);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuDevicePrimaryCtxRetain", entry);
    code = cu->cuCtxPushCurrent(context);
    if (code == KB_CU_SUCCESS) {
        code = load_and_ask(cu, image, entry, threads, shared, share);
        (void)cu->cuCtxPopCurrent(&popped);
    }
    (void)cu->cuDevicePrimaryCtxRelease(0);
    return code == KB_CU_SUCCESS
               ? KB_OK
               : kb_driver_fail(err, cu, code, "the question for the occupancy", entry);
}
