"""Transposes of what Enzyme makes, against those of JAX's own derivatives."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from needs_enzyme import needs_enzyme

pytestmark = needs_enzyme


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@kernbridge.kernel("x: T[n], c: T[2, n] -> T[n]", derivatives="enzyme")
@numba.njit
def mixed(x, c, out):
    for i in range(x.size):
        out[i] = c[0, i] * x[i] * x[i] + c[1, i] * x[i - 1]


def mixed_by_jax(x, c):
    return c[0] * x * x + c[1] * jnp.roll(x, 1)


def pulled(f, x, c, ct):
    return jax.linear_transpose(jax.vjp(f, x, c)[1], ct)((x, 2 * c))[0]


TRANSPOSES = {
    "of vjp": pulled,
    "of vjp, twice": lambda f, x, c, ct: jax.linear_transpose(
        lambda ct: jax.linear_transpose(jax.vjp(f, x, c)[1], ct)((x, c))[0], x
    )(x),
    "of linearize": lambda f, x, c, ct: jax.linear_transpose(jax.linearize(f, x, c)[1], x, c)(ct),
    "in vmap": lambda f, x, c, ct: jax.vmap(lambda x, ct: pulled(f, x, c, ct))(
        jnp.stack([x, ct, -x]), jnp.stack([ct, x, ct])
    ),
    "of vmap": lambda f, x, c, ct: jax.linear_transpose(
        jax.vmap(jax.vjp(f, x, c)[1]), jnp.stack([ct, x])
    )((jnp.stack([x, ct]), jnp.stack([c, -c]))),
    "differentiated": lambda f, x, c, ct: jax.jit(
        jax.grad(lambda x, c: jnp.sum(pulled(f, x, c, ct) ** 2), (0, 1))
    )(x, c),
}


@pytest.mark.brief
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", TRANSPOSES)
def test_pullbacks_are_linear(name, dtype):
    if name == "differentiated" and dtype == "complex128":
        pytest.skip("grad wants a real number")
    rng = np.random.default_rng(0)
    shapes = (5,), (2, 5), (5,)
    given = [rng.normal(size=s) + 1j * rng.normal(size=s) for s in shapes]
    given = [jnp.asarray(g if dtype == "complex128" else g.real, dtype) for g in given]
    found, expected = (TRANSPOSES[name](f, *given) for f in (mixed, mixed_by_jax))
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@kernbridge.kernel(
    "a: f64[m, n], x: f64[n] -> f64[m]", linear="x", derivatives="enzyme", vmap_threads=False
)
@numba.njit
def product(a, x, out):
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        out[i] = total


@pytest.mark.parametrize("solve", ["cg", "gmres", "bicgstab"])
def test_solutions_of_linear_systems_have_gradients(solve):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 4)) + 6 * np.eye(4), rng.normal(size=4)
    a = jnp.asarray(a @ a.T if solve == "cg" else a)
    solved = getattr(jax.scipy.sparse.linalg, solve)

    def loss(f, a, b):
        return jnp.sum(solved(lambda x: f(a, x), b, tol=1e-13)[0] ** 3)

    def gradients(f):
        return jax.jit(jax.grad(lambda a, b: loss(f, a, b), (0, 1)))

    for found, expected in zip(
        gradients(product)(a, b),
        jax.grad(lambda a, b: jnp.sum(jnp.linalg.solve(a, b) ** 3), (0, 1))(a, b),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    hessian = jax.hessian(lambda x: jnp.sum(product(a, x) ** 3))(jnp.asarray(b))
    np.testing.assert_allclose(hessian, jax.hessian(lambda x: jnp.sum((a @ x) ** 3))(b), rtol=1e-12)
