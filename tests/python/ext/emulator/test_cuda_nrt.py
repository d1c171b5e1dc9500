"""Kernels whose arrays have reference counts (NUMBA_CUDA_ENABLE_NRT=1), on the CPU.

The ordinary run has tests/gpu/test_cuda_constructs.py on the CPU.

Each test is a program of its own, since this process has a fake driver that takes GPU calls.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")

pytestmark = [pytest.mark.once, pytest.mark.exhaustive]

PROGRAM = """
import resource
import jax, jax.numpy as jnp, numpy as np
from kernbridge import numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct

@cuda.jit
def statistics(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        row = x[i]
        out[i, 0] = row.sum()
        out[i, 1] = np.max(row)
        copied = row[::-1].copy()
        copied[0] += 100
        out[i, 2] = copied[0] - row[-1]
        new = np.zeros(3)
        new[i % 3] = 7
        out[i, 3] = new[0] + new[1] + new[2]

@cuda.jit
def reinterpreted(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[4 * i : 4 * i + 4].view(np.int32)[0]

@cuda.jit
def shared_rows(x, out):
    i = cuda.threadIdx.x
    row = cuda.shared.array(32, np.float32)
    row[i] = x[i]
    cuda.syncthreads()
    out[i] = row[: i + 1].copy()[i // 2]

x = jnp.asarray(np.random.default_rng(0).normal(size=(37, 20)), jnp.float32)
rows = np.asarray(x)
expected = np.stack([rows.sum(1), rows.max(1), np.full(37, 100), np.full(37, 7)], 1)
op = numba_cuda_kernel(statistics, S((37, 4), x.dtype), launch_dims=37)
np.testing.assert_allclose(op(x), expected, rtol=1e-4, atol=1e-5)
for options in ({}, {"check": True}):
    integers = np.arange(8, dtype=np.int32)
    op = numba_cuda_kernel(reinterpreted, S((8,), jnp.int32), launch_dims=8, **options)
    np.testing.assert_array_equal(op(integers.view(np.uint8)), integers)
    op = numba_cuda_kernel(shared_rows, S((32,), jnp.float32), grid=1, block=32, **options)
    np.testing.assert_array_equal(op(jnp.arange(32.0)), np.arange(32) // 2)

@cuda.jit
def large(out):
    i = cuda.grid(1)
    new = np.ones(1 << 17)
    out[i] = new[i] + new[-1]

op = jax.jit(numba_cuda_kernel(large, S((64,), jnp.float32), launch_dims=64))
np.testing.assert_array_equal(op(), 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(20):  # 1 MiB for each of 1280 threads
    jax.block_until_ready(op())
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
print("held")
"""


def test_reductions_copies_and_views(run_python):
    printed = run_python(
        PROGRAM, KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so", NUMBA_CUDA_ENABLE_NRT="1"
    )
    assert "held" in printed
