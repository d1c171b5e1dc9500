"""Derivative rules that read values which exist only while JAX traces."""

import jax
import jax.numpy as jnp
import kernbridge as kb
import numba
import numpy as np
import pytest
from kernels import double

S = jax.ShapeDtypeStruct
x, p, P = jnp.arange(1.0, 4), jnp.float32(5), jnp.arange(3.0)
X = jnp.ones((3, 3))


def same(x):
    return S(x.shape, x.dtype)


RULES = {
    "jvp": lambda p: {"jvp": lambda i, o, t: t[0] * p},
    "vjp": lambda p: {"vjp": lambda i, o, ct: (ct * p,)},
    "both": lambda p: {"jvp": lambda i, o, t: t[0] * p, "vjp": lambda i, o, ct: (ct * p,)},
}


def grad(f, x, p):
    return jax.grad(lambda x: f(x, p).sum())(x)


def jvp(f, x, p):
    return jax.jvp(lambda x: f(x, p), (x,), (jnp.ones_like(x),))[1]


def scanned(f, x):
    return jax.lax.scan(lambda c, p: (f(c, p), None), x, P + 1)[0].sum()


def checkpointed(f):
    return jax.checkpoint(lambda x, p: f(x, p).sum())


rows = np.broadcast_to(P[:, None], (3, 3))
# Of a function whose derivative by x is p: how it is transformed, and what comes out.
TRANSFORMED = {
    "jit of grad": (lambda f: jax.jit(lambda x, p: grad(f, x, p))(x, p), np.full(3, 5)),
    "jit of jvp": (lambda f: jax.jit(lambda x, p: jvp(f, x, p))(x, p), np.full(3, 5)),
    "grad of jit": (lambda f: grad(jax.jit(f), x, p), np.full(3, 5)),
    "vmap of grad": (lambda f: jax.vmap(lambda p: grad(f, x, p))(P), rows),
    "vmap of jvp": (lambda f: jax.vmap(lambda p: jvp(f, x, p))(P), rows),
    "grad of vmap": (lambda f: grad(jax.vmap(f), X, P), rows),
    "grad of vmap by p": (lambda f: grad(jax.vmap(f, (None, 0)), x, P), np.full(3, 3)),
    "scan of grad": (lambda f: jax.lax.scan(lambda c, p: (c, grad(f, c, p)), x, P)[1], rows),
    "grad of scan": (lambda f: jax.grad(lambda x: scanned(f, x))(x), np.full(3, 6)),
    "grad by both": (
        lambda f: jnp.stack(jax.grad(lambda x, p: f(x, p).sum(), (0, 1))(x[:1], p[None])),
        [[5], [0]],
    ),
    "grad of grad by p": (lambda f: jax.grad(lambda p: (x * grad(f, x, p)).sum())(p), 6),
    "jit of hessian": (
        lambda f: jax.jit(lambda p: jax.hessian(lambda x: (f(x, p) ** 2).sum())(x[:1]))(p),
        [[50]],
    ),
    "checkpoint": (lambda f: jax.grad(checkpointed(f))(x, p), np.full(3, 5)),
    "linearize": (
        lambda f: jax.jit(lambda p: jax.linearize(lambda x: f(x, p), x)[1](x / x))(p),
        np.full(3, 5),
    ),
    "nothing": (lambda f: jax.vmap(jax.jit(f), (None, 0))(x, P), np.broadcast_to(2 * x, (3, 3))),
}


@pytest.mark.parametrize(("transform", "want"), TRANSFORMED.values(), ids=TRANSFORMED)
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(rules, id=name, marks=[pytest.mark.exhaustive] if name == "both" else [])
        for name, rules in RULES.items()
    ],
)
def test_a_rule_may_read_a_traced_value(transform, want, rules):
    def f(x, p):
        return kb.numba_kernel(double, same, **rules(p))(x)

    with jax.checking_leaks():
        got = transform(f)
    np.testing.assert_allclose(got, want)


def test_what_such_a_rule_returns_is_checked_as_ever():
    def f(x, p):
        return kb.numba_kernel(double, same, jvp=lambda i, o, t: (t[0] * p, t[0]))(x)

    with pytest.raises(kb.DerivativeRuleError, match=r"f32\[3\].*\[KB2103\]"):
        jax.jit(lambda x, p: jvp(f, x, p))(x, p)


def test_such_a_rule_may_return_a_number_or_none():
    def f(x, p):
        rule = lambda i, o, ct: (ct * p, 0.5, None)  # noqa: E731
        shape = lambda x, y, z: same(x)  # noqa: E731
        return kb.numba_kernel(lambda_of_three, shape, vjp=rule)(x, x.astype(jnp.complex64)[0], x)

    assert jax.jit(lambda x, p: grad(f, x, p))(x, p).tolist() == [5.5, 5, 5]


@numba.njit
def lambda_of_three(x, y, z, out):
    out[:] = x


def custom(p):
    op = kb.XLACustomKernel("test_traced_rules")
    op.def_numba_kernel(lambda outs: kb.numba_kernel(double, outs))
    op.def_vjp_rule(lambda i, o, ct, outs: (ct[0] * p,))
    return lambda x: op(x, outs=same(x))


@pytest.mark.filterwarnings("ignore:XLACustomKernel. an operation named")
def test_a_rule_of_a_custom_kernel_is_traced_where_jax_differentiates():
    def f(x, p):
        return custom(p)(x)

    for transform in (grad, jvp):
        got = jax.jit(lambda x, p, t=transform: t(f, x, p))(x, p)
        np.testing.assert_array_equal(got, np.full(3, 5))
    with pytest.raises(
        kb.DerivativeRuleError,
        match=r"'test_traced_rules': its derivative rule reads .*f32\[\].*as an input.*KB2103",
    ):
        grad(jax.jit(f), x, p)
