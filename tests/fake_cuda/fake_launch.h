/* Owns the functions of the driver that load kernels and enqueue work. Part of fake_cuda.c alone.
 */
#ifndef FAKE_LAUNCH_H
#define FAKE_LAUNCH_H

#include "fake_state.h"

static kb_cu_result cuLibraryLoadData(kb_cu_library *loaded, const void *image, void *jit_options,
                                      void **jit_values, unsigned int n_jit, void *options,
                                      void **values, unsigned int n_options)
{
    kb_cu_result code = begin(CALL_cuLibraryLoadData);
    *loaded = (kb_cu_library)-1; /* nobody may use it after a failure */
    if (code != KB_CU_SUCCESS)
        return code;
    (void)jit_options, (void)jit_values, (void)options, (void)values;
    if (n_jit || n_options)
        die("cuLibraryLoadData was given options, which the fake has not");
    if (forbids())
        return end(CAPTURE_UNSUPPORTED);
    fake_kernel *kernels = image ? fake_read_image(image) : NULL;
    if (!kernels)
        return end(image ? INVALID_IMAGE : KB_CU_INVALID_VALUE);
    library *l = fake_checked(calloc(1, sizeof *l));
    *l = (library){state.libraries, kernels};
    for (fake_kernel *k = kernels; k; k = k->next)
        k->code = fake_find_code(state.codes, image, k->entry);
    state.libraries = l;
    *loaded = (kb_cu_library)l;
    return end(KB_CU_SUCCESS);
}

static library **find_library(const void *handle)
{
    library **l = &state.libraries;
    while (*l && *l != handle)
        l = &(*l)->next;
    return l;
}

static kb_cu_result cuLibraryUnload(kb_cu_library handle)
{
    kb_cu_result code = begin(CALL_cuLibraryUnload);
    if (code != KB_CU_SUCCESS)
        return code;
    library **at = find_library(handle), *l = *at;
    if (!l)
        return end(INVALID_HANDLE);
    *at = l->next;
    fake_kernels_free(l->kernels);
    free(l);
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuLibraryGetKernel(kb_cu_kernel *kernel, kb_cu_library handle, const char *name)
{
    kb_cu_result code = begin(CALL_cuLibraryGetKernel);
    if (code != KB_CU_SUCCESS)
        return code;
    const library *l = *find_library(handle);
    if (!l)
        return end(INVALID_HANDLE);
    fake_kernel *k = l->kernels;
    while (k && strcmp(k->entry, name) != 0)
        k = k->next;
    *kernel = (kb_cu_kernel)k;
    return end(k ? KB_CU_SUCCESS : NOT_FOUND);
}

static kb_cu_result cuKernelGetFunction(kb_cu_function *function, kb_cu_kernel handle)
{
    kb_cu_result code = begin(CALL_cuKernelGetFunction);
    if (code != KB_CU_SUCCESS)
        return code;
    fake_kernel *k = find_kernel(handle);
    if (!k)
        return end(INVALID_HANDLE);
    if (!current_context())
        return end(KB_CU_INVALID_CONTEXT);
    int device = current_context()->device;
    if (!k->loaded[device] && forbids())
        return end(CAPTURE_UNSUPPORTED);
    k->loaded[device] = true;
    *function = (kb_cu_function)&k->functions[device];
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuKernelGetParamInfo(kb_cu_kernel handle, size_t index, size_t *offset,
                                         size_t *size)
{
    kb_cu_result code = begin(CALL_cuKernelGetParamInfo);
    if (code != KB_CU_SUCCESS)
        return code;
    const fake_kernel *k = find_kernel(handle);
    if (!k)
        return end(INVALID_HANDLE);
    if (index >= k->n_params)
        return end(KB_CU_INVALID_VALUE);
    *offset = k->params[index].offset;
    *size = k->params[index].size;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuKernelGetAttribute(int *value, int attribute, kb_cu_kernel handle,
                                         kb_cu_device device)
{
    enum { REGISTERS = 32, THREADS = 1024 };
    kb_cu_result code = begin(CALL_cuKernelGetAttribute);
    if (code != KB_CU_SUCCESS)
        return code;
    const fake_kernel *k = find_kernel(handle);
    if (!k || device < 0 || device >= state.n_devices)
        return end(k ? INVALID_DEVICE : INVALID_HANDLE);
    switch (attribute) {
    case KB_CU_KERNEL_MAX_THREADS:
        *value = THREADS;
        break;
    case KB_CU_KERNEL_STATIC_SHARED:
        *value = (int)k->static_shared;
        break;
    case KB_CU_KERNEL_LOCAL:
    case KB_CU_KERNEL_NON_PORTABLE_CLUSTER:
        *value = 0;
        break;
    case KB_CU_KERNEL_REGISTERS:
        *value = REGISTERS;
        break;
    case KB_CU_KERNEL_MAX_DYNAMIC_SHARED:
        *value = k->max_shared[device];
        break;
    default:
        return end(KB_CU_INVALID_VALUE);
    }
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuKernelSetAttribute(int attribute, int value, kb_cu_kernel handle,
                                         kb_cu_device device)
{
    kb_cu_result code = begin(CALL_cuKernelSetAttribute);
    if (code != KB_CU_SUCCESS)
        return code;
    fake_kernel *k = find_kernel(handle);
    if (!k || device < 0 || device >= state.n_devices)
        return end(k ? INVALID_DEVICE : INVALID_HANDLE);
    if (attribute != KB_CU_KERNEL_MAX_DYNAMIC_SHARED || value < 0 ||
        value > SHARED_OPTIN - (int)k->static_shared)
        return end(KB_CU_INVALID_VALUE);
    k->max_shared[device] = value;
    return end(KB_CU_SUCCESS);
}

static int blocks_of_multiprocessor(size_t threads, size_t shared)
{
    enum { BLOCKS = 32, RESERVED = 1024 };
    size_t n = threads ? THREADS_OF_MULTIPROCESSOR / threads : 0;
    size_t by_shared = SHARED_OF_MULTIPROCESSOR / (shared + RESERVED);
    n = n < by_shared ? n : by_shared;
    return (int)(n < BLOCKS ? n : BLOCKS);
}

static kb_cu_result cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block,
                                                     kb_cu_function handle,
                                                     size_t (*shared_of_block)(int), size_t shared,
                                                     int limit)
{
    kb_cu_result code = begin(CALL_cuOccupancyMaxPotentialBlockSize);
    if (code != KB_CU_SUCCESS)
        return code;
    if (shared_of_block || limit)
        die("cuOccupancyMaxPotentialBlockSize was given what the fake does not know");
    const fake_function *f = find_function(handle, 0);
    if (!f)
        return end(INVALID_HANDLE);
    *block = shared > (size_t)f->kernel->max_shared[f->device] ? 0 : state.best_block;
    *min_grid = MULTIPROCESSORS * blocks_of_multiprocessor((size_t)*block, shared);
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n_blocks,
                                                                kb_cu_function handle, int block,
                                                                size_t shared)
{
    kb_cu_result code = begin(CALL_cuOccupancyMaxActiveBlocksPerMultiprocessor);
    if (code != KB_CU_SUCCESS)
        return code;
    const fake_function *f = find_function(handle, 0);
    if (!f || block <= 0)
        return end(f ? KB_CU_INVALID_VALUE : INVALID_HANDLE);
    bool fits = block <= 1024 && shared <= (size_t)f->kernel->max_shared[f->device];
    *n_blocks = fits ? blocks_of_multiprocessor((size_t)block, shared) : 0;
    return end(KB_CU_SUCCESS);
}

static int read_attributes(const kb_cu_launch *how, fake_cuda_launch *log)
{
    for (uint32_t i = 0; i < how->n_attributes; i++) {
        const kb_cu_launch_attribute *a = &how->attributes[i];
        if (a->id == KB_CU_LAUNCH_COOPERATIVE)
            log->cooperative = a->value.cooperative != 0;
        else if (a->id == KB_CU_LAUNCH_PROGRAMMATIC_STREAM)
            log->overlaps = a->value.programmatic_stream != 0;
        else if (a->id == KB_CU_LAUNCH_CLUSTER)
            memcpy(log->cluster, a->value.cluster, sizeof log->cluster);
        else
            return KB_CU_INVALID_VALUE;
    }
    return 0;
}

/* Grid, block, cluster and shared memory, as the driver checks them: 0, or its code. */
static int check_launch(const fake_cuda_launch *l, const fake_kernel *k)
{
    enum { PORTABLE_CLUSTER = 8, THREADS = 1024 };
    static const uint32_t grid_max[] = {INT32_MAX, 65535, 65535}, block_max[] = {1024, 1024, 64};
    uint64_t threads = 1, blocks = 1, cluster = 1;
    for (int i = 0; i < 3; i++) {
        if (l->grid[i] == 0 || l->grid[i] > grid_max[i] || l->block[i] == 0 ||
            l->block[i] > block_max[i])
            return KB_CU_INVALID_VALUE;
        threads *= l->block[i];
        blocks *= l->grid[i];
        cluster *= l->cluster[i];
        if (l->cluster[i] && l->grid[i] % l->cluster[i])
            return INVALID_CLUSTER;
    }
    bool clusters = l->cluster[0] || l->cluster[1] || l->cluster[2];
    if (threads > THREADS || l->shared > (uint32_t)k->max_shared[l->device])
        return KB_CU_INVALID_VALUE;
    if (clusters && (cluster == 0 || cluster > PORTABLE_CLUSTER))
        return INVALID_CLUSTER;
    uint64_t at_once =
        (uint64_t)MULTIPROCESSORS * (uint64_t)blocks_of_multiprocessor(threads, l->shared);
    return l->cooperative && blocks > at_once ? COOPERATIVE_TOO_LARGE : 0;
}

static uint32_t words_of(const fake_param *param)
{
    return (param->size + 7) / 8;
}

/* A parameter of more than eight bytes takes several words. */
static void read_parameters(operation *o, const fake_kernel *k, void **parameters)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n_params; i++)
        n += words_of(&k->params[i]);
    o->words = fake_checked(calloc(n + 1, sizeof *o->words));
    o->launch.n_words = n;
    uint64_t *word = o->words;
    for (uint32_t i = 0; i < k->n_params; i++) {
        if (!parameters[i])
            die("launch of %s: parameter %u is NULL", k->entry, i);
        memcpy(word, parameters[i], k->params[i].size);
        word += words_of(&k->params[i]);
    }
    memcpy(o->launch.words, o->words, (n < FAKE_CUDA_WORDS ? n : FAKE_CUDA_WORDS) * sizeof *word);
}

static void log_launch(const fake_cuda_launch *l)
{
    if (state.n_launches < LOG_MAX) {
        fake_cuda_launch *copy = fake_checked(malloc(sizeof *copy));
        *copy = *l;
        state.launches[state.n_launches] = copy;
    }
    state.n_launches++;
}

static void go_wrong(const char *entry)
{
    if (!state.fault_entry || (*state.fault_entry && strcmp(state.fault_entry, entry) != 0))
        return;
    state.fault = state.fault_code;
    free(state.fault_entry);
    state.fault_entry = NULL;
}

static int check_all(operation *o, const kb_cu_launch *how, const fake_function *f,
                     void **parameters, void **extra)
{
    fake_cuda_launch *l = &o->launch;
    memcpy(l->grid, how->grid, sizeof l->grid);
    memcpy(l->block, how->block, sizeof l->block);
    l->shared = how->shared;
    l->stream = how->stream;
    l->device = f->device;
    snprintf(l->entry, sizeof l->entry, "%.*s", FAKE_CUDA_NAME - 1, f->kernel->entry);
    if (extra || (f->kernel->n_params && !parameters))
        return KB_CU_INVALID_VALUE;
    if (f->device != device_of(how->stream))
        return INVALID_HANDLE;
    int code = read_attributes(how, l);
    if (!code)
        code = check_launch(l, f->kernel);
    if (!code && !f->kernel->loaded[l->device] && forbids())
        code = CAPTURE_UNSUPPORTED;
    return code;
}

static kb_cu_result cuLaunchKernelEx(const kb_cu_launch *how, kb_cu_function handle,
                                     void **parameters, void **extra)
{
    kb_cu_result code = begin(CALL_cuLaunchKernelEx);
    if (code != KB_CU_SUCCESS)
        return code;
    int wrong = check_stream(how->stream);
    fake_function *f = wrong ? NULL : find_function(handle, device_of(how->stream));
    if (!f)
        return end(wrong ? wrong : INVALID_HANDLE);
    operation *o = fake_checked(calloc(1, sizeof *o));
    o->type = KB_CU_NODE_KERNEL;
    wrong = check_all(o, how, f, parameters, extra);
    if (wrong) {
        free_operations(o);
        return end(wrong);
    }
    f->kernel->loaded[f->device] = true;
    o->entry = copy_text(f->kernel->entry);
    o->code = f->kernel->code;
    o->launch.does = find_double(o, &(twin){0});
    read_parameters(o, f->kernel, parameters);
    const stream *s = find_stream(how->stream);
    o->launch.captured = s && s->capture == KB_CU_CAPTURE_ACTIVE;
    log_launch(&o->launch);
    go_wrong(o->entry);
    return enqueue(o, how->stream);
}

#endif
