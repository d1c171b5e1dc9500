/* Owns the code of GPU functions, one copy for each content; the table of functions by digest, with
 * the number of their holders, and their release; their loading into the driver, for each device;
 * and the question for the occupancy of an image that may not be loaded. */
#include "cuda/kb_function.h"

#include <search.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kb_code {
    size_t n_holds; /* under the lock of code */
    size_t size;
    const void *bytes;                             /* the copy */
    pthread_mutex_t loading;                       /* held while the driver loads */
    kb_cu_library library;                         /* under it; NULL until loaded */
    kb_cu_result (*unload)(kb_cu_library library); /* of the driver that has loaded it */
    alignas(16) char copy[];
};

static pthread_mutex_t code_lock = PTHREAD_MUTEX_INITIALIZER;
static void *codes; /* a tree of search.h, under the lock of code */
struct kb_function_stats kb_function_count;

static int by_content(const void *a, const void *b)
{
    const kb_code *one = a, *other = b;
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    return memcmp(one->bytes, other->bytes, one->size);
}

static kb_code *add_code(const void *bytes, size_t size)
{
    kb_code *c = calloc(1, sizeof *c + size + 1); /* a NUL ends images that are text */
    if (!c)
        return NULL;
    c->loading = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    c->size = size;
    c->bytes = memcpy(c->copy, bytes, size);
    if (tsearch(c, &codes, by_content)) {
        kb_function_count.images++;
        kb_function_count.bytes += sizeof *c + size;
        return c;
    }
    free(c);
    return NULL;
}

kb_code *kb_code_hold(const void *bytes, size_t size)
{
    const kb_code wanted = {.size = size, .bytes = bytes};
    pthread_mutex_lock(&code_lock);
    kb_code *const *found = tfind(&wanted, &codes, by_content);
    kb_code *c = found ? *found : add_code(bytes, size);
    if (c)
        c->n_holds++;
    pthread_mutex_unlock(&code_lock);
    return c;
}

void kb_code_drop(kb_code *code)
{
    pthread_mutex_lock(&code_lock);
    bool last = --code->n_holds == 0;
    if (last) {
        (void)tdelete(code, &codes, by_content);
        kb_function_count.images--;
        kb_function_count.bytes -= sizeof *code + code->size;
    }
    pthread_mutex_unlock(&code_lock);
    if (!last)
        return;
    if (code->library)
        (void)code->unload(code->library);
    free(code);
}

const void *kb_code_bytes(const kb_code *code)
{
    return code->bytes;
}

/* Loads the code once, in the first thread that asks; other threads that ask for it wait. No other
 * lock is held meanwhile. After a failure the next call tries again.
 * `what` names the operation. */
static kb_status load_code(kb_code *code, const kb_driver *cu, const char *what,
                           kb_cu_library *library, kb_error *err)
{
    kb_cu_result result = KB_CU_SUCCESS;
    pthread_mutex_lock(&code->loading);
    if (!code->library) {
        result = cu->cuLibraryLoadData(&code->library, code->bytes, NULL, NULL, 0, NULL, NULL, 0);
        if (result != KB_CU_SUCCESS)
            code->library = NULL;
        code->unload = cu->cuLibraryUnload;
    }
    *library = code->library;
    pthread_mutex_unlock(&code->loading);
    return result == KB_CU_SUCCESS ? KB_OK
                                   : kb_driver_fail(err, cu, result, "cuLibraryLoadData", what);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *functions; /* a tree of search.h, under the lock */

static int by_digest(const void *a, const void *b)
{
    const kb_function *one = a, *other = b;
    return memcmp(one->digest, other->digest, KB_DIGEST_SIZE);
}

static void release(kb_function *f)
{
    for (uint32_t i = 0; i < f->n_images; i++)
        if (f->codes[i])
            kb_code_drop(f->codes[i]);
    free(f);
}

static bool hold_codes(kb_function *f, const kb_function *from, kb_image *images)
{
    for (uint32_t i = 0; i < from->n_images; i++) {
        f->codes[i] = kb_code_hold(from->images[i].bytes, from->images[i].size);
        if (!f->codes[i])
            return false;
        images[i] = from->images[i];
        images[i].bytes = kb_code_bytes(f->codes[i]);
    }
    return true;
}

/* One block: the function, its images' table, the sizes of parameters, the entry. */
static kb_function *copy(const kb_function *from)
{
    size_t images = from->n_images * sizeof(kb_image);
    size_t sizes = from->n_sizes * sizeof *from->sizes;
    size_t entry = strlen(from->entry) + 1;
    size_t size = sizeof(kb_function) + images + sizes + entry;
    kb_function *f = calloc(1, size);
    if (!f)
        return NULL;
    f->loading = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    char *at = (char *)(f + 1);
    memcpy(f->digest, from->digest, KB_DIGEST_SIZE);
    f->size = size;
    f->n_words = from->n_words;
    f->n_sizes = from->n_sizes;
    f->shared = from->shared;
    f->n_images = from->n_images;
    f->images = (kb_image *)at;
    if (sizes)
        f->sizes = memcpy(at + images, from->sizes, sizes);
    f->entry = memcpy(at + images + sizes, from->entry, entry);
    if (hold_codes(f, from, (kb_image *)at))
        return f;
    release(f);
    return NULL;
}

static kb_function *add(const kb_function *from)
{
    kb_function *f = copy(from);
    if (!f)
        return NULL;
    if (!tsearch(f, &functions, by_digest)) {
        release(f);
        return NULL;
    }
    kb_function_count.functions++;
    kb_function_count.bytes += f->size;
    return f;
}

static bool equal(const kb_function *a, const kb_function *b)
{
    bool same = a->n_words == b->n_words && a->n_sizes == b->n_sizes && a->shared == b->shared &&
                a->n_images == b->n_images && strcmp(a->entry, b->entry) == 0;
    for (uint32_t i = 0; same && i < a->n_sizes; i++)
        same = a->sizes[i] == b->sizes[i];
    for (uint32_t i = 0; same && i < a->n_images; i++)
        same = a->images[i].cc == b->images[i].cc && a->images[i].size == b->images[i].size &&
               memcmp(a->images[i].bytes, b->images[i].bytes, a->images[i].size) == 0;
    return same;
}

kb_status kb_function_hold(const kb_function *from, kb_function **function, kb_error *err)
{
    pthread_mutex_lock(&lock);
    kb_function *const *found = tfind(from, &functions, by_digest);
    kb_function *f = found ? *found : add(from);
    bool differs = found && !equal(f, from);
    if (f && !differs)
        f->n_holds++;
    pthread_mutex_unlock(&lock);
    *function = differs ? NULL : f;
    if (differs)
        return kb_error_set(err, KB_ALREADY_EXISTS,
                            "the image of %s differs from one of the same digest: the program is "
                            "damaged",
                            from->entry);
    return f ? KB_OK
             : kb_error_set(err, KB_RESOURCE_EXHAUSTED, "no memory for the image of %s",
                            from->entry);
}

void kb_function_drop(kb_function *function)
{
    pthread_mutex_lock(&lock);
    bool last = --function->n_holds == 0;
    if (last) {
        (void)tdelete(function, &functions, by_digest);
        kb_function_count.functions--;
        kb_function_count.bytes -= function->size;
    }
    pthread_mutex_unlock(&lock);
    if (last)
        release(function);
}

void kb_function_free_all(void)
{
    pthread_mutex_lock(&lock);
    while (functions) {
        kb_function *f = *(kb_function **)functions;
        (void)tdelete(f, &functions, by_digest);
        kb_function_count.functions--;
        kb_function_count.bytes -= f->size;
        release(f);
    }
    pthread_mutex_unlock(&lock);
    kb_function_count.loads = 0;
}

/* The newest image that a device of this capability runs: of its major version, not above it. An
 * image of capability 0 holds several, of which the driver chooses. */
static int choose_image(const kb_function *f, uint32_t cc)
{
    int best = -1;
    for (uint32_t i = 0; i < f->n_images; i++)
        if ((f->images[i].cc == 0 || f->images[i].cc / 10 == cc / 10) && f->images[i].cc <= cc &&
            (best < 0 || f->images[i].cc > f->images[best].cc))
            best = (int)i;
    return best;
}

static kb_status choose(const kb_function *f, const kb_driver *cu, kb_cu_device device,
                        const char *what, int *image, kb_error *err)
{
    int major = 0, minor = 0;
    kb_cu_result code = cu->cuDeviceGetAttribute(&major, KB_CU_DEVICE_CC_MAJOR, device);
    if (code == KB_CU_SUCCESS)
        code = cu->cuDeviceGetAttribute(&minor, KB_CU_DEVICE_CC_MINOR, device);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuDeviceGetAttribute", what);
    *image = choose_image(f, (uint32_t)(10 * major + minor));
    if (*image >= 0)
        return KB_OK;
    char there[KB_IMAGES_MAX * 8] = ""; /* an image takes six characters or fewer */
    for (uint32_t i = 0, n = 0; i < f->n_images; i++)
        n += (uint32_t)snprintf(there + n, sizeof there - n, "%s%u.%u", i ? ", " : "",
                                f->images[i].cc / 10 % 100, f->images[i].cc % 10);
    return kb_error_set(err, KB_FAILED_PRECONDITION,
                        "%s: compiled for compute capability %s, and GPU %d has %d.%d; lower the "
                        "program again on this machine, or name its architecture with "
                        "kernbridge.config.set_cuda_architectures or KERNBRIDGE_CUDA_ARCHS",
                        what, there, device, major, minor);
}

/* Parameters must be what launches hand over. Words lie one after the other. A parameter that the
 * kernel does not have is an invalid value to the driver. */
static kb_status check_layout(const kb_function *f, const kb_driver *cu, kb_cu_kernel kernel,
                              const char *what, kb_error *err)
{
    uint32_t n = f->n_sizes ? f->n_sizes : f->n_words;
    size_t offset, size;
    if (!cu->cuKernelGetParamInfo)
        return KB_OK;
    for (uint32_t i = 0; i < n; i++) {
        kb_cu_result code = cu->cuKernelGetParamInfo(kernel, i, &offset, &size);
        size_t expected = f->n_sizes ? f->sizes[i] : KB_WORD_SIZE;
        if (code != KB_CU_SUCCESS && code != KB_CU_INVALID_VALUE)
            return kb_driver_fail(err, cu, code, "cuKernelGetParamInfo", what);
        if (code != KB_CU_SUCCESS || size != expected ||
            (f->n_sizes == 0 && offset != (size_t)KB_WORD_SIZE * i))
            return kb_error_set(err, KB_INTERNAL,
                                "%s: parameter %u of %s is not the word that was expected: the "
                                "image is damaged, or of another version of kernbridge",
                                what, i, f->entry);
    }
    if (cu->cuKernelGetParamInfo(kernel, n, &offset, &size) == KB_CU_SUCCESS)
        return kb_error_set(err, KB_INTERNAL, "%s: %s takes more than the %u parameters expected",
                            what, f->entry, n);
    return KB_OK;
}

/* Under the function's lock. */
static kb_status raise_shared(kb_function *f, const kb_driver *cu, kb_cu_device device,
                              kb_cu_kernel kernel, uint32_t shared, const char *what, kb_error *err)
{
    _Atomic(uint32_t) *allowed = &f->loaded[device].shared;
    if (shared <= atomic_load(allowed))
        return KB_OK;
    kb_cu_result code =
        cu->cuKernelSetAttribute(KB_CU_KERNEL_MAX_DYNAMIC_SHARED, (int)shared, kernel, device);
    if (code == KB_CU_SUCCESS) {
        atomic_store(allowed, shared);
        return KB_OK;
    }
    int limit = 0;
    (void)cu->cuDeviceGetAttribute(&limit, KB_CU_DEVICE_MAX_SHARED_OPTIN, device);
    kb_driver_fail(err, cu, code, "cuKernelSetAttribute", what);
    kb_error_append(
        err,
        "; %u bytes of dynamic shared memory were asked for, the device has %d a block, "
        "less what the kernel declares statically",
        shared, limit);
    return err->status;
}

/* Asks for the best block, for which the kernel must be allowed what it reckons with: else the
 * driver's answer is 0. */
static kb_status choose_block(kb_function *f, const kb_driver *cu, kb_cu_device device,
                              kb_cu_kernel kernel, kb_cu_function function, const char *what,
                              kb_error *err)
{
    int allowed = 0, min_grid = 0, block = 0;
    kb_cu_result code =
        cu->cuKernelGetAttribute(&allowed, KB_CU_KERNEL_MAX_DYNAMIC_SHARED, kernel, device);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuKernelGetAttribute", what);
    atomic_store(&f->loaded[device].shared, allowed > 0 ? (uint32_t)allowed : 0);
    kb_status s = raise_shared(f, cu, device, kernel, f->shared, what, err);
    if (s != KB_OK)
        return s;
    code = cu->cuOccupancyMaxPotentialBlockSize(&min_grid, &block, function, NULL, f->shared, 0);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuOccupancyMaxPotentialBlockSize", what);
    if (block <= 0)
        return kb_error_set(err, KB_INTERNAL, "%s: no block of %s fits on GPU %d", what, f->entry,
                            device);
    f->loaded[device].best_block = block;
    return KB_OK;
}

/* Under the function's lock alone. Getting the function of the current context makes the driver
 * load the code now, and not at the first launch, which may be inside a capture. */
static kb_status load(kb_function *f, const kb_driver *cu, kb_cu_device device, const char *what,
                      kb_error *err)
{
    int image = 0;
    kb_status s = choose(f, cu, device, what, &image, err);
    kb_cu_library library = NULL;
    if (s == KB_OK)
        s = load_code(f->codes[image], cu, what, &library, err);
    if (s != KB_OK)
        return s;
    kb_cu_kernel kernel;
    kb_cu_result code = cu->cuLibraryGetKernel(&kernel, library, f->entry);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuLibraryGetKernel", what);
    s = check_layout(f, cu, kernel, what, err);
    if (s != KB_OK)
        return s;
    kb_cu_function function;
    code = cu->cuKernelGetFunction(&function, kernel);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuKernelGetFunction", what);
    s = choose_block(f, cu, device, kernel, function, what, err);
    if (s != KB_OK)
        return s;
    atomic_store_explicit(&f->loaded[device].kernel, kernel, memory_order_release);
    kb_function_count.loads++;
    return KB_OK;
}

kb_status kb_function_load(kb_function *function, const kb_driver *cu, kb_cu_device device,
                           const char *what, kb_cu_kernel *kernel, kb_error *err)
{
    *kernel = kb_function_kernel(function, device);
    if (*kernel)
        return KB_OK;
    pthread_mutex_lock(&function->loading);
    kb_status s = KB_OK;
    if (!kb_function_kernel(function, device))
        s = load(function, cu, device, what, err);
    pthread_mutex_unlock(&function->loading);
    *kernel = kb_function_kernel(function, device);
    return s;
}

kb_status kb_function_allow_shared(kb_function *function, const kb_driver *cu, kb_cu_device device,
                                   uint32_t shared, const char *what, kb_error *err)
{
    if (shared <= atomic_load(&function->loaded[device].shared))
        return KB_OK;
    pthread_mutex_lock(&function->loading);
    kb_cu_kernel kernel = kb_function_kernel(function, device);
    kb_status s = raise_shared(function, cu, device, kernel, shared, what, err);
    pthread_mutex_unlock(&function->loading);
    return s;
}

static kb_cu_result ask_share(const kb_driver *cu, kb_cu_function function, int threads,
                              uint32_t shared, double *share)
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
        code = ask_share(cu, function, threads, shared, share);
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
