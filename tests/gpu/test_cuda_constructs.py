"""Recursion, arrays that kernels make, CUDA C++ and exceptions: the same numbers on CPU and GPU."""

import shutil

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

cuda = pytest.importorskip("numba.cuda")
from numba import int32  # noqa: E402
from numba.cuda.core import config  # noqa: E402

S = jax.ShapeDtypeStruct
F32 = jnp.float32


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(int32(n - 1)) + fibonacci(int32(n - 2))


def test_recursion():
    @cuda.jit
    def fibonaccis(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = fibonacci(x[i])

    op = kernbridge.numba_cuda_kernel(fibonaccis, S((10,), jnp.int32), launch_dims=10)
    found = op(jnp.arange(10, dtype=jnp.int32))
    np.testing.assert_array_equal(found, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])


def test_arrays_that_a_kernel_makes(monkeypatch):
    monkeypatch.setattr(config, "CUDA_ENABLE_NRT", True, raising=False)

    @cuda.jit
    def statistics(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            row = x[i]
            out[i, 0] = row.sum()
            copied = row[::-1].copy()
            copied[0] += 100
            out[i, 1] = copied[0] - row[-1]

    x = jnp.arange(40, dtype=F32).reshape(8, 5)
    op = kernbridge.numba_cuda_kernel(statistics, S((8, 2), F32), launch_dims=8)
    np.testing.assert_array_equal(op(x), np.stack([np.asarray(x).sum(1), np.full(8, 100)], 1))


def test_functions_in_cuda_cpp(on_cpu):
    if on_cpu and shutil.which("clang++") is None:
        pytest.skip("clang is not installed")
    source = cuda.CUSource("""
    extern "C" __device__ int times(float *out, float v) {
        *out = v * 3 + blockIdx.x + max(threadIdx.x, 1u) * rsqrtf(4.0f);
        return 0;
    }
    """)
    times = cuda.declare_device("times", "float32(float32)", link=source)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = times(x[i])

    i = np.arange(64)
    op = kernbridge.numba_cuda_kernel(kernel, S((64,), F32), grid=2, block=32)
    expected = i * 3 + i // 32 + np.maximum(i % 32, 1) / 2
    np.testing.assert_allclose(op(jnp.arange(64, dtype=F32)), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*is launched by Numba, through Python")
def test_what_a_kernel_raises_is_an_error_of_the_call():
    @cuda.jit(debug=True, opt=False)
    def checked(x, out):
        i = cuda.grid(1)
        if i < out.size:
            if x[i] < 0:
                raise ValueError("negative")
            out[i] = x[i] * 2

    op = kernbridge.numba_cuda_kernel(checked, S((8,), F32), grid=1, block=8)
    x = jnp.arange(8, dtype=F32)
    np.testing.assert_array_equal(op(x), 2 * np.arange(8))
    with pytest.raises(
        (jax.errors.JaxRuntimeError, ValueError), match=r"'checked'.* ValueError: .*negative"
    ):
        jax.block_until_ready(op(-x))
