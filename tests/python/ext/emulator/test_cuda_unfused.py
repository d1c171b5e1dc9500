"""Products and sums of libdevice that name their rounding are never fused, as on GPUs."""

import jax
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

from kernbridge import numba_cuda_kernel
from numba import cuda
from numba.cuda import libdevice
from processor_features import has_fma

pytestmark = pytest.mark.once
N = 1000


@cuda.jit
def of_floats(a, b, c, out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        product = libdevice.fmul_rn(a[i], b[i])
        out[0, i] = libdevice.fadd_rn(product, c[i])
        out[1, i] = libdevice.fsub_rn(c[i], a[i] * b[i])
        out[2, i] = libdevice.fmul_rn(a[i], c[i]) + b[i]
        out[3, i] = b[i] * c[i] + a[i]


@cuda.jit
def of_doubles(a, b, c, out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        x, y, z = np.float64(a[i]) / 3, np.float64(b[i]) / 3, np.float64(c[i]) / 3
        values = (
            libdevice.dadd_rn(libdevice.dmul_rn(x, y), z),
            libdevice.dadd_rn(z, -(x * y)),
            libdevice.dmul_rn(x, z) + y,
            y * z + x,
        )
        for k in range(4):
            out[k, i] = values[k]


def exact(a, b, c):
    return np.stack([a * b + c, c - a * b, a * c + b, b * c + a])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_named_roundings_are_kept(dtype, x64):
    rng = np.random.default_rng(0)
    given = [rng.normal(size=N).astype(np.float32) for _ in range(3)]
    kernel = of_floats if dtype == np.float32 else of_doubles
    op = numba_cuda_kernel(kernel, jax.ShapeDtypeStruct((4, N), dtype), launch_dims=N)
    found = np.asarray(op(*given))
    rounded = exact(*(x if dtype == np.float32 else x.astype(dtype) / 3 for x in given))
    np.testing.assert_array_equal(found[:3], rounded[:3])
    assert (
        np.any(found[3] != rounded[3]) == has_fma()
    )  # the last one is fused, if the processor can
