"""Enzyme's derivatives of kernels that call JAX functions with rules of their own."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax import lax
from jax.scipy import special
from needs_enzyme import needs_enzyme
from numba import cuda

pytestmark = needs_enzyme

POINTS = [-30.0, -1.0, 0.0, 0.25, 0.5, 1.0, 6.0, 30.0]


@jax.custom_jvp
def spike(x):
    return jnp.where(x > 0, 1.0, 0.0).astype(x.dtype)


spike.defjvp(lambda p, t: (spike(*p), t[0] / (1 + jnp.abs(p[0])) ** 2))


@jax.custom_vjp
def straight_through(x):
    return jnp.round(x) * x


straight_through.defvjp(lambda x: (straight_through(x), x), lambda x, ct: (ct * jnp.cos(x),))


def scaled_rule(factor):
    """Functions whose values are the same and whose derivatives are not."""

    @jax.custom_jvp
    def scaled(x):
        return x * 2.0

    scaled.defjvp(lambda p, t: (p[0] * 2.0, factor * t[0]))
    return scaled


FUNCTIONS = {
    "softplus": jax.nn.softplus,
    "spike": spike,
    "straight_through": straight_through,
    "stopped": lambda x: lax.stop_gradient(x) * x,
    "maximum": lambda x: jnp.maximum(x, 0),
    "clip": lambda x: jnp.clip(x, 0.0, 1.0),
    "xlogy": lambda x: special.xlogy(x, 2.0),
    "logaddexp": lambda x: jnp.logaddexp(x, 0.5),
    "both": lambda x: spike(x) * 2 + jnp.abs(straight_through(x)),
    **{n: getattr(jnp, n) for n in ("sinc", "abs", "tanh", "cbrt")},
    **{
        n: getattr(jax.nn, n)
        for n in (
            *("relu", "relu6", "silu", "gelu", "mish", "elu", "selu", "celu", "log_sigmoid"),
            *("soft_sign", "sigmoid", "leaky_relu", "hard_tanh"),
        )
    },
    **{n: getattr(special, n) for n in ("entr", "erfinv", "digamma")},
}
SOME = ("softplus", "straight_through")


def operation(function):
    return kernbridge.elementwise(lambda v, f: f(v), derivatives="enzyme", static={"f": function})


def assert_close(got, want):
    want = np.asarray(want)
    known = ~np.isnan(want)  # JAX's reverse mode multiplies zeros by infinity
    np.testing.assert_allclose(np.asarray(got)[known], want[known], 3e-5, 5e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SOME else pytest.mark.exhaustive) for n in FUNCTIONS]
)
def test_derivatives_are_those_of_jax(name):
    function, x = FUNCTIONS[name], jnp.array(POINTS)
    op = operation(function)
    first = jax.grad(function)
    assert_close(jax.grad(lambda x: op(x).sum())(x), jax.vmap(first)(x))
    if "through" in name or name == "both":  # JAX has no forward mode of a custom_vjp
        return
    assert_close(jax.jvp(op, (x,), (x + 2,))[1], (x + 2) * jax.vmap(first)(x))
    second = jax.jacfwd(jax.grad(lambda x: op(x).sum()))(x)
    finite = jnp.isfinite(jax.vmap(first)(x))  # elsewhere, a tangent of zero times infinity is NaN
    assert_close(jnp.diagonal(second)[finite], jax.vmap(jax.grad(first))(x)[finite])


def test_rules_that_differ_alone():
    x = jnp.array(POINTS)
    op = kernbridge.elementwise(lambda v, f: f(v) * v, derivatives="enzyme")
    for factor in (3.0, 4.0):
        got = jax.grad(lambda x, f: op(x, f=f).sum())(x, scaled_rule(factor))
        np.testing.assert_allclose(got, 2 * x + factor * x, rtol=1e-6)


several = kernbridge.inline(lambda x: (spike(x) * x, jnp.int32(x), lax.stop_gradient(x) * x))


@numba.njit
def helper(x):
    a, j, c = several(x)
    return a * j + c


@pytest.mark.brief
@pytest.mark.parametrize("mode", ["jvp", "grad", "hessian"])
def test_several_results_in_a_helper(mode):
    @numba.njit
    def kernel(x, y, out):
        for i in range(x.size):
            out[i] = helper(np.float64(x[i]) * y[0]) if x[i] != 1 else 0

    def want(x):
        a, j, c = several(2 * x)
        return jnp.where(x != 1, a * j + c, 0)

    op = kernbridge.numba_kernel(kernel, lambda x, y: x, derivatives="enzyme")
    x, first = jnp.array([-1.5, -0.7, 0.0, 0.3, 1.0, 2.0]), jax.grad(want)
    y = jnp.full((2,), 2, np.int32)
    if mode == "jvp":
        assert_close(jax.jvp(lambda x: op(x, y), (x,), (x,))[1], x * jax.vmap(first)(x))
    elif mode == "grad":
        assert_close(jax.grad(lambda x: op(x, y).sum())(x), jax.vmap(first)(x))
    else:
        found = jax.hessian(lambda x: op(x, y).sum())(x)
        assert_close(jnp.diagonal(found), jax.vmap(jax.grad(first))(x))


def test_several_arguments():
    """What has rules is refused; Enzyme differentiates the rest."""
    x, y = jnp.array([0.5, 2.0]), jnp.array([3.0, 0.25])

    def gradients(function):
        inlined = kernbridge.inline(function)
        op = kernbridge.elementwise(lambda x, y: inlined(x, y), derivatives="enzyme")
        return jax.grad(lambda x, y: op(x, y).sum(), (0, 1))(x, y)

    text = r"calls kernbridge.inline\(logaddexp\), which contains a custom_jvp, a custom_vjp or"
    with pytest.raises(kernbridge.errors.NoDerivativeError, match=text):
        gradients(jnp.logaddexp)
    for got, want in zip(
        gradients(jnp.power), jax.grad(lambda x, y: (x**y).sum(), (0, 1))(x, y), strict=True
    ):
        assert_close(got, want)


def test_what_has_no_derivative():
    def looped(x):
        return lax.while_loop(lambda a: a < 5, lambda a: straight_through(a) + 1.5, x)

    x = jnp.ones(3)
    with pytest.raises(
        kernbridge.errors.NoDerivativeError, match=r"inline\(looped\).*lax.while_loop"
    ):
        jax.grad(lambda x: operation(looped)(x).sum())(x)


def test_cuda_kernels():
    """Their derivatives know no rules: a function is refused unless its body is differentiated."""
    x = jnp.array([-1.0, 0.0, 0.5, 7.0])

    def gradient(function):
        inlined = kernbridge.inline(function)

        @cuda.jit
        def kernel(x, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = inlined(x[i])

        op = kernbridge.numba_cuda_kernel(kernel, lambda x: x, launch_dims=4, derivatives="enzyme")
        return jax.grad(lambda x: op(x).sum())(x)

    np.testing.assert_array_equal(gradient(jax.nn.relu6), [0, 0, 1, 0])
    with pytest.raises(kernbridge.errors.NoDerivativeError, match=r"kernbridge.inline\(spike\)"):
        gradient(spike)
