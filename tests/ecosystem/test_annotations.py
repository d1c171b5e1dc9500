"""Types of arrays by jaxtyping, checks by beartype and chex, and dataclasses around kernels."""

# ruff: noqa: F722, F821

import dataclasses

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from references import assert_close

jaxtyping = pytest.importorskip("jaxtyping")
from jaxtyping import Array, Float, Float64, Int32  # noqa: E402


def segments_kernel(
    x: Float64[Array, "n"], bounds: Int32[Array, "m+1"], sums
) -> Float64[Array, "m"]:
    for i in range(sums.size):
        sums[i] = 0
        for k in range(bounds[i], bounds[i + 1]):
            sums[i] += x[k] * x[k]


segments = kernbridge.kernel(derivatives="enzyme")(numba.njit(segments_kernel))
X = np.linspace(-1.0, 2.0, 7)
BOUNDS = np.array([0, 2, 2, 7], np.int32)


def segments_in_jax(x, bounds):
    index = jnp.repeat(jnp.arange(3), jnp.diff(bounds), total_repeat_length=7)
    return jax.ops.segment_sum(x * x, index, 3)


def test_annotations_are_the_signature():
    assert_close(segments(X, BOUNDS), segments_in_jax(X, BOUNDS))
    found, expected = (jax.jacrev(f)(X, BOUNDS) for f in (segments, segments_in_jax))
    assert_close(found, expected)
    with pytest.raises(TypeError, match="bounds"):
        segments(X, BOUNDS.astype(np.float64))
    with pytest.raises((TypeError, ValueError), match="x"):
        segments(X[None], BOUNDS)


def test_any_rank_and_numbers():
    def scaled(x: Float64[Array, "*b"], s: Float64[Array, ""], out) -> Float64[Array, "*b"]:
        out[...] = x * s

    op = kernbridge.kernel(derivatives="enzyme")(numba.njit(scaled))
    for shape in (3,), (2, 3), (2, 2, 2):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        assert_close(op(x, 2.0), 2 * x)
        assert_close(jax.grad(lambda s, x=x: op(x, s).sum())(2.0), x.sum())


def test_a_checked_function_around_a_kernel():
    beartype = pytest.importorskip("beartype")

    @jax.jit
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def loss(x: Float[Array, "n"], bounds: Int32[Array, "edges"]) -> Float[Array, ""]:
        sums = segments(x, bounds)
        return jnp.sum(sums**2)

    def expected(x, bounds):
        return jnp.sum(segments_in_jax(x, bounds) ** 2)

    found = jax.value_and_grad(loss)(jnp.asarray(X), jnp.asarray(BOUNDS))
    assert_close(found, jax.value_and_grad(expected)(X, BOUNDS))
    with pytest.raises(jaxtyping.TypeCheckError):
        loss(jnp.asarray(X)[None], jnp.asarray(BOUNDS))


def test_a_checked_elementwise_function():
    beartype = pytest.importorskip("beartype")

    @beartype.beartype
    def bend(x: float) -> float:
        return x**3 - x

    op = kernbridge.elementwise(numba.njit(bend.__wrapped__), derivatives="enzyme")
    assert_close(jax.vmap(jax.grad(op))(jnp.asarray(X)), 3 * X**2 - 1)


def test_assertions_of_chex():
    chex = pytest.importorskip("chex")

    @jax.jit
    def run(x):
        sums = segments(x, BOUNDS)
        chex.assert_shape(sums, (3,))
        chex.assert_type(sums, jnp.float64)
        chex.assert_equal_shape([x, jax.grad(lambda x: segments(x, BOUNDS).sum())(x)])
        return sums

    assert_close(run(X), segments_in_jax(X, BOUNDS))
    chex.assert_tree_all_finite(run(X))
    with chex.fake_jit():
        assert_close(run(X), segments_in_jax(X, BOUNDS))

    @chex.chexify
    @jax.jit
    def checked(x):
        y = segments(x, BOUNDS)
        chex.assert_tree_all_finite(y)
        return y

    assert_close(checked(X), segments_in_jax(X, BOUNDS))
    chex.block_until_chexify_assertions_complete()
    checked(X * np.nan)
    with pytest.raises(AssertionError, match="finite"):
        chex.block_until_chexify_assertions_complete()


def test_gradients_by_chex():
    chex = pytest.importorskip("chex")
    chex.assert_numerical_grads(lambda x: segments(x, BOUNDS), (X,), order=1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Moments:
    mean: jax.Array
    variance: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array
    steps: jax.Array


SCALAR = jax.ShapeDtypeStruct((), jnp.float64)


@kernbridge.kernel(Moments(SCALAR, SCALAR), derivatives="enzyme")
@numba.njit
def moments(x, mean, variance):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    mean[()] = total / x.size
    squares = 0.0
    for i in range(x.size):
        squares += (x[i] - mean[()]) ** 2
    variance[()] = squares / x.size


def test_dataclasses():
    @jax.jit
    def step(state):
        found = moments(state.x)
        x = (state.x - found.mean) / jnp.sqrt(found.variance)
        return State(x, state.steps + 1), found

    state, found = step(State(jnp.asarray(X), jnp.int32(0)))
    assert isinstance(found, Moments)
    assert_close(found, Moments(X.mean(), X.var()))
    assert_close(moments(state.x), Moments(np.zeros(()), np.ones(())))
    gradient = jax.grad(lambda x: moments(x).variance)(jnp.asarray(X))
    assert_close(gradient, 2 * (X - X.mean()) / X.size)


def test_dataclasses_of_chex():
    chex = pytest.importorskip("chex")

    @chex.dataclass
    class Parameters:
        x: chex.Array
        offset: chex.Array

    def loss(p, f):
        return jnp.sum(f(p.x + p.offset, BOUNDS) ** 2)

    p = Parameters(x=jnp.asarray(X), offset=jnp.float64(0.5))
    found, expected = (jax.grad(loss)(p, f) for f in (segments, segments_in_jax))
    assert isinstance(found, Parameters)
    assert_close(found, expected)
