"""Derivative rules that take inputs by name, and return a dict of cotangents."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import DerivativeRuleError, load_cpp_inline, numba_kernel

SIGNATURE = "x: f32[n], w: f32[n], k: f32 -> f32[n]"
X = jnp.arange(3, dtype=jnp.float32) + 1
W = 2 * X


@numba.njit
def scaled(x, w, k, out):
    for i in range(out.size):
        out[i] = x[i] * w[i] * k


def by_keyword(ct, **named):
    return {"w": ct * named["x"] * named["k"], "k": ct @ named["out"] / named["k"]}


@pytest.mark.brief
@pytest.mark.parametrize(
    ("rule", "without"),
    [
        ({"vjp": lambda ct, *, x, w, k: {"k": ct @ (x * w), "w": ct * x * k, "x": ct * w * k}}, ""),
        ({"vjp": lambda ct, *, k, x: {"w": ct * x * k}}, "xk"),
        ({"vjp": by_keyword}, "x"),
        ({"jvp": lambda t, *, w, k: t["x"] * w * k}, "wk"),
        ({"jvp": lambda t, *, outputs, k: t["k"] * outputs / k}, "xw"),
    ],
)
def test_inputs_and_results_by_name(rule, without):
    def results(op):
        loss = lambda x, w, k: jnp.sin(op(x, w, k)).sum()  # noqa: E731
        grad = jax.grad(loss, (0, 1, 2))
        batch = jax.vmap(grad, (0, None, None))(jnp.stack([X, W]), W, 0.5)
        dots = tuple(x * (n not in without) for x, n in zip((X, W, 0.5), "xwk", strict=True))
        return grad(X, W, 0.5), batch, jax.jvp(op, (X, W, 0.5), dots)

    def product(*inputs):  # what is missing has no derivative
        x, w, k = (
            jax.lax.stop_gradient(value) if name in without else value
            for name, value in zip("xwk", inputs, strict=True)
        )
        return x * w * k

    got = jax.tree.leaves(results(numba_kernel(scaled, signature=SIGNATURE, **rule)))
    for one, want in zip(got, jax.tree.leaves(results(product)), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5)


def test_the_names_of_elementwise_functions_and_of_sources():
    @kernbridge.elementwise(vjp=lambda ct, *, x, outputs: {"x": ct * outputs / x})
    @numba.njit
    def product(x, y):
        return x * y

    got = jax.grad(lambda x, y: product(x, y).sum(), (0, 1))(jnp.float32(2), X)
    np.testing.assert_array_equal(got[0], X.sum())  # broadcast, and hence summed
    np.testing.assert_array_equal(got[1], 0 * X)
    module = load_cpp_inline(
        "by_name",
        """#include "kernbridge/kernbridge.hpp"
        // @BE times arg ret attr.k
        void times(kernbridge::Tensor v, kernbridge::Tensor out, float k) {
            for (size_t i = 0; i < v.numel(); i++)
                out.data_ptr<float>()[i] = k * v.data_ptr<float>()[i];
        }""",
    )
    like = jax.ShapeDtypeStruct(X.shape, X.dtype)
    op = module.times.operation(like, attrs={"k": 3.0}, vjp=lambda ct, *, k: {"v": k * ct})
    np.testing.assert_array_equal(jax.grad(lambda v: op(v).sum())(X), [3, 3, 3])
    with pytest.raises(TypeError, match=r"takes 'x' by name, but the names are v, out, k, outputs"):
        module.times.operation(like, attrs={"k": 3.0}, vjp=lambda ct, *, x: {"v": ct})


@pytest.mark.parametrize(
    ("vjp", "message"),
    [
        (lambda ct, *, x: {"q": ct}, "a cotangent for 'q', expected .* inputs, which are x, w, k"),
        (lambda ct, *, x: ct, "expected a dict of cotangents by the names of inputs"),
        (lambda ct, *, x: {"x": ct[0]}, r"as the cotangent of input 0, expected f"),
        (lambda ct, *, x: None, "write `return` before the result"),
    ],
)
def test_what_rules_by_name_must_return(vjp, message):
    op = numba_kernel(scaled, signature=SIGNATURE, vjp=vjp)
    with pytest.raises(DerivativeRuleError, match=rf"(?s){message}.*KB2103"):
        jax.grad(lambda x: op(x, W, 0.5).sum())(X)


def test_names_that_the_kernel_does_not_have():
    with pytest.raises(TypeError, match=r"takes 'q' by name, .* x, w, k, out, outputs; .*KB1007"):
        numba_kernel(scaled, signature=SIGNATURE, vjp=lambda ct, *, x, q: {})
    op = numba_kernel(scaled, lambda x, *_, **__: x, vjp=lambda ct, *, x: {"x": ct, "k": ct @ x})
    grad = jax.grad(lambda x, w, k: op(x, w, k=k).sum(), (0, 1, 2))
    np.testing.assert_array_equal(grad(X, W, 0.5)[2], X.sum())
