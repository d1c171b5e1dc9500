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


@numba.njit
def affine(w, x, b, out):
    for i in range(out.size):
        out[i] = w * x[i] + 3 * b


AFFINE = "w: f32, x: f32[n], b: f32 -> out: f32[n]"
IN_C = """
// @BE affine w: f32, x: f32[n], b: f32, n -> out: f32[n]
void affine(float w, const float *x, float b, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = w * x[i] + 3 * b;
}
// @BE line w: f32, b: f32 -> f32
float line(float w, float b) { return w + 3 * b; }"""


def in_order(inputs, outputs, ct):
    w, x, _ = inputs
    return ct @ x, w * ct, 3 * ct.sum()


def test_rules_get_numbers_where_the_signature_has_them():
    """They were sorted by name, after the arrays, so that cotangents were swapped."""
    module = kernbridge.load_c_inline("rules_of_numbers", IN_C)
    rules = [
        {"vjp": in_order},
        {"jvp": lambda inputs, outputs, t: t[0] * inputs[1] + inputs[0] * t[1] + 3 * t[2]},
        {"vjp": lambda ct, *, x, b, w: {"b": 3 * ct.sum(), "x": w * ct, "w": ct @ x}},
    ]
    grads = [
        jax.grad(lambda *inputs, op=op: op(*inputs) @ jnp.cos(X), (0, 1, 2))(0.5, X, 2.0)
        for op in (
            lambda w, x, b: w * x + 3 * b,  # of JAX
            *(numba_kernel(affine, signature=AFFINE, **rule) for rule in rules),
            *(module.affine.operation(**rule) for rule in rules),
            lambda w, x, b: numba_kernel(affine, signature=AFFINE, **rules[0])(b=b, w=w, x=x),
        )
    ]
    for got in grads[1:]:
        for one, want in zip(got, grads[0], strict=True):
            np.testing.assert_allclose(one, want, rtol=1e-5)
    line = module.line.operation(vjp=lambda inputs, outputs, ct: (ct, 3 * ct))
    assert jax.grad(line, (0, 1))(0.5, 2.0) == (1, 3)

    @jax.jit
    def reads_a_traced_value(k):
        rule = lambda inputs, outputs, ct: (k * (ct @ inputs[1]), ct, None)  # noqa: E731
        op = numba_kernel(affine, signature=AFFINE, vjp=rule)
        return jax.grad(lambda w: op(w, X, 2.0).sum())(0.5)

    assert reads_a_traced_value(jnp.float32(2)) == 2 * X.sum()


def test_rules_get_numbers_in_the_order_of_the_call_without_types():
    change = numba_kernel(affine, inplace="out", vjp=lambda i, o, ct: (*in_order(i[:3], o, ct), ct))
    got = jax.grad(lambda *inputs: change(*inputs, 0 * X).sum(), (0, 1, 2))(0.5, X, 2.0)
    for one, want in zip(got, (X.sum(), [0.5] * 3, 9), strict=True):
        np.testing.assert_allclose(one, want)
