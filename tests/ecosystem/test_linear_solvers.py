"""Sparse systems whose matrix is a linear kernel, solved by JAX and by lineax, and gradients."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
import scipy.sparse
from jax.scipy.sparse.linalg import bicgstab, cg, gmres
from references import assert_close, assert_differences

TYPES = "data: f64[nnz], indices: i32[nnz], indptr: i32[rows + 1], x: f64[cols] -> f64[rows]"


def product(data, indices, indptr, x, out):
    for r in range(out.size):
        out[r] = 0
        for k in range(indptr[r], indptr[r + 1]):
            out[r] += data[k] * x[indices[k]]


def transposed(ct, *, data, indices, indptr, x):
    """The transpose, a sum that scatters, as a rule in JAX; `x` is zero in a transpose."""
    rows = jnp.repeat(jnp.arange(indptr.size - 1), jnp.diff(indptr), total_repeat_length=data.size)
    return {"data": ct[rows] * x[indices], "x": jnp.zeros_like(x).at[indices].add(data * ct[rows])}


MODULE = kernbridge.load_cpp_inline(
    "ecosystem_csr",
    r"""
// @BE product data: f64[k], indices: i32[k], indptr: i32[rows + 1], x: f64[cols], rows -> f64[rows]
void product(const double *data, const int *indices, const int *indptr, const double *x, int rows,
             double *out) {
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int k = indptr[r]; k < indptr[r + 1]; k++) out[r] += data[k] * x[indices[k]];
    }
}
""",
)
jitted = numba.njit(product)
KERNELS = {
    "enzyme": kernbridge.numba_kernel(jitted, signature=TYPES, linear="x", derivatives="enzyme"),
    "cpp": MODULE.product.operation(linear="x", derivatives="enzyme"),
    "rule": kernbridge.numba_kernel(jitted, signature=TYPES, linear="x", vjp=transposed),
}
ALL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def matrix(symmetric):
    n = 30
    a = scipy.sparse.random_array(
        (n, n), density=0.1, rng=0, data_sampler=np.random.default_rng(0).normal
    )
    a = a + a.T if symmetric else a
    a = scipy.sparse.csr_array(a + 8 * scipy.sparse.eye_array(n))
    return a, (a.indices.astype(np.int32), a.indptr.astype(np.int32))


B = np.random.default_rng(1).normal(size=30)


def dense(a, data, b):
    """The solution by LU of the dense matrix, as a function of the stored elements."""
    rows, cols = np.repeat(np.arange(30), np.diff(a.indptr)), a.indices
    return jnp.linalg.solve(jnp.zeros(a.shape).at[rows, cols].set(data), b)


def assert_solves(a, solve, differentiated=True):
    """Compare `solve(data, b)` and its derivatives in both modes with the dense solution."""
    data = jnp.asarray(a.data)
    assert_close(solve(data, B), scipy.sparse.linalg.spsolve(a.tocsc(), B), rtol=1e-7, atol=1e-9)
    if not differentiated:
        return
    found, expected = (
        jax.jit(jax.grad(lambda d, b, f=f: jnp.sum(jnp.sin(f(d, b))), (0, 1)))(data, B)
        for f in (solve, lambda d, b: dense(a, d, b))
    )
    assert_close(found, expected, rtol=1e-6, atol=1e-9)
    assert_differences(jax.jit(lambda d: jnp.sum(jnp.sin(solve(d, B)))), found[0], data, rtol=1e-3)
    found, expected = (
        jax.jvp(lambda d, f=f: f(d, B), (data,), (jnp.cos(data),))
        for f in (solve, lambda d, b: dense(a, d, b))
    )
    assert_close(found, expected, rtol=1e-6, atol=1e-9)


@ALL
def test_the_transpose(kernel):
    a, pattern = matrix(symmetric=False)
    transpose = jax.linear_transpose(lambda x: kernel(a.data, *pattern, x), B)
    assert_close(transpose(B), (a.T @ B,))
    assert_close(jax.vmap(transpose)(np.stack([B, 2 * B]))[0], np.stack([a.T @ B, 2 * (a.T @ B)]))
    kernbridge.check_rules(kernel, a.data, *pattern, B)


@ALL
def test_conjugate_gradients(kernel):
    a, pattern = matrix(symmetric=True)
    assert_solves(a, lambda data, b: cg(lambda x: kernel(data, *pattern, x), b, tol=1e-12)[0])


@ALL
@pytest.mark.parametrize("solver", [gmres, bicgstab], ids=["gmres", "bicgstab"])
def test_solvers_of_other_matrices(kernel, solver):
    a, pattern = matrix(symmetric=False)
    assert_solves(a, lambda data, b: solver(lambda x: kernel(data, *pattern, x), b, tol=1e-12)[0])


@ALL
def test_many_right_hand_sides(kernel):
    a, pattern = matrix(symmetric=False)
    many = np.stack([B, B[::-1]])

    def solve(b):
        return gmres(lambda x: kernel(a.data, *pattern, x), b, tol=1e-12)[0]

    assert_close(jax.vmap(solve)(many), np.linalg.solve(a.toarray(), many.T).T, rtol=1e-7)


@ALL
@pytest.mark.parametrize("name", ["CG", "GMRES", "BiCGStab", "LSMR"])
def test_solvers_of_lineax(kernel, name):
    lineax = pytest.importorskip("lineax")
    a, pattern = matrix(symmetric=name == "CG")
    tags = lineax.positive_semidefinite_tag if name == "CG" else ()
    solver = getattr(lineax, name)(rtol=1e-12, atol=1e-12)

    def solve(data, b):
        operator = lineax.FunctionLinearOperator(
            lambda x: kernel(data, *pattern, x), jax.eval_shape(lambda: b), tags
        )
        return lineax.linear_solve(operator, b, solver).value

    assert_solves(a, solve)


@ALL
def test_operators_of_lineax(kernel):
    lineax = pytest.importorskip("lineax")
    a, pattern = matrix(symmetric=False)
    operator = lineax.FunctionLinearOperator(
        lambda x: kernel(a.data, *pattern, x), jax.eval_shape(lambda: jnp.asarray(B))
    )
    assert_close(operator.as_matrix(), a.toarray())
    assert_close(operator.T.mv(B), a.T @ B)
    assert_close(operator.T.as_matrix(), a.toarray().T)
    jacobian = lineax.JacobianLinearOperator(
        lambda x, _: kernel(a.data, *pattern, x), jnp.asarray(B)
    )
    assert_close(jacobian.T.mv(B), a.T @ B)
    solution = lineax.linear_solve(jacobian, jnp.asarray(B), lineax.LSMR(1e-12, 1e-12)).value
    assert_close(solution, np.linalg.solve(a.toarray(), B), rtol=1e-6, atol=1e-9)
