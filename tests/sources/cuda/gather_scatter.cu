// Rows by index: gather (out of range: clipped, or wrapped), scatter-add, and sums of segments.
#include <cuda_runtime.h>
#include "brainevent/common.h"

using BE::Tensor;

namespace rows {

template <typename I>
__global__ void gather_kernel(const double *table, const I *index, double *out, int count, int width, int n, bool wrap)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= width || r >= count)
        return;
    int64_t from = index[r];
    if (wrap)
        from = ((from % n) + n) % n;
    else
        from = from < 0 ? 0 : from >= n ? n - 1 : from;
    out[r * width + c] = table[from * width + c];
}

// @BE gather arg arg ret attr.wrap stream
void gather(const Tensor table, const Tensor index, Tensor out, bool wrap, int64_t stream)
{
    const int width = table.size(1), count = index.numel();
    dim3 grid((width + 31) / 32, count);
    BE_DISPATCH_SIGNED_INDEX(index.dtype(), I, {
        gather_kernel<I><<<grid, 32, 0, (cudaStream_t)stream>>>(
            table.data_ptr<double>(), index.data_ptr<I>(), out.data_ptr<double>(), count, width,
            (int)table.size(0), wrap);
    });
    BE_CHECK_KERNEL_LAUNCH();
}

namespace sums {

__global__ void scatter_kernel(const int32_t *values, const int32_t *index, int32_t *out, int count, int width, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * width)
        return;
    int to = index[i / width];
    if (to >= 0 && to < n)
        atomicAdd(&out[to * width + i % width], values[i]);
}

// What is out of range is dropped.
// @BE scatter_add arg arg ret stream
void scatter_add(const Tensor values, const Tensor index, Tensor out, int64_t stream)
{
    auto s = (cudaStream_t)stream;
    const int count = index.numel(), width = values.size(1);
    BE_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0, out.nbytes(), s));
    scatter_kernel<<<(count * width + 127) / 128, 128, 0, s>>>(
        values.data_ptr<int32_t>(), index.data_ptr<int32_t>(), out.data_ptr<int32_t>(), count, width, (int)out.size(0));
    BE_CHECK_KERNEL_LAUNCH();
}

__global__ void segment_kernel(const float *values, const int64_t *segment, float *out, int n, int segments)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= segments)
        return;
    int low = 0, high = n; // where the segment begins
    while (low < high) {
        int middle = (low + high) / 2;
        if (segment[middle] < s)
            low = middle + 1;
        else
            high = middle;
    }
    float sum = 0.0f;
    for (int i = low; i < n && segment[i] == s; ++i)
        sum += values[i];
    out[s] = sum;
}

// Segments ascend.
// @BE segment_sum
void segment_sum(const Tensor values, const Tensor segment, Tensor out, int64_t stream)
{
    const int segments = out.numel();
    segment_kernel<<<(segments + 63) / 64, 64, 0, (cudaStream_t)stream>>>(
        values.data_ptr<float>(), segment.data_ptr<int64_t>(), out.data_ptr<float>(), (int)values.numel(), segments);
    BE_CHECK_KERNEL_LAUNCH();
}

} // namespace sums
} // namespace rows
