"""Enzyme's derivatives of kernels of several kinds, against JAX's own of equal functions."""

import inspect
import math

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from kernbridge import check_rules, numba_kernel
from kernbridge.errors import NoDerivativeError
from needs_enzyme import assert_derivatives, needs_enzyme
from numba.core import event

pytestmark = [pytest.mark.once, needs_enzyme]
S = jax.ShapeDtypeStruct


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def normal(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def like(x, *_, **__):
    return S(x.shape, x.dtype)


def by_enzyme(kernel, outs=like, **options):
    return numba_kernel(kernel, outs, derivatives="enzyme", **options)


@numba.njit
def csr_product(data, indices, indptr, v, out):
    for i in range(out.size):
        total = v.dtype.type(0)
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * v[indices[k]]
        out[i] = total


@pytest.mark.brief
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_product_of_a_sparse_matrix(dtype):
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 20))]).astype(np.int32)
    indices = rng.integers(0, 15, indptr[-1]).astype(np.int32)
    rows = np.repeat(np.arange(20), np.diff(indptr))

    def product(data, indices, indptr, v):
        return jax.ops.segment_sum(data * v[indices], rows, 20)

    op = by_enzyme(csr_product, lambda d, i, p, v: S((p.shape[0] - 1,), v.dtype))
    given = normal(indptr[-1], dtype=dtype), indices, indptr, normal(15, dtype=dtype)
    assert_derivatives(op, product, *given, second=True)


@numba.njit
def leaky_neurons(v, current, threshold, tau, out, spikes):
    for i in range(v.size):
        u = v[i] + (current[i] - v[i]) / tau
        spikes[i] = u > threshold
        out[i] = 0.0 if u > threshold else u


def test_neurons_with_a_reset_scalars_and_an_output_of_integers():
    op = by_enzyme(leaky_neurons, lambda v, c, **_: (like(v), S(v.shape, jnp.int32)))

    def reference(v, current, threshold, tau):
        u = v + (current - v) / tau
        return jnp.where(u > threshold, 0.0, u), (u > threshold).astype(jnp.int32)

    def by_name(v, current, threshold, tau):
        return op(v, current, threshold=threshold, tau=tau)

    assert_derivatives(by_name, reference, normal(9), 4 * normal(9, seed=1), 0.5, 2.5)


@numba.njit
def relax(x, w, out):
    for _ in range(4):
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
                x[i, j] = 0.25 * around + w[i, j] * x[i, j]


def relaxed(x, w):
    n = x.shape[0] - 2

    def step(x, k):
        i, j = k // n % n + 1, k % n + 1
        around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
        return x.at[i, j].set(0.25 * around + w[i, j] * x[i, j]), None

    return jax.lax.scan(step, x, jnp.arange(4 * n * n))[0]


@pytest.mark.exhaustive
def test_a_kernel_in_place():
    op = by_enzyme(relax, input_output_aliases={0: 0})
    assert_derivatives(op, relaxed, normal(6, 6), normal(6, 6, seed=1), second=True, batched=True)


@numba.njit
def overwrites(x, y, out):
    for i in range(x.size):
        x[i] = x[i] * y[i]
    for i in range(x.size):
        out[i] = np.exp(x[i]) * x[x.size - 1 - i]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*KB4003")
def test_a_kernel_that_writes_to_an_input():
    def reference(x, y):
        return jnp.exp(x * y) * (x * y)[::-1]

    given = normal(7), normal(7, seed=1)
    assert_derivatives(by_enzyme(overwrites), reference, *given, second=True, batched=True)


@numba.njit
def array_expressions(x, out):
    squares = x * x
    part = squares[1:-1]
    out[:] = np.cumsum(squares) + part.sum() * np.sqrt(1 + squares)


@pytest.mark.exhaustive
def test_temporary_arrays():
    def reference(x):
        squares = x * x
        return jnp.cumsum(squares) + squares[1:-1].sum() * jnp.sqrt(1 + squares)

    assert_derivatives(by_enzyme(array_expressions), reference, normal(7), batched=True)


@numba.njit
def times_variance(x, y, out):
    variance = y.var()
    for i in range(x.size):
        out[i] = variance * x[i]


def test_a_variance_of_several_inputs():
    """Numba makes a loop of one step of each `np.conj`, whose values Enzyme confused."""

    given = normal(6), normal(6, seed=1)
    assert_derivatives(by_enzyme(times_variance), lambda x, y: y.var() * x, *given)


@numba.njit
def item_of_a_tuple(x, y, out):
    k = 0
    for i in range(x.size):
        b = y[i]
        for _ in range(2):
            k += 1
            b = b * b * 0.5
        out[i] = (x[i], b, x[i])[k % 3] * b


def test_a_tuple_with_an_index_of_run_time():
    """A `switch` leads to one block from several cases, of which Enzyme added up all."""

    def reference(x, y):
        b = (y * y * 0.5) ** 2 * 0.5
        return jnp.where(2 * (jnp.arange(6) + 1) % 3 == 1, b, x) * b

    assert_derivatives(by_enzyme(item_of_a_tuple), reference, normal(6), normal(6, seed=1))


@numba.njit(error_model="numpy")
def guarded(x, w, out):
    total = 0.0
    for i in range(x.size):
        v = x[i]
        out[i, 0] = v * np.log(v) if v > 0 else 0.0
        out[i, 1] = w[i] / v if v != 0 else 0.0
        out[i, 2] = v**0.5 if v > 0 else 0.0
        out[i, 3] = 0.0 if np.isnan(1 / v) or v == 0 else v * v
        out[i, 4] = w[i] * np.cbrt(v) if v != 0 else 0.0
        out[i, 5] = np.exp(w[i] / v) if v > 0.01 else v
        out[i, 6] = max(v, 0.0) ** w[0]
        if v <= 0:
            continue
        total += v**0.4
    for i in range(x.size):
        out[i, 7] = total


def guarded_of_jax(x, w):
    positive, nonzero = x > 0, x != 0
    v, u = jnp.where(positive, x, 1), jnp.where(nonzero, x, 1)
    steep = jnp.where(positive, v ** w[0], 0)
    cubic = jnp.sign(u) * jnp.exp(jnp.log(abs(u)) / 3)
    total = jnp.where(positive, v**0.4, 0).sum()
    columns = [
        jnp.where(positive, v * jnp.log(v), 0),
        jnp.where(nonzero, w / u, 0),
        jnp.where(positive, jnp.sqrt(v), 0),
        jnp.where(nonzero, x * x, 0),
        jnp.where(nonzero, w * cubic, 0),
        jnp.where(x > 0.01, jnp.exp(w / jnp.where(x > 0.01, x, 1)), x),
        steep,
        jnp.broadcast_to(total, x.shape),
    ]
    return jnp.stack(columns, axis=1)


@pytest.mark.parametrize("second", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_what_a_branch_guards_at_singular_points(second):
    op = by_enzyme(guarded, lambda x, w: S((4, 8), x.dtype))
    x, w = np.array([0.0, 1.37, -2.4, 2.7]), np.array([0.7, 1.9, 0.5, -0.4])
    assert_derivatives(op, guarded_of_jax, x, w, second=second)


@numba.njit
def of_either(x, y, at, out):
    for i in range(out.size):
        row = x if at[i] % 2 else y[1:]
        out[i] = np.sin(row[i]) * y[i]


def test_an_array_that_is_chosen_at_run_time():
    """The tangent of an input that is no parameter of the derivative was the input itself."""
    at = np.array([0, 1, 1, 0, 3], np.int32)

    def reference(x, y, at):
        return jnp.sin(jnp.where(at % 2 == 1, x, y[1:])) * y[:5]

    op, given = by_enzyme(of_either), (normal(5), normal(6, seed=1))
    for about in (0, 1):

        def of_one(function, about=about):
            fixed = given[1 - about]
            if about:
                return lambda y: function(fixed, y, at)
            return lambda x: function(x, fixed, at)

        assert_derivatives(of_one(op), of_one(reference), given[about], second=True)


@pytest.mark.brief
@pytest.mark.parametrize("function", ["exp", "sin", "log", "sqrt", "tanh"])
def test_second_derivatives_with_respect_to_one_of_two_shapes(function):
    of_math, of_jax = getattr(math, function), getattr(jnp, function)
    op = kernbridge.elementwise(lambda x, y: of_math(x * y), derivatives="enzyme")
    x, y = np.array([[0.6], [0.9]]), np.array([0.4, 0.7, 1.3])
    ours = jax.hessian(lambda x, y: op(x, y).sum(), 1)(x, y)
    theirs = jax.hessian(lambda x, y: of_jax(x * y).sum(), 1)(x, y)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@numba.njit
def never_read(x, out):
    unread = np.zeros(x.size)
    for i in range(x.size):
        unread[i] = np.sin(x[i])
        out[i] = x[i] * x[i]


@pytest.mark.exhaustive
def test_an_array_that_is_never_read():
    assert_derivatives(by_enzyme(never_read), jnp.square, normal(5))


@numba.njit
def expression(x, w, out):
    out[:] = np.exp(-x * x) * w + np.tanh(w)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [
        ((11,), (11,), np.float64),
        pytest.param((7,), (1,), np.float64, marks=pytest.mark.exhaustive),
        pytest.param((1,), (5,), np.float64, marks=pytest.mark.exhaustive),
        pytest.param((2, 1), (2, 9), np.float32, marks=pytest.mark.exhaustive),
        pytest.param((1, 3), (4, 1), np.float32, marks=pytest.mark.exhaustive),
    ],
)
def test_arrays_are_broadcast(rows, columns, dtype):
    def outs(x, w):
        return S(np.broadcast_shapes(x.shape, w.shape), x.dtype)

    given = normal(*rows).astype(dtype), normal(*columns).astype(dtype)
    op = numba_kernel(expression, outs, derivatives="enzyme")
    assert_derivatives(op, lambda x, w: jnp.exp(-x * x) * w + jnp.tanh(w), *given)


@numba.njit
def doubled(x):
    result = np.empty((2, *x.shape))
    result[:] = x * x
    result[1, 1:] = x[:-1]
    return result


@numba.njit
def slices(x, out):
    out[:] = doubled(x)[::-1].sum(axis=0) + np.sort(x[:, 0])


@pytest.mark.exhaustive
def test_slices_and_functions_of_numba():
    def reference(x):
        return x * x + (x * x).at[1:].set(x[:-1]) + jnp.sort(x[:, 0])

    assert_derivatives(by_enzyme(slices), reference, normal(3, 3), batched=True)


@numba.njit
def moves(x, w, out):
    own, other = x * w, np.sin(x)
    own[1:] = own[:-1]
    other[2:] = own[:-2] * other[1:-1]
    for i in range(3):
        chosen = own if w[i] > 0 else other
        chosen[1:] = own[:-1] * other[1:]
        own[:] = chosen[::-1] + x
        own = own * w
    out[:] = own
    out[3:] = out[:-3]
    out[:] = out[::-1] * other


@pytest.mark.parametrize("second", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_arrays_and_slices_that_overlap(second):
    """Numba tests at run time which do, and copies the array that is assigned."""

    def reference(x, w):
        own, other = x * w, jnp.sin(x)
        own = own.at[1:].set(own[:-1])
        other = other.at[2:].set(own[:-2] * other[1:-1])
        for i in range(3):
            moved = own[:-1] * other[1:]
            changed = jnp.where(w[i] > 0, own, other).at[1:].set(moved)
            other = jnp.where(w[i] > 0, other, changed)
            own = (changed[::-1] + x) * w
        out = own.at[3:].set(own[:-3])
        return out[::-1] * other

    given = normal(9), np.array([0.7, -0.9, 1.3, 0.4, -0.5, 0.8, 1.1, -1.2, 0.6])
    assert_derivatives(by_enzyme(moves), reference, *given, second=second)


@numba.njit
def assigns(x, out):
    out[:] = x[:2]


@pytest.mark.exhaustive
def test_an_exception_whose_text_is_made_of_extents():
    op = by_enzyme(assigns)
    np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(jnp.ones((2, 2))), 1)
    said = r"ValueError: cannot assign slice of shape \(3, 3\) from input of shape \(2, 3\)"
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"{said} \(in assigns at .*KB3001"):
        jax.jit(jax.grad(lambda x: op(x).sum()))(jnp.ones((3, 3)))


@numba.njit
def insertion_sort(x, out):
    for i in range(x.size):
        out[i] = x[i]
    for i in range(1, x.size):
        key, j = out[i], i - 1
        while j >= 0 and out[j] > key:
            out[j + 1] = out[j]
            j -= 1
        out[j + 1] = key


@pytest.mark.exhaustive
def test_a_kernel_that_reads_its_output():
    assert_derivatives(by_enzyme(insertion_sort), jnp.sort, normal(20), second=True, batched=True)


@numba.njit
def add_up(x, at, out):
    for i in range(x.size):
        out[at[i]] += x[i] * x[i]


@numba.njit
def shift(x, w, out):
    for i in range(x.size - 1):
        x[i] = x[i + 1]
    for i in range(x.size):
        x[i] *= w[i]
    for i in range(x.size - 2):
        x[i] = x[i + 2]


@pytest.mark.exhaustive
def test_data_that_moves_within_an_array():
    """LLVM makes memmove of such loops, which Enzyme took for memcpy."""

    def reference(x, w):
        x = x.at[:-1].set(x[1:]) * w
        return x.at[:-2].set(x[2:])

    op = by_enzyme(shift, input_output_aliases={0: 0})
    assert_derivatives(op, reference, normal(9), normal(9, seed=1), second=True)


def test_outputs_that_begin_as_zeros():
    op = by_enzyme(add_up, lambda x, at: S((4,), x.dtype), zero_outputs=True)
    at = np.array([0, 3, 3, 1, 0, 0], np.int32)
    assert_derivatives(op, lambda x, at: jnp.zeros(4).at[at].add(x * x), normal(6), at)


def test_arrays_without_elements():
    assert_derivatives(by_enzyme(insertion_sort), jnp.sort, normal(0))


def test_the_derivative_of_a_checked_kernel():
    assert_derivatives(by_enzyme(insertion_sort, check=True), jnp.sort, normal(5))


@numba.njit
def complex_product(x, y, out):
    for i in range(x.size):
        out[i] = x[i] * y[i] * x[i] + 2j * y[i] + x[i].real


@pytest.mark.exhaustive
def test_complex_numbers():
    def reference(x, y):
        return x * y * x + 2j * y + x.real

    x, y = (normal(5, seed=k) + 1j * normal(5, seed=k + 9) for k in range(2))
    assert_derivatives(by_enzyme(complex_product), reference, x, y, second=True)


@numba.njit(parallel=True)
def in_parallel(x, out):
    for i in numba.prange(x.size):
        out[i] = np.sin(x[i])


def test_a_parallel_loop():
    assert_derivatives(by_enzyme(in_parallel), jnp.sin, normal(6))


@numba.njit
def square_root(x, out):
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("negative value", i, x.size)
        out[i] = math.sqrt(x[i])


def test_exceptions_of_the_kernel():
    op = by_enzyme(square_root)
    gradient = jax.jit(jax.grad(lambda x: op(x).sum()))  # of which the kernel is no part
    np.testing.assert_allclose(gradient(jnp.array([4.0])), 0.25)
    text = r"\('negative value', 1, 2\) \(in square_root at .*test_kernels.py.*KB3001"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        gradient(jnp.array([4.0, -1.0]))


@numba.njit
def softplus(x, a, out):
    for i in range(x.size):
        out[i] = np.log1p(np.exp(x[i])) * a[0]


def softplus_of_jax(x, a):
    return jnp.log1p(jnp.exp(x)) * a[0]


softly = by_enzyme(softplus)


@pytest.mark.exhaustive
def test_transformations():
    x, a = jnp.asarray(normal(3, 4)), jnp.array([1.5])

    def both(transform):
        found = [transform(f) for f in (softly, softplus_of_jax)]
        jax.tree.map(np.testing.assert_allclose, *found)

    def loss(f):
        return lambda x, a: (f(x, a) ** 2).sum()

    both(lambda f: jax.jit(jax.value_and_grad(loss(f), (0, 1)))(x[0], a))
    both(lambda f: jax.vmap(jax.grad(loss(f), (0, 1)), (0, None))(x, a))
    both(lambda f: jax.grad(lambda x, a: jax.vmap(loss(f), (0, None))(x, a).sum(), (0, 1))(x, a))
    both(lambda f: jax.jacfwd(f, 1)(x[0], a))
    both(lambda f: jax.jacrev(f, (0, 1))(x[0], a))
    both(lambda f: jax.hessian(loss(f), (0, 1))(x[0], a))
    both(lambda f: jax.grad(jax.checkpoint(loss(f)))(x[0], a))
    both(lambda f: jax.linearize(lambda x: f(x, a), x[0])[1](x[1]))

    def chain(f):
        return lambda x: jax.lax.scan(lambda c, _: (f(c, a), None), x, length=3)[0].sum()

    both(lambda f: jax.grad(chain(f))(x[0]))


@pytest.mark.exhaustive
@numba.njit
def signed(x, squared, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] if squared else -x[i]


@pytest.mark.parametrize("jit", [jax.jit, lambda f: f])
def test_a_bool_of_python_as_keyword(jit):
    op, x = by_enzyme(signed), jnp.arange(3.0)
    for squared in (True, False):
        gradient = jax.grad(lambda x, s=squared: jit(lambda x: op(x, squared=s))(x).sum())
        np.testing.assert_array_equal(jit(gradient)(x), 2 * x if squared else -jnp.ones(3))


@numba.njit
def repeated_sums(x, out):
    for r in range(out.size):
        s = np.float32(0)
        for k in range(x.size):
            s += x[k] * x[k] * (r + 1)
        out[r] = s


@pytest.mark.exhaustive
def test_reverse_over_reverse_of_a_sum_in_each_row():
    op = by_enzyme(repeated_sums, S((2,), "float32"))
    x = jnp.array([1.0, -2.0, 0.5], jnp.float32)

    def by_jax(x):
        return jnp.sum(x * x) * jnp.arange(1.0, 3.0)

    def loss(f):
        return lambda x: jnp.sum(f(x) ** 2)

    expected = jax.hessian(loss(by_jax))(x)
    np.testing.assert_allclose(jax.jacrev(jax.grad(loss(op)))(x), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.jacfwd(jax.grad(loss(op)))(x), expected, rtol=1e-5)


def test_rules_of_ones_own_beside_enzyme():
    op = numba_kernel(softplus, like, jvp="enzyme", vjp=lambda inputs, outputs, ct: (7 * ct, None))
    x, a = jnp.asarray(normal(4)), jnp.ones(1)
    np.testing.assert_allclose(jax.grad(lambda x: op(x, a).sum())(x), 7.0)
    tangents = jax.jvp(lambda x: op(x, a), (x,), (jnp.ones(4),))[1]
    np.testing.assert_allclose(tangents, jax.nn.sigmoid(x))


@pytest.mark.exhaustive
def test_check_rules_compares_with_differences():
    assert len(check_rules(softly, jnp.asarray(normal(4)), jnp.ones(1))) >= 4


def test_sharded():
    mesh = jax.make_mesh((4,), ("d",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    op = by_enzyme(softplus, sharding_rule="i, j -> i")
    x, a = jax.device_put(jnp.asarray(normal(8)), sharding), jnp.ones(1)

    def loss(f):
        return jax.jit(jax.grad(lambda x, a: (f(x, a) ** 2).sum(), (0, 1)))

    for ours, theirs in zip(loss(op)(x, a), loss(softplus_of_jax)(x, a), strict=True):
        np.testing.assert_allclose(ours, theirs)
    assert loss(op)(x, a)[0].sharding.is_equivalent_to(sharding, 1)


@numba.njit
def gammas(x, out):
    for i in range(x.size):
        out[i] = math.gamma(x[i]) + x[i] * math.lgamma(x[i])


def gammas_of_jax(x):
    return jax.scipy.special.gamma(x) + x * jax.scipy.special.gammaln(x)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gamma_function(dtype):
    x = np.array([1e-3, 0.3, 0.5, 1, 2, 4.2, 7.9, 8.1, 12, -1e-3, -0.3, -1.7, -4.6], dtype)
    with jax.enable_x64(True):
        assert_derivatives(by_enzyme(gammas), gammas_of_jax, x, second=dtype == "float64")
        large = np.array([30, 1e5, 1e200])
        log = by_enzyme(logarithm_of_gamma)
        ours = jax.grad(lambda x: log(x).sum())(large)
        np.testing.assert_allclose(ours, jax.scipy.special.digamma(large), rtol=1e-12)


@numba.njit
def logarithm_of_gamma(x, out):
    for i in range(x.size):
        out[i] = math.lgamma(x[i])


@numba.njit
def with_random_numbers(x, out):
    for i in range(x.size):
        out[i] = x[i] * np.random.random()


@numba.njit
def with_normal_numbers(x, out):
    for i in range(x.size):
        out[i] = x[i] * np.random.normal()


@numba.njit
def with_bits(x, work, out):
    values = work.view(np.float64)
    for i in range(x.size):
        values[i] = x[i] * x[i]
    for i in range(x.size):
        out[i] = values[i]


@numba.njit(parallel=True)
def times_the_greatest(x, w, out):
    greatest = -np.inf
    for i in numba.prange(x.size):
        greatest = max(greatest, x[i] * w[i])
    for i in range(x.size):
        out[i] = greatest * x[i]


def test_a_maximum_over_a_loop():
    op = by_enzyme(times_the_greatest)
    assert_derivatives(op, lambda x, w: jnp.max(x * w) * x, normal(7), normal(7, seed=1))


@numba.njit
def with_where(x, out):
    out[:] = np.where(x > 0, x, np.sin(x))


@numba.njit
def with_bits_of_a_number(x, out):
    for i in range(x.size):
        bits = x.view(np.int64)[i] >> 1
        out[i] = x[i] * np.float64(bits)


@numba.njit
def with_a_list_of_numbers(x, out):
    values = [x[0] * x[0]]
    for i in range(1, x.size):
        values.append(values[-1] * 0.5 + x[i])
    for i, value in enumerate(values):
        out[i] = np.sin(value)


@numba.njit
def with_a_list_of_arrays(x, out):
    parts = [x * x]
    parts.append(np.sin(x))
    for i in range(x.size):
        out[i] = parts[1][i] + parts[0][i]


@numba.njit
def with_python(x, out):
    with numba.objmode():
        print(end="")
    for i in range(x.size):
        out[i] = x[i]


@numba.njit
def fibonacci(x, n):
    if n < 2:
        return x
    return np.sin(fibonacci(x, n - 1)) + fibonacci(x, n - 2)


@numba.njit
def with_recursion(x, out):
    for i in range(x.size):
        out[i] = fibonacci(x[i], i)


@numba.njit
def inferred(v, n):
    if n == 0:
        return v
    return inferred(v, n - 1) * v


@numba.njit
def with_inferred_recursion(x, out):
    for i in range(x.size):
        out[i] = inferred(x[i], 3)


def line_of(kernel, text):
    lines = inspect.getsource(inspect.getmodule(kernel.py_func)).splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.mark.brief
@pytest.mark.parametrize(
    ("kernel", "outs", "why", "place"),
    [
        (with_random_numbers, like, "draws random numbers", "np.random.random()"),
        (with_normal_numbers, like, "draws random numbers", "np.random.normal()"),
        (with_bits, lambda x: (S(x.shape, jnp.int64), like(x)), "same memory", "values[i] = x[i]"),
        (with_bits_of_a_number, like, "uses the bits of real numbers", "np.int64)[i] >> 1"),
        pytest.param(
            *(with_where, like, "`np.where` of arrays", "np.where(x > 0, x, np.sin(x))"),
            marks=pytest.mark.exhaustive,
        ),
        (with_a_list_of_numbers, like, "a list of real numbers", None),
        (with_a_list_of_arrays, like, "a list of arrays", None),
        (with_recursion, like, "a function calls itself", None),
        (with_inferred_recursion, like, "a function calls itself", "inferred(v, n - 1) * v"),
        (with_python, like, "`with` blocks", None),
    ],
)
def test_what_is_refused(kernel, outs, why, place):
    op = by_enzyme(kernel, outs)
    with pytest.raises(NoDerivativeError, match=rf"{why}.*KB2107") as refused:
        jax.grad(lambda x: jax.tree.leaves(op(x))[-1].sum())(jnp.ones(3))
    if place:
        assert f"test_kernels.py:{line_of(kernel, place)}" in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 30


@numba.njit
def length(x):
    return np.linalg.norm(x)


@numba.njit
def with_a_function_of_blas(x, out):
    out[0] = 2 * length(x)


def test_a_refusal_names_a_line_of_what_was_compiled_once():
    op = by_enzyme(with_a_function_of_blas, lambda x: S((1,), x.dtype))
    place = rf"test_kernels.py:{line_of(length, 'np.linalg.norm(x)')}\)"
    with (
        event.install_recorder("numba:compile") as compiled,
        pytest.raises(NoDerivativeError, match=rf"numba_xxnrm2.*{place}.*KB2107"),
    ):
        jax.grad(lambda x: op(x)[0])(jnp.arange(5.0))
    begun = [e.data["dispatcher"] for _, e in compiled.buffer if e.is_start]
    assert begun.count(length) <= 2, "once for the kernel, and once for its derivative"


def test_half_precision_is_refused():
    op = by_enzyme(softplus, half_as_bits=True)
    x = jnp.ones(3, jnp.bfloat16)
    with pytest.raises(NoDerivativeError, match=r"bfloat16.*KB2107"):
        jax.grad(lambda x: op(x, x).sum())(x)


def test_wrong_options():
    with pytest.raises(ValueError, match="KB1007"):
        numba_kernel(softplus, like, derivatives=True)
    with pytest.raises(TypeError, match="KB1007"):
        numba_kernel(softplus, like, vjp="enzime")


softplus_slope = kernbridge.inline(jax.grad(jax.nn.softplus))


@numba.njit
def of_jax(x, w, out):
    for i in range(x.size):
        out[i] = softplus_slope(x[i] * w[()]) * x[i]


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_functions_of_jax_in_kernels(dtype):
    def in_jax(x, w):
        return jax.vmap(jax.grad(jax.nn.softplus))(x * w) * x

    op = by_enzyme(of_jax)
    assert_derivatives(op, in_jax, normal(7, dtype=dtype), normal(dtype=dtype), second=True)
