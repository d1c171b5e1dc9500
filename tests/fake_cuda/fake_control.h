/* Owns what tests and the environment tell the fake, and the words of its errors. Part of
 * fake_cuda.c alone. */
#ifndef FAKE_CONTROL_H
#define FAKE_CONTROL_H

#include "fake_state.h"

typedef struct error_words {
    int code;
    const char *name;
    const char *text;
} error_words;

static const error_words *find_error(int code)
{
    static const error_words all[] = {
        {0, "CUDA_SUCCESS", "no error"},
        {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
        {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
        {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
        {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
        {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
        {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
        {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
        {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
        {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
         "no kernel image is available for execution on the device"},
        {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
        {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
        {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
        {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
        {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
        {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
        {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
        {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
        {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
         "operation not supported on global/shared address space"},
        {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
        {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
        {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "operation not permitted when stream is capturing"},
        {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         "operation failed due to a previous error during capture"},
        {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
        {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
        {-1, NULL, NULL},
    };
    const error_words *e = all;
    while (e->name && e->code != code)
        e++;
    return e;
}

/* Item by item of a list with commas: copies the next into `item`; NULL at the end. */
static const char *next_item(const char *at, char item[FAKE_CUDA_NAME])
{
    if (!at || !*at)
        return NULL;
    size_t length = strcspn(at, ",");
    if (length >= FAKE_CUDA_NAME)
        die("%s is too long", at);
    memcpy(item, at, length);
    item[length] = '\0';
    return at[length] ? at + length + 1 : at + length;
}

static bool is_missing(const char *function)
{
    char item[FAKE_CUDA_NAME];
    const char *at = getenv("FAKE_CUDA_MISSING");
    while ((at = next_item(at, item)))
        if (strcmp(item, function) == 0)
            return true;
    return false;
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static void __attribute__((constructor)) read_environment(void)
{
    char item[FAKE_CUDA_NAME], function[FAKE_CUDA_NAME];
    int nth, code, cc = 90;
    state.n_devices = number_of("FAKE_CUDA_DEVICES", 2);
    if (state.n_devices < 0 || state.n_devices > FAKE_DEVICES_MAX)
        die("FAKE_CUDA_DEVICES is %d, at most %d are possible", state.n_devices, FAKE_DEVICES_MAX);
    state.best_block = number_of("FAKE_CUDA_BEST_BLOCK", 256);
    int n_active = number_of("FAKE_CUDA_ACTIVE", 0);
    const char *at = getenv("FAKE_CUDA_CC");
    for (int d = 0; d < FAKE_DEVICES_MAX; d++) {
        const char *behind = next_item(at, item);
        cc = behind ? atoi(item) : cc;
        at = behind;
        state.contexts[d] = (context){d, cc, d < n_active};
    }
    at = getenv("FAKE_CUDA_FAIL");
    while ((at = next_item(at, item))) {
        if (sscanf(item, "%255[^:]:%d:%d", function, &nth, &code) != 3)
            die("FAKE_CUDA_FAIL has %s, expected function:nth:code", item);
        fake_cuda_fail(function, nth, code);
    }
}

void fake_cuda_reset(void)
{
    pthread_mutex_lock(&state.lock);
    memset(state.calls, 0, sizeof state.calls);
    for (int i = 0; i < state.n_launches && i < LOG_MAX; i++)
        free(state.launches[i]);
    state.n_launches = state.n_failures = state.fault = 0;
    free(state.fault_entry);
    state.fault_entry = NULL;
    state.fault_text[0] = '\0';
    state.stand_in = NULL;
    while (state.twins) {
        twin *next = state.twins->next;
        free(state.twins->entry);
        free(state.twins);
        state.twins = next;
    }
    for (stream *s = state.streams; s; s = s->next) {
        free_operations(s->recording);
        free_operations(s->recorded);
        s->recording = s->recorded = NULL;
        s->capture = 0;
    }
    pthread_mutex_unlock(&state.lock);
}

long fake_cuda_calls(const char *function)
{
    pthread_mutex_lock(&state.lock);
    long n = state.calls[call_of(function)];
    pthread_mutex_unlock(&state.lock);
    return n;
}

int fake_cuda_n_launches(void)
{
    pthread_mutex_lock(&state.lock);
    int n = state.n_launches;
    pthread_mutex_unlock(&state.lock);
    return n;
}

const fake_cuda_launch *fake_cuda_get_launch(int i)
{
    pthread_mutex_lock(&state.lock);
    bool kept = i >= 0 && i < state.n_launches && i < LOG_MAX;
    const fake_cuda_launch *l = kept ? state.launches[i] : NULL;
    pthread_mutex_unlock(&state.lock);
    return l;
}

void fake_cuda_fail(const char *function, int nth, int code)
{
    pthread_mutex_lock(&state.lock);
    if (state.n_failures == FAILURES_MAX)
        die("more than %d failures before a reset", FAILURES_MAX);
    if (nth < 1 || code == 0)
        die("failure %d of %s with code %d", nth, function, code);
    int i = state.n_failures++;
    state.failures[i].call = call_of(function);
    state.failures[i].nth = nth;
    state.failures[i].code = code;
    pthread_mutex_unlock(&state.lock);
}

void fake_cuda_fail_any(int nth, int code, int lasting)
{
    pthread_mutex_lock(&state.lock);
    state.any.nth = nth;
    state.any.code = code;
    state.any.lasting = lasting;
    state.any.failed = NULL;
    pthread_mutex_unlock(&state.lock);
}

const char *fake_cuda_failed(void)
{
    pthread_mutex_lock(&state.lock);
    const char *function = state.any.failed;
    pthread_mutex_unlock(&state.lock);
    return function;
}

void fake_cuda_fault(const char *entry, int code)
{
    pthread_mutex_lock(&state.lock);
    free(state.fault_entry);
    state.fault_entry = copy_text(entry);
    state.fault_code = code;
    pthread_mutex_unlock(&state.lock);
}

void fake_cuda_set_twin(const char *entry, fake_cuda_twin *fn, void *data)
{
    pthread_mutex_lock(&state.lock);
    twin *t = state.twins;
    while (t && strcmp(t->entry, entry) != 0)
        t = t->next;
    if (!t) {
        t = fake_checked(calloc(1, sizeof *t));
        t->next = state.twins;
        t->entry = copy_text(entry);
        state.twins = t;
    }
    t->fn = fn;
    t->data = data;
    pthread_mutex_unlock(&state.lock);
}

void fake_cuda_set_code(const void *cubin, size_t size, const char *entry, const char *digest,
                        fake_cuda_execute *execute)
{
    pthread_mutex_lock(&state.lock);
    state.codes = fake_code_new(cubin, size, entry, digest, execute, state.codes);
    pthread_mutex_unlock(&state.lock);
}

const char *fake_cuda_fault_text(void)
{
    return state.fault_text;
}

void fake_cuda_set_cc(int device, int cc)
{
    pthread_mutex_lock(&state.lock);
    state.contexts[device].cc = cc;
    pthread_mutex_unlock(&state.lock);
}

void fake_cuda_set_best_block(int threads)
{
    pthread_mutex_lock(&state.lock);
    state.best_block = threads;
    pthread_mutex_unlock(&state.lock);
}

void *fake_cuda_context(int device)
{
    return device >= 0 && device < state.n_devices ? &state.contexts[device] : NULL;
}

void *fake_cuda_stream_create(int device)
{
    if (!fake_cuda_context(device))
        die("there is no device %d", device);
    stream *s = fake_checked(calloc(1, sizeof *s));
    pthread_mutex_lock(&state.lock);
    s->device = device;
    s->next = state.streams;
    state.streams = s;
    pthread_mutex_unlock(&state.lock);
    return s;
}

void fake_cuda_stand_in(void *handle)
{
    pthread_mutex_lock(&state.lock);
    state.stand_in = find_stream(handle);
    pthread_mutex_unlock(&state.lock);
}

void fake_cuda_set_active(int device, int active)
{
    pthread_mutex_lock(&state.lock);
    state.contexts[device].users = active != 0;
    pthread_mutex_unlock(&state.lock);
}

int fake_cuda_primary_users(int device)
{
    pthread_mutex_lock(&state.lock);
    int n = state.contexts[device].users;
    pthread_mutex_unlock(&state.lock);
    return n;
}

int fake_cuda_capture_mode(void)
{
    return current.capture_mode;
}

int fake_cuda_n_libraries(void)
{
    int n = 0;
    pthread_mutex_lock(&state.lock);
    for (library *l = state.libraries; l; l = l->next)
        n++;
    pthread_mutex_unlock(&state.lock);
    return n;
}

int fake_cuda_n_contexts(void)
{
    return current.n;
}

int fake_cuda_capture_begin(void *handle)
{
    pthread_mutex_lock(&state.lock);
    stream *s = find_stream(handle);
    if (s && !s->capture) {
        s->capture = KB_CU_CAPTURE_ACTIVE;
        return end(KB_CU_SUCCESS);
    }
    return end(s ? KB_CU_INVALID_VALUE : INVALID_HANDLE);
}

int fake_cuda_capture_end(void *handle)
{
    pthread_mutex_lock(&state.lock);
    stream *s = find_stream(handle);
    if (!s || !s->capture)
        return end(s ? CAPTURE_UNMATCHED : INVALID_HANDLE);
    bool spoilt = s->capture == CAPTURE_SPOILT;
    free_operations(spoilt ? s->recording : s->recorded);
    s->recorded = spoilt ? s->recorded : s->recording;
    s->recording = NULL;
    s->capture = 0;
    return end(spoilt ? CAPTURE_INVALIDATED : 0);
}

int fake_cuda_capture_replay(void *handle)
{
    pthread_mutex_lock(&state.lock);
    const stream *s = find_stream(handle);
    if (!s || s->capture)
        return end(s ? CAPTURE_UNSUPPORTED : INVALID_HANDLE);
    const operation *o = s->recorded;
    int fault = state.fault;
    pthread_mutex_unlock(&state.lock);
    for (; o && !fault; o = o->next) {
        perform(o);
        pthread_mutex_lock(&state.lock);
        fault = state.fault;
        pthread_mutex_unlock(&state.lock);
    }
    return (kb_cu_result)fault;
}

#endif
