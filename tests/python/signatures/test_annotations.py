# ruff: noqa: F722, F821 - dimensions are no names of Python
"""Annotations of jaxtyping as signatures, and signatures of recorded functions."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, Float32, Int32
from numba import cuda

pytestmark = pytest.mark.once
V = jnp.arange(4.0)


def test_a_kernel_with_outputs():
    @kernbridge.kernel
    @numba.njit
    def step(v: Float32[Array, "n"], on: Bool[Array, "n"], out, count) -> tuple[
        Float32[Array, "n"], Int32[Array, "1"]
    ]:  # fmt: skip
        count[0] = 0
        for i in range(v.size):
            out[i] = 2 * v[i] if on[i] else 0
            count[0] += on[i]

    got, count = step(V, V > 1)
    np.testing.assert_array_equal(got, [0, 0, 4, 6])
    assert count == 2
    assert (
        repr(step) == "<numba_kernel 'step': v: f32[n], on: bool[n] -> out: f32[n], count: i32[1]>"
    )
    with pytest.raises(TypeError, match=r"'on' is bool\[3\].* n is 4, as dimension 0 .*KB2007"):
        jax.eval_shape(step, V, V[:3] > 1)


@pytest.mark.exhaustive
def test_a_function_that_returns_and_names_for_several_dtypes():
    @kernbridge.kernel
    @numba.njit
    def outer(a: Float[Array, "... n"], b: Float[Array, "_"]) -> Float[Array, "... n"]:
        return a * b.sum()

    for dtype in (jnp.float32, jnp.int32):
        a, b = jnp.ones((2, 3), dtype), jnp.arange(4, dtype=dtype)
        if dtype == jnp.float32:
            np.testing.assert_array_equal(jax.jit(outer)(a, b), 6 * a)
        else:
            with pytest.raises(TypeError, match="its dtype is none of Float; convert it"):
                jax.eval_shape(outer, a, b)


def test_annotations_that_are_refused_or_say_nothing():
    with pytest.raises(TypeError, match=r"'filled': .* outputs; write .* after the .*KB1010"):

        @kernbridge.kernel
        @numba.njit
        def filled(x: Float32[Array, "n"], out: Float32[Array, "n"]):
            out[:] = x

    with pytest.raises(ValueError, match=r"'#n'; arrays of a kernel are not broadcast.*KB1010"):

        @kernbridge.kernel
        @numba.njit
        def one(a: Float32[Array, "#n"], out) -> Float32[Array, "n"]:
            out[:] = a

    with pytest.raises(TypeError, match=r"has 1 parameters without an annotation.*KB1010"):

        @kernbridge.kernel
        @numba.njit
        def two(a: Float32[Array, "n"], out) -> tuple[Float32[Array, "n"], Float32[Array, "n"]]:
            out[:] = a

    @kernbridge.kernel
    @numba.njit
    def plain(a: np.ndarray) -> np.ndarray:
        return a + 1

    np.testing.assert_array_equal(plain(V), V + 1)


@cuda.jit
def scaled(v, by, out):
    i = cuda.grid(1)
    if i < v.size:
        out[i] = by * v[i]


@pytest.mark.exhaustive
def test_signatures_of_recorded_functions():
    def twice(v, by, out, stream):
        scaled[1, 32, stream](v, by, out)
        scaled[1, 32, stream](out, by, out)

    op = kernbridge.numba_cuda_callable(twice, signature="v: f32[n], by: f32 -> f32[n]")
    np.testing.assert_array_equal(op(V, 3.0), 9 * V)
    np.testing.assert_array_equal(jax.vmap(op, (0, None))(jnp.stack([V, V]), 2.0), [4 * V, 4 * V])
    with pytest.raises(TypeError, match=r"'v' is i32.4., but is declared as f32"):
        jax.eval_shape(op, V.astype(int), 3.0)

    def grown(v, by, stream):
        scaled[1, 32, stream](v, by, v)

    op = kernbridge.numba_cuda_callable(grown, signature="v: f32[n], by: f32 -> v")
    np.testing.assert_array_equal(jax.jit(op)(V, 3.0), 3 * V)
    np.testing.assert_array_equal(V, np.arange(4))
