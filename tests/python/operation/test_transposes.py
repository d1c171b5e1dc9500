"""Kernels that are linear in some inputs, and kernels without a transpose."""

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


@numba.njit
def transposed(a, y, out):
    out[:] = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j] += a[i, j] * y[i]


OF_TRANSPOSED = "a: f32[m, n], y: f32[m] -> f32[n]"
pulled_back = kernbridge.numba_kernel(transposed, signature=OF_TRANSPOSED, linear="y")
linear = kernbridge.numba_kernel(
    product, signature=OF_PRODUCT, linear="x", vjp=lambda ct, *, a: {"x": pulled_back(a, ct)}
)
WIDE = RNG.normal(size=(3, 5)).astype("float32")
Y = jnp.asarray(RNG.normal(size=3), "float32")
MANY = jnp.asarray(RNG.normal(size=(4, 5)), "float32")
LINEAR = {
    "jvp": lambda f: jax.jvp(lambda x: f(WIDE, x), (RIGHT,), (2 + RIGHT,)),
    "jacfwd": lambda f: jax.jacfwd(lambda x: f(WIDE, x))(RIGHT),
    "grad": lambda f: jax.jit(jax.grad(lambda x: jnp.sum(f(WIDE, x) ** 2)))(RIGHT),
    "hessian": lambda f: jax.hessian(lambda x: jnp.sum(f(WIDE, x) ** 2))(RIGHT),
    "transpose": lambda f: jax.linear_transpose(lambda x: f(WIDE, x), RIGHT)(Y),
    "transpose in vmap": lambda f: jax.vmap(
        lambda y: jax.linear_transpose(lambda x: f(WIDE, x), RIGHT)(y)[0]
    )(jnp.stack([Y, -Y])),
    "transpose of vmap": lambda f: jax.linear_transpose(jax.vmap(lambda x: f(WIDE, x)), MANY)(
        jnp.outer(jnp.arange(4.0), Y)
    ),
    "transpose of a batched matrix": lambda f: jax.linear_transpose(
        lambda x: jax.vmap(f, (0, None))(jnp.stack([WIDE, 2 * WIDE]), x), RIGHT
    )(jnp.stack([Y, Y + 1])),
    "gmres": lambda f: jax.grad(
        lambda b: jnp.sum(gmres(lambda x: f(MATRIX, x), b, tol=1e-6)[0] ** 2)
    )(RIGHT),
}


@pytest.mark.brief
@pytest.mark.parametrize("name", LINEAR)
def test_linear_kernels_are_their_own_tangents(name):
    found, expected = (LINEAR[name](f) for f in (linear, lambda a, x: a @ x))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_what_is_not_linear_needs_a_rule():
    op = kernbridge.numba_kernel(product, signature=OF_PRODUCT, linear=["x"])
    tangents = jax.jvp(lambda x: op(WIDE, x), (RIGHT,), (RIGHT,))
    np.testing.assert_array_equal(*tangents)
    with pytest.raises(NoDerivativeError, match=r"'product'.*\[KB2101\]"):
        jax.jvp(lambda a: op(a, RIGHT), (WIDE,), (WIDE,))
    with pytest.raises(NoDerivativeError, match=r"'product'.*\[KB2102\]"):
        jax.grad(lambda x: op(WIDE, x).sum())(RIGHT)
    wrong = kernbridge.numba_kernel(product, signature=OF_PRODUCT, linear="x, z")
    with pytest.raises(ValueError, match=r"'z'.* a, x \[KB1005\]"):
        wrong(WIDE, RIGHT)

    @kernbridge.elementwise(linear="n")
    def doubled(n):
        return 2 * n

    with pytest.raises(ValueError, match=r"'n' is i32\[3\].*\[KB1005\]"):
        doubled(jnp.arange(3))


def test_check_rules_finds_what_is_not_linear():
    @kernbridge.elementwise(linear="x", vjp=lambda ct, *, w: {"x": ct * w})
    def scaled(x, w):
        return x * w

    @kernbridge.elementwise(linear="x", vjp=lambda ct, *, w: {"x": ct * w})
    def shifted(x, w):
        return x * w + 1

    w = jnp.arange(1.0, 6.0)
    kernbridge.check_rules(lambda x: scaled(x, w), MANY)
    with pytest.raises(kernbridge.RuleCheckError, match="central differences: failed"):
        kernbridge.check_rules(lambda x: shifted(x, w), MANY)


def test_a_rule_that_reads_what_the_kernel_is_linear_in_gives_no_number():
    wrong = lambda ct, *, a, x: {"x": (a.T @ ct) * x}  # noqa: E731
    op = kernbridge.numba_kernel(product, signature=OF_PRODUCT, linear="x", vjp=wrong)
    assert jnp.isnan(jax.grad(lambda x: op(WIDE, x).sum())(RIGHT)).all()


def test_functions_of_c_may_be_linear():
    code = """
    void gather(const float *x, const int *at, float *out, int n) {
        for (int i = 0; i < n; i++) out[i] = x[at[i]];
    }
    """
    signature = "x: f32[m], at: i32[n], n -> f32[n]"
    gather = kernbridge.load_c_inline("gathers", code, functions={"gather": signature}).gather
    at = np.array([2, 0, 2, 4, 4, 1, 2], np.int32)

    def back(ct, *, x, at):
        return {"x": jnp.zeros_like(x).at[at].add(ct)}

    op = gather.operation(linear="x", vjp=back)
    y = jnp.arange(7.0)
    (found,) = jax.linear_transpose(lambda x: op(x, at), RIGHT)(y)
    np.testing.assert_array_equal(found, np.bincount(at, y, 5))
    np.testing.assert_array_equal(jax.jvp(lambda x: op(x, at), (RIGHT,), (-RIGHT,))[1], -RIGHT[at])
