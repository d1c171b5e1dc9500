"""vmap: right by default, whatever the nesting; JAX's own meaning for each named method."""

import itertools

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from kernbridge import numba_kernel
from kernels import add, combine, row_sum, scale

S = jax.ShapeDtypeStruct
rng = np.random.default_rng(0)


@numba.njit
def outer_sum(x, w, out):
    """Ranks 1 and 2 to rank 2; wrong if it sees a batch axis."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i] * 10 + w[i, j]


def reference(x, w):
    return x[:, None] * 10 + w


op = numba_kernel(outer_sum, S((2, 3), jnp.float32))


def array(*shape):
    """Whole numbers: sums and products of them are exact, in whatever order XLA forms them."""
    return rng.integers(-50, 50, shape).astype(np.float32)


@pytest.mark.brief
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, 2), (-1, 0), (None, 1)])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_one_level(axes, size):
    shapes = [(2,), (2, 3)]
    args = []
    for shape, axis in zip(shapes, axes, strict=True):
        if axis is not None:
            axis = axis % (len(shape) + 1)
            shape = (*shape[:axis], size, *shape[axis:])
        args.append(array(*shape))
    got = jax.jit(jax.vmap(op, axes))(*args)
    want = jax.vmap(lambda x, w: x[:, None] * 10 + w, axes)(*args)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "levels", [2, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (3, 4))]
)
def test_nested_with_every_combination_of_mapped_operands(levels):
    choices = [(0, 0), (0, None), (None, 0)]
    for combination in itertools.product(choices, repeat=levels):
        f, g = op, reference
        x_shape, w_shape = (2,), (2, 3)
        for k, axes in enumerate(combination):  # innermost first
            f, g = jax.vmap(f, axes), jax.vmap(g, axes)
            if axes[0] is not None:
                x_shape = (k + 2, *x_shape)
            if axes[1] is not None:
                w_shape = (k + 2, *w_shape)
        x, w = array(*x_shape), array(*w_shape)
        np.testing.assert_allclose(
            jax.jit(f)(x, w), g(x, w), rtol=1e-5, atol=1e-5, err_msg=str(combination)
        )


def test_too_many_levels_are_refused_in_words():
    f = numba_kernel(scale, S((1,), jnp.float32))
    g = lambda x: f(x, alpha=2.0)  # noqa: E731
    for _ in range(16):
        g = jax.vmap(g)
    np.testing.assert_array_equal(g(jnp.ones((1,) * 16 + (1,))), np.full((1,) * 17, 2))
    with pytest.raises(NotImplementedError, match=r"17 nested.*most 16.*\[KB2104\]"):
        jax.vmap(g)(jnp.ones((1,) * 18))


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("nested", [False, True])
def test_aliased_operand(axes, nested):
    @numba.njit
    def accumulate(x, y, out):
        out += y  # out and x are the same memory

    op = numba_kernel(accumulate, S((3,), jnp.float32), input_output_aliases={0: 0})
    f, g = jax.vmap(op, axes), jax.vmap(lambda x, y: x + y, axes)
    x = array(4, 3) if axes[0] == 0 else array(3)
    y = array(4, 3) if axes[1] == 0 else array(3)
    if nested:
        f, g = jax.vmap(f, (None, 0)), jax.vmap(g, (None, 0))
        y = np.stack([y, 2 * y])
    before = x.copy()
    np.testing.assert_allclose(jax.jit(f)(x, y), g(x, y), rtol=1e-6)
    np.testing.assert_array_equal(x, before)


def test_batch_of_a_kernel_without_outputs():
    @numba.njit
    def count(x):
        if x[0] < 0:
            raise ValueError("seen")

    op = numba_kernel(count, [])
    assert jax.vmap(op)(jnp.ones((3, 1))) == []
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"slice 2 of a batch of 3.*\[KB3001\]"):
        jax.block_until_ready(jax.vmap(op)(jnp.array([[1.0], [1.0], [-1.0]])))


def test_vmap_of_scan_and_scan_of_vmap():
    op = numba_kernel(row_sum, S((1,), jnp.float32))
    w = jnp.arange(4, dtype=jnp.float32)

    def steps(x):
        return jax.lax.scan(lambda c, row: (c + op(row, w)[0], op(row, c + w)), 0.0, x)

    def reference(x):
        return jax.lax.scan(lambda c, r: (c + r @ w, (r @ (c + w))[None]), 0.0, x)

    x = jnp.asarray(array(3, 5, 4))
    got = jax.jit(jax.vmap(steps))(x)
    for a, b in zip(got, jax.vmap(reference)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    got = jax.lax.scan(lambda c, rows: (c, jax.vmap(op, (0, None))(rows, w)), 0, x)[1]
    np.testing.assert_allclose(got[..., 0], x @ w, rtol=1e-4)


# --- JAX's named methods


@numba.njit
def shapes_seen(x, y, out):
    out[...] = x.ndim * 1000 + y.ndim * 100 + x.shape[0] * 10 + y.shape[0]


@pytest.mark.parametrize(
    ("method", "value"),
    [
        (None, 1177),
        ("sequential", 1177),
        ("sequential_unrolled", 1177),
        ("expand_dims", 2251),
        ("broadcast_all", 2255),
        ("legacy_vectorized", 2157),
    ],
)
def test_named_methods_show_the_kernel_what_jax_says(method, value):
    op = numba_kernel(shapes_seen, S((7,), jnp.float32), vmap_method=method)
    got = jax.vmap(op, (0, None))(jnp.ones((5, 7)), jnp.ones(7))
    np.testing.assert_array_equal(got, np.full((5, 7), value))


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "broadcast_all"])
def test_named_methods_agree_with_ffi_call_semantics(method):
    op = numba_kernel(combine, S((7,), jnp.float32), vmap_method=method)
    x, y = array(2, 5, 7), array(7)
    got = jax.vmap(jax.vmap(op, (0, None)), (0, None))(x, y)
    np.testing.assert_array_equal(got, x + y)


def test_a_rank_changing_method_needs_a_kernel_for_that_rank():
    op = numba_kernel(row_sum, S((1,), jnp.float32), vmap_method="broadcast_all")
    with pytest.raises(Exception, match=r"\[KB4001\]"):
        jax.vmap(op)(jnp.ones((2, 3)), jnp.ones((2, 3)))


def test_mapped_keyword_needs_the_default_method():
    op = numba_kernel(scale, S((3,), jnp.float32), vmap_method="expand_dims")
    with pytest.raises(ValueError, match=r"'alpha'.*\[KB2005\]"):
        jax.vmap(lambda a: op(jnp.ones(3), alpha=a))(jnp.ones(2))


def test_vmap_with_axis_size_only():
    op = numba_kernel(add, S((3,), jnp.float32))
    got = jax.vmap(lambda: op(jnp.ones(3), jnp.ones(3)), axis_size=4)()
    np.testing.assert_array_equal(got, np.full((4, 3), 2))
