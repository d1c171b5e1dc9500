"""Arguments that hold several arrays: kernels see their fields by name, as tuples of Numba."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from jax.experimental import sparse
from kernbridge import numba_cuda_kernel, numba_kernel

S = jax.ShapeDtypeStruct


class CSR(NamedTuple):
    data: jax.Array
    indices: jax.Array
    indptr: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Matrix:
    indptr: jax.Array
    data: jax.Array
    indices: jax.Array
    name: str = dataclasses.field(default="", metadata={"static": True})


class Neuron(NamedTuple):
    tau: float
    v: jax.Array


@numba.njit
def product(m, x, out):
    for r in range(out.size):
        out[r] = 0
        for k in range(m.indptr[r], m.indptr[r + 1]):
            out[r] += m.data[k] * x[m.indices[k]]


def rows(m, x):
    return S((m.indptr.shape[0] - 1,), x.dtype)


def drawn(dtype="float32"):
    rng = np.random.default_rng(0)
    dense = jnp.asarray(rng.normal(size=(5, 7)) * (rng.random((5, 7)) < 0.4), dtype)
    m = sparse.BCSR.fromdense(dense)
    return dense, m, jnp.asarray(rng.normal(size=7), dtype)


KINDS = {
    "BCSR": lambda m, data: sparse.BCSR((data, m.indices, m.indptr), shape=m.shape),
    "named tuple": lambda m, data: CSR(data, m.indices, m.indptr),
    "dataclass": lambda m, data: Matrix(m.indptr, data, m.indices, "weights"),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@kinds
@pytest.mark.parametrize("jit", [jax.jit, lambda f: f], ids=["jit", "plain"])
def test_a_sparse_matrix(kind, jit):
    dense, m, x = drawn()
    op, given = jit(numba_kernel(product, rows)), kind(m, m.data)
    np.testing.assert_allclose(op(given, x), dense @ x, rtol=1e-5)
    np.testing.assert_allclose(op(given, 2 * x), dense @ (2 * x), rtol=1e-5)
    many = jnp.stack([m.data, 3 * m.data])
    found = jax.vmap(lambda data, x: op(kind(m, data), x), (0, None))(many, x)
    np.testing.assert_allclose(found, jnp.stack([dense @ x, 3 * dense @ x]), rtol=1e-5)
    scanned = jax.lax.scan(lambda c, _: (c, op(given, c)), x, length=2)[1]
    np.testing.assert_allclose(scanned[1], dense @ x, rtol=1e-5)


@kinds
def test_cotangents_have_the_same_structure(kind):
    dense, m, x = drawn()

    def vjp(inputs, outputs, ct):
        assert len(inputs) == 4  # the arrays one by one
        by_dtype = [jnp.issubdtype(y.dtype, jnp.floating) for y in inputs]
        rows = jnp.repeat(jnp.arange(5), jnp.diff(m.indptr), total_repeat_length=m.data.size)
        of_data = ct[rows] * x[m.indices]
        return tuple(
            None if not real else of_data if y.shape == m.data.shape else dense.T @ ct
            for y, real in zip(inputs, by_dtype, strict=True)
        )

    op = numba_kernel(product, rows, vjp=vjp)

    def loss(op, data, x):
        return jnp.sum(op(kind(m, data), x) ** 2)

    found = jax.grad(loss, (1, 2))(op, m.data, x)
    wanted = jax.grad(loss, (1, 2))(lambda m, x: _by_jax(m, x), m.data, x)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    of_structure = jax.grad(lambda g: jnp.sum(op(g, x)), allow_int=True)(kind(m, m.data))
    assert jax.tree.structure(of_structure) == jax.tree.structure(kind(m, m.data))


def _by_jax(m, x):
    return sparse.BCSR((m.data, m.indices, m.indptr), shape=(5, 7)) @ x


def test_tuples_numbers_keywords_and_static_arguments():
    @numba.njit
    def weighted(pair, gain, shift, out):
        for i in range(out.size):
            out[i] = gain * pair[0][i] + pair[1][i] + shift

    op = numba_kernel(weighted, lambda pair, gain: pair[0], static={"shift": 3})
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(op((x, 2 * x), gain=5.0), 7 * x + 3)
    fixed = numba_kernel(weighted, S((4,), x.dtype), static={"shift": 3})
    np.testing.assert_array_equal(jax.vmap(fixed)((x[None], x[None]), gain=x[:1]), [x + 3])
    decayed = kernbridge.elementwise(lambda n, by: n.v * n.tau + by)
    np.testing.assert_array_equal(decayed(Neuron(2.0, x), 1.0), 2 * x + 1)
    np.testing.assert_array_equal(
        jax.vmap(decayed, (Neuron(None, 0), None))(Neuron(2.0, x), 1.0), 2 * x + 1
    )
    assert decayed.inspect(Neuron(2.0, x), 1.0)[0].platform == "cpu"
    returned = kernbridge.kernel(numba.njit(lambda n: n.v * n.tau))
    np.testing.assert_array_equal(returned(Neuron(jnp.float32(2), x)), 2 * x)


def test_cuda_kernels():
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def decay(n, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = n.v[i] * n.tau[()] * factor

    op = numba_cuda_kernel(decay, lambda n, factor: n.v, launch_dims=5)
    x = jnp.arange(5.0)
    np.testing.assert_array_equal(op(Neuron(2.0, x), factor=np.float32(3)), 6 * x)
    found = jax.jit(jax.vmap(lambda v: op(Neuron(2.0, v), factor=np.float32(3))))(
        jnp.stack([x, -x])
    )
    np.testing.assert_array_equal(found, jnp.stack([6 * x, -6 * x]))


def test_an_exported_program():
    dense, m, x = drawn()
    op = jax.jit(lambda data, x: numba_kernel(product, rows)(CSR(data, m.indices, m.indptr), x))
    exported = jax.export.deserialize(jax.export.export(op)(m.data, x).serialize())
    np.testing.assert_allclose(exported.call(m.data, x), dense @ x, rtol=1e-5)


class Nested(NamedTuple):
    m: CSR
    bias: jax.Array


@pytest.mark.parametrize(
    "given", [[1.0, 2.0], {"a": 1.0}, ("text", 1.0), (None, 1.0), Nested(CSR(1.0, 2.0, 3.0), 1.0)]
)
def test_what_holds_no_arrays_is_refused(given):
    op = numba_kernel(product, lambda m, x: x)
    with pytest.raises(TypeError, match=r"input 0 is .*\[KB2002\]"):
        op(given, jnp.ones(3))


SOURCE = """
#include "kernbridge/kernbridge.h"
// @BE first arg:f32[...] ret:f32[1]
void first(const kb_tensor *x, kb_tensor *out)
{
    ((float *)out->data)[0] = ((const float *)x->data)[0];
}
"""


def test_operations_that_do_not_take_fields_say_so():
    given = Neuron(2.0, jnp.ones(3))
    for op in (
        numba_kernel(numba.njit(lambda n, out: None), signature="n: f32[k] -> f32[k]"),
        kernbridge.kernel(lambda n: n)(numba.njit(lambda n: n.v)),
        kernbridge.load_c_inline("no_fields", SOURCE).first,
    ):
        with pytest.raises(TypeError, match=r"\[KB200[12]\]"):
            op(given)
