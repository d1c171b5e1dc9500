/* Owns the driver of the CPU: its table, its libraries, and how blocks are shared among threads. */
#include "hostcuda/kb_hostcuda.h"

#include "core/kb_memory.h"
#include "core/kb_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Codes of CUDA. */
static const kb_cu_result invalid_value = 1;
static const kb_cu_result invalid_image = 200;

enum {
    BLOCK_MAX = 1024,
    BEST_BLOCK = 256,
    SHARED_MAX = 48 * 1024,
    ALONE_MAX = 16 * 1024, /* threads of a launch that is not worth sharing */
};

typedef struct code {
    char digest[KB_HOSTCUDA_DIGEST];
    kb_hostcuda_kernel *run;
    struct code *next;
} code;

static _Atomic(kb_hostcuda_compiler *) compiler;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static code *codes; /* under the lock; never freed */

void kb_hostcuda_set_compiler(kb_hostcuda_compiler *given)
{
    atomic_store(&compiler, given);
}

static kb_hostcuda_kernel *find(const char digest[KB_HOSTCUDA_DIGEST])
{
    kb_hostcuda_kernel *run = NULL;
    pthread_mutex_lock(&lock);
    for (code *c = codes; c && !run; c = c->next)
        if (memcmp(c->digest, digest, sizeof c->digest) == 0)
            run = c->run;
    pthread_mutex_unlock(&lock);
    return run;
}

bool kb_hostcuda_has(const char digest[KB_HOSTCUDA_DIGEST])
{
    return find(digest) != NULL;
}

kb_status kb_hostcuda_add(const char digest[KB_HOSTCUDA_DIGEST], kb_hostcuda_kernel *run,
                          kb_error *err)
{
    code *c = kb_calloc(1, sizeof *c);
    if (!c)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the code of a kernel");
    memcpy(c->digest, digest, sizeof c->digest);
    c->run = run;
    pthread_mutex_lock(&lock);
    c->next = codes;
    codes = c;
    pthread_mutex_unlock(&lock);
    return KB_OK;
}

kb_status kb_hostcuda_provide(const kb_function *function, const char *what, kb_error *err)
{
    const kb_image *image = NULL;
    for (uint32_t i = 0; i < function->n_images; i++)
        if (function->images[i].cc == KB_HOSTCUDA_CC)
            image = &function->images[i];
    if (!image || image->size <= KB_HOSTCUDA_DIGEST ||
        ((const char *)image->bytes)[image->size - 1] != '\0')
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the program has no code for the CPU; lower it anew for this "
                            "platform",
                            what);
    if (find(image->bytes))
        return KB_OK;
    kb_hostcuda_compiler *compile = atomic_load(&compiler);
    if (!compile)
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: nothing here compiles a CUDA kernel for the CPU", what);
    return compile(image->bytes, image->size, err);
}

typedef struct launch {
    kb_hostcuda_kernel *run;
    void *const *parameters;
    uint32_t sizes[6];
} launch;

static void run_blocks(void *data, int64_t begin, int64_t end)
{
    const launch *l = data;
    l->run(l->parameters, l->sizes, begin, end);
}

static kb_cu_result launch_kernel(const kb_cu_launch *how, kb_cu_function function,
                                  void **parameters, void **extra)
{
    (void)extra;
    launch l = {.run = (kb_hostcuda_kernel *)(uintptr_t)function, .parameters = parameters};
    int64_t n_blocks = 1, n_threads = 1;
    for (int i = 0; i < 3; i++) {
        l.sizes[i] = how->grid[i];
        l.sizes[3 + i] = how->block[i];
        n_blocks *= how->grid[i];
        n_threads *= how->block[i];
    }
    if (n_blocks <= 0 || n_threads <= 0 || n_threads > BLOCK_MAX)
        return invalid_value;
    if (n_blocks <= ALONE_MAX / n_threads || !how->stream)
        run_blocks(&l, 0, n_blocks);
    else
        kb_pool_for((const kb_xla_frame *)(const void *)how->stream, n_blocks, run_blocks, &l);
    return KB_CU_SUCCESS;
}

static kb_cu_result load_library(kb_cu_library *library, const void *image, void *jit_options,
                                 void **jit_values, unsigned int n_jit, void *options,
                                 void **values, unsigned int n_options)
{
    (void)jit_options, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n_options;
    kb_hostcuda_kernel *run = find(image);
    if (!run)
        return invalid_image;
    *library = (kb_cu_library)(uintptr_t)run;
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

static kb_cu_result get_attribute(int *value, int attribute, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)kernel, (void)device;
    *value = attribute == KB_CU_KERNEL_MAX_DYNAMIC_SHARED ? SHARED_MAX : 0;
    return KB_CU_SUCCESS;
}

static kb_cu_result set_attribute(int attribute, int value, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)attribute, (void)kernel, (void)device;
    return value <= SHARED_MAX ? KB_CU_SUCCESS : invalid_value;
}

static kb_cu_result device_attribute(int *value, int attribute, kb_cu_device device)
{
    (void)device;
    *value = 0;
    if (attribute == KB_CU_DEVICE_CC_MAJOR)
        *value = KB_HOSTCUDA_CC / 10;
    else if (attribute == KB_CU_DEVICE_MAX_SHARED_OPTIN)
        *value = SHARED_MAX;
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
    *name = result == invalid_value   ? "CUDA_ERROR_INVALID_VALUE"
            : result == invalid_image ? "CUDA_ERROR_INVALID_IMAGE"
                                      : "CUDA_ERROR_NOT_SUPPORTED";
    return KB_CU_SUCCESS;
}

static kb_cu_result error_string(kb_cu_result result, const char **text)
{
    *text = result == invalid_value   ? "the CPU runs blocks of 1 to 1024 threads"
            : result == invalid_image ? "its code was not provided"
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

static kb_cu_result fill_16(kb_cu_address to, unsigned short value, size_t n, kb_cu_stream stream)
{
    (void)stream;
    for (size_t i = 0; i < n; i++)
        memcpy(at(to + i * sizeof value), &value, sizeof value);
    return KB_CU_SUCCESS;
}

static kb_cu_result fill_32(kb_cu_address to, unsigned int value, size_t n, kb_cu_stream stream)
{
    (void)stream;
    for (size_t i = 0; i < n; i++)
        memcpy(at(to + i * sizeof value), &value, sizeof value);
    return KB_CU_SUCCESS;
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
};

const kb_driver *kb_hostcuda_driver(void)
{
    return &driver;
}

void kb_hostcuda_enter(kb_frame *frame)
{
    frame->driver = &driver;
    frame->device = KB_HOSTCUDA_DEVICE;
    frame->stream = (void *)frame->xla;
}
