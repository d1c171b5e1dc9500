/* Owns the way from a call frame to a stream whose context is current. */
#include "cuda/kb_stream.h"

#include "cuda/kb_function.h"

#include <stdlib.h>

static _Atomic(unsigned) debug;

void kb_stream_set_debug(unsigned flags)
{
    atomic_fetch_and(&debug, KB_DEBUG_CHECKED);
    atomic_fetch_or(&debug, flags);
}

void kb_stream_set_checked(void)
{
    atomic_fetch_or(&debug, KB_DEBUG_CHECKED);
}

unsigned kb_stream_debug(void)
{
    return atomic_load_explicit(&debug, memory_order_relaxed);
}

static kb_status read_stream(kb_frame *frame, kb_error *err)
{
    const kb_xla_frame *xla = frame->xla;
    kb_xla_stream_get get = {
        .struct_size = KB_XLA_SIZE(kb_xla_stream_get, stream),
        .context = xla->context,
    };
    bool found = kb_xla_succeeded(xla->api, xla->api->stream_get(&get));
    frame->stream = get.stream;
    if (KB_LIKELY(found))
        return KB_OK;
    frame->stream = NULL;
    if (kb_stream_debug() & KB_DEBUG_DEFAULT_STREAM)
        return KB_OK;
    return kb_error_set(err, KB_FAILED_PRECONDITION, "%s: this call has no CUDA stream",
                        frame->kernel->name);
}

/* What was found for the stream that this thread used last: most calls use it again. A stream that
 * took another's address but not its context is told by the launch. */
static _Thread_local struct {
    kb_cu_stream stream;
    kb_cu_context context;
    kb_cu_device device;
} last;

/* Makes the stream's context current; the default stream is at home in any. */
static kb_status push_context(kb_stream_scope *scope, kb_cu_stream stream, kb_cu_context *current,
                              const char *what, kb_error *err)
{
    const kb_driver *cu = scope->cu;
    kb_cu_context wanted = NULL;
    if (!stream && *current)
        return KB_OK;
    kb_cu_result code = cu->cuStreamGetCtx(stream, &wanted);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuStreamGetCtx", what);
    if (KB_LIKELY(wanted == *current))
        return KB_OK;
    code = cu->cuCtxPushCurrent(wanted);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, cu, code, "cuCtxPushCurrent", what);
    *current = wanted;
    scope->pushed = true;
    return KB_OK;
}

static kb_status read_device(const kb_stream_scope *scope, kb_frame *frame, kb_error *err)
{
    kb_cu_device device = 0;
    kb_cu_result code = scope->cu->cuCtxGetDevice(&device);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, scope->cu, code, "cuCtxGetDevice", frame->kernel->name);
    if (device < 0 || device >= KB_DEVICE_HOST)
        return kb_error_set(err, KB_UNIMPLEMENTED, "%s: GPU %d, at most %d are possible",
                            frame->kernel->name, device, KB_DEVICE_HOST);
    frame->device = device;
    return KB_OK;
}

static kb_status find_context(kb_stream_scope *scope, kb_frame *frame, kb_error *err)
{
    const char *what = frame->kernel->name;
    kb_cu_context current = NULL;
    kb_cu_result code = scope->cu->cuCtxGetCurrent(&current);
    if (code != KB_CU_SUCCESS)
        return kb_driver_fail(err, scope->cu, code, "cuCtxGetCurrent", what);
    if (KB_LIKELY(frame->stream && frame->stream == last.stream && current == last.context)) {
        frame->device = last.device;
        return KB_OK;
    }
    kb_status s = push_context(scope, frame->stream, &current, what, err);
    if (s == KB_OK)
        s = read_device(scope, frame, err);
    if (s != KB_OK)
        return s;
    last.stream = frame->stream;
    last.context = current;
    last.device = frame->device;
    return KB_OK;
}

kb_status kb_stream_enter(kb_stream_scope *scope, kb_frame *frame, kb_error *err)
{
    scope->pushed = false;
    scope->cu = kb_driver_get(err);
    if (!scope->cu)
        return err->status;
    frame->driver = scope->cu;
    kb_status s = read_stream(frame, err);
    if (s == KB_OK)
        s = find_context(scope, frame, err);
    if (s != KB_OK)
        kb_stream_leave(scope);
    return s;
}

void kb_stream_leave(const kb_stream_scope *scope)
{
    kb_cu_context popped;
    if (scope->pushed)
        (void)scope->cu->cuCtxPopCurrent(&popped);
}

bool kb_stream_captures(const kb_driver *cu, kb_cu_stream stream)
{
    int status;
    return cu->cuStreamIsCapturing(stream, &status) == KB_CU_SUCCESS &&
           status == KB_CU_CAPTURE_ACTIVE;
}

kb_cu_result kb_stream_wait(const kb_driver *cu, kb_cu_stream stream)
{
    return kb_stream_captures(cu, stream) ? KB_CU_SUCCESS : cu->cuStreamSynchronize(stream);
}

int64_t kb_stream_kernel_nodes(const kb_driver *cu, kb_cu_stream stream)
{
    int status;
    kb_cu_graph graph;
    size_t n;
    if (cu->cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL) != KB_CU_SUCCESS ||
        status != KB_CU_CAPTURE_ACTIVE || cu->cuGraphGetNodes(graph, NULL, &n) != KB_CU_SUCCESS)
        return -1;
    if (n == 0) /* the driver refuses to list no nodes */
        return 0;
    kb_cu_graph_node *nodes = calloc(n, sizeof(kb_cu_graph_node));
    int64_t kernels = 0;
    if (!nodes || cu->cuGraphGetNodes(graph, nodes, &n) != KB_CU_SUCCESS)
        kernels = -1;
    for (size_t i = 0; kernels >= 0 && i < n; i++) {
        int type = -1;
        (void)cu->cuGraphNodeGetType(nodes[i], &type);
        kernels += type == KB_CU_NODE_KERNEL;
    }
    free(nodes);
    return kernels;
}
