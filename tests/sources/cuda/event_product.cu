// Event-driven product: only rows of neurons that spiked are read. Weights are many, or one.
#include <cuda_runtime.h>
#include "brainevent/common.h"

// A spike is true, or a number above 0.
template <typename S> __device__ bool is_active(S s) { return s > S(0); }

template <typename S>
__global__ void propagate(const S *spikes, const float *weights, bool homogeneous,
                          const int32_t *indices, const int32_t *indptr, float *current, int n_pre)
{
    // a block for each neuron, a thread for each synapse
    int pre = blockIdx.x;
    if (pre >= n_pre || !is_active(spikes[pre]))
        return;
    for (int k = indptr[pre] + threadIdx.x; k < indptr[pre + 1]; k += blockDim.x)
        atomicAdd(&current[indices[k]], homogeneous ? weights[0] : weights[k]);
}

// `before` is aliased to `current`; it is added to, or cleared.
// @BE event_currents arg arg arg arg arg ret attr.accumulate:bool stream
void event_currents(const BE::Tensor spikes, const BE::Tensor weights, const BE::Tensor indices,
                    const BE::Tensor indptr, const BE::Tensor before, BE::Tensor current,
                    bool accumulate, int64_t stream)
{
    auto s = (cudaStream_t)stream;
    int n = spikes.numel_checked_int();
    BE_CHECK(before.data_ptr() == current.data_ptr()) << "input 4 is not aliased to the output";
    if (!accumulate)
        BE_CUDA_CHECK(cudaMemsetAsync(current.data_ptr(), 0, current.nbytes(), s));
    BE_DISPATCH_ALL_TYPES(spikes.dtype(), spike_t, {
        propagate<spike_t><<<n, 16, 0, s>>>(
            spikes.data_ptr<spike_t>(), weights.data_ptr<float>(), weights.numel() == 1,
            indices.data_ptr<int32_t>(), indptr.data_ptr<int32_t>(), current.data_ptr<float>(), n);
    });
    BE_CHECK_KERNEL_LAUNCH();
}
