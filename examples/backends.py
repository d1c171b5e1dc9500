"""One operation, all backends: leaky ReLU in Numba, C++, Numba-CUDA, CUDA, Triton, Pallas and Warp.

Runs every backend that this machine has, forward and backward, and compares their numbers.

    python examples/backends.py [--size 1000000]
"""

import argparse
import importlib.util

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
from kernbridge import XLACustomKernel

op = XLACustomKernel("leaky_relu", "x where it is positive, alpha x elsewhere.")


def leaky_relu(x, alpha=0.1, backend=None):
    """x where it is positive, alpha x elsewhere; x is a vector of float32."""
    return op(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype), alpha=alpha, backend=backend)


op.def_call(leaky_relu)
op.def_jvp_rule2(lambda t, x, *, outs, alpha, backend: jnp.where(x > 0, t, np.float32(alpha) * t))


# A generator gets the static keywords of the call, and gives a function of the inputs. It runs
# where its backend is used, so that its imports may be missing elsewhere.
def in_numba(outs, alpha):
    import numba

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] if x[i] > 0 else np.float32(alpha) * x[i]

    return kernbridge.numba_kernel(kernel, outs)


def in_cpp(outs, alpha):
    module = kernbridge.load_cpp_inline(
        "leaky_relu",
        """
        #include <brainevent/common.h>
        // @BE leaky arg:f32[...] ret:f32[...] attr.alpha:float32
        void leaky(const BE::Tensor x, BE::Tensor y, float alpha) {
            const float *in = x.data_ptr<float>();
            float *out = y.data_ptr<float>();
            for (int64_t i = 0; i < x.numel(); i++)
                out[i] = in[i] > 0.0f ? in[i] : alpha * in[i];
        }
        """,
    )
    return lambda x: module.leaky(x, outs=outs, alpha=np.float32(alpha))


def in_numba_cuda(outs, alpha):
    from numba import cuda

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] if x[i] > 0 else np.float32(alpha) * x[i]

    return kernbridge.numba_cuda_kernel(kernel, outs, launch_dims=outs[0].size)


def in_cuda(outs, alpha):
    kernel = kernbridge.cuda_kernel(
        """
        __global__ void leaky(const float *x, float *y, int n, float alpha) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = x[i] > 0.0f ? x[i] : alpha * x[i];
        }
        """,
        "leaky",
        outs,
        launch_dims=outs[0].size,
        attrs={"n": outs[0].size},
    )
    return lambda x: kernel(x, alpha=np.float32(alpha))


def in_triton(outs, alpha):
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
    grid = (-(-out.size // 256),)
    shape = jax.ShapeDtypeStruct(out.shape, out.dtype)
    return lambda x: jax_triton.triton_call(x, kernel=kernel, out_shape=shape, grid=grid, **options)


def in_pallas(outs, alpha, interpret=False):
    from jax.experimental import pallas as pl

    (out,) = outs
    block = pl.BlockSpec((256,), lambda i: (i,))

    def kernel(x_ref, y_ref):
        x = x_ref[...]
        y_ref[...] = jnp.where(x > 0, x, np.float32(alpha) * x)

    n = -(-out.size // 256) * 256  # on a GPU, Pallas does not stop a block at an array's end
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((n,), out.dtype),
        grid=(n // 256,),
        in_specs=[block],
        out_specs=block,
        interpret=interpret,
    )
    return lambda x: call(jnp.pad(x, (0, n - x.size)))[: x.size]


def in_warp(outs, alpha):
    import warp
    from warp import jax_kernel

    scale = float(alpha)

    @warp.kernel
    def leaky(x: warp.array(dtype=float), y: warp.array(dtype=float)):
        i = warp.tid()
        y[i] = warp.where(x[i] > 0.0, x[i], scale * x[i])

    return jax_kernel(leaky)


op.def_numba_kernel(in_numba)
op.def_cpp_kernel(in_cpp)
op.def_kernel("pallas", "cpu", lambda outs, alpha: in_pallas(outs, alpha, interpret=True))
op.def_kernel("warp", "cpu", in_warp)
op.def_numba_cuda_kernel(in_numba_cuda)
op.def_cuda_raw_kernel(in_cuda)
op.def_triton_kernel(in_triton)
op.def_pallas_kernel("gpu", in_pallas)
op.def_warp_kernel(in_warp)

PACKAGES = {"numba": "numba", "numba_cuda": "numba_cuda", "triton": "jax_triton", "warp": "warp"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="elements of the vector")
    x = jnp.linspace(-3.0, 3.0, parser.parse_args().size, dtype=jnp.float32)
    many = jnp.stack([x, -x])
    want = jnp.where(x > 0, x, np.float32(0.1) * x)
    slope = jnp.where(x > 0, 1, np.float32(0.1))
    platform = jax.default_backend()
    print(
        f"leaky ReLU of {x.size} numbers on {platform}; the default is {op.get_default(platform)}"
    )
    for backend in op.available_backends(platform):
        package = PACKAGES.get(backend)
        if package and importlib.util.find_spec(package) is None:
            print(f"  {backend:10}  not here: {package} is not installed")
            continue
        forward = jax.jit(lambda x, b=backend: leaky_relu(x, backend=b))
        np.testing.assert_array_equal(forward(x), want)
        np.testing.assert_array_equal(jax.vmap(forward)(many)[0], want)
        np.testing.assert_array_equal(jax.grad(lambda x, f=forward: f(x).sum())(x), slope)
        print(f"  {backend:10}  as JAX computes it: forward, batched, and its gradient")


if __name__ == "__main__":
    main()
