/* numpy.roll along one axis, for elements of any type: a copy, so no arithmetic. */
#include <cuda_runtime.h>
#include "brainevent/common.h"

template <class E>
__global__ void roll_kernel(const E *in, E *out, int64_t total, int64_t extent, int64_t inner, int64_t shift)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < total;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t k = i / inner % extent;
        int64_t to = (k + shift) % extent;
        out[i + (to - k) * inner] = in[i];
    }
}

// @BE roll arg ret attr.axis attr.shift:int64 ctx.stream
void roll(const BE::Tensor in, BE::Tensor out, int32_t axis, int64_t shift, int64_t stream)
{
    const int64_t extent = in.shape(axis);
    const int64_t inner = in.stride(axis);
    shift = (shift % extent + extent) % extent;
    BE_DISPATCH_ALL(in.dtype(), element_t, {
        roll_kernel<element_t><<<3, 64, 0, (cudaStream_t)stream>>>(
            in.data_ptr<element_t>(), out.data_ptr<element_t>(), in.numel(), extent, inner, shift);
    });
    BE_CHECK_KERNEL_LAUNCH();
}
