"""Operations of `XLACustomKernel` whose kernels differentiate themselves."""

import itertools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.experimental import pallas
from kernbridge import XLACustomKernel, check_rules, numba_kernel
from kernbridge.errors import NoDerivativeError
from needs_enzyme import assert_derivatives, needs_enzyme

pytestmark = [pytest.mark.once, needs_enzyme]
S = jax.ShapeDtypeStruct
names = (f"test_dispatched_kernels_{i}" for i in itertools.count())


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


@numba.njit
def softplus(x, a, out, rounded):
    for i in range(x.size):
        out[i] = np.log1p(np.exp(x[i])) * a[0]
        rounded[i] = int(x[i])


def by_numba(outs, scale):
    return lambda x, a: numba_kernel(softplus, outs)(x * scale, a)


def reference(x, a):
    return jnp.log1p(jnp.exp(2 * x)) * a[0]


def dispatching(by_numba=by_numba, **options):
    op = XLACustomKernel(next(names), **options)
    op.def_numba_kernel(by_numba)

    def call(x, a, **options):
        outs = S(x.shape, x.dtype), S(x.shape, jnp.int32)
        return op(x, a, outs=outs, scale=2, **options)[0]

    return op, call


x, a = np.linspace(-1.0, 1.0, 5), np.array([1.5])


@pytest.mark.exhaustive
def test_the_kernel_that_a_call_is_dispatched_to_is_differentiated():
    op, call = dispatching(derivatives="enzyme")
    assert_derivatives(call, reference, x, a, second=True, batched=True)
    loss = [lambda x, a, f=f: (f(x, a) ** 2).sum() for f in (call, reference)]
    for transform in (
        lambda f: jax.jit(jax.value_and_grad(f, (0, 1))),
        lambda f: jax.hessian(jax.checkpoint(f), (0, 1)),
        lambda f: jax.grad(lambda x, a: jax.vmap(f, (0, None))(x[None], a).sum()),
    ):
        jax.tree.map(np.testing.assert_allclose, *(transform(f)(x, a) for f in loss))
    assert len(check_rules(op, x, a, outs=(x, S(x.shape, jnp.int32)), scale=2)) >= 4
    op.def_kernel("jax", "cpu", lambda outs, scale, **_: lambda x, a: (x * a[0], x.astype("i4")))
    gradient = jax.jit(jax.grad(lambda x: call(x, a).sum()))
    np.testing.assert_allclose(gradient(x), 3 * jax.nn.sigmoid(2 * x))
    op.set_default("cpu", "jax")
    np.testing.assert_allclose(gradient(x), 1.5)
    np.testing.assert_allclose(jax.grad(lambda x: call(x, a, backend="numba").sum())(x)[2], 1.5)


def test_kernels_inside_loops_and_branches_of_jax():
    def generator(outs, scale):
        op = numba_kernel(softplus, outs)

        def twice(x, a):
            x = jax.lax.cond(x[0] < 5, lambda: op(scale * x, a)[0], lambda: x)
            x = jax.lax.fori_loop(0, 2, lambda _, x: op(x, a)[0], x)
            return x, jnp.zeros(x.shape, jnp.int32)

        return twice

    def expected(x, a):
        return reference(reference(reference(x, a) / 2, a) / 2, a)

    assert_derivatives(dispatching(generator, derivatives="enzyme")[1], expected, x, a)


def test_rules_beside_enzyme_and_rules_inside_the_kernel():
    op, call = dispatching()
    with pytest.raises(NoDerivativeError, match=r"derivatives='enzyme'.*KB2101"):
        jax.grad(lambda x: call(x, a).sum())(x)
    op.def_jvp_rule("enzyme")
    tangents = jax.jvp(lambda x: call(x, a), (x,), (np.ones(5),))[1]
    np.testing.assert_allclose(tangents, 3 * jax.nn.sigmoid(2 * x))
    op.def_vjp_rule(lambda primals, results, cotangents, **_: (7 * cotangents[0], None))
    np.testing.assert_allclose(jax.grad(lambda x: call(x, a).sum())(x), 7.0)
    op.def_vjp_rule("enzyme")
    np.testing.assert_allclose(jax.grad(lambda x: call(x, a).sum())(x), tangents)

    def with_a_rule(outs, scale):
        return numba_kernel(softplus, outs, vjp=lambda inputs, outputs, cts: (9 * cts[0], None))

    call = dispatching(with_a_rule, derivatives="enzyme")[1]
    np.testing.assert_allclose(jax.grad(lambda x: call(x, a).sum())(x), 9.0)


def in_pallas(outs):
    def kernel(x, out):
        out[...] = x[...] ** 2

    return pallas.pallas_call(kernel, outs[0], interpret=True)


@pytest.mark.parametrize(
    ("generator", "why"),
    [
        (in_pallas, "reverse-mode"),
        (lambda outs: jax.ffi.ffi_call("of_another_package", outs[0]), "The FFI call"),
    ],
)
def test_backends_without_a_derivative_are_refused(generator, why):
    op = XLACustomKernel(next(names), derivatives="enzyme")
    op.def_kernel("other", "cpu", generator)
    refusal = rf"{op.name}.*backend 'other' on cpu.*{why}.*KB2107"
    with pytest.raises(NoDerivativeError, match=refusal):
        jax.jit(jax.grad(lambda x: op(x, outs=x).sum())).lower(x)


def test_wrong_options():
    with pytest.raises(ValueError, match="KB1007"):
        XLACustomKernel("test_dispatched_kernels", derivatives=True)
    with pytest.raises(TypeError, match="KB1007"):
        dispatching()[0].def_vjp_rule("enzime")
