"""`cuda_kernel` with a signature: outputs, launches and attributes that follow from it."""

import inspect

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
import pytest

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("without_fake_gpu")]

SOURCE = """
template <typename T> __global__ void scale(T *out, const T *x, int n, T factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
extern "C" __global__ void decay(float *v, const float *x, int n, float leak, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] = leak * v[i] + x[i] + total;
}
"""
X = jnp.arange(5.0)


def kernel(name="decay", signature="v: f32[n], x: f32[n] -> v", **options):
    return kernbridge.cuda_kernel(SOURCE, name, signature=signature, launch_dims="n", **options)


def test_an_output_that_comes_first_and_a_number_that_is_an_attribute():
    op = kernel("scale<float>", "x: f32[n], factor: f32 -> out: f32[n]")
    assert repr(op) == "<cuda_kernel 'scale<float>': x: f32[n], factor: f32 -> out: f32[n]>"
    assert str(inspect.signature(op)) == "(x: 'f32[n]', factor: 'f32') -> 'f32[n]'"
    assert "<td>input</td><td>factor</td><td>f32</td>" in op._repr_html_()
    assert "calls scale at scale.cu.\n\nx: f32[n], factor: f32 -> out" in op.__doc__
    for made in (
        op(X, 2.0),
        op(X, factor=2),
        op(factor=2.0, x=X),
        jax.jit(lambda x: op(x, 2.0))(X),
    ):
        np.testing.assert_array_equal(made, 2 * np.asarray(X))
    batch = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(lambda x: op(x, 2.0))(batch), 2 * np.asarray(batch))
    assert op(X[:0], 2.0).shape == (0,)


@pytest.mark.exhaustive
def test_an_array_that_the_kernel_changes():
    rule = lambda ct, *, x, leak: {"v": leak * ct, "x": ct + 0 * x}  # noqa: E731
    op = kernel(attrs={"total": "2 * n"}, vjp=rule)
    assert str(inspect.signature(op)) == "(v: 'f32[n]', x: 'f32[n]', *, leak) -> 'v'"
    v = np.arange(5)
    expected = 0.5 * v + v + 10
    for made in (
        op(X, X, leak=0.5),
        op(x=X, v=X, leak=0.5),
        jax.jit(op, static_argnames="leak")(X, X, leak=0.5),
    ):
        np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(X, v)  # JAX's array is as it was
    one_v = jax.vmap(lambda v, x: op(v, x, leak=0.5), (None, 0))(X, jnp.stack([X, 2 * X]))
    np.testing.assert_array_equal(one_v, [expected, expected + v])
    np.testing.assert_array_equal(jax.grad(lambda v: op(v, X, leak=0.5).sum())(X), np.full(5, 0.5))
    with_functions = kernbridge.cuda_kernel(
        SOURCE,
        "decay",
        inplace="v",
        launch_dims=lambda v, x: v.shape,
        attrs={"total": 10, "n": lambda v, x: x.size},
    )
    assert repr(with_functions) == "<cuda_kernel 'decay': v, x -> v>"
    np.testing.assert_array_equal(with_functions(X, X, leak=0.5), expected)


def test_calls_that_do_not_fit():
    op, scale = (
        kernel(attrs={"total": 0}),
        kernel("scale<float>", "x: f32[n], factor: f32 -> f32[n]"),
    )
    with pytest.raises(
        TypeError, match=r"'x' is f32\[3\], but .*, in which n is 5, as dim.*KB2007"
    ):
        jax.eval_shape(lambda v, x: op(v, x, leak=0.5), X, jnp.ones(3))
    with pytest.raises(
        TypeError, match=r"too many positional .*\(x: f32\[n\], factor: f32\).*KB2001"
    ):
        scale(X, 1.0, 2)
    with pytest.raises(TypeError, match=r"'factor' is traced, but attributes are static.*KB2006"):
        jax.jit(scale)(X, 2.0)
    with pytest.raises(TypeError, match=r"needs attribute 'leak'.*KB2006"):
        op(X, X)


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("v: f32[n], x: f32[n], leak: f32[n] -> v", r"has 'leak: f32\[n\]', but .* 'float leak'"),
        ("v: f32[n], x: f32, n: i32 -> v", r"has 'x: f32', but .* 'const float \* x'"),
        ("v: f32[n], x: f32[n], leak: T -> v", "has 'leak: T', but .* such as leak: f32, or leave"),
        ("v: f32[n], x: f32[k] -> n", "'n' has no type"),
        ("v: f32[n] -> v", "does not describe the parameter 'x'"),
    ],
)
def test_signatures_that_do_not_fit_the_kernel(signature, message):
    with pytest.raises(ValueError, match=rf"{message}.*\[KB1010\]"):
        kernel(signature=signature)


def test_what_is_no_dimension():
    with pytest.raises(ValueError, match=r"attrs\['total'\] is '2 \* k'.* which are n \[KB1102\]"):
        kernel(attrs={"total": "2 * k"})
    with pytest.raises(kernbridge.KernelError, match=r"'x'.*a result must not be const"):
        kernel("scale<float>", "out: f32[n], factor: f32 -> x: f32[n]").plan(X, factor=1.0)
