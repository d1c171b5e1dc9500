"""Kernels on CPUs get float32 in place of float16 and bfloat16, and their results are rounded.

The same program of JAX is the referee: it computes in float32 and rounds once.
"""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from kernbridge import numba_kernel

S = jax.ShapeDtypeStruct
F32 = jnp.float32


@numba.njit
def fused(x, w, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * x[i, j] * w[j] + np.float32(0.1)


def by_jax(x, w):
    wide = x.astype(F32) ** 2 * w.astype(F32) + F32(0.1)
    return wide.astype(x.dtype)


def drawn(dtype, *shape):
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), dtype)


def same(found, wanted):
    """Equal types, and values that differ by one rounding at most."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        bound = float(jnp.finfo(b.dtype).eps) if jnp.issubdtype(b.dtype, jnp.inexact) else 0
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * np.abs(b).max(initial=0))


half = pytest.mark.parametrize("half", ["bfloat16", "float16"])
ways = pytest.mark.parametrize("way", ["outs", "declared", "any dtype"])


def operation(way, half, **options):
    if way == "outs":
        return numba_kernel(fused, lambda x, w: S(x.shape, x.dtype), **options)
    t = half if way == "declared" else "T"
    return numba_kernel(fused, signature=f"x: {t}[m, n], w: {t}[n] -> {t}[m, n]", **options)


@pytest.mark.brief
@half
@ways
def test_transformations(half, way):
    x, w = drawn(half, 3, 5), drawn(half, 5)
    op = operation(way, half)
    same(op(x, w), by_jax(x, w))
    same(jax.jit(op)(x, w), by_jax(x, w))
    many = jnp.stack([x, 2 * x, -x])
    same(jax.vmap(op, (0, None))(many, w), jax.vmap(by_jax, (0, None))(many, w))
    scanned = jax.lax.scan(lambda c, _: (op(c, w), None), x, length=3)[0]
    same(scanned, jax.lax.scan(lambda c, _: (by_jax(c, w), None), x, length=3)[0])
    assert jax.eval_shape(op, x, w) == S((3, 5), half)
    assert op.inspect(x, w)[0].platform == "cpu"


@pytest.mark.brief
@half
@ways
def test_derivatives_by_a_rule(half, way):
    def vjp(inputs, outputs, ct):
        x, w = inputs
        assert x.dtype == outputs.dtype == ct.dtype == F32
        return 2 * x * w * ct, jnp.sum(x * x * ct, 0)

    op = operation(way, half, vjp=vjp)
    x, w = drawn(half, 3, 5), drawn(half, 5)
    ct = drawn(half, 3, 5) + 1

    def pulled(f):
        return jax.vjp(f, x, w)[1](ct)

    found, wanted = pulled(op), pulled(by_jax)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype == half
        np.testing.assert_allclose(a.astype(F32), b.astype(F32), rtol=0.02, atol=0.02)
    tangent = jax.jvp(op, (x, w), (x, w))[1], jax.jvp(by_jax, (x, w), (x, w))[1]
    assert tangent[0].dtype == half
    np.testing.assert_allclose(*(t.astype(F32) for t in tangent), rtol=0.02, atol=0.02)


@half
def test_arrays_in_place_scalars_and_other_dtypes(half):
    @numba.njit
    def decay(v, n, rate, count):
        for i in range(v.size):
            v[i] *= rate
            count[i] = n[i] + (v[i] > 1)

    op = numba_kernel(decay, signature="v: T[n], n: i32[n], rate: T -> count: i32[n]", inplace="v")
    v, n = drawn(half, 7) * 4, jnp.arange(7, dtype=jnp.int32)
    count, found = jax.jit(op, donate_argnums=0)(v + 0, n, jnp.asarray(0.5, half))
    same(found, (v.astype(F32) * F32(0.5)).astype(half))
    same(count, n + (found > 1))
    alias = numba_kernel(numba.njit(lambda v, out: None), lambda v: v, input_output_aliases={0: 0})
    same(alias(v), v)


@half
def test_functions_of_numbers_have_the_dtype_that_jax_would_give(half):
    op = kernbridge.elementwise(lambda x, y: x * y + np.float32(0.25))
    x, y = drawn(half, 4, 1), drawn(half, 3)
    same(op(x, y), (x.astype(F32) * y.astype(F32) + F32(0.25)).astype(half))
    same(jax.vmap(op, (0, None))(x, y), op(x, y))
    other = "float16" if half == "bfloat16" else "bfloat16"
    for given in (2.0, 2, jnp.arange(3), y.astype(F32), y.astype(other)):
        assert op(x, given).dtype == jnp.result_type(x, given)
    assert kernbridge.elementwise(lambda x: x > 0)(x).dtype == bool
    pair = kernbridge.elementwise(lambda x: (x * x, 3))(x)
    assert [y.dtype for y in pair] == [half, jnp.int32]
    declared = kernbridge.elementwise(numba.vectorize(["float32(float32)"])(lambda x: x * x))
    same(declared(x), x.astype(F32) ** 2)
    filled = numba.guvectorize(["(float32[:], float32[:])"], "(n)->(n)")(_negated)
    same(kernbridge.kernel(filled)(y), -y.astype(F32))


def _negated(x, out):
    for i in range(x.size):
        out[i] = -x[i]


@half
def test_functions_that_return_arrays(half):
    x, y = drawn(half, 6), drawn(half, 6)
    product = (x.astype(F32) * y.astype(F32)).astype(half)
    f = numba.njit(lambda x, y: x * y)
    for outs in ((), ("x: T[n], y: T[n] -> T[n]",), (f"x: {half}[n], y: T[n] -> {half}[n]",)):
        op = kernbridge.kernel(*outs)(f) if outs else kernbridge.kernel(f)
        same(op(x, y), product)
        same(jax.jit(jax.vmap(op))(x[None], y[None]), product[None])
    same(kernbridge.kernel(lambda x, y: S(x.shape, F32))(f)(x, y), x.astype(F32) * y.astype(F32))


def test_other_programs():
    x, w = drawn("bfloat16", 4, 5), drawn("bfloat16", 5)
    op = operation("any dtype", "bfloat16", sharding_rule=True)
    exported = jax.export.deserialize(jax.export.export(jax.jit(op))(x, w).serialize())
    same(exported.call(x, w), by_jax(x, w))
    custom = kernbridge.XLACustomKernel("of_halves")
    custom.def_numba_kernel(lambda *, outs: numba_kernel(fused, outs))
    same(custom(x, w, outs=[S(x.shape, x.dtype)])[0], by_jax(x, w))
    if jax.device_count() >= 4:
        mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,))
        rows = NamedSharding(mesh, PartitionSpec("d"))
        with jax.set_mesh(mesh):
            found = jax.jit(op)(jax.device_put(x, rows), w)
        same(found, by_jax(x, w))
        assert found.sharding.spec == PartitionSpec("d", None)
