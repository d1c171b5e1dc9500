// Convolution of signals with a filter in constant memory; a block loads its part and the halo.
#include <cuda_runtime.h>
#include "brainevent/common.h"

constexpr int kMaxTaps = 33;
constexpr int kBlock = 64;

__constant__ float taps_of_filter[kMaxTaps];
__constant__ float gains[4];

__global__ void convolve_kernel(const float* signal, float* out, int n, int taps, int mode) {
    __shared__ float part[kBlock + kMaxTaps];
    const int start = blockIdx.x * kBlock - taps / 2;
    const float* row = signal + blockIdx.y * n;
    for (int i = threadIdx.x; i < kBlock + taps - 1; i += kBlock) {
        const int at = start + i;
        part[i] = at >= 0 && at < n ? row[at] : 0.0f;
    }
    __syncthreads();
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < taps; k++)
        sum += taps_of_filter[k] * part[threadIdx.x + taps - 1 - k];
    out[blockIdx.y * n + i] = sum * gains[mode];
}

// The filter is of odd length, on the GPU. `mode` chooses one of the gains 1, 0.5, 2, -1, which come
// from the host's memory: so that no graph may hold the copy, load with allow_cuda_graph=False.
// @BE convolve arg arg ret attr.mode:int8 stream
void convolve(const BE::Tensor signal, const BE::Tensor filter, BE::Tensor out, int8_t mode, int64_t stream) {
    const int n = signal.size(1), taps = filter.numel();
    BE_CHECK(taps <= kMaxTaps && taps % 2 == 1) << "a filter of " << taps;
    static const float host_gains[4] = {1.0f, 0.5f, 2.0f, -1.0f};
    auto s = (cudaStream_t)stream;
    BE_CUDA_CHECK(cudaMemcpyToSymbolAsync(taps_of_filter, filter.data_ptr(), taps * sizeof(float), 0,
                                          cudaMemcpyDeviceToDevice, s));
    BE_CUDA_CHECK(cudaMemcpyToSymbolAsync(gains, host_gains, sizeof host_gains, 0, cudaMemcpyHostToDevice, s));
    const dim3 grid((n + kBlock - 1) / kBlock, (unsigned)signal.size(0));
    convolve_kernel<<<grid, kBlock, 0, s>>>(signal.data_ptr<float>(), out.data_ptr<float>(), n, taps, mode);
    BE_CHECK_KERNEL_LAUNCH();
}
