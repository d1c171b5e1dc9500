/* Owns what the fake driver remembers: calls, failures, devices, streams, libraries, graphs, twins
 * and the log of launches. Part of fake_cuda.c alone; all under one lock, but what a twin does. */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#include "cuda/kb_driver.h"

#include "fake_code.h"
#include "fake_constants.h"
#include "fake_cuda.h"
#include "fake_image.h"

#include <pthread.h>
#include <stdarg.h>

enum {
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    OUT_OF_RESOURCES = 701,
    COOPERATIVE_TOO_LARGE = 720,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    INVALID_CLUSTER = 912,
    FAULT_FIRST = 700,
    FAULT_LAST = 719,
    LAUNCH_FAILED = 719,
    CAPTURE_SPOILT = 2, /* a capture's status, beside KB_CU_CAPTURE_ACTIVE */
    NODE_COPY = 1,
    NODE_FILL = 2,
    LOG_MAX = 16384,
    FAILURES_MAX = 64,
    STACK_MAX = 64,
    MULTIPROCESSORS = 132,
    THREADS_OF_MULTIPROCESSOR = 2048,
    SHARED_OF_MULTIPROCESSOR = 228 * 1024,
    SHARED_OPTIN = 227 * 1024,
};

enum {
#define FAKE_CALL(name, parameters)                   CALL_##name,
#define FAKE_OPTIONAL_CALL(name, version, parameters) CALL_##name,
    KB_DRIVER_LIST(FAKE_CALL) KB_DRIVER_OPTIONAL_LIST(FAKE_OPTIONAL_CALL) CALLS
};

static const char *const call_names[] = {
#define FAKE_NAME(name, parameters)                   #name,
#define FAKE_OPTIONAL_NAME(name, version, parameters) #name,
    KB_DRIVER_LIST(FAKE_NAME) KB_DRIVER_OPTIONAL_LIST(FAKE_OPTIONAL_NAME)};

/* What is enqueued: run at once, or the node of a graph. */
typedef struct operation {
    struct operation *next;
    int type; /* of a node */
    fake_cuda_launch launch;
    char *entry;
    uint64_t *words;
    const fake_code *code; /* for the CPU; or NULL */
    kb_cu_address to, from;
    size_t pitch, width, height, item_size; /* in bytes, but width and height */
    unsigned int value;
} operation;

typedef struct stream {
    struct stream *next;
    int device;
    int capture;          /* status */
    operation *recording; /* the capture's nodes */
    operation *recorded;  /* those of the last that ended */
} stream;

typedef struct library {
    struct library *next;
    fake_kernel *kernels;
} library;

typedef struct twin {
    struct twin *next;
    char *entry;
    fake_cuda_twin *fn;
    void *data;
} twin;

typedef struct context {
    int device;
    int cc;
    int users; /* who retain it as the device's primary context */
} context;

static struct {
    pthread_mutex_t lock;
    bool initialized;
    int n_devices, best_block;
    context contexts[FAKE_DEVICES_MAX];
    stream *streams, *stand_in;
    library *libraries;
    twin *twins;
    fake_code *codes;
    long calls[CALLS];
    struct {
        int call, nth, code;
    } failures[FAILURES_MAX];
    int n_failures;
    struct {
        int nth, code;
        bool lasting;
        const char *failed; /* the function that failed so first */
    } any;
    char *fault_entry; /* whose next launch goes wrong, with this code; NULL: none */
    int fault_code;
    int fault; /* what every call answers; 0: none */
    char fault_text[KB_ERROR_CAPACITY];
    int n_launches;
    fake_cuda_launch *launches[LOG_MAX];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .n_devices = 2, .best_block = 256};

static _Thread_local struct {
    context *stack[STACK_MAX];
    int n;
    int capture_mode;
} current;

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("fake_cuda: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    abort();
}

static char *copy_text(const char *text)
{
    return strcpy(fake_checked(malloc(strlen(text) + 1)), text);
}

static int call_of(const char *function)
{
    for (int i = 0; i < CALLS; i++)
        if (strcmp(call_names[i], function) == 0)
            return i;
    die("kernbridge calls no function %s", function);
}

static bool is_fault(int code)
{
    return code >= FAULT_FIRST && code <= FAULT_LAST && code != OUT_OF_RESOURCES;
}

/* See fake_cuda_fail_any. */
static int any_failure(int call)
{
    if (!state.any.code || call == CALL_cuGetErrorName || call == CALL_cuGetErrorString)
        return 0;
    state.any.nth--;
    if (state.any.nth > 0 || (state.any.nth < 0 && !state.any.lasting))
        return 0;
    if (!state.any.failed)
        state.any.failed = call_names[call];
    return state.any.code;
}

/* Whether this call is one that was made to fail. */
static kb_cu_result failure_of(int call)
{
    int code = 0;
    for (int i = 0; i < state.n_failures; i++)
        if (state.failures[i].call == call && --state.failures[i].nth == 0)
            code = state.failures[i].code;
    if (code == 0)
        code = any_failure(call);
    if (is_fault(code))
        state.fault = code;
    return (kb_cu_result)code;
}

/* As an H200 does: what needs the GPU fails, what the driver knows by itself does not. */
static bool outlives_fault(int call)
{
    switch (call) {
    case CALL_cuDeviceGetCount:
    case CALL_cuDeviceGetAttribute:
    case CALL_cuDevicePrimaryCtxGetState:
    case CALL_cuDevicePrimaryCtxRetain:
    case CALL_cuDevicePrimaryCtxRelease:
    case CALL_cuCtxGetCurrent:
    case CALL_cuCtxPushCurrent:
    case CALL_cuCtxPopCurrent:
    case CALL_cuCtxGetDevice:
    case CALL_cuLibraryLoadData:
    case CALL_cuLibraryUnload:
        return true;
    default:
        return false;
    }
}

/* Every function of the driver begins with this; unless it gives a code, the lock is held then. */
static kb_cu_result begin(int call)
{
    bool early = call == CALL_cuGetErrorName || call == CALL_cuGetErrorString ||
                 call == CALL_cuInit || call == CALL_cuDriverGetVersion;
    pthread_mutex_lock(&state.lock);
    state.calls[call]++;
    kb_cu_result code = failure_of(call);
    if (code == KB_CU_SUCCESS && !state.initialized && !early)
        code = (kb_cu_result)NOT_INITIALIZED;
    if (code == KB_CU_SUCCESS && state.fault && !early && !outlives_fault(call))
        code = (kb_cu_result)state.fault;
    if (code != KB_CU_SUCCESS)
        pthread_mutex_unlock(&state.lock);
    return code;
}

/* And ends with this. */
static kb_cu_result end(int code)
{
    pthread_mutex_unlock(&state.lock);
    return (kb_cu_result)code;
}

static context *current_context(void)
{
    return current.n ? current.stack[current.n - 1] : NULL;
}

/* NULL and the driver's two small numbers are the default streams. */
static bool is_default(const void *handle)
{
    return (uintptr_t)handle <= 2;
}

static stream *find_stream(const void *handle)
{
    stream *s = state.streams;
    handle = handle ? handle : state.stand_in;
    while (s && s != handle)
        s = s->next;
    return s;
}

/* The device of a stream; -1 for a handle that is none. */
static int device_of(const void *handle)
{
    if (is_default(handle) && current_context())
        return current_context()->device;
    if (is_default(handle))
        return !handle && state.stand_in ? state.stand_in->device : 0;
    const stream *s = find_stream(handle);
    return s ? s->device : -1;
}

/* Whether what cannot be recorded is refused on this thread, since a stream captures. */
static bool forbids(void)
{
    if (current.capture_mode == KB_CU_CAPTURE_MODE_RELAXED)
        return false;
    for (stream *s = state.streams; s; s = s->next)
        if (s->capture)
            return true;
    return false;
}

static fake_kernel *find_kernel(const void *handle)
{
    for (library *l = state.libraries; l; l = l->next)
        for (fake_kernel *k = l->kernels; k; k = k->next)
            if (k == handle)
                return k;
    return NULL;
}

/* A launch takes a kernel, or the function that it is in one context. */
static fake_function *find_function(const void *handle, int device)
{
    for (library *l = state.libraries; l; l = l->next)
        for (fake_kernel *k = l->kernels; k; k = k->next) {
            const char *first = (const char *)k->functions, *at = handle;
            if (k == handle)
                return &k->functions[device];
            if (at >= first && at < first + sizeof k->functions)
                return (fake_function *)handle;
        }
    return NULL;
}

/* What stands for a kernel: its own twin, else its code, else the twin for all. */
static uint32_t find_double(const operation *o, twin *found)
{
    const twin *all = NULL;
    for (const twin *t = state.twins; t; t = t->next) {
        if (*t->entry && strcmp(t->entry, o->entry) == 0) {
            *found = *t;
            return t->fn ? FAKE_CUDA_TWIN : FAKE_CUDA_NOTHING;
        }
        all = *t->entry ? all : t;
    }
    if (o->code)
        return FAKE_CUDA_CODE;
    if (all)
        *found = *all;
    return all && all->fn ? FAKE_CUDA_TWIN : FAKE_CUDA_NOTHING;
}

static void free_operations(operation *o)
{
    while (o) {
        operation *next = o->next;
        free(o->entry);
        free(o->words);
        free(o);
        o = next;
    }
}

static void fill(const operation *o)
{
    for (size_t row = 0; row < o->height; row++) {
        char *at = (char *)(uintptr_t)o->to + row * o->pitch;
        for (size_t i = 0; i < o->width; i++, at += o->item_size) {
            uint8_t byte = (uint8_t)o->value;
            uint16_t half = (uint16_t)o->value;
            memcpy(at,
                   o->item_size == 1   ? (void *)&byte
                   : o->item_size == 2 ? (void *)&half
                                       : (void *)&o->value,
                   o->item_size);
        }
    }
}

static void run_code(const operation *o)
{
    const fake_cuda_launch *l = &o->launch;
    const uint32_t sizes[] = {l->grid[0],  l->grid[1],  l->grid[2],
                              l->block[0], l->block[1], l->block[2]};
    void **parameters = fake_checked(calloc(l->n_words + 1, sizeof *parameters));
    for (uint32_t i = 0; i < l->n_words; i++)
        parameters[i] = &o->words[i];
    kb_error err = {0};
    kb_status status = o->code->execute(o->code->digest, sizes, l->shared, parameters, NULL, &err);
    free(parameters);
    if (status != KB_OK && status != KB_INTERNAL)
        die("launch of %s: %s", o->entry, err.message);
    if (status == KB_OK)
        return;
    pthread_mutex_lock(&state.lock);
    state.fault = LAUNCH_FAILED;
    memcpy(state.fault_text, err.message, sizeof state.fault_text);
    pthread_mutex_unlock(&state.lock);
}

/* Without the lock: a twin may call us, and two threads may work at a time. */
static void perform(const operation *o)
{
    twin t = {0};
    uint32_t does;
    switch (o->type) {
    case KB_CU_NODE_KERNEL:
        pthread_mutex_lock(&state.lock);
        does = find_double(o, &t);
        pthread_mutex_unlock(&state.lock);
        if (does == FAKE_CUDA_CODE)
            run_code(o);
        else if (t.fn)
            t.fn(t.data, o->entry, o->launch.grid, o->launch.block, o->launch.shared,
                 o->launch.n_words, o->words);
        return;
    case NODE_FILL:
        fill(o);
        return;
    default:
        if (o->width)
            memmove((void *)(uintptr_t)o->to, (const void *)(uintptr_t)o->from, o->width);
    }
}

/* Ends a function that enqueues: runs or records the operation, and takes it over. */
static kb_cu_result enqueue(operation *o, const void *handle)
{
    stream *s = find_stream(handle);
    bool nothing = o->type != KB_CU_NODE_KERNEL && o->width == 0; /* makes no node */
    if (s && s->capture == KB_CU_CAPTURE_ACTIVE && !nothing) {
        operation **last = &s->recording;
        while (*last)
            last = &(*last)->next;
        *last = o;
        return end(KB_CU_SUCCESS);
    }
    pthread_mutex_unlock(&state.lock);
    perform(o);
    free_operations(o);
    return KB_CU_SUCCESS;
}

/* What holds for all that is enqueued: 0, or why not. */
static int check_stream(const void *handle)
{
    const stream *s = find_stream(handle);
    if (!s && !is_default(handle))
        return INVALID_HANDLE;
    if (!s && !current_context())
        return KB_CU_INVALID_CONTEXT;
    if (current_context() && device_of(handle) != current_context()->device)
        return INVALID_HANDLE;
    return s && s->capture == CAPTURE_SPOILT ? CAPTURE_INVALIDATED : 0;
}

#endif
