/* Owns the functions of the driver, as far as kernbridge calls them, and how they are handed out:
 * like the real one, by cuGetProcAddress_v2. Any thread may enter.
 *
 *     cc -shared -fPIC -O1 -pthread -I src -o libfake_cuda.so tests/fake_cuda/fake_cuda.c -ldl
 */
#include "fake_cuda.h"

#include "fake_control.h"
#include "fake_image.h"
#include "fake_launch.h"
#include "fake_state.h"
#include "fake_transfer.h"

#define FAKE_PROTOTYPE(name, parameters)                   static kb_cu_result name parameters;
#define FAKE_OPTIONAL_PROTOTYPE(name, version, parameters) static kb_cu_result name parameters;
KB_DRIVER_LIST(FAKE_PROTOTYPE)
KB_DRIVER_OPTIONAL_LIST(FAKE_OPTIONAL_PROTOTYPE)

static kb_cu_result cuInit(unsigned int flags)
{
    kb_cu_result code = begin(CALL_cuInit);
    if (code != KB_CU_SUCCESS)
        return code;
    if (flags)
        return end(KB_CU_INVALID_VALUE);
    if (state.n_devices == 0)
        return end(KB_CU_NO_DEVICE);
    state.initialized = true;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuDriverGetVersion(int *version)
{
    kb_cu_result code = begin(CALL_cuDriverGetVersion);
    if (code != KB_CU_SUCCESS)
        return code;
    *version = 12080;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuGetErrorName(kb_cu_result error, const char **name)
{
    kb_cu_result code = begin(CALL_cuGetErrorName);
    if (code != KB_CU_SUCCESS)
        return code;
    *name = find_error(error)->name;
    return end(*name ? KB_CU_SUCCESS : KB_CU_INVALID_VALUE);
}

static kb_cu_result cuGetErrorString(kb_cu_result error, const char **text)
{
    kb_cu_result code = begin(CALL_cuGetErrorString);
    if (code != KB_CU_SUCCESS)
        return code;
    *text = find_error(error)->text;
    return end(*text ? KB_CU_SUCCESS : KB_CU_INVALID_VALUE);
}

static kb_cu_result cuDeviceGetCount(int *n)
{
    kb_cu_result code = begin(CALL_cuDeviceGetCount);
    if (code != KB_CU_SUCCESS)
        return code;
    *n = state.n_devices;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuDeviceGetAttribute(int *value, int attribute, kb_cu_device device)
{
    kb_cu_result code = begin(CALL_cuDeviceGetAttribute);
    if (code != KB_CU_SUCCESS)
        return code;
    if (device < 0 || device >= state.n_devices)
        return end(INVALID_DEVICE);
    switch (attribute) {
    case KB_CU_DEVICE_MULTIPROCESSORS:
        *value = MULTIPROCESSORS;
        break;
    case KB_CU_DEVICE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = THREADS_OF_MULTIPROCESSOR;
        break;
    case KB_CU_DEVICE_CC_MAJOR:
        *value = state.contexts[device].cc / 10;
        break;
    case KB_CU_DEVICE_CC_MINOR:
        *value = state.contexts[device].cc % 10;
        break;
    case KB_CU_DEVICE_COOPERATIVE_LAUNCH:
        *value = 1;
        break;
    case KB_CU_DEVICE_MAX_SHARED_OPTIN:
        *value = SHARED_OPTIN;
        break;
    default:
        return end(KB_CU_INVALID_VALUE);
    }
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuDevicePrimaryCtxGetState(kb_cu_device device, unsigned int *flags,
                                               int *active)
{
    kb_cu_result code = begin(CALL_cuDevicePrimaryCtxGetState);
    if (code != KB_CU_SUCCESS)
        return code;
    if (device < 0 || device >= state.n_devices)
        return end(INVALID_DEVICE);
    *flags = 0;
    *active = state.contexts[device].users > 0;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuDevicePrimaryCtxRetain(kb_cu_context *found, kb_cu_device device)
{
    kb_cu_result code = begin(CALL_cuDevicePrimaryCtxRetain);
    if (code != KB_CU_SUCCESS)
        return code;
    if (device < 0 || device >= state.n_devices)
        return end(INVALID_DEVICE);
    state.contexts[device].users++;
    *found = (kb_cu_context)&state.contexts[device];
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuDevicePrimaryCtxRelease(kb_cu_device device)
{
    kb_cu_result code = begin(CALL_cuDevicePrimaryCtxRelease);
    if (code != KB_CU_SUCCESS)
        return code;
    if (device < 0 || device >= state.n_devices || state.contexts[device].users == 0)
        return end(INVALID_DEVICE);
    state.contexts[device].users--;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuCtxGetCurrent(kb_cu_context *found)
{
    kb_cu_result code = begin(CALL_cuCtxGetCurrent);
    if (code != KB_CU_SUCCESS)
        return code;
    *found = (kb_cu_context)current_context();
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuCtxPushCurrent(kb_cu_context wanted)
{
    kb_cu_result code = begin(CALL_cuCtxPushCurrent);
    if (code != KB_CU_SUCCESS)
        return code;
    context *c = (context *)wanted;
    if (c < state.contexts || c >= state.contexts + state.n_devices)
        return end(KB_CU_INVALID_CONTEXT);
    if (current.n == STACK_MAX)
        die("%d contexts were pushed and not popped", current.n);
    current.stack[current.n++] = c;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuCtxPopCurrent(kb_cu_context *popped)
{
    kb_cu_result code = begin(CALL_cuCtxPopCurrent);
    if (code != KB_CU_SUCCESS)
        return code;
    if (current.n == 0)
        return end(KB_CU_INVALID_CONTEXT);
    *popped = (kb_cu_context)current.stack[--current.n];
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuCtxGetDevice(kb_cu_device *device)
{
    kb_cu_result code = begin(CALL_cuCtxGetDevice);
    if (code != KB_CU_SUCCESS)
        return code;
    if (!current_context())
        return end(KB_CU_INVALID_CONTEXT);
    *device = current_context()->device;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuStreamGetCtx(kb_cu_stream handle, kb_cu_context *found)
{
    kb_cu_result code = begin(CALL_cuStreamGetCtx);
    if (code != KB_CU_SUCCESS)
        return code;
    int device = device_of(handle);
    if (device < 0)
        return end(INVALID_HANDLE);
    *found = (kb_cu_context)&state.contexts[device];
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuStreamIsCapturing(kb_cu_stream handle, int *status)
{
    kb_cu_result code = begin(CALL_cuStreamIsCapturing);
    if (code != KB_CU_SUCCESS)
        return code;
    const stream *s = find_stream(handle);
    if (!s && !is_default(handle))
        return end(INVALID_HANDLE);
    *status = s ? s->capture : 0;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    kb_cu_result code = begin(CALL_cuThreadExchangeStreamCaptureMode);
    if (code != KB_CU_SUCCESS)
        return code;
    if (*mode < 0 || *mode > KB_CU_CAPTURE_MODE_RELAXED)
        return end(KB_CU_INVALID_VALUE);
    int before = current.capture_mode;
    current.capture_mode = *mode;
    *mode = before;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuStreamGetCaptureInfo(kb_cu_stream handle, int *status, uint64_t *id,
                                           kb_cu_graph *graph,
                                           const kb_cu_graph_node **dependencies,
                                           size_t *n_dependencies)
{
    kb_cu_result code = begin(CALL_cuStreamGetCaptureInfo);
    if (code != KB_CU_SUCCESS)
        return code;
    stream *s = find_stream(handle);
    if (!s && !is_default(handle))
        return end(INVALID_HANDLE);
    *status = s ? s->capture : 0;
    if (id)
        *id = (uintptr_t)s;
    if (graph)
        *graph = *status == KB_CU_CAPTURE_ACTIVE ? (kb_cu_graph)s : NULL;
    if (dependencies || n_dependencies)
        die("cuStreamGetCaptureInfo was asked for dependencies, which the fake has not");
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuStreamSynchronize(kb_cu_stream handle)
{
    kb_cu_result code = begin(CALL_cuStreamSynchronize);
    if (code != KB_CU_SUCCESS)
        return code;
    stream *s = find_stream(handle);
    if (!s && !is_default(handle))
        return end(INVALID_HANDLE);
    if (!s || !s->capture)
        return end(KB_CU_SUCCESS);
    s->capture = CAPTURE_SPOILT;
    return end(CAPTURE_UNSUPPORTED);
}

static kb_cu_result cuGraphGetNodes(kb_cu_graph graph, kb_cu_graph_node *nodes, size_t *n_nodes)
{
    kb_cu_result code = begin(CALL_cuGraphGetNodes);
    if (code != KB_CU_SUCCESS)
        return code;
    const stream *s = find_stream(graph);
    if (!s || (nodes && !s->recording)) /* it refuses to list no nodes */
        return end(KB_CU_INVALID_VALUE);
    size_t n = 0, room = nodes ? *n_nodes : 0;
    for (operation *o = s->recording; o; o = o->next, n++)
        if (n < room)
            nodes[n] = (kb_cu_graph_node)o;
    for (size_t i = n; i < room; i++)
        nodes[i] = NULL;
    *n_nodes = nodes && n > room ? room : n;
    return end(KB_CU_SUCCESS);
}

static kb_cu_result cuGraphNodeGetType(kb_cu_graph_node node, int *type)
{
    kb_cu_result code = begin(CALL_cuGraphNodeGetType);
    if (code != KB_CU_SUCCESS)
        return code;
    for (const stream *s = state.streams; s; s = s->next)
        for (const operation *o = s->recording; o; o = o->next)
            if ((kb_cu_graph_node)o == node) {
                *type = o->type;
                return end(KB_CU_SUCCESS);
            }
    return end(KB_CU_INVALID_VALUE);
}

/* name, since which version, pointer */
static const struct {
    const char *name;
    int version;
    void (*function)(void);
} functions[] = {
#define FAKE_ENTRY(name, parameters)                   {#name, 12000, (void (*)(void))name},
#define FAKE_OPTIONAL_ENTRY(name, version, parameters) {#name, version, (void (*)(void))name},
    KB_DRIVER_LIST(FAKE_ENTRY) KB_DRIVER_OPTIONAL_LIST(FAKE_OPTIONAL_ENTRY)};

FAKE_CUDA_EXPORT kb_cu_result cuGetProcAddress_v2(const char *name, void **function, int version,
                                                  uint64_t flags, int *status);

kb_cu_result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                 int *status)
{
    if (flags)
        die("cuGetProcAddress was asked for flags %llu, which the fake has not",
            (unsigned long long)flags);
    *function = NULL;
    for (int i = 0; i < CALLS; i++) {
        if (strcmp(functions[i].name, name) != 0)
            continue;
        if (version > functions[i].version)
            die("%s was asked for as of version %d, and the fake has that of %d", name, version,
                functions[i].version);
        bool there = version == functions[i].version && !is_missing(name);
        if (there)
            memcpy(function, &functions[i].function, sizeof *function);
        if (status)
            *status = there ? 0 : 2;
        return there || getenv("FAKE_CUDA_IS_QUIET") ? KB_CU_SUCCESS : (kb_cu_result)NOT_FOUND;
    }
    if (status)
        *status = 1;
    return (kb_cu_result)NOT_FOUND;
}
