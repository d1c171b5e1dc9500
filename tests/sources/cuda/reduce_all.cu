// Reductions of everything to one number, in two stages; the operation is a template parameter.
#include <cuda_runtime.h>
#include "brainevent/common.h"
#include "reduce.cuh"

template <typename T> struct Square {
    __device__ T operator()(T x) const { return x * x; }
};
template <typename T> struct Same {
    __device__ T operator()(T x) const { return x; }
};

template <typename T, template <typename> class Op, template <typename> class Map>
__global__ void stage(const T *in, T *out, int64_t n)
{
    __shared__ T parts[WARP];
    T value = Op<T>::identity();
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        value = Op<T>()(value, Map<T>()(in[i]));
    value = block_reduce(value, Op<T>(), parts);
    if (threadIdx.x == 0)
        out[blockIdx.x] = value;
}

template <template <typename> class Op, template <typename> class Map>
static void reduce(const BE::Tensor &x, BE::Tensor &out, BE::Tensor &partial, cudaStream_t stream)
{
    const int blocks = partial.numel_checked_int();
    BE_DISPATCH_FLOATING(x.dtype(), T, {
        stage<T, Op, Map><<<blocks, 160, 0, stream>>>(x.data_ptr<T>(), partial.data_ptr<T>(), x.numel());
        stage<T, Op, Same><<<1, 64, 0, stream>>>(partial.data_ptr<T>(), out.data_ptr<T>(), blocks);
    });
    BE_CHECK_KERNEL_LAUNCH_SYNC();
}

// @BE sum arg ret ret stream
void sum(const BE::Tensor x, BE::Tensor out, BE::Tensor partial, cudaStream_t stream)
{
    reduce<Plus, Same>(x, out, partial, stream);
}

// @BE sum_of_squares arg ret ret stream
void sum_of_squares(const BE::Tensor x, BE::Tensor out, BE::Tensor partial, cudaStream_t stream)
{
    reduce<Plus, Square>(x, out, partial, stream);
}

// @BE maximum arg ret ret stream
void maximum(const BE::Tensor x, BE::Tensor out, BE::Tensor partial, cudaStream_t stream)
{
    reduce<Largest, Same>(x, out, partial, stream);
}
