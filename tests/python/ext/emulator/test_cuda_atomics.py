"""Atomic operations of launches that run alone, as plain ones, and of those that do not."""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = pytest.mark.once

PROGRAM = """
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda

N_BINS = 8
ARITHMETIC = {"add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum}
OF_BITS = {"and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor}
jax.config.update("jax_enable_x64", True)


@cuda.jit
def arithmetic(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, (0, i % N_BINS), x[i])
        cuda.atomic.sub(out, (1, i % N_BINS), x[i])
        cuda.atomic.max(out, (2, i % N_BINS), x[i])
        cuda.atomic.min(out, (3, i % N_BINS), x[i])


@cuda.jit
def of_bits(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.and_(out, (0, i % N_BINS), x[i])
        cuda.atomic.or_(out, (1, i % N_BINS), x[i])
        cuda.atomic.xor(out, (2, i % N_BINS), x[i])


@cuda.jit
def exchanged(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.cas(out, (0, i % N_BINS), x[i], x[i])  # changes nothing
        cuda.atomic.cas(out, (0, i % N_BINS), 0, x[i])
        cuda.atomic.exch(out, (1, i % N_BINS), 7)
        cuda.atomic.inc(out, (2, 0), numba.uint32(2**31))


def made(kernel, rows, dtype, n):
    out = jax.ShapeDtypeStruct((rows, N_BINS), dtype)
    return numba_cuda_kernel(kernel, out, launch_dims=n, zero_outputs=True)


def check(n):
    x, place = np.random.default_rng(n).integers(1, 50, n), np.arange(n) % N_BINS
    for dtype in (np.int64, np.uint32, np.float32):
        kernels = {arithmetic: ARITHMETIC} | ({of_bits: OF_BITS} if dtype(0.5) == 0 else {})
        for kernel, ufuncs in kernels.items():
            wanted = np.zeros((len(ufuncs), N_BINS), dtype)
            for row, ufunc in zip(wanted, ufuncs.values()):
                ufunc.at(row, place, x.astype(dtype))
            found = jax.jit(made(kernel, len(ufuncs), dtype, n))(x.astype(dtype))
            np.testing.assert_array_equal(found, wanted, err_msg=f"{kernel} {dtype} {n}")
    x = np.arange(1, n + 1, dtype=np.uint32)
    first, seven, counted = np.asarray(jax.jit(made(exchanged, 3, np.uint32, n))(x))
    assert (seven == 7).all() and counted[0] == n
    np.testing.assert_array_equal((first - 1) % N_BINS, np.arange(N_BINS))
    if n <= 256:  # whose threads run one after the other
        np.testing.assert_array_equal(first, x[:N_BINS])


(about,) = made(arithmetic, 4, np.int32, 100).inspect(np.zeros(100, np.int32))
assert "@kb_alone()" in about.llvm_ir and "atomicrmw" in about.llvm_ir
check(100)  # by one thread
check(50_000)  # by several, where there are some
out = np.zeros((4, N_BINS), np.int64)
with kernbridge.cuda_on_cpu():
    arithmetic[2, 32](np.arange(50), out)  # from here on, no launch is alone
np.testing.assert_array_equal(out[0], np.bincount(np.arange(50) % N_BINS, np.arange(50)))
check(100)
"""


def test_launches_that_are_alone(run_python):
    run_python(PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so")
