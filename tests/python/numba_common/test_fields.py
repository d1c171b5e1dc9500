"""Arguments that hold several arrays: kernels see their fields by name, as tuples of Numba."""

import dataclasses
from functools import partial
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


def drawn():
    rng = np.random.default_rng(0)
    dense = np.float32(rng.normal(size=(5, 7)) * (rng.random((5, 7)) < 0.4))
    indptr = np.append(0, (dense != 0).sum(1).cumsum())
    parts = dense[dense != 0], np.int32(dense.nonzero()[1]), np.int32(indptr)
    m = sparse.BCSR(tuple(map(jnp.asarray, parts)), shape=dense.shape)
    return dense, m, jnp.asarray(rng.normal(size=7), jnp.float32)


KINDS = {
    "BCSR": lambda m, data: sparse.BCSR((data, m.indices, m.indptr), shape=m.shape),
    "named tuple": lambda m, data: CSR(data, m.indices, m.indptr),
    "dataclass": lambda m, data: Matrix(m.indptr, data, m.indices, "weights"),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
FIELDS = "m.data: T[nnz], m.indices: i32[nnz], m.indptr: i32[rows + 1], x: T[cols] -> out: T[rows]"


@kinds
def test_a_signature_names_fields(kind):
    dense, m, x = drawn()
    op, given = numba_kernel(product, signature=FIELDS, sharding_rule=True), kind(m, m.data)
    np.testing.assert_allclose(op(x=x, m=given), dense @ x, rtol=1e-5)
    many = jnp.stack([m.data, 3 * m.data])
    found = jax.jit(jax.vmap(lambda data: op(kind(m, data), x)))(many)
    np.testing.assert_allclose(found, jnp.stack([dense @ x, 3 * dense @ x]), rtol=1e-5)
    assert list(op.__signature__.parameters) == ["m", "x"]
    assert "m.indptr: i32[rows + 1]" in repr(op)


def test_derivatives_of_fields_that_a_signature_names():
    _, m, x = drawn()
    rows = np.repeat(np.arange(5), np.diff(m.indptr))

    def vjp(ct, *, m_data, m_indices, m_indptr, x):
        of_x = jnp.zeros_like(x).at[m_indices].add(ct[rows] * m_data)
        return {"m_data": ct[rows] * x[m_indices], "x": of_x}

    op = numba_kernel(product, signature=FIELDS, vjp=vjp, linear="m.data")

    def by_jax(m, x):
        return jnp.zeros((5, 7)).at[rows, m.indices].set(m.data) @ x

    def loss(op, data, x):
        return jnp.sum(op(CSR(data, m.indices, m.indptr), x) ** 2)

    found, wanted = (jax.jit(jax.grad(partial(loss, f), (0, 1)))(m.data, x) for f in (op, by_jax))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    transposed = jax.linear_transpose(lambda data: op(CSR(data, m.indices, m.indptr), x), m.data)
    np.testing.assert_allclose(transposed(jnp.ones(5))[0], x[m.indices], rtol=1e-6)


def test_numbers_and_changed_arrays_among_fields():
    @kernbridge.kernel("n.v: f32[k], times: i32, n.tau: f32 -> n.v")
    @numba.njit
    def decayed(n, times):
        for i in range(n.v.size):
            n.v[i] = n.v[i] * n.tau + times

    x = jnp.arange(3.0)
    assert "n.v: f32[k], n.tau: f32, times: i32 -> n.v" in repr(decayed)  # as rules get them
    np.testing.assert_array_equal(decayed(Neuron(0.5, x), 2), x / 2 + 2)
    with pytest.raises(TypeError, match="input 2 'times' is 4294967296, which is out of range"):
        decayed(Neuron(0.5, x), 2**32)


@pytest.mark.parametrize("load", [kernbridge.load_c_inline, kernbridge.load_cpp_inline])
def test_fields_are_parameters_of_c(load):
    text = FIELDS.replace("T", "f32").replace(" ->", ", rows ->")
    source = f"""
    // @BE product {text}
    void product(const float *m_data, const int *m_indices, const int *m_indptr, const float *x,
                 int rows, float *out)
    {{
        for (int r = 0; r < rows; r++) {{
            out[r] = 0;
            for (int k = m_indptr[r]; k < m_indptr[r + 1]; k++)
                out[r] += m_data[k] * x[m_indices[k]];
        }}
    }}
    """
    dense, m, x = drawn()
    op = load("fields", source, replace=True).product
    np.testing.assert_allclose(jax.jit(op)(m, x), dense @ x, rtol=1e-5)


def test_an_operation_of_several_kernels_takes_fields():
    dense, m, x = drawn()
    op = kernbridge.XLACustomKernel("of_fields", signature=FIELDS)
    inside = numba_kernel(product, signature=FIELDS)
    op.def_numba_kernel(lambda *, outs: lambda *parts: inside(CSR(*parts[:3]), parts[3]))
    for found in (op(m, x), op(x=x, m=m), jax.jit(op)(m, x)):
        np.testing.assert_allclose(found, dense @ x, rtol=1e-5)


class Renamed(NamedTuple):
    data: jax.Array
    columns: jax.Array
    indptr: jax.Array


GIVEN = r"argument 'm' is {} and has the fields {}, but the signature has m.data, m.indices, m."
MISTAKES = {
    "an array": (lambda *_: jnp.ones(7), GIVEN.format(r"f32\[7\]", r"\(none\)")),
    "other names": (Renamed, GIVEN.format("of type Renamed", "data, columns, indptr")),
    "no names": (lambda *m: m, GIVEN.format("of type tuple", "0, 1, 2")),
    "a dtype": (lambda d, _, p: CSR(d, d, p), "input 1 'm.indices' is f32.* convert it to int32"),
    "an extent": (
        lambda d, i, p: CSR(d, i[1:], p),
        "input 1 'm.indices' is i32.*, in which nnz is",
    ),
    "a rank": (lambda d, i, p: CSR(d[None], i, p), r"input 0 'm.data' is f32\[1,.*use jax.vmap"),
    "a dict": (lambda d, *_: {"data": d}, "input 0 is {'data'.*pass each of its arrays"),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
def test_fields_that_do_not_fit_are_refused(make, message):
    _, m, x = drawn()
    with pytest.raises(TypeError, match=rf"(?s){message}.*\[KB200[27]\]"):
        numba_kernel(product, signature=FIELDS)(make(m.data, m.indices, m.indptr), x)


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("n.data: f32[k], x: f32[k] -> f32[k]", "are m, x, out, and none is 'n.data'"),
        ("m.data: f32[k], m.data: f32[k], x: f32[k] -> f32[k]", "'m.data' stands twice"),
        ("m.data, x: f32[k] -> f32[k]", "'m.data' is no type of an array"),
        ("m.of.data: f32[k], x: f32[k] -> f32[k]", "'m.of.data: f32.k.' is no type of an array"),
        ("m: f32[k], x: f32[k] -> out.a: f32[k]", "'out.a: f32.k.' is no type of an array"),
    ],
)
def test_wrong_names_of_fields(signature, message):
    with pytest.raises(ValueError, match=rf"{message}.*\[KB1010\]"):
        numba_kernel(product, signature=signature)


@pytest.mark.brief
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
    scaled = numba.njit(lambda n: n.v * n.tau)
    for described in ((), ("n.tau: f32, n.v: T[k] -> T[k]",)):
        returned = kernbridge.kernel(*described)(scaled)
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
    signature = "n.tau: f32[], n.v: f32[k], factor: f32 -> f32[k]"
    declared = numba_cuda_kernel(decay, signature=signature, launch_dims="k")
    np.testing.assert_array_equal(declared(n=Neuron(2.0, x), factor=3), 6 * x)

    def launch(n, factor, out, stream):
        decay[1, 32, stream](n, factor, out)

    launched = kernbridge.numba_cuda_callable(launch, signature=signature.replace("[],", "[1],"))
    with pytest.raises(TypeError, match=r"'n.tau' is f32\[\], but is declared as f32\[1\]"):
        launched(Neuron(2.0, x), 3)


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
