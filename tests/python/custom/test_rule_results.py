"""What rules in the forms of JAX's primitives return is compared with the outputs of the call."""

import itertools

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest
from jax.extend.core import Primitive
from kernbridge import XLACustomKernel, defjvp

pytestmark = pytest.mark.once

S = jax.ShapeDtypeStruct
x, X = jnp.arange(3.0), jnp.arange(6.0).reshape(2, 3)
names = (f"test_rule_results_{i}" for i in itertools.count())


def doubling(**rules):
    op = XLACustomKernel(next(names))
    op.def_kernel("jnp", "cpu", lambda outs: lambda x: 2 * x)
    for method, rule in rules.items():
        getattr(op, method)(rule)
    return lambda x: op(x, outs=S(x.shape, x.dtype))


@pytest.mark.parametrize(
    ("outputs", "axes", "message"),
    [
        (lambda y: [2 * y], [1], r"\[2,3\] as output 0 with axis 1, expected f32\[3,2\]"),
        (lambda y: [2 * y], [None], r"\[2,3\] as output 0 with axis None, expected f32\[3\]"),
        (lambda y: [y.astype(int)], [0], r"i32\[2,3\] as output 0 with axis 0, expected f32"),
        (lambda y: [y], [2], "returned the axis 2, expected a number from 0 to 1, or None"),
        (lambda y: [y], [-2], "returned the axis -2, expected"),
        (lambda y: [y, y], [0, 0], "a list of 2 as the outputs, expected 1"),
        (lambda y: [y], [], "a list of 0 as the axes, expected 1"),
        (lambda y: ["y"], [0], "returned 'y' as output 0"),
    ],
)
def test_of_a_batching_rule(outputs, axes, message):
    op = doubling(def_batching_rule=lambda args, _, outs: (outputs(args[0]), axes))
    for run in (jax.vmap(op), jax.jit(jax.vmap(op))):
        with pytest.raises(kernbridge.KernelError, match=f"batching rule .*{message}.*KB2103"):
            run(X)


@pytest.mark.parametrize("found", [None, [X]])
def test_of_a_batching_rule_without_axes(found):
    op = doubling(def_batching_rule=lambda args, axes, outs: found)
    with pytest.raises(kernbridge.KernelError, match=r"pair.*list.*\[KB2103\]"):
        jax.vmap(op)(X)


def test_every_axis_that_a_batching_rule_may_return():
    for axis in (0, 1):
        op = doubling(
            def_batching_rule=lambda args, _, outs, a=axis: ([jnp.moveaxis(2 * args[0], 0, a)], [a])
        )
        np.testing.assert_array_equal(jax.vmap(op)(X), 2 * X)
    op = doubling(def_batching_rule=lambda args, _, outs: (2 * args[0][1], None))  # no lists
    np.testing.assert_array_equal(jax.vmap(op)(X), [2 * X[1]] * 2)


@pytest.mark.parametrize(
    ("outputs", "tangents", "message"),
    [
        (lambda y: [y.sum()], lambda t: [t], r"f32\[\] as output 0, expected f32\[3\]"),
        (lambda y: [y.astype(int)], lambda t: [t], r"i32\[3\] as output 0"),
        (lambda y: [y], lambda t: [t.sum()], r"f32\[\] as the tangent of output 0, expected"),
        (lambda y: [y], lambda t: [t.astype(jnp.float16)], r"f16\[3\] as the tangent of"),
        (lambda y: [y, y], lambda t: [t, t], "a list of 2 as the outputs, expected 1"),
        (lambda y: [y], lambda t: [], "a list of 0 as the tangents, expected 1"),
    ],
)
def test_of_a_jvp_rule(outputs, tangents, message):
    def rule(primals, dots, outs):
        return outputs(2 * primals[0]), tangents(2 * dots[0])

    op = doubling(def_jvp_rule=rule)
    with pytest.raises(kernbridge.DerivativeRuleError, match=f"the jvp rule .*{message}.*KB2103"):
        jax.jvp(op, (x,), (x,))
    with pytest.raises(kernbridge.DerivativeRuleError, match=message):
        jax.vmap(jax.grad(lambda x: op(x).sum()))(X)


def test_none_of_a_jvp_rule():
    op = doubling(def_jvp_rule=lambda primals, tangents, outs: (2 * primals[0], None))
    np.testing.assert_array_equal(jax.jvp(op, (x,), (x,))[1], [0, 0, 0])


@pytest.mark.parametrize(
    ("cotangent", "found"),
    [(lambda ct: ct.sum(), r"f32\[\]"), (lambda ct: ct.astype(int), r"i32\[3\]")],
)
def test_of_a_transpose_rule(cotangent, found):
    op = doubling(def_transpose_rule=lambda cts, x, outs: [cotangent(2 * cts[0])])
    message = f"transpose rule returned {found} as the cotangent of operand 0, expected f32"
    for f, y in ((op, x), (jax.vmap(op), X)):
        with pytest.raises(kernbridge.DerivativeRuleError, match=rf"{message}.*\[KB2103\]"):
            jax.linear_transpose(f, y)(y)


def test_a_cotangent_of_another_precision():
    op = doubling(def_transpose_rule=lambda cts, x, outs: [(2 * cts[0]).astype(jnp.bfloat16)])
    (found,) = jax.linear_transpose(op, x)(x)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found, 2 * x)


def test_of_rules_for_a_primitive_of_jax():
    primitive = Primitive("test_rule_results")
    primitive.def_impl(lambda a: 2 * a)
    primitive.def_abstract_eval(lambda a: a)
    defjvp(primitive, lambda t, a: t.astype(jnp.float16))
    with pytest.raises(kernbridge.DerivativeRuleError, match=r"f16\[3\].*\[KB2103\]"):
        jax.jvp(primitive.bind, (x,), (x,))
    defjvp(primitive, None)
    np.testing.assert_array_equal(jax.jvp(primitive.bind, (x,), (x,))[1], [0, 0, 0])
