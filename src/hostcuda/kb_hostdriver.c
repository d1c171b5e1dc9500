/* Owns the driver of the CPU: the functions of its table. */
#include "cuda/kb_step.h"
#include "hostcuda/kb_hostcuda.h"

#include <string.h>

enum { BEST_BLOCK = 256 };

static const kb_cu_result invalid_image = 200; /* of CUDA */

static _Thread_local char last_fault[KB_FAULT_SIZE]; /* of a launch that this thread made */

static kb_cu_result launch_kernel(const kb_cu_launch *how, kb_cu_function function,
                                  void **parameters, void **extra)
{
    (void)extra;
    uint32_t sizes[6];
    memcpy(sizes, how->grid, sizeof how->grid);
    memcpy(sizes + 3, how->block, sizeof how->block);
    return kb_hostcuda_run((const kb_hostcuda_code *)(const void *)function, sizes, how->shared,
                           parameters, (const kb_xla_frame *)(const void *)how->stream, last_fault);
}

static kb_cu_result load_library(kb_cu_library *library, const void *image, void *jit_options,
                                 void **jit_values, unsigned int n_jit, void *options,
                                 void **values, unsigned int n_options)
{
    (void)jit_options, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n_options;
    /* A program that was refused when XLA compiled it may be called by another one. Images are
     * followed by a NUL, and a digest has none. */
    bool has_digest = memchr(image, 0, KB_HOSTCUDA_DIGEST) == NULL;
    const kb_hostcuda_code *found = has_digest ? kb_hostcuda_find(image) : NULL;
    if (!found)
        return invalid_image;
    *library = (kb_cu_library)(uintptr_t)found;
    return KB_CU_SUCCESS;
}

static kb_cu_result unload_library(kb_cu_library library)
{
    (void)library;
    return KB_CU_SUCCESS;
}

static kb_cu_result get_kernel(kb_cu_kernel *kernel, kb_cu_library library, const char *name)
{
    (void)name;
    *kernel = (kb_cu_kernel)library;
    return KB_CU_SUCCESS;
}

static kb_cu_result get_function(kb_cu_function *function, kb_cu_kernel kernel)
{
    *function = (kb_cu_function)kernel;
    return KB_CU_SUCCESS;
}

static int shared_left(kb_cu_kernel kernel)
{
    return KB_HOSTCUDA_SHARED_MAX -
           (int)((const kb_hostcuda_code *)(const void *)kernel)->threads.shared;
}

static kb_cu_result get_attribute(int *value, int attribute, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)device;
    *value = 0;
    if (attribute == KB_CU_KERNEL_MAX_DYNAMIC_SHARED)
        *value = shared_left(kernel);
    else if (attribute == KB_CU_KERNEL_STATIC_SHARED)
        *value = KB_HOSTCUDA_SHARED_MAX - shared_left(kernel);
    return KB_CU_SUCCESS;
}

static kb_cu_result set_attribute(int attribute, int value, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)attribute, (void)device;
    return value <= shared_left(kernel) ? KB_CU_SUCCESS : KB_CU_INVALID_VALUE;
}

static kb_cu_result device_attribute(int *value, int attribute, kb_cu_device device)
{
    (void)device;
    *value = 0;
    if (attribute == KB_CU_DEVICE_CC_MAJOR)
        *value = KB_HOSTCUDA_CC / 10;
    else if (attribute == KB_CU_DEVICE_MAX_SHARED_OPTIN)
        *value = KB_HOSTCUDA_SHARED_MAX;
    return KB_CU_SUCCESS;
}

static kb_cu_result best_block(int *min_grid, int *block, kb_cu_function function,
                               size_t (*shared_of_block)(int), size_t shared, int limit)
{
    (void)function, (void)shared_of_block, (void)shared, (void)limit;
    *min_grid = 1;
    *block = BEST_BLOCK;
    return KB_CU_SUCCESS;
}

static kb_cu_result error_name(kb_cu_result result, const char **name)
{
    *name = result == KB_CU_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
            : result == invalid_image     ? "CUDA_ERROR_INVALID_IMAGE"
            : result == KB_HOSTCUDA_FAULT ? ""
                                          : "CUDA_ERROR_NOT_SUPPORTED";
    return KB_CU_SUCCESS;
}

static kb_cu_result error_string(kb_cu_result result, const char **text)
{
    *text = result == KB_CU_INVALID_VALUE ? kb_hostcuda_limits
            : result == invalid_image     ? "its code was not provided"
            : result == KB_HOSTCUDA_FAULT ? last_fault
                                          : "not possible on the CPU";
    return KB_CU_SUCCESS;
}

static kb_cu_result exchange_capture_mode(int *mode)
{
    *mode = 0; /* nothing is captured here */
    return KB_CU_SUCCESS;
}

static kb_cu_result is_capturing(kb_cu_stream stream, int *status)
{
    (void)stream;
    *status = 0;
    return KB_CU_SUCCESS;
}

static kb_cu_result synchronize(kb_cu_stream stream)
{
    (void)stream;
    return KB_CU_SUCCESS;
}

static void *at(kb_cu_address address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): CUDA's addresses
}

static kb_cu_result fill_8(kb_cu_address to, unsigned char value, size_t n, kb_cu_stream stream)
{
    (void)stream;
    memset(at(to), value, n);
    return KB_CU_SUCCESS;
}

static inline kb_cu_result repeat(kb_cu_address to, const void *value, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(at(to + i * size), value, size);
    return KB_CU_SUCCESS;
}

static kb_cu_result fill_16(kb_cu_address to, unsigned short value, size_t n, kb_cu_stream stream)
{
    (void)stream;
    return repeat(to, &value, sizeof value, n);
}

static kb_cu_result fill_32(kb_cu_address to, unsigned int value, size_t n, kb_cu_stream stream)
{
    (void)stream;
    return repeat(to, &value, sizeof value, n);
}

static kb_cu_result fill_2d(kb_cu_address to, size_t pitch, unsigned int value, size_t width,
                            size_t height, kb_cu_stream stream)
{
    for (size_t row = 0; row < height; row++)
        (void)fill_32(to + row * pitch, value, width, stream);
    return KB_CU_SUCCESS;
}

static kb_cu_result copy(kb_cu_address to, kb_cu_address from, size_t size, kb_cu_stream stream)
{
    (void)stream;
    memmove(at(to), at(from), size);
    return KB_CU_SUCCESS;
}

static kb_cu_result copy_out(void *to, kb_cu_address from, size_t size, kb_cu_stream stream)
{
    (void)stream;
    memcpy(to, at(from), size);
    return KB_CU_SUCCESS;
}

static kb_cu_result copy_in(kb_cu_address to, const void *from, size_t size, kb_cu_stream stream)
{
    (void)stream;
    memcpy(at(to), from, size);
    return KB_CU_SUCCESS;
}

/* Plans call nothing else. */
static const kb_driver driver = {
    .cuGetErrorName = error_name,
    .cuGetErrorString = error_string,
    .cuDeviceGetAttribute = device_attribute,
    .cuStreamIsCapturing = is_capturing,
    .cuThreadExchangeStreamCaptureMode = exchange_capture_mode,
    .cuStreamSynchronize = synchronize,
    .cuLibraryLoadData = load_library,
    .cuLibraryUnload = unload_library,
    .cuLibraryGetKernel = get_kernel,
    .cuKernelGetFunction = get_function,
    .cuKernelGetAttribute = get_attribute,
    .cuKernelSetAttribute = set_attribute,
    .cuLaunchKernelEx = launch_kernel,
    .cuOccupancyMaxPotentialBlockSize = best_block,
    .cuMemsetD8Async = fill_8,
    .cuMemsetD16Async = fill_16,
    .cuMemsetD32Async = fill_32,
    .cuMemsetD2D32Async = fill_2d,
    .cuMemcpyDtoDAsync = copy,
    .cuMemcpyDtoHAsync = copy_out,
    .cuMemcpyHtoDAsync = copy_in,
};

const kb_driver *kb_hostcuda_driver(void)
{
    return &driver;
}

kb_concurrency kb_hostcuda_concurrency(const void *step, const kb_frame *frame)
{
    const kb_launch_step *launch = step;
    if (frame->driver != &driver)
        return KB_CONCURRENT_NEVER;
    const kb_hostcuda_code *code = (const kb_hostcuda_code *)(const void *)kb_function_ready(
        launch->function, frame->device, launch->shared);
    if (!code || code->cooperative || code->threads.checked)
        return KB_CONCURRENT_NEVER;
    return code->concurrent ? KB_CONCURRENT : KB_CONCURRENT_IF_TOLD;
}

void kb_hostcuda_enter(kb_frame *frame)
{
    frame->driver = &driver;
    frame->device = KB_DEVICE_HOST;
    frame->stream = (void *)frame->xla;
}
