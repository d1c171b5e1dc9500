"""CUDA kernels on the CPU: the sizes of local and shared arrays.

Each test is a program of its own, see test_cuda_on_cpu.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

HEAD = """
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda
S = jax.ShapeDtypeStruct
"""


@pytest.mark.exhaustive
def test_a_large_local_array_is_memory(run):
    """It is set to zero at first; with a store for each element, LLVM would take many minutes."""
    run("""
@cuda.jit
def permuted(x, out):
    own = cuda.local.array(60_000, numba.float64)
    i = cuda.grid(1)
    for j in range(0, own.size, 2):
        own[j] = x[i] * j
    total = 0.0
    for j in range(own.size):
        total += own[j]
    out[i] = total

op = numba_cuda_kernel(permuted, S((3,), jnp.float32), launch_dims=3)
np.testing.assert_allclose(op(jnp.arange(3.0)), np.arange(3) * sum(range(0, 60_000, 2)), rtol=1e-6)
""")


def test_static_shared_memory_has_the_limit_of_gpus(run):
    run("""
def staged(*sizes):
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        first = cuda.shared.array(sizes[0], numba.float32)
        rest = cuda.shared.array(sizes[1], numba.int8)
        first[i] = x[i]
        rest[i] = 1
        cuda.syncthreads()
        out[i] = first[len(x) - 1 - i] + rest[i]
    return kernel

x = np.arange(4, dtype=np.float32)
fits, beyond = staged(12_287, 4), staged(12_287, 5)
got = numba_cuda_kernel(fits, S((4,), jnp.float32), launch_dims=4)(x)
assert got.tolist() == [4, 3, 2, 1]
for check in (False, True):
    op = numba_cuda_kernel(beyond, S((4,), jnp.float32), launch_dims=4, check=check)
    for launch in (lambda: op(x), lambda: beyond[1, 4](x, x)):
        try:
            with kernbridge.cuda_on_cpu(check=check):
                launch()
        except kernbridge.errors.KernelCompilationError as e:
            assert "has 49153 bytes of static shared memory, and CUDA allows 49152 (48 Ki" in str(e)
        else:
            raise AssertionError
""")
