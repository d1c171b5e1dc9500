// Histograms with atomics: each block counts in shared memory, then adds to the total.
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <typename T>
__global__ void count_kernel(const T *x, int n, unsigned long long *total, int bins, float low, float high)
{
    extern __shared__ unsigned int counts[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x)
        counts[b] = 0;
    __syncthreads();
    const float scale = bins / (high - low);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float v = float(x[i]);
        if (v < low || v > high)
            continue;
        int b = int((v - low) * scale);
        atomicAdd(&counts[b < bins ? b : bins - 1], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x)
        if (counts[b])
            atomicAdd(&total[b], (unsigned long long)counts[b]);
}

// @BE histogram arg ret attr.low:float32 attr.high:float32 stream
void histogram(const BE::Tensor x, BE::Tensor total, float low, float high, int64_t stream)
{
    BE_CHECK(low < high) << "from " << low << " to " << high;
    auto s = (cudaStream_t)stream;
    const int bins = total.numel_checked_int();
    BE_CUDA_CHECK(cudaMemsetAsync(total.data_ptr(), 0, total.nbytes(), s));
    BE_DISPATCH_ALL_TYPES(x.dtype(), T, {
        count_kernel<T><<<3, 128, bins * sizeof(unsigned int), s>>>(
            x.data_ptr<T>(), x.numel_checked_int(),
            static_cast<unsigned long long *>(total.data_ptr()), bins, low, high);
    });
    BE_CHECK_KERNEL_LAUNCH();
}
