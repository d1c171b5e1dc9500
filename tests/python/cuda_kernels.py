"""GPU kernels of the tests, on the fake driver and on a GPU."""

import jax
import kernbridge
from numba import cuda

S = jax.ShapeDtypeStruct


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def scale(x, factor, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


@cuda.jit
def increment(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def plus_z(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + cuda.blockIdx.z


@cuda.jit
def hadamard(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = a[i, j] * b[i, j]


@cuda.jit
def volume(a, c):
    i, j, k = cuda.grid(3)
    if i < c.shape[0] and j < c.shape[1] and k < c.shape[2]:
        c[i, j, k] = 2 * a[i, j, k]


@cuda.jit
def plus_zero_d(x, s, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + s[()]


def same_shape(x, *_, **__):
    return S(x.shape, x.dtype)


def elementwise(kernel, **options):
    return kernbridge.numba_cuda_kernel(
        kernel, same_shape, launch_dims=lambda x, *_, **__: x.shape, **options
    )


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]
