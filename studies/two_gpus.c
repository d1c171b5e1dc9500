/* The floor of two threads that drive two GPUs: launches of an empty kernel by the driver alone.
 * Compiled by studies/two_gpus.py against src/. */
#define _POSIX_C_SOURCE 200809L

#include "abi/kb_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { GPUS = 2 };

typedef struct driver {
    kb_cu_result (*init)(unsigned flags);
    kb_cu_result (*retain)(kb_cu_context *context, kb_cu_device device);
    kb_cu_result (*set_current)(kb_cu_context context);
    kb_cu_result (*load)(kb_cu_library *library, const void *image, void *jit_options,
                         void **jit_values, unsigned n_jit, void *options, void **values,
                         unsigned n_options);
    kb_cu_result (*get_kernel)(kb_cu_kernel *kernel, kb_cu_library library, const char *name);
    kb_cu_result (*get_function)(kb_cu_function *function, kb_cu_kernel kernel);
    kb_cu_result (*create_stream)(kb_cu_stream *stream, unsigned flags);
    kb_cu_result (*launch)(const kb_cu_launch *how, kb_cu_function function, void **parameters,
                           void **extra);
    kb_cu_result (*wait)(kb_cu_stream stream);
} driver;

typedef struct gpu {
    kb_cu_context context;
    kb_cu_stream stream;
    kb_cu_function function; /* of this context */
} gpu;

typedef struct job {
    const gpu *gpu;
    kb_cu_function function;
    int n_launches;
    bool waits; /* after each launch */
    kb_cu_result code;
    pthread_barrier_t *start;
} job;

static driver cu;
static gpu gpus[GPUS];
static kb_cu_kernel kernel; /* of every context */

static const char empty_kernel[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                   ".visible .entry nothing(.param .u64 a, .param .u64 n)\n"
                                   "{\n    ret;\n}\n";

static bool find(void *library, const char *name, void *slot)
{
    void *symbol = dlsym(library, name);
    memcpy(slot, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return library && find(library, "cuInit", &cu.init) &&
           find(library, "cuDevicePrimaryCtxRetain", &cu.retain) &&
           find(library, "cuCtxSetCurrent", &cu.set_current) &&
           find(library, "cuLibraryLoadData", &cu.load) &&
           find(library, "cuLibraryGetKernel", &cu.get_kernel) &&
           find(library, "cuKernelGetFunction", &cu.get_function) &&
           find(library, "cuStreamCreate", &cu.create_stream) &&
           find(library, "cuLaunchKernelEx", &cu.launch) &&
           find(library, "cuStreamSynchronize", &cu.wait);
}

/* Prepares both GPUs. Returns NULL, or what failed. */
const char *two_gpus_prepare(void);
const char *two_gpus_prepare(void)
{
    kb_cu_library library;
    if (!open_driver())
        return "libcuda.so.1 is not found, or too old";
    if (cu.init(0) || cu.load(&library, empty_kernel, NULL, NULL, 0, NULL, NULL, 0) ||
        cu.get_kernel(&kernel, library, "nothing"))
        return "the empty kernel cannot be loaded";
    for (int i = 0; i < GPUS; i++)
        if (cu.retain(&gpus[i].context, i) || cu.set_current(gpus[i].context) ||
            cu.create_stream(&gpus[i].stream, 1) || cu.get_function(&gpus[i].function, kernel))
            return "there are no two GPUs";
    return NULL;
}

static void *work(void *argument)
{
    job *j = argument;
    uint64_t words[2] = {0};
    void *parameters[] = {&words[0], &words[1]};
    kb_cu_launch how = {.grid = {4, 1, 1}, .block = {256, 1, 1}, .stream = j->gpu->stream};
    j->code = cu.set_current(j->gpu->context);
    pthread_barrier_wait(j->start);
    for (int i = 0; i < j->n_launches && j->code == KB_CU_SUCCESS; i++) {
        j->code = cu.launch(&how, j->function, parameters, NULL);
        if (j->waits && j->code == KB_CU_SUCCESS)
            j->code = cu.wait(j->gpu->stream);
    }
    if (j->code == KB_CU_SUCCESS)
        j->code = cu.wait(j->gpu->stream);
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds until each of these GPUs (bits of `mask`) has run the launches that a thread of its own
 * makes; negative after a failure. `by_kernel` launches by the handle that is valid in every
 * context, not by that of the thread's context. */
double two_gpus_run(unsigned mask, int by_kernel, int waits, int n_launches);
double two_gpus_run(unsigned mask, int by_kernel, int waits, int n_launches)
{
    pthread_barrier_t start;
    pthread_t threads[GPUS];
    job jobs[GPUS];
    unsigned n = (mask & 1) + (mask >> 1 & 1);
    if (pthread_barrier_init(&start, NULL, n + 1) != 0)
        return -1;
    for (int i = 0; i < GPUS; i++) {
        jobs[i] = (job){.gpu = &gpus[i], .n_launches = n_launches, .start = &start};
        jobs[i].waits = waits != 0;
        jobs[i].function = by_kernel ? (kb_cu_function)kernel : gpus[i].function;
        if (mask >> i & 1 && pthread_create(&threads[i], NULL, work, &jobs[i]) != 0)
            return -1;
    }
    pthread_barrier_wait(&start);
    double begin = now();
    kb_cu_result code = KB_CU_SUCCESS;
    for (int i = 0; i < GPUS; i++)
        if (mask >> i & 1 && (pthread_join(threads[i], NULL) != 0 || jobs[i].code))
            code = jobs[i].code ? jobs[i].code : KB_CU_INVALID_VALUE;
    double seconds = now() - begin;
    pthread_barrier_destroy(&start);
    return code == KB_CU_SUCCESS ? seconds : -1;
}
