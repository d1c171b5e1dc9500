"""`XLACustomKernel` with a signature: outputs, inputs by name, checks, and rules by name."""

import inspect

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest

pytestmark = pytest.mark.once

X = jnp.arange(3.0)


@numba.njit
def scaled_product(x, w, k, out):
    for i in range(x.size):
        out[i] = k * x[i] * w[i]


@numba.njit
def decayed(v, leak, out):
    for i in range(v.size):
        out[i] = leak * v[i]


def product(name, signature="x: f32[n], w: f32[n] -> f32[n]"):
    op = kernbridge.XLACustomKernel(name, signature=signature)
    op.def_numba_kernel(
        lambda *, outs, k: lambda x, w: kernbridge.numba_kernel(scaled_product, outs)(x, w, k=k)
    )
    return op


def test_calls_need_no_outs_and_take_inputs_by_name():
    op = product("described_product")
    assert str(inspect.signature(op)) == "(x: 'f32[n]', w: 'f32[n]') -> 'f32[n]'"
    assert repr(op).startswith("<XLACustomKernel 'described_product'(x: f32[n], w: f32[n] -> ")
    assert "<td>input</td><td>w</td><td>f32[n]</td>" in op._repr_html_()
    w, expected = X + 1, 2 * X * (X + 1)
    for made in (
        op(X, w, k=2.0),
        op(w=w, x=X, k=2.0),
        op(X, w, outs=X, k=2.0),
        jax.jit(lambda x: op(x, w=w, k=2.0))(X),
    ):
        np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(
        jax.vmap(lambda x: op(x, w, k=2.0))(jnp.stack([X, w])), [expected, 2 * w * w]
    )


def test_what_does_not_fit():
    op = product("described_misfits")
    with pytest.raises(
        TypeError, match=r"'described_misfits': input 1 'w' is f32\[4\].* n is 3.*KB2007"
    ):
        jax.eval_shape(lambda x, w: op(x, w, k=1.0), X, jnp.ones(4))
    with pytest.raises(ValueError, match=r"has 2 outputs, but the signature .* has 1.*KB1010"):
        op(X, X, outs=(X, X), k=1.0)
    with pytest.raises(TypeError, match=r"missing a required argument: 'w'.*KB2001"):
        op(X, k=1.0)
    with pytest.raises(TypeError, match=r"output 0 'array2' is f32\[4\].*KB2007"):
        product("described_outs")(X, X, outs=jnp.ones(4), k=1.0)
    with pytest.raises(ValueError, match=r"no input has the dimension .* 'm'.*KB1010"):
        product("described_wrongly", "x: f32[n] -> f32[m]")
    with pytest.raises(TypeError, match=r"neither `outs` nor a signature.*KB1002"):
        kernbridge.XLACustomKernel("not_described")(X)


def test_an_array_that_changes_and_a_number():
    op = kernbridge.XLACustomKernel("described_decay", signature="v: f32[n], leak: f32 -> v")
    op.def_numba_kernel(
        lambda *, outs: kernbridge.numba_kernel(decayed, outs, input_output_aliases={0: 0})
    )
    assert str(op.signature) == "v: f32[n], leak: f32[] -> v"
    for made in (
        op(X, 0.5),
        op(leak=0.5, v=X),
        jax.jit(op)(X, 0.5),
        jax.jit(lambda v: op(v, 0.5))(X),
    ):
        np.testing.assert_array_equal(made, [0, 0.5, 1])
    np.testing.assert_array_equal(X, [0, 1, 2])
    np.testing.assert_array_equal(jax.vmap(op, (None, 0))(X, jnp.array([1.0, 2.0])), [X, 2 * X])


def test_rules_by_name():
    op = product("described_rule")
    op.def_vjp_rule(lambda ct, *, x, w, k: {"w": k * ct * x, "x": k * ct * w})
    w = X + 1
    for loss in (
        lambda x, w: op(x, w, k=2.0).sum(),
        jax.jit(lambda x, w: op(w=w, x=x, k=2.0).sum()),
    ):
        dx, dw = jax.grad(loss, (0, 1))(X, w)
        np.testing.assert_array_equal(dx, 2 * w)
        np.testing.assert_array_equal(dw, 2 * X)
    batch = jax.vmap(jax.grad(lambda x: op(x, w, k=2.0).sum()))(jnp.stack([X, X]))
    np.testing.assert_array_equal(batch, [2 * w, 2 * w])
    op.def_vjp_rule(lambda ct, *, outputs, **given: {"x": ct * given["w"] + 0 * outputs})
    np.testing.assert_array_equal(jax.grad(lambda x: op(x, w, k=2.0).sum())(X), w)
    op.def_vjp_rule(lambda ct, *, y: {"x": ct * y})
    with pytest.raises(TypeError, match=r"vjp takes 'y' by name, but the names are x, w, .*KB1007"):
        op(X, w, k=2.0)
    with pytest.raises(TypeError, match=r"takes 'x' by name, but the inputs have no names.*KB1007"):
        kernbridge.XLACustomKernel("nameless_rule").def_vjp_rule(lambda ct, *, x: {"x": ct})


def test_two_outputs():
    op = kernbridge.XLACustomKernel(
        "described_pair", signature="x: T[n], y: T[m] -> f32[n, m], T[n + m]"
    )
    op.def_kernel(
        "jax",
        "cpu",
        lambda *, outs: lambda x, y: (jnp.outer(x, y).astype(jnp.float32), jnp.concatenate([x, y])),
    )
    op.def_vjp_rule(lambda ct, *, x, y: {"x": ct[0] @ y + ct[1][: x.size], "y": x @ ct[0]})
    first, second = op(X, jnp.ones(2))
    assert (first.shape, second.shape) == ((3, 2), (5,))
    np.testing.assert_array_equal(
        jax.grad(lambda x: op(x, jnp.ones(2))[0].sum() + op(x, jnp.ones(2))[1].sum())(X), [3, 3, 3]
    )
    assert [a.dtype for a in op(jnp.arange(2), jnp.arange(2))] == [jnp.float32, jnp.int32]
