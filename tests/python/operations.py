"""The operations of seed 003, sections 7 and 8, each defined once for every backend that we have.

Generators run where their backend is lowered, so what they import may be missing elsewhere.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
from kernbridge import XLACustomKernel, numba_kernel

S = jax.ShapeDtypeStruct

LEAKY_CPP = """
#include <brainevent/common.h>
// @BE leaky arg ret attr.alpha:float32
void leaky(const BE::Tensor x, BE::Tensor y, float alpha) {
    const float *in = x.data_ptr<float>();
    float *out = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); i++)
        out[i] = in[i] > 0.0f ? in[i] : alpha * in[i];
}
// @BE lif_step arg arg arg ret ret
void lif_step(const BE::Tensor V, const BE::Tensor V_th, const BE::Tensor V_rest,
              BE::Tensor spikes, BE::Tensor V_out) {
    const float *v = V.data_ptr<float>();
    float th = V_th.data_ptr<float>()[0], rest = V_rest.data_ptr<float>()[0];
    for (int64_t i = 0; i < V.numel(); i++) {
        int fired = v[i] >= th;
        spikes.data_ptr<int32_t>()[i] = fired;
        V_out.data_ptr<float>()[i] = fired ? rest : v[i];
    }
}
"""

LEAKY_CUDA = """
extern "C" __global__ void leaky(const float *x, float *y, int n, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] > 0.0f ? x[i] : alpha * x[i];
}
"""

LIF_CUDA = """
extern "C" __global__ void lif(const float *V, const float *V_th, const float *V_rest, int *spikes,
                               float *V_out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    bool fired = V[i] >= V_th[0];
    spikes[i] = fired;
    V_out[i] = fired ? V_rest[0] : V[i];
}
"""


@functools.cache
def compiled():
    return kernbridge.load_cpp_inline("seed_003", LEAKY_CPP)


@functools.cache
def leaky_cuda(n: int, dtype: str):
    return kernbridge.cuda_kernel(
        LEAKY_CUDA, "leaky", S((n,), dtype), launch_dims=n, attrs={"n": n}
    )


def leaky_numba(outs, alpha):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] if x[i] > 0 else np.float32(alpha) * x[i]

    return lambda x: numba_kernel(kernel, outs)(x)


def leaky_cpp(outs, alpha):
    return lambda x: compiled().leaky(x, outs=outs[0], alpha=np.float32(alpha))


def leaky_numba_cuda(**kwargs):
    """As the seed prints it: a bare array."""
    from numba import cuda

    out_info = kwargs["outs"][0]
    n = out_info.shape[0]
    alpha = np.float32(kwargs.get("alpha", 0.01))

    @cuda.jit
    def leaky_relu_kern(x, out):
        i = cuda.grid(1)
        if i < out.size:
            v = x[i]
            out[i] = v if v > 0.0 else alpha * v

    def kernel(x):
        return kernbridge.numba_cuda_kernel(leaky_relu_kern, outs=out_info, launch_dims=n)(x)

    return kernel


def leaky_raw(outs, alpha):
    (out,) = outs
    return lambda x: leaky_cuda(out.shape[0], out.dtype.name)(x, alpha=np.float32(alpha))


leaky_op = XLACustomKernel("seed_003_leaky_relu")
leaky_op.def_numba_kernel(leaky_numba)
leaky_op.def_cpp_kernel(leaky_cpp)
leaky_op.def_numba_cuda_kernel(leaky_numba_cuda)
leaky_op.def_cuda_raw_kernel(leaky_raw)
leaky_op.def_jvp_rule2(lambda t, x, outs, alpha, **_: jnp.where(x > 0, t, np.float32(alpha) * t))


def leaky(x, alpha=0.1, backend=None):
    return leaky_op(x, outs=[S(x.shape, x.dtype)], alpha=alpha, backend=backend)[0]


def leaky_in_jax(x, alpha=0.1):
    return jnp.where(x > 0, x, np.float32(alpha) * x)


leaky_op.def_call(leaky)


def lif_numba(outs):
    @numba.njit
    def kernel(V, V_th, V_rest, spikes, V_out):
        for i in range(V.size):
            spikes[i] = 1 if V[i] >= V_th[0] else 0
            V_out[i] = V_rest[0] if spikes[i] else V[i]

    return numba_kernel(kernel, outs)


def lif_cpp(outs):
    return lambda *inputs: compiled().lif_step(*inputs, outs=outs)


def lif_numba_cuda(outs):
    from numba import cuda

    @cuda.jit
    def detect_spikes_kernel(V, V_th, spikes):
        i = cuda.grid(1)
        if i < V.size:
            spikes[i] = 1 if V[i] >= V_th[0] else 0

    @cuda.jit
    def reset_potential_kernel(V, spikes, V_rest, V_out):
        i = cuda.grid(1)
        if i < V.size:
            V_out[i] = V_rest[0] if spikes[i] else V[i]

    def lif_step(V, V_th, V_rest, spikes_out, V_out, stream):
        blocks = (V.shape[0] + 255) // 256
        detect_spikes_kernel[blocks, 256, stream](V, V_th, spikes_out)
        reset_potential_kernel[blocks, 256, stream](V, spikes_out, V_rest, V_out)

    return kernbridge.numba_cuda_callable(lif_step, outs)


@functools.cache
def lif_cuda(n: int):
    outs = (S((n,), jnp.int32), S((n,), jnp.float32))
    return kernbridge.cuda_kernel(LIF_CUDA, "lif", outs, launch_dims=n, attrs={"n": n})


lif_op = XLACustomKernel("seed_003_lif_step")
lif_op.def_numba_kernel(lif_numba)
lif_op.def_cpp_kernel(lif_cpp)
lif_op.def_numba_cuda_kernel(lif_numba_cuda)
lif_op.def_cuda_raw_kernel(lambda outs: lambda V, *rest: lif_cuda(V.shape[0])(V, *rest))


def lif_vjp(inputs, results, cotangents, **_):
    """What is not reset passes on; the reset potential gets the rest. Spikes have no tangents."""
    spikes, ct = results[0], cotangents[1]
    return jnp.where(spikes, 0, ct), None, jnp.sum(jnp.where(spikes, ct, 0), keepdims=True)


lif_op.def_vjp_rule(lif_vjp)


def lif(V, V_th, V_rest, backend=None):
    outs = (S(V.shape, jnp.int32), S(V.shape, V.dtype))
    return lif_op(V, V_th, V_rest, outs=outs, backend=backend)


def lif_in_jax(V, V_th, V_rest):
    spikes = (V_th[0] <= V).astype(jnp.int32)
    return spikes, jnp.where(spikes, V_rest[0], V)


lif_op.def_call(lif)


def check_leaky(backend: str) -> None:
    """Under jit, vmap, grad and scan, against JAX."""
    x = jnp.linspace(-3.0, 3.0, 257, dtype=jnp.float32)
    X = jnp.stack([x, -x, x * x - 1])

    def f(x):
        return leaky(x, 0.1, backend)

    equal(f(x), leaky_in_jax(x))
    equal(jax.jit(f)(x), leaky_in_jax(x))
    equal(jax.vmap(f)(X), leaky_in_jax(X))
    equal(jax.jit(jax.vmap(jax.vmap(f)))(X[None]), leaky_in_jax(X[None]))
    for run in (jax.grad, lambda g: jax.jit(jax.grad(g))):
        equal(
            run(lambda x: (f(x) ** 2).sum())(x), jax.grad(lambda x: (leaky_in_jax(x) ** 2).sum())(x)
        )
    equal(
        jax.vmap(jax.grad(lambda x: (f(x) ** 2).sum()))(X),
        jax.vmap(jax.grad(lambda x: (leaky_in_jax(x) ** 2).sum()))(X),
    )

    def steps(g):
        return lambda x: jax.lax.scan(lambda c, _: (g(c - 0.25), c), x, None, length=5)

    equal(steps(f)(x), steps(leaky_in_jax)(x))
    equal(
        jax.grad(lambda x: steps(f)(x)[1].sum())(x),
        jax.grad(lambda x: steps(leaky_in_jax)(x)[1].sum())(x),
    )


def check_lif(backend: str) -> None:
    """Under jit, vmap, grad and scan, against JAX. V, V_th and V_rest in mV."""
    rng = np.random.default_rng(0)
    V = jnp.array(rng.uniform(-75.0, -50.0, 10_000).astype(np.float32))
    V_th = jnp.array([-55.0], dtype=jnp.float32)
    V_rest = jnp.array([-70.0], dtype=jnp.float32)

    def f(V, V_th=V_th, V_rest=V_rest):
        return lif(V, V_th, V_rest, backend)

    def g(V, V_th=V_th, V_rest=V_rest):
        return lif_in_jax(V, V_th, V_rest)

    many, thresholds = jnp.stack([V, V + 3, V - 3]), jnp.asarray([[-55.0], [-60.0], [-50.0]])
    for run in (
        lambda f: f(V),
        lambda f: jax.jit(f)(V),
        lambda f: jax.vmap(f)(many),
        lambda f: jax.vmap(f)(many, thresholds),
        lambda f: jax.vmap(f, (None, 0))(V, thresholds),
        lambda f: jax.lax.scan(lambda v, _: f(v + 2)[::-1], V, None, length=10),
        lambda f: jax.grad(lambda V, r: (f(V, V_th, r)[1] ** 2).sum(), (0, 1))(V, V_rest)[0],
        lambda f: jax.vmap(jax.grad(lambda V: (f(V)[1] ** 2).sum()))(many),
        lambda f: jax.grad(
            lambda V: jax.lax.scan(lambda v, _: f(v + 2)[::-1], V, None, length=10)[0].sum()
        )(V),
    ):
        equal(run(f), run(g))
    got, want = (jax.grad(lambda r, h=h: (h(V, V_th, r)[1] ** 2).sum())(V_rest) for h in (f, g))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def equal(got, want):
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


# Backends with bridges of their own


def leaky_triton(outs, alpha):
    import jax_triton
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x_ref, y_ref, n: tl.constexpr, alpha: tl.constexpr, block: tl.constexpr):
        i = tl.program_id(0) * block + tl.arange(0, block)
        x = tl.load(x_ref + i, mask=i < n)
        tl.store(y_ref + i, tl.where(x > 0, x, alpha * x), mask=i < n)

    (out,) = outs
    options = {"n": out.size, "alpha": alpha, "block": 256}
    grid, shape = (-(-out.size // 256),), S(out.shape, out.dtype)
    return lambda x: jax_triton.triton_call(x, kernel=kernel, out_shape=shape, grid=grid, **options)


def leaky_pallas(outs, alpha, interpret=False):
    from jax.experimental import pallas as pl

    (out,) = outs
    block = pl.BlockSpec((256,), lambda i: (i,))

    def kernel(x_ref, y_ref):
        x = x_ref[...]
        y_ref[...] = jnp.where(x > 0, x, np.float32(alpha) * x)

    n = -(-out.size // 256) * 256  # on a GPU, Pallas does not stop a block at an array's end
    call = pl.pallas_call(
        kernel,
        out_shape=S((n,), out.dtype),
        grid=(n // 256,),
        in_specs=[block],
        out_specs=block,
        interpret=interpret,
    )
    return lambda x: call(jnp.pad(x, (0, n - x.size)))[: x.size]


def leaky_warp(outs, alpha):
    import warp
    from warp import jax_kernel

    scale = float(alpha)

    @warp.kernel
    def leaky(x: warp.array(dtype=float), y: warp.array(dtype=float)):
        i = warp.tid()
        y[i] = warp.where(x[i] > 0.0, x[i], scale * x[i])

    return jax_kernel(leaky)


leaky_op.def_triton_kernel(leaky_triton)
leaky_op.def_pallas_kernel("gpu", leaky_pallas)
leaky_op.def_warp_kernel(leaky_warp)
