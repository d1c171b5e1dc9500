"""Sparse matrices on four devices: rows are split, and nothing is gathered."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from kernbridge import KernbridgeWarning, ShardingRule, load_c_inline, numba_kernel
from sharded import LINE, SQUARE, collectives, mesh, put, renamed

ROWS, COLS = 8, 6
SIGNATURE = "data: f32[nnz], indices: i32[nnz], indptr: i32[rows + 1], x: f32[cols] -> f32[rows]"


@pytest.fixture(autouse=True)
def four_devices():
    if jax.device_count() < 4:
        pytest.skip("needs four devices")


@numba.njit
def product(data, indices, indptr, x, out):
    for r in range(out.size):
        out[r] = 0
        for k in range(indptr[r], indptr[r + 1]):
            out[r] += data[k] * x[indices[k]]


@numba.njit
def transposed(data, indices, indptr, x, out):
    out[:] = 0
    for r in range(indptr.size - 1):
        for k in range(indptr[r], indptr[r + 1]):
            out[indices[k]] += data[k] * x[r]


def matrix(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, COLS)) * (rng.random((rows, COLS)) < 0.5)).astype(np.float32)
    indptr = np.append(0, np.cumsum((dense != 0).sum(1))).astype(np.int32)
    return dense, (dense[dense != 0], np.nonzero(dense)[1].astype(np.int32), indptr)


X = np.arange(COLS, dtype=np.float32) + 1


@numba.njit
def shifted(indptr, counts):
    indptr += counts.sum()


def test_an_array_in_place_that_is_longer_is_whole():
    signature = "indptr: i32[rows + 1], counts: i32[rows] -> indptr"
    op = numba_kernel(shifted, signature=signature, sharding_rule=True)
    indptr, counts = np.arange(5, dtype=np.int32), np.full(4, 3, np.int32)
    np.testing.assert_array_equal(op(put(indptr), put(counts)), indptr + 12)


@pytest.mark.brief
@pytest.mark.parametrize("rule", [True, "nnz, nnz, rows + 1, cols -> rows"])
@pytest.mark.parametrize(("on", "axes"), [(LINE, "x"), (SQUARE, "y"), (SQUARE, ("x", "y"))])
def test_rows_are_split(rule, on, axes):
    dense, csr = matrix()
    where = NamedSharding(mesh(*on), P(axes))
    op = jax.jit(
        numba_kernel(product, signature=SIGNATURE, sharding_rule=rule), out_shardings=where
    )
    given = [put(a, on=on) for a in (*csr, X)]
    np.testing.assert_allclose(op(*given), dense @ X, rtol=1e-6)
    text = op.lower(*given).compile().as_text()
    n = ROWS // (2 if axes == "y" else 4)
    assert f"f32[{n}]{{0}} custom-call" in text
    assert not collectives(op, *given)
    many = jax.jit(jax.vmap(op, (None, None, None, 0)))(*given[:3], jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(many, [dense @ X, 2 * (dense @ X)], rtol=1e-6)


def test_rows_that_cannot_be_split_are_whole():
    dense, csr = matrix(rows=6)
    op = numba_kernel(product, signature=SIGNATURE, sharding_rule=True)

    def constrained(*given):
        return jax.lax.with_sharding_constraint(op(*given), NamedSharding(mesh(*LINE), P()))

    np.testing.assert_allclose(jax.jit(constrained)(*map(put, (*csr, X))), dense @ X, rtol=1e-6)


def test_a_sum_over_rows():
    dense, csr = matrix()
    op = numba_kernel(
        transposed,
        lambda data, indices, indptr, x: jax.ShapeDtypeStruct((COLS,), x.dtype),
        sharding_rule=ShardingRule("nnz, nnz, rows+1, rows -> cols", reduce="sum"),
    )
    x = np.arange(ROWS, dtype=np.float32)
    given = *map(put, csr), put(x, "x")
    np.testing.assert_allclose(jax.jit(op)(*given), x @ dense, rtol=1e-6)
    assert collectives(op, *given) == ["all-reduce"]


def test_a_matrix_whose_elements_are_sharded_is_gathered_with_a_warning():
    dense, csr = matrix(seed=1)
    n = len(csr[0]) // 4 * 4
    csr[2][:] = np.minimum(csr[2], n)
    dense = np.zeros_like(dense)
    for r in range(ROWS):
        own = slice(*csr[2][r : r + 2])
        dense[r, csr[1][own]] = csr[0][own]
    op = numba_kernel(renamed(product), signature=SIGNATURE, sharding_rule=True)
    given = put(csr[0][:n], "x"), put(csr[1][:n]), put(csr[2]), put(X)
    with pytest.warns(KernbridgeWarning, match="'nnz', which some outputs lack.*KB6002"):
        found = jax.jit(op)(*given)
    np.testing.assert_allclose(found, dense @ X, rtol=1e-6)


def test_blocks_of_rows_are_a_batch():
    dense, (data, indices, indptr) = matrix()
    bounds = indptr[:: ROWS // 4]
    width = np.diff(bounds).max()
    pad = [(0, width)]
    cut = [np.stack([np.pad(a, pad)[b : b + width] for b in bounds[:-1]]) for a in (data, indices)]
    starts = np.stack([indptr[r : r + ROWS // 4 + 1] for r in range(0, ROWS, ROWS // 4)])
    given = *(put(a, "x") for a in (*cut, starts - bounds[:-1, None])), put(X)
    op = jax.vmap(numba_kernel(product, signature=SIGNATURE), (0, 0, 0, None))
    np.testing.assert_allclose(jax.jit(op)(*given).reshape(-1), dense @ X, rtol=1e-6)
    assert not collectives(op, *given)


def test_rules_that_do_not_fit():
    with pytest.raises(ValueError, match=r"a sum in an output.*KB6001"):
        ShardingRule("i -> i+1")
    outs = jax.ShapeDtypeStruct((ROWS,), "float32")
    op = numba_kernel(product, outs, sharding_rule="nnz, nnz, rows+1, cols -> rows")
    _, csr = matrix(rows=ROWS - 1)
    with pytest.raises(ValueError, match=r"'rows\+1' in input 2, which has 8 .* pass 9.*KB6001"):
        jax.eval_shape(op, *csr, X)


SOURCE = """#include "kernbridge/kernbridge.h"
// @BE prod arg:f32[nnz] arg:i32[nnz] arg:i32[%s] arg:f32[cols] ret:f32[rows]
int prod(const kb_tensor *d, const kb_tensor *i, const kb_tensor *p, const kb_tensor *x,
         kb_tensor *o) {
    const int *index = i->data, *start = p->data;
    float *out = o->data;
    for (long r = 0; r < o->shape[0]; r++) {
        out[r] = 0;
        for (int k = start[r]; k < start[r + 1]; k++)
            out[r] += ((const float *)d->data)[k] * ((const float *)x->data)[index[k]];
    }
    return 0;
}
"""


def test_a_source_function_whose_types_are_declared():
    dense, csr = matrix()
    given = [put(a) for a in (*csr, X)]
    rule = "nnz, nnz, rows+1, cols -> rows"
    op = load_c_inline("csr", SOURCE % "rows + 1").prod.operation(sharding_rule=rule)
    split = jax.jit(op, out_shardings=NamedSharding(mesh(*LINE), P("x")))
    np.testing.assert_allclose(split(*given), dense @ X, rtol=1e-6)
    assert "f32[2]{0} custom-call" in split.lower(*given).compile().as_text()
    outs = jax.ShapeDtypeStruct((ROWS,), "float32")
    whole = load_c_inline("csr_of_9", SOURCE % "9").prod.operation(outs, sharding_rule=rule)
    with pytest.raises(
        TypeError, match=r"in each part .* declared as i32\[9\].* is rows\+1;.*KB2007"
    ):
        whole(*given)
