/* Owns the driver of the CPU: its table, its libraries, and how blocks are shared among threads. */
#include "hostcuda/kb_hostcuda.h"

#include "core/kb_memory.h"
#include "core/kb_pool.h"
#include "hostcuda/kb_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Codes of CUDA. */
static const kb_cu_result invalid_value = 1;
static const kb_cu_result invalid_image = 200;
static const kb_cu_result kernel_fault = 9001; /* ours: nothing else is lost with it */

enum {
    BLOCK_MAX = 1024,
    BEST_BLOCK = 256,
    SHARED_MAX = 227 * 1024, /* of a block, as the largest GPUs have it */
    ALONE_MAX = 16 * 1024,   /* threads of a launch that is not worth sharing */
    ALONE_FIBRES_MAX = 1024,
};

typedef struct known {
    char digest[KB_HOSTCUDA_DIGEST];
    kb_hostcuda_code code;
    struct known *next;
} known;

static _Atomic(kb_hostcuda_compiler *) compiler;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known *codes; /* under the lock; never freed */

void kb_hostcuda_set_compiler(kb_hostcuda_compiler *given)
{
    atomic_store(&compiler, given);
}

static const kb_hostcuda_code *find(const char digest[KB_HOSTCUDA_DIGEST])
{
    const kb_hostcuda_code *found = NULL;
    pthread_mutex_lock(&lock);
    for (known *c = codes; c && !found; c = c->next)
        if (memcmp(c->digest, digest, sizeof c->digest) == 0)
            found = &c->code;
    pthread_mutex_unlock(&lock);
    return found;
}

bool kb_hostcuda_has(const char digest[KB_HOSTCUDA_DIGEST])
{
    return find(digest) != NULL;
}

kb_status kb_hostcuda_add(const char digest[KB_HOSTCUDA_DIGEST], const kb_hostcuda_code *code,
                          kb_error *err)
{
    known *c = kb_calloc(1, sizeof *c);
    if (!c)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the code of a kernel");
    memcpy(c->digest, digest, sizeof c->digest);
    c->code = *code;
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
    const kb_hostcuda_code *code;
    void *const *parameters;
    uint32_t sizes[6];
    uint32_t shared; /* dynamic, bytes */
    kb_checks *checks;
    _Atomic(bool) faulted;
    char fault[KB_FAULT_SIZE];
} launch;

static _Thread_local char last_fault[KB_FAULT_SIZE]; /* of a launch that this thread made */

static void fail(launch *l, const char *fault)
{
    pthread_mutex_lock(&lock);
    if (!atomic_exchange(&l->faulted, true))
        memcpy(l->fault, fault, sizeof l->fault);
    pthread_mutex_unlock(&lock);
}

static void run_fibres(launch *l, int64_t begin, int64_t end)
{
    static const char no_memory[KB_FAULT_SIZE] = "no memory for the stacks of a block's threads";
    kb_block *block = kb_block_take(&l->code->threads, l->sizes, l->shared);
    if (!block) {
        fail(l, no_memory);
        return;
    }
    block->checks = l->checks;
    for (int64_t i = begin; i < end && !atomic_load(&l->faulted); i++) {
        int64_t row = i / l->sizes[0];
        uint32_t index[3] = {(uint32_t)(i % l->sizes[0]), (uint32_t)(row % l->sizes[1]),
                             (uint32_t)(row / l->sizes[1])};
        if (!kb_block_run(block, l->parameters, index))
            fail(l, block->fault);
    }
    kb_block_give_back(block);
}

/* Blocks one after the other, which share what is known of accesses. */
static void run_checked(launch *l, int64_t n_blocks)
{
    static const char no_memory[KB_FAULT_SIZE] = "no memory to check the kernel's accesses with";
    l->checks = kb_checks_new(l->code->threads.checked, l->sizes, l->shared, l->parameters);
    if (l->checks)
        run_fibres(l, 0, n_blocks);
    else
        fail(l, no_memory);
    kb_checks_free(l->checks);
}

static void run_blocks(void *data, int64_t begin, int64_t end)
{
    launch *l = data;
    if (l->code->blocks)
        l->code->blocks(l->parameters, l->sizes, begin, end);
    else
        run_fibres(l, begin, end);
}

/* 0, or a code of CUDA with the launch's fault. */
static kb_cu_result run_launch(launch *l, const kb_xla_frame *xla)
{
    int64_t n_blocks = 1, n_threads = 1;
    for (int i = 0; i < 3; i++) {
        n_blocks *= l->sizes[i];
        n_threads *= l->sizes[3 + i];
    }
    if (n_blocks <= 0 || n_threads <= 0 || n_threads > BLOCK_MAX)
        return invalid_value;
    if (l->shared > SHARED_MAX - l->code->threads.shared)
        return invalid_value;
    int64_t alone_max = l->code->blocks ? ALONE_MAX : ALONE_FIBRES_MAX;
    if (l->code->threads.checked)
        run_checked(l, n_blocks);
    else if (n_blocks <= alone_max / n_threads || !xla)
        run_blocks(l, 0, n_blocks);
    else
        kb_pool_for(xla, n_blocks, run_blocks, l);
    return atomic_load(&l->faulted) ? kernel_fault : KB_CU_SUCCESS;
}

static kb_cu_result launch_kernel(const kb_cu_launch *how, kb_cu_function function,
                                  void **parameters, void **extra)
{
    (void)extra;
    launch l = {.code = (const kb_hostcuda_code *)(const void *)function,
                .parameters = parameters,
                .shared = how->shared};
    memcpy(l.sizes, how->grid, sizeof how->grid);
    memcpy(l.sizes + 3, how->block, sizeof how->block);
    kb_cu_result code = run_launch(&l, (const kb_xla_frame *)(const void *)how->stream);
    if (code == kernel_fault)
        memcpy(last_fault, l.fault, sizeof last_fault);
    return code;
}

kb_status kb_hostcuda_launch(const char digest[KB_HOSTCUDA_DIGEST], const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, kb_error *err)
{
    launch l = {.code = find(digest), .parameters = parameters, .shared = dynamic_shared};
    if (!l.code)
        return kb_error_set(err, KB_NOT_FOUND, "the kernel's machine code is not known here");
    memcpy(l.sizes, sizes, sizeof l.sizes);
    kb_cu_result code = run_launch(&l, xla);
    if (code == kernel_fault)
        return kb_error_set(err, KB_INTERNAL, "%s", l.fault);
    if (code != KB_CU_SUCCESS)
        return kb_error_set(err, KB_INVALID_ARGUMENT,
                            "a block has 1 to %d threads and at most %d bytes of shared memory",
                            BLOCK_MAX, SHARED_MAX);
    return KB_OK;
}

static kb_cu_result load_library(kb_cu_library *library, const void *image, void *jit_options,
                                 void **jit_values, unsigned int n_jit, void *options,
                                 void **values, unsigned int n_options)
{
    (void)jit_options, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n_options;
    const kb_hostcuda_code *found = find(image);
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
    return SHARED_MAX - (int)((const kb_hostcuda_code *)(const void *)kernel)->threads.shared;
}

static kb_cu_result get_attribute(int *value, int attribute, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)device;
    *value = 0;
    if (attribute == KB_CU_KERNEL_MAX_DYNAMIC_SHARED)
        *value = shared_left(kernel);
    else if (attribute == KB_CU_KERNEL_STATIC_SHARED)
        *value = SHARED_MAX - shared_left(kernel);
    return KB_CU_SUCCESS;
}

static kb_cu_result set_attribute(int attribute, int value, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)attribute, (void)device;
    return value <= shared_left(kernel) ? KB_CU_SUCCESS : invalid_value;
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
            : result == kernel_fault  ? "a fault of the kernel"
                                      : "CUDA_ERROR_NOT_SUPPORTED";
    return KB_CU_SUCCESS;
}

static kb_cu_result error_string(kb_cu_result result, const char **text)
{
    *text = result == invalid_value
                ? "the CPU runs blocks of 1 to 1024 threads with at most 227 KiB of shared memory"
            : result == invalid_image ? "its code was not provided"
            : result == kernel_fault  ? last_fault
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
