"""Sharded calls that could be wrong without an error: every placement of a few rules.

Each is compared with the call on one device, see sharded.py.
"""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numba
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge import ShardingRule, numba_kernel
from sharded import SQUARE, check, mesh, put

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is gathered on each"),
    pytest.mark.filterwarnings("ignore:.*the kernel may write to"),
    pytest.mark.skipif(jax.device_count() < 4, reason="needs four devices"),
]
S = jax.ShapeDtypeStruct


def on_square(array, spec, kind=AxisType.Auto):
    return put(array, *spec, on=SQUARE, kind=kind)


def rows(a, *_):
    return S(a.shape[:1], a.dtype)


def of_product(a, b):
    return S((a.shape[0], b.shape[1]), a.dtype)


@numba.njit
def product(a, b, out):
    for i in range(a.shape[0]):
        for k in range(b.shape[1]):
            out[i, k] = 0
            for j in range(a.shape[1]):
                out[i, k] += a[i, j] * b[j, k]


@numba.njit
def contract_two(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                out[i] += a[i, j, k] * b[j, k]


@numba.njit
def total(a, out):
    out[()] = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[()] += a[i, j]


@numba.njit
def row_sums(a, out):
    for i in range(a.shape[0]):
        out[i] = 0
        for j in range(a.shape[1]):
            out[i] += a[i, j]


@numba.njit
def last_of_row(a, out):
    for i in range(a.shape[0]):
        out[i] = 0
        for j in range(a.shape[1]):
            out[i] = a[i, j] if a[i, j] else out[i]


@numba.njit
def outer(x, y, out):
    for i in range(x.size):
        for j in range(y.size):
            out[i, j] = x[i] * y[j]


@numba.njit
def scaled(x, factor, out):
    for i in range(x.size):
        out[i] = x[i] * factor[()]


@numba.njit
def decay(state, x, out):
    for i in range(x.size):
        out[i] = state[i] / 2 + x[i]


@numba.njit
def spoils(a, w, out):
    for i in range(a.shape[0]):
        out[i] = 0
        for j in range(a.shape[1]):
            a[i, j] *= w[j]
            out[i] += a[i, j]


def summed(kernel, outs, rule, **options):
    return numba_kernel(kernel, outs, sharding_rule=ShardingRule(rule, reduce="sum"), **options)


PRODUCT = summed(product, of_product, "i j, j k -> i k")
TOTAL = summed(total, lambda a: S((), a.dtype), "i j -> ")
OUTER = numba_kernel(outer, lambda x, y: S((x.size, y.size), x.dtype), sharding_rule="i, j -> i j")
SPOILS = summed(spoils, rows, "i j, j -> i")

X = np.arange(8, dtype=np.float32)
A = np.arange(64, dtype=np.float32).reshape(8, 8) % 7
B = np.arange(64, dtype=np.float32).reshape(8, 8) % 5
T = np.arange(512, dtype=np.float32).reshape(8, 8, 8) % 9

ONE = [(), ("x",), (("y", "x"),)]
TWO = [(), ("x",), (None, "x"), ("y", "x"), (None, ("x", "y"))]


def pairs(specs):
    """Every pair; those of different ones are left to `make test-all`."""
    return [
        pytest.param(left, right, marks=[pytest.mark.exhaustive] * (left != right))
        for left, right in itertools.product(specs, specs)
    ]


@pytest.mark.brief
@pytest.mark.parametrize(("left", "right"), pairs(TWO))
def test_a_product_in_every_placement(left, right):
    check(PRODUCT, on_square(A, left), on_square(B, right), moved=None)
    check(jax.vmap(PRODUCT, (0, None)), on_square(T, left), on_square(B, right), moved=None)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize(("left", "right"), pairs(ONE))
def test_two_inputs_that_wish_the_same_devices(left, right, kind, gathers):
    gathers("warn")
    with jax.set_mesh(mesh(*SQUARE, kind=kind)):
        check(OUTER, on_square(X, left, kind), on_square(X, right, kind), moved=None)


@pytest.mark.brief
@pytest.mark.parametrize("reduce", ["sum", {"j": "sum"}, {"k": "sum"}])
@pytest.mark.parametrize("spec", [(None, "x", "y"), ("x", "y"), ("x", None, "y"), (None, "y")])
def test_two_contracted_dimensions(spec, reduce):
    rule = ShardingRule("i j k, j k -> i", reduce=reduce)
    op = numba_kernel(contract_two, rows, sharding_rule=rule)
    check(op, on_square(T, spec), on_square(A, ("x", "y")), moved=None)


@pytest.mark.parametrize("spec", [("x",), ("x", "y"), (None, ("y", "x"))])
def test_a_sum_without_dimensions(spec):
    check(TOTAL, on_square(A, spec), moved=["all-reduce"])
    check(jax.vmap(TOTAL), on_square(T, (None, *spec)), moved=["all-reduce"])
    check(jax.vmap(TOTAL), on_square(T, spec), moved=None)
    nested = jax.vmap(jax.vmap(TOTAL, 1), 2)
    check(nested, on_square(np.stack([T, T + 1]), spec), moved=None)


@pytest.mark.brief
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.complex64])
def test_a_sum_of_every_kind_of_number(dtype):
    a = (A * 31).astype(dtype)  # sums of 8 bits wrap
    check(summed(row_sums, rows, "i j -> i"), on_square(a, ("x", "y")), moved=["all-reduce"])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_sum_of_halves_whose_kernel_sees_bits(dtype):
    op = summed(last_of_row, rows, "i j -> i", half_as_bits=True)
    a = np.zeros((8, 8), dtype)
    a[:, 1], a[:, 6] = 1.5, 2.25
    found = jax.jit(op)(put(a, None, "x"))  # the last one of each device
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.full(8, 3.75))


@pytest.mark.brief
@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (1, 8), (2, 8)])
def test_small_and_empty_arrays(shape):
    a = np.ones(shape, np.float32)
    x = np.ones(shape[1], np.float32)
    check(SPOILS, put(a, None, "x" if shape[1] else None), put(x), moved=None)
    batch = np.ones((0, *shape), np.float32)
    check(jax.vmap(SPOILS, (0, None)), put(batch, None, None, "x" if shape[1] else None), put(x))


def test_a_positional_scalar():
    op = numba_kernel(scaled, lambda x, _: S(x.shape, x.dtype), sharding_rule="i, -> i")
    check(op, put(X, "x"), put(np.float32(3)))
    check(jax.vmap(op), put(A, None, "x"), put(X))
    check(jax.vmap(op, (None, 0)), put(X, "x"), put(X, "x"), moved=None)


@pytest.mark.brief
@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("rule", [None, "i, i -> i"])
def test_nested_batches_of_aliases(rule, in_axes):
    op = numba_kernel(
        decay, lambda x, _: S(x.shape, x.dtype), input_output_aliases={0: 0}, sharding_rule=rule
    )
    operands = [on_square(A, ("x", "y")) if a == 0 else on_square(X, ("y",)) for a in in_axes]
    check(jax.vmap(op, in_axes), *operands, moved=None)
    if in_axes == (0, 0):
        return
    wide = in_axes.index(0)
    operands[wide] = on_square(T, ("x", None, "y"))
    outer_axes = tuple(0 if i == wide else None for i in range(2))
    before = [np.array(x) for x in operands]
    check(jax.vmap(jax.vmap(op, in_axes), outer_axes), *operands, moved=None)
    for x, was in zip(operands, before, strict=True):
        np.testing.assert_array_equal(x, was)


@pytest.mark.parametrize("spec", [("x", "y"), (None, "x"), ("y",)])
def test_a_sum_of_an_input_that_is_copied(spec):
    a, w = on_square(A, spec), on_square(X, ("y",))
    check(SPOILS, a, w, moved=None)
    check(jax.vmap(SPOILS, (None, 0)), a, on_square(A, ("x", "y")), moved=None)
    np.testing.assert_array_equal(a, A)


@pytest.mark.parametrize("spec", [(), ("x",), (("x", "y"),)])
def test_an_output_that_is_wanted_elsewhere(spec):
    where = NamedSharding(mesh(*SQUARE), P(*spec))

    def f(a, w):
        return jax.lax.with_sharding_constraint(SPOILS(a, w), where)

    check(f, on_square(A, ("y", "x")), on_square(X, ("x",)), moved=None)


@pytest.mark.brief
@pytest.mark.parametrize("left", [("x", "y"), (None, "x"), ("y",)])
@pytest.mark.parametrize("right", [(), ("x",)])
def test_gradients_through_a_sum(left, right):
    def vjp(inputs, outputs, ct):
        a, b = inputs
        return PRODUCT(ct, b.T), PRODUCT(a.T, ct)

    op = summed(product, of_product, "i j, j k -> i k", vjp=vjp)
    f = jax.grad(lambda a, b: jnp.sum(op(a, b) ** 2), (0, 1))
    check(f, on_square(A, left), on_square(B, right), moved=None)


def test_calls_in_branches_and_loops():
    a, w = put(A / 9, None, "x"), put(X, "x")
    check(lambda a, w: jax.lax.cond(w[0] < 1, SPOILS, lambda a, w: w, a, w), a, w, moved=None)
    loop = lambda a, w: jax.lax.fori_loop(0, 4, lambda _, w: SPOILS(a, w) / 9, w)  # noqa: E731
    check(loop, a, w, moved=None)
    together = lambda a, w: (SPOILS(a, w), SPOILS(a + 1, w), SPOILS(a.T, w))  # noqa: E731
    check(together, a, w, moved=None)


def test_symbolic_shapes_split_where_the_outputs_are_wanted():
    (n,) = jax.export.symbolic_shape("n")
    by_rows = NamedSharding(mesh(4), P("x"))
    op = numba_kernel(row_sums, rows, sharding_rule="i j -> i")
    f = jax.jit(lambda a: 2 * op(a), out_shardings=by_rows)
    exported = jax.export.export(f)(S((4 * n, 8), np.float32, sharding=by_rows))
    program = jax.export.deserialize(exported.serialize())
    found = jax.jit(program.call)(put(A, "x"))
    np.testing.assert_allclose(found, 2 * A.sum(axis=1))
    text = jax.jit(program.call).lower(put(A, "x")).compile().as_text()
    assert "all-gather" not in text
