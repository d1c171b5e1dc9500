"""threads_per_block="tune" on a GPU: values stay, and the answer is shown and kept."""

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from numba import cuda

pytestmark = pytest.mark.gpu_only("blocks are measured on a GPU")


@cuda.jit
def saxpy(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i] + y[i]


@cuda.jit
def increment(_x, x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@pytest.mark.parametrize("n", [1000, 10_000_000])
def test_values_and_what_inspect_shows(n):
    out = jax.ShapeDtypeStruct((n,), jnp.float32)
    op = kernbridge.numba_cuda_kernel(saxpy, out, launch_dims=n, threads_per_block="tune")
    x = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(jax.jit(op)(x, x), 3 * x)
    (found,) = op.inspect(x, x)
    print(found.tuning)
    assert "measured on" in found.tuning
    assert found.block is None or found.block[0] % 32 == 0


def test_calls_in_place_keep_their_data():
    n = 100_000
    out = jax.ShapeDtypeStruct((n,), jnp.float32)
    op = kernbridge.numba_cuda_kernel(
        increment, out, launch_dims=n, threads_per_block="tune", input_output_aliases={0: 0}
    )
    x = jnp.zeros(n)
    np.testing.assert_array_equal(jax.jit(op)(x), np.ones(n))
    np.testing.assert_array_equal(x, np.zeros(n))
