"""Matrices of jax.experimental.sparse and SciPy, whose products are kernels."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse
from references import assert_close, assert_differences


@kernbridge.kernel(
    "data: T[nnz], indices: I[nnz], indptr: I[rows + 1], x: T[cols] -> T[rows]",
    derivatives="enzyme",
    linear="x",
)
@numba.njit
def csr(data, indices, indptr, x, out):
    for r in range(out.size):
        out[r] = 0
        for k in range(indptr[r], indptr[r + 1]):
            out[r] += data[k] * x[indices[k]]


def coo(data, indices, x, out):
    out[:] = 0
    for k in range(data.size):
        if indices[k, 0] < out.size and indices[k, 1] < x.size:  # JAX pads with other indices
            out[indices[k, 0]] += data[k] * x[indices[k, 1]]


def by_coo(m, x):
    outs = jax.ShapeDtypeStruct(m.shape[:1], m.dtype)
    kernel = kernbridge.numba_kernel(numba.njit(coo), outs, derivatives="enzyme")
    return kernel(m.data, m.indices, x)


def by_csr(m, x):
    return csr(m.data, m.indices, m.indptr, x)


RNG = np.random.default_rng(0)
A = scipy.sparse.random_array((20, 15), density=0.2, rng=0, format="csr") - 0.0
X = RNG.normal(size=15)
PRODUCTS = {"BCSR": (sparse.BCSR, by_csr), "BCOO": (sparse.BCOO, by_coo)}
EACH = pytest.mark.parametrize(("kind", "product"), PRODUCTS.values(), ids=PRODUCTS)


@EACH
def test_products_and_gradients(kind, product):
    m = kind.from_scipy_sparse(A)
    assert_close(jax.jit(product)(m, X), A @ X)

    def loss(m, x):
        return jnp.sum(jnp.sin(product(m, x)))

    def dense(a, x):
        return jnp.sum(jnp.sin(a @ x))

    of_m, of_x = sparse.grad(loss, (0, 1))(m, X)
    of_a, expected = jax.grad(dense, (0, 1))(A.toarray(), X)
    assert isinstance(of_m, kind)
    assert_close(of_x, expected)
    pattern = A.toarray() != 0
    assert_close(of_m.todense(), of_a * pattern)
    assert_differences(lambda data: loss(_with_data(m, data), X), of_m.data, m.data)


def _with_data(m, data):
    rest = (m.indices, m.indptr) if isinstance(m, sparse.BCSR) else (m.indices,)
    return type(m)((data, *rest), shape=m.shape)


@EACH
def test_maps_over_vectors_and_matrices(kind, product):
    m = kind.from_scipy_sparse(A)
    many = RNG.normal(size=(3, 15))
    assert_close(jax.vmap(product, (None, 0))(m, many), (A @ many.T).T)
    scaled = jax.vmap(lambda s: product(_with_data(m, s * m.data), X))(jnp.arange(1.0, 4.0))
    assert_close(scaled, np.outer(np.arange(1.0, 4.0), A @ X))


def test_padded_matrices():
    m = sparse.BCOO.fromdense(A.toarray(), nse=A.nnz + 7)
    assert m.indices.max() == 20  # the padding
    assert_close(by_coo(m, X), A @ X)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_dtypes_of_scipy(dtype, index):
    a = A.astype(dtype)
    x = X.astype(dtype)
    found = csr(a.data, a.indices.astype(index), a.indptr.astype(index), x)
    assert found.dtype == dtype
    assert_close(found, a @ x, rtol=1e-5)


def test_mixed_dtypes_of_indices_are_refused():
    with pytest.raises(TypeError, match="indptr"):
        csr(A.data, A.indices.astype(np.int32), A.indptr.astype(np.int64), X)


def test_training_of_the_stored_elements():
    """Optax moves the stored elements of a BCSR to those of another matrix of the same pattern."""
    optax = pytest.importorskip("optax")
    m, goal = sparse.BCSR.from_scipy_sparse(A), sparse.BCSR.from_scipy_sparse(2 * A)
    inputs = RNG.normal(size=(40, 15))
    optimizer = optax.adam(0.1)

    @jax.jit
    def step(m, state):
        def loss(m):
            product = jax.vmap(by_csr, (None, 0))
            return jnp.mean((product(m, inputs) - product(goal, inputs)) ** 2)

        gradient = sparse.grad(loss)(m)
        updates, state = optimizer.update(gradient.data, state)
        return _with_data(m, m.data + updates), state

    state = optimizer.init(m.data)
    for _ in range(200):
        m, state = step(m, state)
    assert_close(m.todense(), 2 * A.toarray(), rtol=0.02, atol=0.02)
