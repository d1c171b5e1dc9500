"""Derivatives of kernels whose threads shuffle, vote and match, on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import check_rules, numba_cuda_kernel
from kernbridge.errors import NoDerivativeError
from needs_enzyme import assert_derivatives, needs_enzyme
from warp_kernels import ALL, CASES, cuda, operation

pytestmark = [needs_enzyme, pytest.mark.filterwarnings("ignore:.*KB(2108|7002)")]


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_shuffle(dtype):
    op, by_jax, given = operation("all four", dtype)
    assert_derivatives(op, by_jax, *given, alone=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_against_jax(name, dtype):
    op, by_jax, given = operation(name, dtype)
    second = name in ("all four", "prefixes", "by index")
    assert_derivatives(op, by_jax, *given, second=second, batched=True)


@pytest.mark.exhaustive
def test_against_central_differences():
    op, _, given = operation("block sums", "float64")
    assert all("passed" in str(check) for check in check_rules(op, *given))


@cuda.jit
def counted(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * cuda.shfl_xor_sync(ALL, x[i], 1)
    out[i] *= cuda.syncthreads_count(i)


@cuda.jit
def matched(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * cuda.shfl_xor_sync(ALL, x[i], 1)
    out[i] *= cuda.popc(cuda.match_any_sync(ALL, x[i]))


@cuda.jit
def waiting(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * cuda.shfl_xor_sync(ALL, x[i], 1)
    cuda.syncwarp()


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (counted, "it uses barrier0.popc, of which no derivative"),
        (matched, "it uses the bits of real numbers as integers"),
        (waiting, "it uses bar.warp.sync"),
    ],
)
def test_what_is_refused_beside_shuffles(kernel, why):
    op = numba_cuda_kernel(kernel, lambda x: x, grid=1, block=64, derivatives="enzyme")
    line = kernel.py_func.__code__.co_firstlineno + 4
    with pytest.raises(NoDerivativeError, match=rf"(?s){why}.*test_warps\.py:{line}.*KB2107"):
        jax.grad(lambda x: op(x).sum())(jnp.ones(64, np.float32))
