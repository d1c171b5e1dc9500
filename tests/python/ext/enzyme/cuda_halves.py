"""CUDA C++ of half precision that is differentiated, with JAX's functions of equal values.

In the sources, `T` stands for `__half` or `__nv_bfloat16`, `Pair` for a pair of them, and `NAME`
for the names of CUDA's functions that contain the name of the type.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from kernbridge import cuda_kernel, load_cuda_inline

S = jax.ShapeDtypeStruct
HEAD = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef {0} T;
typedef {0}2 Pair;
#define NAME(before, after) before##{1}##after
#line 1
"""
C = {"float16": ("__half", "half"), "bfloat16": ("__nv_bfloat16", "bfloat16")}


class Kernel(NamedTuple):
    """A kernel, its values, and a function that makes arguments of a function that draws halves."""

    source: str
    reference: Any
    arguments: Any
    options: dict[str, Any]


KERNELS = {}


def kernel(source, arguments, **options):
    def added(reference):
        KERNELS[reference.__name__] = Kernel(source, reference, arguments, options)
        return reference

    return added


def rounded(function, dtype):
    """A function of arrays of float32 as one of halves, in its arguments and in its values."""

    def made(*given):
        wide = (x.astype("float32") if x.dtype == dtype else x for x in given)
        return jax.tree.map(lambda y: y.astype(dtype), function(*wide))

    return made


def as_halves(op, dtype):
    """An operation, some of whose values are float32, with all of them as halves."""
    return lambda *given: jax.tree.map(lambda y: y.astype(dtype), op(*given))


def operation(name, dtype):
    """The operation, its values by float32, and arguments."""
    source, reference, arguments, options = KERNELS[name]
    rng = np.random.default_rng(0)
    arguments = arguments(lambda *shape: jnp.asarray(rng.uniform(0.2, 1, shape), dtype))
    reference = rounded(reference, dtype)
    y = jax.eval_shape(reference, *arguments)
    options = {"derivatives": "enzyme", **options}
    if "grid" not in options:
        options.setdefault("launch_dims", arguments[0].size)
    outs = S(y.shape, "float32" if "float *" in source else dtype)
    op = cuda_kernel(HEAD.format(*C[dtype]) + source, name, outs, **options)
    return as_halves(op, dtype), reference, arguments


@kernel(
    """
__global__ void polynomial(const T *x, const T *w, T *y, int n, T scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T a = __hfma(w[1], x[i], w[0]), b = x[i] > NAME(__float2, )(0.5f) ? -x[i] : hexp(x[i]);
    a += scale * b;
    y[i] = __hmax(a * x[i] / w[2], __hneg(w[3]));
}
""",
    lambda real: (real(70), real(4)),
    threads_per_block=32,
    attrs={"n": 70, "scale": 1.5},
)
def polynomial(x, w):
    b = jnp.where(x > 0.5, -x, jnp.exp(x))
    return jnp.maximum((w[0] + w[1] * x + 1.5 * b) * x / w[2], -w[3])


@kernel(
    """
__global__ void dot(const T *a, const T *x, float *y, int n)
{
    __shared__ float sums[32];
    float sum = 0;
    for (int k = threadIdx.x; k < n; k += 32)
        sum += NAME(__, 2float)(a[blockIdx.x * n + k]) * NAME(__, 2float)(x[k]);
    sums[threadIdx.x] = sum;
    for (int some = 16; some > 0; some /= 2) {
        __syncthreads();
        if (threadIdx.x < some)
            sums[threadIdx.x] += sums[threadIdx.x + some];
    }
    if (threadIdx.x == 0)
        y[blockIdx.x] = sums[0];
}
""",
    lambda real: (real(5, 77), real(77)),
    grid=5,
    block=32,
    attrs={"n": 77},
)
def dot(a, x):
    return a @ x


@kernel(
    """
__global__ void stencil(const T *u, const T *w, T *out, int n)
{
    __shared__ T s[34];
    extern __shared__ T more[];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    s[t + 1] = u[i];
    more[31 - t] = u[i] * u[i];
    if (t == 0)
        s[0] = u[(i + n - 1) % n];
    if (t == 31)
        s[33] = u[(i + 1) % n];
    __syncthreads();
    T sum = w[0] * s[t] + w[1] * s[t + 1] * s[t + 2];
    for (int k = 0; k < 3; k++)
        sum += w[k] * more[(t + k) % 32];
    out[i] = sum;
}
""",
    lambda real: (real(96), real(3)),
    grid=3,
    block=32,
    shared_mem=64,
    attrs={"n": 96},
)
def stencil(u, w):
    blocks = (u * u).reshape(3, 32)[:, ::-1]
    more = sum(w[k] * jnp.roll(blocks, -k, 1) for k in range(3)).reshape(96)
    return w[0] * jnp.roll(u, 1) + w[1] * u * jnp.roll(u, -1) + more


@kernel(
    """
__global__ void lengths(const T *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const Pair a = reinterpret_cast<const Pair *>(x)[i];
    const Pair b = NAME(__, 22float2)(a).x > 0.5f ? a : a * a;
    Pair mirrored = NAME(__halves2, 2)(NAME(__high2, )(b), b.x);
    mirrored = __hfma2(mirrored, a, __hadd2(b, NAME(__float2, 2_rn)(0.25f)));
    float2 wide = NAME(__, 22float2)(mirrored);
    out[2 * i] = sqrtf(wide.x * wide.x + wide.y * wide.y);
    out[2 * i + 1] = wide.y;
}
""",
    lambda real: (real(37, 2),),
    launch_dims=37,
    attrs={"n": 37},
)
def lengths(x):
    b = jnp.where(x[:, :1] > 0.5, x, x * x)
    y = b[:, ::-1] * x + b + 0.25
    return jnp.stack([jnp.sqrt(jnp.sum(y * y, 1)), y[:, 1]], 1)


@kernel(
    """
__global__ void scatter(const T *x, const int *at, T *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const char *bytes = (const char *)x;
    T own = *(const T *)(bytes + i * sizeof(T)), powers[4] = {};
    for (int k = 0; k < at[i] % 3 + 1; k++)
        powers[k + 1] = k ? powers[k] * own : own;
    T chosen = powers[at[i] % 3] + powers[1];
    chosen = chosen * __shfl_xor_sync(~0u, chosen, 1);
    atomicAdd(&out[at[i]], chosen);
}
""",
    lambda real: (real(64), np.arange(64, dtype=np.int32) * 5 % 7),
    zero_outputs=True,
    threads_per_block=32,
)
def scatter(x, at):
    chosen = x + jnp.stack([jnp.zeros(64), x, x * x])[at % 3, jnp.arange(64)]
    return jnp.zeros(7).at[at].add(chosen * chosen.reshape(32, 2)[:, ::-1].ravel())


MODULE = """
#include <cuda_runtime.h>
#include "kernbridge/kernbridge.hpp"
using kernbridge::Tensor;
struct View {
    const T *data;
    int n;
};
__global__ void scale(View x, float a, T *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.n)
        out[i] = __hmul(NAME(__float2, )(a), x.data[i] * x.data[i]);
}
__global__ void sum(const T *x, float *out, int n)
{
    extern __shared__ T s[];
    s[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : T(0);
    for (int some = blockDim.x / 2; some; some /= 2) {
        __syncthreads();
        if (threadIdx.x < some)
            s[threadIdx.x] += s[threadIdx.x + some];
    }
    if (!threadIdx.x)
        out[0] = s[0];
}
// @BE energy arg:DTYPE[n] ret:float32[1] ret:DTYPE[n] attr.a:float64 stream
void energy(Tensor x, Tensor out, Tensor copied, double a, cudaStream_t stream)
{
    int n = x.size(0) - 2;
    T *values, *copy = (T *)copied.data_ptr();
    cudaMallocAsync((void **)&values, n * sizeof(T), stream);
    scale<<<(n + 31) / 32, 32, 0, stream>>>({(const T *)x.data_ptr() + 2, n}, a, values);
    sum<<<1, 128, 128 * sizeof(T), stream>>>(values, (float *)out.data_ptr(), n);
    cudaMemsetAsync(copy, 0, x.numel() * sizeof(T), stream);
    cudaMemcpyAsync(copy + 1, values, n * sizeof(T), cudaMemcpyDeviceToDevice, stream);
    cudaFreeAsync(values, stream);
}
// @BE filled arg:DTYPE[n] ret:DTYPE[n] stream
void filled(Tensor x, Tensor out, cudaStream_t stream)
{
    cudaMemsetAsync(out.data_ptr(), 1, x.numel() * sizeof(T), stream);
    scale<<<1, 4, 0, stream>>>({(const T *)x.data_ptr(), 4}, 2, (T *)out.data_ptr());
}
"""


def module(dtype, **options):
    source = HEAD.format(*C[dtype]) + MODULE.replace("DTYPE", dtype)
    return load_cuda_inline(f"of_{dtype}", source, auto_register=False, **options)


def energy(loaded, dtype):
    """The function of a module, its values, and its argument."""

    def reference(x):
        values = 1.5 * x[2:] ** 2
        return jnp.sum(values)[None], jnp.pad(values, (1, 1))

    x = jnp.asarray(np.random.default_rng(0).uniform(0.2, 1, 70), dtype)
    outs = S((1,), "float32"), S(x.shape, dtype)
    op = loaded.energy.operation(outs, a=1.5, derivatives="enzyme")
    return as_halves(op, dtype), rounded(reference, dtype), x
