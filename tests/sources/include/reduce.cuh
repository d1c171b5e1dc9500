// Reductions within a warp and within a block, shared by several kernels.
#pragma once

#define WARP 32
#define FULL 0xffffffffu

template <typename T> struct Plus {
    static __device__ T identity() { return T(0); }
    __device__ T operator()(T a, T b) const { return a + b; }
};

template <typename T> struct Largest {
    static __device__ T identity() { return -T(3.4e38f); }
    __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

template <typename T, typename Op> __device__ __forceinline__ T warp_reduce(T value, Op op)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        value = op(value, __shfl_xor_sync(FULL, value, offset));
    return value;
}

// Of all threads of a block, for all of them. `parts` holds one value per warp.
template <typename T, typename Op> __device__ T block_reduce(T value, Op op, T *parts)
{
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    value = warp_reduce(value, op);
    __syncthreads(); // parts may still be read from before
    if (lane == 0)
        parts[warp] = value;
    __syncthreads();
    value = lane < (blockDim.x + WARP - 1) / WARP ? parts[lane] : Op::identity();
    return warp_reduce(value, op);
}
