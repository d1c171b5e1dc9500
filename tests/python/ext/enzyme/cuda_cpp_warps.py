"""CUDA C++ kernels whose threads pass numbers to each other in a warp, and the same in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
from cuda_cpp import integers, kernel

LANES = np.arange(32)


def of_warps(of_one):
    """A function of one warp as a function of whole arrays."""

    def of_all(*arrays):
        return jax.vmap(of_one)(*(x.reshape(-1, 32) for x in arrays)).reshape(-1)

    return of_all


@kernel(
    r"""
__global__ void shuffles(const T *x, const int *at, T *y)
{
    const unsigned all = 0xffffffff;
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    T v = x[i] + __shfl_down_sync(all, x[i], 1);
    v *= __shfl_xor_sync(all, v, 4);
    v += __shfl_sync(all, v, lane / 3);
    v *= __shfl_up_sync(all, v, 3);
    v += __shfl_down_sync(all, v * v, 3, 8);
    v *= __shfl_up_sync(all, sin(v), 1, 4);
    v += __shfl_sync(all, v, 21, 16) * __shfl_xor_sync(all, v, 9, 8);
    long long wide = __shfl_up_sync(all, at[i] * 3000000000ll, 1);
    v += x[i - lane + __shfl_xor_sync(all, at[i], 1)] * (wide % 7);
    y[i] = v * x[i];
}
""",
    lambda real, rng: (0.5 * real(64), integers(rng, 32, 64)),
    threads_per_block=64,
)
def shuffles(x, at):
    def of_one(x, at):
        def read(v, lanes, is_in_range):
            return v[np.where(is_in_range, lanes, LANES)]

        v = x + read(x, LANES + 1, LANES < 31)
        v = v * v[LANES ^ 4]
        v = v + v[LANES // 3]
        v = v * read(v, LANES - 3, LANES >= 3)
        v = v + read(v * v, LANES + 3, LANES % 8 < 5)
        v = v * read(jnp.sin(v), LANES - 1, LANES % 4 > 0)
        v = v + v[LANES // 16 * 16 + 5] * read(v, LANES ^ 9, LANES & 8 > 0)
        wide = read(at.astype("int64") * 3000000000, LANES - 1, LANES > 0)
        return (v + x[at[LANES ^ 1]] * (wide % 7)).astype(x.dtype) * x

    return of_warps(of_one)(x, at)


@kernel(
    r"""
template <typename U> __device__ U total_of_warp(U v)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}
__global__ void total_of_blocks(const T *x, const T *w, T *out, int n, int m)
{
    __shared__ T parts[32];
    T v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        v += x[i] * x[i] * w[i % m];
    v = total_of_warp(v);
    if (threadIdx.x % warpSize == 0)
        parts[threadIdx.x / warpSize] = v;
    __syncthreads();
    if (threadIdx.x < warpSize) {
        v = threadIdx.x < blockDim.x / warpSize ? parts[threadIdx.x] : T(0);
        v = total_of_warp(v);
        if (threadIdx.x == 0)
            atomicAdd(out, sin(v));
    }
}
""",
    lambda real, rng: (0.3 * real(250), real(7)),
    grid=2,
    block=96,
    attrs={"n": 250, "m": 7},
    zero_outputs=True,
    is_fast=True,
)
def total_of_blocks(x, w):
    terms = jnp.pad(x * x * w[np.arange(250) % 7], (0, 384 - 250)).reshape(2, 2, 96)
    return jnp.sin(terms.sum((0, 2))).sum()[None]


@kernel(
    r"""
__global__ void votes(const T *x, T *y)
{
    const unsigned all = 0xffffffff;
    int i = threadIdx.x;
    T v = x[i] * __popc(__ballot_sync(__activemask(), x[i] > 0));
    if (__any_sync(all, x[i] > 1) && !__all_sync(all, x[i] > 0) && !__uni_sync(all, x[i] > 0))
        v *= x[i];
    if (__shfl_xor_sync(all, v, 2) > v)
        v *= 3;
    y[i] = v;
}
""",
    lambda real, rng: (np.concatenate([np.abs(real(32)), 2 * real(32)]),),
    grid=1,
    block=64,
)
def votes(x):
    def of_one(x):
        v = x * (x > 0).sum()
        v = jnp.where((x > 1).any() & ~(x > 0).all(), v * x, v)
        return jnp.where(v[LANES ^ 2] > v, 3 * v, v).astype(x.dtype)

    return of_warps(of_one)(x)
