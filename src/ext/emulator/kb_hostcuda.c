/* Owns the machine code of kernels for the CPU, by the digests of their images; their launches:
 * what they refuse, and how blocks are shared among threads; and the functions of the driver. */
#include "ext/emulator/kb_hostcuda.h"

#include "core/kb_float_mode.h"
#include "cuda/kb_step.h"
#include "cuda/kb_stream.h"
#include "ext/emulator/kb_guard.h"
#include "ext/emulator/kb_spread.h"

#include <pthread.h>
#include <sched.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct known {
    char digest[KB_HOSTCUDA_DIGEST]; /* by which trees compare: the first member */
    kb_hostcuda_code code;
    struct known *before; /* of the same digest, which launches may still run */
} known;

_Atomic(kb_hostcuda_compiler *) kb_hostcuda_compile;
_Atomic(kb_hostcuda_loader *) kb_hostcuda_load;

_Atomic(kb_launches *) kb_hostcuda_launches; /* written under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *codes; /* a tree of known, see search.h; under the lock; never freed */

static int by_digest(const void *a, const void *b)
{
    return memcmp(a, b, KB_HOSTCUDA_DIGEST);
}

const kb_hostcuda_code *kb_hostcuda_find(const char digest[KB_HOSTCUDA_DIGEST])
{
    pthread_mutex_lock(&lock);
    known *const *found = tfind(digest, &codes, by_digest);
    const kb_hostcuda_code *code = found ? &(*found)->code : NULL;
    pthread_mutex_unlock(&lock);
    return code;
}

kb_status kb_hostcuda_add(const char digest[KB_HOSTCUDA_DIGEST], const kb_hostcuda_code *code,
                          kb_error *err)
{
    known *c = calloc(1, sizeof *c);
    if (!c)
        return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the code of a kernel");
    memcpy(c->digest, digest, sizeof c->digest);
    c->code = *code;
    pthread_mutex_lock(&lock);
    known **added = tsearch(c, &codes, by_digest);
    if (added && *added != c) {
        c->before = *added;
        *added = c; /* the newest of a digest is found */
    }
    pthread_mutex_unlock(&lock);
    if (added && code->threads.checked)
        kb_stream_set_checked();
    if (added)
        return KB_OK;
    free(c);
    return kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the code of a kernel");
}

_Atomic(uint64_t) *kb_hostcuda_counts(const char *operation, const char *kernel)
{
    char name[KB_LAUNCHES_NAME];
    if (!(kb_stream_debug() & KB_DEBUG_COUNT_LAUNCHES))
        return NULL;
    (void)snprintf(name, sizeof name, kernel ? "%s: %s" : "%s", operation, kernel);
    pthread_mutex_lock(&lock);
    kb_launches *first = kb_hostcuda_launches, *l = first;
    while (l && strcmp(l->name, name) != 0)
        l = l->next;
    if (!l && (l = calloc(1, sizeof *l))) {
        memcpy(l->name, name, sizeof name);
        l->next = first;
        kb_hostcuda_launches = l;
    }
    pthread_mutex_unlock(&lock);
    return l ? l->counts : NULL;
}

/* Compares the number of the ABI in an image with ours: code that was generated for another one may
 * crash. */
static kb_status check_abi(const kb_image *image, const char *what, kb_error *err)
{
    static const char line[] = "\n" KB_HOSTCUDA_ABI_LINE;
    enum { DECIMAL = 10, MADE_SIZE = 64 };
    char made[MADE_SIZE] = "without a number of its ABI";
    const char *at = (const char *)image->bytes + KB_HOSTCUDA_DIGEST; /* ends in NUL */
    if (strncmp(at, line, sizeof line - 1) == 0) {
        long abi = strtol(at + sizeof line - 1, NULL, DECIMAL);
        if (abi == KB_HOSTCUDA_ABI)
            return KB_OK;
        (void)snprintf(made, sizeof made, "for ABI %ld of kernbridge", abi);
    }
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "%s: the program's code for the CPU was generated %s, and this kernbridge "
                        "has ABI %d: export the program again with this version",
                        what, made, KB_HOSTCUDA_ABI);
}

static const kb_image *find_image(const kb_function *function, uint32_t cc)
{
    for (uint32_t i = 0; i < function->n_images; i++)
        if (function->images[i].cc == cc)
            return &function->images[i];
    return NULL;
}

const kb_check_table *kb_hostcuda_checked(const kb_function *function)
{
    const kb_image *image = find_image(function, KB_HOSTCUDA_CC);
    bool has_digest = image && image->size > KB_HOSTCUDA_DIGEST;
    const kb_hostcuda_code *code = has_digest ? kb_hostcuda_find(image->bytes) : NULL;
    return code ? code->threads.checked : NULL;
}

static kb_status compile(const kb_image *image, const char *what, kb_error *err)
{
    kb_hostcuda_compiler *fn = atomic_load(&kb_hostcuda_compile);
    if (fn)
        return fn(image->bytes, image->size, err);
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "%s: nothing here compiles a CUDA kernel for the CPU", what);
}

kb_status kb_hostcuda_provide(const kb_function *function, const char *what, kb_error *err)
{
    const kb_image *image = find_image(function, KB_HOSTCUDA_CC);
    if (!image || image->size <= KB_HOSTCUDA_DIGEST ||
        ((const char *)image->bytes)[image->size - 1] != '\0')
        return kb_error_set(err, KB_FAILED_PRECONDITION,
                            "%s: the program has no code for the CPU; lower it again for this "
                            "platform",
                            what);
    kb_status s = check_abi(image, what, err);
    if (s != KB_OK || kb_hostcuda_find(image->bytes))
        return s;
    const kb_image *code = find_image(function, KB_HOSTCUDA_CODE_CC);
    kb_hostcuda_loader *load = atomic_load(&kb_hostcuda_load);
    s = code && load ? load(image->bytes, code->bytes, code->size, what, err) : KB_NOT_FOUND;
    if (s == KB_NOT_FOUND)
        return compile(image, what, err);
    kb_error other;
    if (s != KB_FAILED_PRECONDITION || compile(image, what, &other) == KB_OK)
        return s == KB_FAILED_PRECONDITION ? KB_OK : s;
    kb_error_append(err, ". Nor can the kernel be compiled again: %s", other.message);
    return s;
}

enum {
    ALONE_MAX = 16 * 1024, /* threads of a launch that is not worth sharing */
    ALONE_FIBRES_MAX = 1024,
    COOPERATIVE_MAX = 64 * 1024, /* threads of a grid */
};

/* As GPUs have them (CUDA C++ programming guide, compute capabilities). */
static const uint32_t sizes_max[6] = {
    INT32_MAX, 65535, 65535, KB_HOSTCUDA_THREADS_MAX, KB_HOSTCUDA_THREADS_MAX, 64};

static const char limits[] =
    "a block has 1 to 1024 threads, at most 64 along z, and at most 227 KiB of shared memory; a "
    "grid at most 65535 blocks along y and z";

typedef struct launch {
    const kb_hostcuda_code *code;
    void *const *parameters;
    const uint32_t *sizes; /* of the grid, of a block */
    uint32_t shared;       /* dynamic, bytes */
    kb_checks *checks;
    _Atomic(bool) faulted;
    char *fault; /* room for KB_FAULT_SIZE bytes */
} launch;

/* The fault of the first thread that has one is read when all have ended. */
static void fail(launch *l, const char *fault)
{
    if (!atomic_exchange(&l->faulted, true))
        (void)snprintf(l->fault, KB_FAULT_SIZE, "%s", fault);
}

static kb_block *take_block(launch *l)
{
    kb_block *block = kb_block_take(&l->code->threads, l->sizes, l->shared);
    if (!block) {
        fail(l, "no memory for the stacks of a block's threads");
        return NULL;
    }
    block->checks = l->checks;
    return block;
}

static void run_fibres(launch *l, int64_t begin, int64_t end)
{
    kb_block *block = atomic_load(&l->faulted) ? NULL : take_block(l);
    if (!block)
        return;
    if (!kb_block_run_range(block, l->parameters, l->sizes, begin, end))
        fail(l, block->fault);
    kb_block_give_back(block);
}

/* True in unchecked mode, too. */
static bool begin_checks(launch *l)
{
    const kb_check_table *table = l->code->threads.checked;
    if (!table)
        return true;
    bool cooperative = l->code->cooperative;
    l->checks = table == &kb_spread_launches
                    ? kb_spread_checks(l->sizes, l->shared, cooperative)
                    : kb_checks_new(table, l->sizes, l->shared, l->parameters, cooperative);
    return l->checks != NULL;
}

/* All blocks at once, each going on until its threads wait for the grid. */
static void run_turns(launch *l, kb_block **blocks, int64_t n_blocks)
{
    int64_t n_ended;
    do {
        n_ended = 0;
        for (int64_t i = 0; i < n_blocks; i++) {
            if (blocks[i]->n_live && !kb_block_go_on(blocks[i])) {
                fail(l, blocks[i]->fault);
                return;
            }
            n_ended += blocks[i]->n_live == 0;
        }
        if (l->checks && n_ended < n_blocks)
            kb_checks_phase(l->checks);
    } while (n_ended < n_blocks);
}

static void run_cooperative(launch *l, int64_t n_blocks)
{
    int64_t n_taken = 0;
    kb_block **blocks = (kb_block **)calloc((size_t)n_blocks, sizeof(kb_block *));
    for (; blocks && n_taken < n_blocks; n_taken++) {
        int64_t row = n_taken / l->sizes[0];
        const uint32_t index[3] = {(uint32_t)(n_taken % l->sizes[0]), (uint32_t)(row % l->sizes[1]),
                                   (uint32_t)(row / l->sizes[1])};
        blocks[n_taken] = take_block(l);
        if (!blocks[n_taken])
            break;
        kb_block_begin(blocks[n_taken], l->parameters, index);
    }
    if (n_taken == n_blocks)
        run_turns(l, blocks, n_blocks);
    else if (!blocks)
        fail(l, "no memory for the stacks of a block's threads");
    for (int64_t i = 0; i < n_taken; i++)
        kb_block_give_back(blocks[i]);
    free((void *)blocks);
}

/* A launch of a JAX call writes to memory of that call. No other launch writes there, unless the
 * program launches kernels outside of JAX's calls: from its own threads, or from Python. Such a
 * launch waits until all that may be alone have ended. After it, no launch is alone any more. */
static _Atomic(int64_t) n_alone;
static _Atomic(bool) has_others;
static _Thread_local bool is_alone;

bool kb_alone(void)
{
    return is_alone;
}

/* On a thread that has the exact mode of floats: the launch's, one of the pool, or one that the
 * launch has started, which inherits the mode. */
static void run_blocks(void *data, int64_t begin, int64_t end)
{
    launch *l = data;
    const char *outside = NULL;
    if (l->code->blocks) /* whose threads run one after the other, in loops */
        l->code->blocks(l->parameters, l->sizes, begin, end, &outside);
    else
        run_fibres(l, begin, end);
    if (!outside)
        return;
    char fault[KB_FAULT_SIZE];
    (void)snprintf(fault, sizeof fault, "a thread writes to %s out of bounds%s", outside,
                   kb_block_left_out);
    fail(l, fault);
}

static bool fits(const launch *l, int64_t *n_blocks, int64_t *n_threads)
{
    *n_blocks = *n_threads = 1;
    for (int i = 0; i < 6; i++) {
        if (l->sizes[i] == 0 || l->sizes[i] > sizes_max[i])
            return false;
        *(i < 3 ? n_blocks : n_threads) *= l->sizes[i];
    }
    return *n_threads <= KB_HOSTCUDA_THREADS_MAX && l->shared <= KB_HOSTCUDA_SHARED_MAX &&
           l->code->threads.shared <= KB_HOSTCUDA_SHARED_MAX - l->shared;
}

kb_cu_result kb_hostcuda_run(const kb_hostcuda_code *code, const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, char fault[KB_FAULT_SIZE])
{
    launch l = {.code = code, .parameters = parameters, .sizes = sizes, .shared = dynamic_shared};
    int64_t n_blocks, n_threads;
    l.fault = fault;
    if (!fits(&l, &n_blocks, &n_threads))
        return KB_CU_INVALID_VALUE;
    kb_error err;
    kb_hostcuda_code there = *code;
    kb_variables_copy *copy =
        code->variables ? code->variables->enter(code->variables, xla, &err) : NULL;
    if (copy) {
        there.blocks = KB_MOVED(code->blocks, copy);
        there.threads.run = KB_MOVED(code->threads.run, copy);
        there.threads.loop = KB_MOVED(code->threads.loop, copy);
        l.code = &there;
    }
    uint64_t mode = kb_float_mode_exact();
    bool has_loops = code->blocks || code->threads.loop || code->threads.is_whole;
    int64_t alone_max = has_loops ? ALONE_MAX : ALONE_FIBRES_MAX;
    bool is_shared = n_blocks > alone_max / n_threads && (!xla || kb_pool_num_threads(xla) > 1);
    bool may_be_alone = xla && code->concurrent && !is_shared;
    if (!xla)
        atomic_store(&has_others, true);
    while (!xla && atomic_load(&n_alone) > 0)
        (void)sched_yield();
    atomic_fetch_add(&n_alone, may_be_alone);
    is_alone = may_be_alone && !atomic_load(&has_others);
    if (code->variables && !copy)
        fail(&l, err.message);
    else if (code->cooperative && n_blocks > COOPERATIVE_MAX / n_threads)
        fail(&l, "a cooperative grid has at most 65536 threads on the CPU");
    else if (!begin_checks(&l))
        fail(&l, "no memory to check the kernel's accesses with");
    else if (code->cooperative)
        run_cooperative(&l, n_blocks);
    else if (l.checks || !is_shared) /* checked blocks share what is known */
        run_blocks(&l, 0, n_blocks);
    else if (xla)
        kb_pool_for(xla, n_blocks, run_blocks, &l);
    else
        kb_started_for(n_blocks, run_blocks, &l);
    is_alone = false;
    atomic_fetch_sub(&n_alone, may_be_alone);
    kb_checks_free(l.checks);
    kb_float_mode_restore(mode);
    if (copy)
        pthread_mutex_unlock(&copy->lock);
    bool faulted = atomic_load(&l.faulted);
    if (code->counts) {
        atomic_fetch_add_explicit(&code->counts[0], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&code->counts[1], faulted, memory_order_relaxed);
    }
    return faulted ? KB_HOSTCUDA_FAULT : KB_CU_SUCCESS;
}

kb_status kb_hostcuda_launch(const char digest[KB_HOSTCUDA_DIGEST], const uint32_t sizes[6],
                             uint32_t dynamic_shared, void *const *parameters,
                             const kb_xla_frame *xla, kb_error *err)
{
    char fault[KB_FAULT_SIZE];
    const kb_hostcuda_code *code = kb_hostcuda_find(digest);
    if (!code)
        return kb_error_set(err, KB_NOT_FOUND, "the kernel's machine code is not known here");
    kb_cu_result result = kb_hostcuda_run(code, sizes, dynamic_shared, parameters, xla, fault);
    if (result == KB_HOSTCUDA_FAULT)
        return kb_error_set(err, KB_INTERNAL, "%s", fault);
    return result == KB_CU_SUCCESS ? KB_OK : kb_error_set(err, KB_INVALID_ARGUMENT, "%s", limits);
}

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

/* Functions that always succeed, and what they do. */
#define SUCCEEDS(name, parameters, action)                                                         \
    static kb_cu_result name parameters                                                            \
    {                                                                                              \
        action;                                                                                    \
        return KB_CU_SUCCESS;                                                                      \
    }

SUCCEEDS(unload_library, (kb_cu_library library), (void)library)
SUCCEEDS(get_kernel, (kb_cu_kernel * kernel, kb_cu_library library, const char *name),
         ((void)name, *kernel = (kb_cu_kernel)library))
SUCCEEDS(get_function, (kb_cu_function * function, kb_cu_kernel kernel),
         *function = (kb_cu_function)kernel)
/* Nothing is captured here. */
SUCCEEDS(exchange_capture_mode, (int *mode), *mode = 0)
SUCCEEDS(is_capturing, (kb_cu_stream stream, int *status), ((void)stream, *status = 0))
SUCCEEDS(synchronize, (kb_cu_stream stream), (void)stream)

static int shared_left(kb_cu_kernel kernel)
{
    return KB_HOSTCUDA_SHARED_MAX -
           (int)((const kb_hostcuda_code *)(const void *)kernel)->threads.shared;
}

SUCCEEDS(get_attribute, (int *value, int attribute, kb_cu_kernel kernel, kb_cu_device device),
         ((void)device, *value = attribute == KB_CU_KERNEL_MAX_DYNAMIC_SHARED ? shared_left(kernel)
                                 : attribute == KB_CU_KERNEL_STATIC_SHARED
                                     ? KB_HOSTCUDA_SHARED_MAX - shared_left(kernel)
                                     : 0))

static kb_cu_result set_attribute(int attribute, int value, kb_cu_kernel kernel,
                                  kb_cu_device device)
{
    (void)attribute, (void)device;
    return value <= shared_left(kernel) ? KB_CU_SUCCESS : KB_CU_INVALID_VALUE;
}

SUCCEEDS(device_attribute, (int *value, int attribute, kb_cu_device device),
         ((void)device, *value = attribute == KB_CU_DEVICE_CC_MAJOR ? KB_HOSTCUDA_CC / 10
                                 : attribute == KB_CU_DEVICE_MAX_SHARED_OPTIN
                                     ? KB_HOSTCUDA_SHARED_MAX
                                     : 0))

SUCCEEDS(best_block,
         (int *min_grid, int *block, kb_cu_function function, size_t (*shared_of_block)(int),
          size_t shared, int limit),
         ((void)function, (void)shared_of_block, (void)shared, (void)limit, *min_grid = 1,
          *block = BEST_BLOCK))

SUCCEEDS(error_name, (kb_cu_result result, const char **name),
         *name = result == KB_CU_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
                 : result == invalid_image     ? "CUDA_ERROR_INVALID_IMAGE"
                 : result == KB_HOSTCUDA_FAULT ? ""
                                               : "CUDA_ERROR_NOT_SUPPORTED")

SUCCEEDS(error_string, (kb_cu_result result, const char **text),
         *text = result == KB_CU_INVALID_VALUE ? limits
                 : result == invalid_image     ? "its code was not provided"
                 : result == KB_HOSTCUDA_FAULT ? last_fault
                                               : "not possible on the CPU")

static void *at(kb_cu_address address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr): CUDA's addresses
}

static inline void repeat(kb_cu_address to, const void *value, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(at(to + i * size), value, size);
    kb_unwritten_fill(at(to), n * size);
}

#define FILL(name, type)                                                                           \
    SUCCEEDS(name, (kb_cu_address to, type value, size_t n, kb_cu_stream stream),                  \
             ((void)stream, repeat(to, &value, sizeof value, n)))

FILL(fill_8, unsigned char)
FILL(fill_16, unsigned short)
FILL(fill_32, unsigned int)

static kb_cu_result fill_2d(kb_cu_address to, size_t pitch, unsigned int value, size_t width,
                            size_t height, kb_cu_stream stream)
{
    for (size_t row = 0; row < height; row++)
        (void)fill_32(to + row * pitch, value, width, stream);
    return KB_CU_SUCCESS;
}

SUCCEEDS(copy, (kb_cu_address to, kb_cu_address from, size_t size, kb_cu_stream stream),
         ((void)stream, memmove(at(to), at(from), size), kb_unwritten_copy(at(to), at(from), size)))
SUCCEEDS(copy_out, (void *to, kb_cu_address from, size_t size, kb_cu_stream stream),
         ((void)stream, memcpy(to, at(from), size)))
SUCCEEDS(copy_in, (kb_cu_address to, const void *from, size_t size, kb_cu_stream stream),
         ((void)stream, memcpy(at(to), from, size), kb_unwritten_fill(at(to), size)))

/* Plans call nothing else. */
const kb_driver kb_hostcuda_driver = {
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

kb_concurrency kb_hostcuda_concurrency(const void *step, const kb_frame *frame)
{
    const kb_launch_step *given = step;
    if (frame->driver != &kb_hostcuda_driver)
        return KB_CONCURRENT_NEVER;
    const kb_hostcuda_code *code = (const kb_hostcuda_code *)(const void *)kb_function_ready(
        given->function, frame->device, given->shared);
    if (!code || code->cooperative || code->threads.checked)
        return KB_CONCURRENT_NEVER;
    return code->concurrent ? KB_CONCURRENT : KB_CONCURRENT_IF_TOLD;
}

void kb_hostcuda_enter(kb_frame *frame)
{
    frame->driver = &kb_hostcuda_driver;
    frame->device = KB_DEVICE_HOST;
    frame->stream = (void *)frame->xla;
}
