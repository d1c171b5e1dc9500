/* The GPU's floor: XLA handlers written by hand, each launching nvcc's kernel of what a contender
 * does. Compiled by benchmarks/chain.py against src/.
 */
#include "abi/kb_xla.h"

#include <cuda_runtime.h>

#define THREADS 256

/* What XLA's `stream_get` takes. */
typedef struct floor_stream_get {
    size_t struct_size;
    kb_xla_extension *extension_start;
    kb_xla_context *context;
    void *stream; /* out */
} floor_stream_get;

typedef kb_xla_error *floor_get_stream(floor_stream_get *args);
typedef void floor_launch(const kb_xla_frame *frame, cudaStream_t stream);

static __global__ void add_kernel(const float *x, const float *y, float *out, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

static __global__ void scale_kernel(const float *x, float *out, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 0.5f * x[i];
}

/* The grid's z is an offset, so that the batch cannot become it. */
static __global__ void add_with_z_kernel(const float *x, const float *y, float *out, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x + blockIdx.z;
    if (i < n)
        out[i] = x[i] + y[i];
}

static const kb_xla_buffer *buffer(const kb_xla_buffers *buffers, int64_t i)
{
    return (const kb_xla_buffer *)buffers->buffers[i];
}

static float *data(const kb_xla_buffers *buffers, int64_t i)
{
    return (float *)buffer(buffers, i)->data;
}

static int64_t items(const kb_xla_buffer *array, int64_t first_dimension)
{
    int64_t n = 1;
    for (int64_t d = first_dimension; d < array->rank; d++)
        n *= array->dims[d];
    return n;
}

static unsigned blocks(int64_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

/* (x, y) -> out, of any shape: one launch over all elements. */
static void launch_add(const kb_xla_frame *frame, cudaStream_t stream)
{
    int64_t n = items(buffer(&frame->rets, 0), 0);
    add_kernel<<<blocks(n), THREADS, 0, stream>>>(data(&frame->args, 0), data(&frame->args, 1),
                                                  data(&frame->rets, 0), n);
}

/* (x, y) -> (out, temporary): out = 0.5 * (x + y), two launches. */
static void launch_add_then_scale(const kb_xla_frame *frame, cudaStream_t stream)
{
    int64_t n = items(buffer(&frame->rets, 0), 0);
    float *temporary = data(&frame->rets, 1);
    add_kernel<<<blocks(n), THREADS, 0, stream>>>(data(&frame->args, 0), data(&frame->args, 1),
                                                  temporary, n);
    scale_kernel<<<blocks(n), THREADS, 0, stream>>>(temporary, data(&frame->rets, 0), n);
}

/* (x, y) -> out, all [slices, n...]: one launch a slice. */
static void launch_add_slices(const kb_xla_frame *frame, cudaStream_t stream)
{
    const kb_xla_buffer *out = buffer(&frame->rets, 0);
    int64_t slices = out->dims[0], n = items(out, 1);
    const float *x = data(&frame->args, 0), *y = data(&frame->args, 1);
    for (int64_t first = 0; first < slices * n; first += n)
        add_with_z_kernel<<<blocks(n), THREADS, 0, stream>>>(x + first, y + first,
                                                             (float *)out->data + first, n);
}

/* How often a handler was executed: a graph that is replayed does not execute it. */
static int64_t executions;

static kb_xla_error *failed(const kb_xla_api *api, const char *message)
{
    kb_xla_error_create error = {};
    error.struct_size = KB_XLA_SIZE(kb_xla_error_create, code);
    error.message = message;
    error.code = 13; /* internal */
    return api->error_create(&error);
}

static bool answered_metadata(const kb_xla_frame *frame, uint32_t traits)
{
    for (kb_xla_extension *e = frame->extension_start; e; e = e->next) {
        if (e->type != KB_XLA_EXTENSION_METADATA)
            continue;
        kb_xla_metadata *metadata = ((kb_xla_metadata_extension *)e)->metadata;
        metadata->api_version.major_version = 0;
        metadata->api_version.minor_version = 1;
        metadata->traits = traits;
        return true;
    }
    return false;
}

static kb_xla_error *run(const kb_xla_frame *frame, uint32_t traits, floor_launch *launch)
{
    if (answered_metadata(frame, traits))
        return NULL;
    executions++;
    floor_stream_get args = {};
    args.struct_size = KB_XLA_SIZE(floor_stream_get, stream);
    args.context = frame->context;
    kb_xla_error *error = ((floor_get_stream *)frame->api->stream_get)(&args);
    if (error)
        return error;
    launch(frame, (cudaStream_t)args.stream);
    cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? NULL : failed(frame->api, cudaGetErrorString(status));
}

extern "C" {

kb_xla_error *gpu_floor_add(kb_xla_frame *frame)
{
    return run(frame, KB_XLA_TRAIT_COMMAND_BUFFER, launch_add);
}

kb_xla_error *gpu_floor_add_without_trait(kb_xla_frame *frame)
{
    return run(frame, 0, launch_add);
}

kb_xla_error *gpu_floor_add_then_scale(kb_xla_frame *frame)
{
    return run(frame, KB_XLA_TRAIT_COMMAND_BUFFER, launch_add_then_scale);
}

kb_xla_error *gpu_floor_add_slices(kb_xla_frame *frame)
{
    return run(frame, KB_XLA_TRAIT_COMMAND_BUFFER, launch_add_slices);
}

/* Loads the kernels now: CUDA loads each when it is first used, which must not be in a capture.
 * NULL, or what went wrong. */
const char *gpu_floor_load(void)
{
    const void *kernels[] = {(const void *)add_kernel, (const void *)scale_kernel,
                             (const void *)add_with_z_kernel};
    for (const void *kernel : kernels) {
        cudaFuncAttributes attributes;
        cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
        if (status != cudaSuccess)
            return cudaGetErrorString(status);
    }
    return NULL;
}

int64_t gpu_floor_executions(void)
{
    return executions;
}
}
