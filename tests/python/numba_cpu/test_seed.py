"""The examples of seed 001, as printed but for the import, compared with NumPy."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel

a = jnp.arange(64, dtype=jnp.float32)
b = jnp.ones(64, dtype=jnp.float32)


@numba.njit
def add_kernel(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


def test_one_output():
    kernel = numba_kernel(add_kernel, outs=jax.ShapeDtypeStruct((64,), jnp.float32))
    result = kernel(a, b)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, np.arange(64, dtype=np.float32) + 1)


def test_multiple_outputs():
    @numba.njit
    def split_kernel(x, out1, out2):
        for i in range(out1.size):
            out1[i] = x[i] * 2
            out2[i] = x[i] * 3

    kernel = numba_kernel(
        split_kernel,
        outs=[jax.ShapeDtypeStruct((64,), jnp.float32), jax.ShapeDtypeStruct((64,), jnp.float32)],
    )
    out1, out2 = kernel(a)
    np.testing.assert_array_equal(out1, 2 * np.asarray(a))
    np.testing.assert_array_equal(out2, 3 * np.asarray(a))


def test_with_jit():
    kernel = numba_kernel(add_kernel, outs=jax.ShapeDtypeStruct((64,), jnp.float32))

    @jax.jit
    def f(a, b):
        return kernel(a, b)

    np.testing.assert_array_equal(f(a, b), np.asarray(a) + 1)


def test_parallel_numba():
    @numba.njit(parallel=True)
    def parallel_add_kernel(x, y, out):
        for i in numba.prange(out.size):
            out[i] = x[i] + y[i]

    kernel = numba_kernel(parallel_add_kernel, outs=jax.ShapeDtypeStruct((64,), jnp.float32))
    np.testing.assert_array_equal(kernel(a, b), np.asarray(a) + 1)


OUT = jax.ShapeDtypeStruct((2,), jnp.float32)


@pytest.mark.brief
@pytest.mark.parametrize(
    "outs",
    [OUT, [OUT], (OUT, OUT), {"spikes": [OUT, (OUT,)], "v": OUT}, [], {"a": None, "b": OUT}, None],
    ids=str,
)
def test_outputs_come_back_as_their_pytree(outs):
    @numba.njit
    def fill(x, *results):
        for i, out in enumerate(numba.literal_unroll(results)):
            out[:] = x + i

    @numba.njit
    def nothing(x):
        pass

    n = len(jax.tree.leaves(outs))
    kernel = fill if n else nothing
    result = numba_kernel(kernel, outs)(jnp.zeros(2, jnp.float32))
    assert jax.tree.structure(result) == jax.tree.structure(outs)
    for i, leaf in enumerate(jax.tree.leaves(result)):
        np.testing.assert_array_equal(leaf, [i, i])
