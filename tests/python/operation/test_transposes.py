"""Transposes of kernels: where there is none, and where a kernel is linear."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.scipy.sparse.linalg import bicgstab, gmres
from kernbridge.errors import NoDerivativeError

RNG = np.random.default_rng(0)
MATRIX = (RNG.normal(size=(5, 5)) + 8 * np.eye(5)).astype("float32")
RIGHT = RNG.normal(size=5).astype("float32")


@numba.njit
def product(a, x, out):
    for i in range(a.shape[0]):
        total = np.float32(0)
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        out[i] = total


OF_PRODUCT = "a: f32[m, n], x: f32[n] -> f32[m]"


@pytest.mark.parametrize("solve", [gmres, bicgstab])
def test_solvers_ask_for_a_transpose_that_they_do_not_use(solve):
    op = kernbridge.numba_kernel(product, signature=OF_PRODUCT)

    def solved(b):
        return solve(lambda x: op(MATRIX, x), b, tol=1e-6)[0]

    expected = np.linalg.solve(MATRIX, np.stack([RIGHT, 2 - RIGHT], 1)).T
    np.testing.assert_allclose(jax.jit(solved)(RIGHT), expected[0], rtol=1e-4, atol=1e-5)
    many = jax.vmap(solved)(jnp.stack([RIGHT, 2 - RIGHT]))
    np.testing.assert_allclose(many, expected, rtol=1e-4, atol=1e-5)
    for refused in (jax.grad(lambda b: solved(b).sum()), jax.jacrev(solved)):
        with pytest.raises(NoDerivativeError, match=r"'product'.*\[KB2102\]"):
            refused(RIGHT)
