"""Enzyme's derivatives of Numba-CUDA kernels, against JAX's own of equal functions."""

import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import numba_cuda_callable, numba_cuda_kernel
from kernbridge.errors import NoDerivativeError

sys.path.insert(0, str(Path(__file__).parents[1] / "python/ext/enzyme"))
import warp_kernels
from needs_enzyme import assert_derivatives, needs_enzyme

cuda = pytest.importorskip("numba.cuda")
libdevice = pytest.importorskip("numba.cuda.libdevice")

pytestmark = [needs_enzyme, pytest.mark.filterwarnings("ignore:.*KB(2108|4003|7002)")]
S = jax.ShapeDtypeStruct
N = 192


@pytest.fixture(autouse=True)
def doubles():
    with jax.enable_x64(True):
        yield


def normal(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def by_enzyme(kernel, outs=lambda x, *_, **__: S(x.shape, x.dtype), **options):
    options.setdefault("launch_dims", lambda x, *_, **__: x.shape)
    return numba_cuda_kernel(kernel, outs, derivatives="enzyme", **options)


@cuda.jit
def scatter(x, at, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, at[i], x[i] * x[i])
        cuda.atomic.sub(out, at[i] // 2, math.sin(x[i]))


def scatter_by_jax(x, at):
    return jnp.zeros(7).at[at].add(x * x).at[at // 2].add(-jnp.sin(x))


def test_additions_by_many_threads_to_one_element():
    at = np.random.default_rng(0).integers(0, 7, N).astype(np.int32)
    op = by_enzyme(scatter, S((7,), "float64"), zero_outputs=True)
    assert_derivatives(op, scatter_by_jax, normal(N), at, second=True, batched=True)


@cuda.jit
def extremes(x, at, high, low):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(high, at[i], math.sin(x[i]) * x[i])
        cuda.atomic.min(low, at[i], x[i] * x[i] * x[i])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_winners_of_maxima_and_minima_share_cotangents(dtype):
    def by_jax(x, at):
        high, low = (jnp.zeros(n, dtype) for n in (7, 9))
        return high.at[at].max(jnp.sin(x) * x), low.at[at].min(x**3)

    x, at = normal(N, dtype=dtype), np.random.default_rng(0).integers(0, 7, N).astype(np.int32)
    op = by_enzyme(extremes, (S((7,), dtype), S((9,), dtype)), zero_outputs=True)
    assert_derivatives(op, by_jax, np.tile(x[: N // 4], 4), at, batched=True)


@cuda.jit
def weighted(u, w, out):
    i = cuda.grid(1)
    if i < u.size:
        if i > 0 and i < u.size - 1:
            out[i] = w[0] * u[i - 1] + w[1] * u[i] * u[i] + w[2] * u[i + 1]
        else:
            out[i] = 0.0


def weighted_by_jax(u, w):
    inner = w[0] * u[:-2] + w[1] * u[1:-1] ** 2 + w[2] * u[2:]
    return jnp.zeros_like(u).at[1:-1].set(inner)


@cuda.jit
def scaled_squares(x, w, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = w[0] * x[i] * x[i]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_of_half_precision_are_differentiated_as_float32(dtype):
    op = by_enzyme(scaled_squares)
    x, w = jnp.linspace(-1, 2, 500, dtype=dtype), jnp.full(1, 0.75, dtype)
    y, pull = jax.vjp(op, x, w)
    by_x, by_w = pull(jnp.ones_like(y))
    moved = jax.jvp(op, (x, w), (jnp.ones_like(x), jnp.zeros_like(w)))[1]
    assert by_x.dtype == by_w.dtype == moved.dtype == y.dtype == dtype
    wide = np.asarray(x, np.float32)
    np.testing.assert_allclose(np.asarray(by_x, np.float32), 1.5 * wide, rtol=2**-8)
    np.testing.assert_allclose(np.asarray(moved, np.float32), 1.5 * wide, rtol=2**-8)
    np.testing.assert_allclose(np.asarray(by_w, np.float32), np.sum(wide**2), rtol=2**-8)
    second = jax.grad(
        lambda x: jax.grad(lambda x: op(x, w).astype(float).sum())(x).astype(float).sum()
    )
    assert np.all(np.asarray(second(x), np.float32) == 1.5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stencil_with_weights_that_all_threads_read(dtype):
    op = by_enzyme(weighted)
    given = normal(N + 5, dtype=dtype), np.array([0.3, 0.5, 0.7], dtype)
    assert_derivatives(op, weighted_by_jax, *given, second=True, batched=True)


@cuda.jit
def windowed(x, out):
    """A window of the input, which may be longer than the launch."""
    i = cuda.grid(1)
    if i < out.size:
        total = x[i] * x[i]
        if i >= 8:
            total += 0.5 * x[i - 8]
        if i + 3 < x.size:
            total += x[i] * x[i + 3]
        out[i] = total


def windowed_by_jax(x, n):
    after = jnp.pad(x[3:], (0, 3))
    return (x * x + 0.5 * jnp.pad(x[:-8], (8, 0)) + x * after)[:n]


@pytest.mark.parametrize(
    ("n", "more", "threads"),
    [
        (9, 0, 16),
        (16, 7, 16),
        (33, 1, 16),
        (47, 40, 24),
        (249, 0, 256),
        (256, 9, 256),
        (263, 0, 256),
        (1000, 300, 64),
        (5000, 0, 40),
        (300_000, 4, 256),  # so many blocks that they do not begin together
        *((n, n % 5, threads) for n in (95, 96, 97, 135) for threads in (32, 48)),
    ],
)
def test_additions_where_blocks_meet(n, more, threads):
    given = {"launch_dims": n, "threads_per_block": threads}
    op = by_enzyme(windowed, S((n,), "float64"), **given)
    x = normal(n + more)
    assert_derivatives(op, lambda x: windowed_by_jax(x, n), x, batched=True, second=n == 47)


@cuda.jit
def mirrored(x, out):
    s = cuda.shared.array(64, "float64")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] * x[i]
    cuda.syncthreads()
    out[i] = s[t] * s[63 - t]


def test_shared_memory_and_barriers():
    def by_jax(x):
        rows = (x * x).reshape(-1, 64)
        return (rows * rows[:, ::-1]).reshape(-1)

    op = by_enzyme(mirrored, threads_per_block=64)
    assert_derivatives(op, by_jax, normal(N), second=True, batched=True)


@cuda.jit
def adjacent(x, steps, out):
    s = cuda.shared.array(130, "float64")
    t, i, n = cuda.threadIdx.x, cuda.grid(1), cuda.blockDim.x
    s[t + 1] = x[i]
    if t == 0:
        s[0] = 1.0
    if t == n - 1:
        s[n + 1] = 2.0
    cuda.syncthreads()
    total = 0.0
    for k in range(steps[i]):
        if t % 5 != k:
            total += math.sin(s[t] + k) * s[t + 1] + s[t + 2] * s[t + 2]
    out[i] = total


@pytest.mark.parametrize("threads", [32, 48, 128])
def test_neighbours_in_shared_memory_with_threads_that_diverge(threads):
    n = 3 * threads
    steps = np.random.default_rng(1).integers(0, 4, n).astype(np.int32)
    steps[:40] = 3  # so that one warp stays together for some of its steps

    def by_jax(x, steps):
        rows = x.reshape(-1, threads)
        s = jnp.pad(rows, ((0, 0), (1, 0)), constant_values=1.0)
        s = jnp.pad(s, ((0, 0), (0, 1)), constant_values=2.0)
        t, total = jnp.arange(threads), 0.0
        for k in range(3):
            now = jnp.sin(s[:, :-2] + k) * s[:, 1:-1] + s[:, 2:] ** 2
            total += jnp.where((t % 5 != k) & (k < steps.reshape(rows.shape)), now, 0.0)
        return total.reshape(-1)

    op = by_enzyme(adjacent, lambda x, _: S(x.shape, x.dtype), threads_per_block=threads)
    assert_derivatives(op, by_jax, normal(n), steps, batched=True)


@cuda.jit
def tree_sum(x, out):
    s = cuda.shared.array(64, "float64")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = math.sin(x[i])
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half] * s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def test_a_reduction_whose_steps_wait_for_each_other():
    def by_jax(x):
        s = jnp.sin(x).reshape(-1, 64)
        while s.shape[1] > 1:
            half = s.shape[1] // 2
            s = s[:, :half] + s[:, half:] ** 2
        return s[:, 0]

    op = by_enzyme(tree_sum, S((N // 64,), "float64"), threads_per_block=64)
    assert_derivatives(op, by_jax, 0.1 * normal(N))


@cuda.jit
def functions(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        a, b = x[i], y[i]
        out[i] = math.exp(a) * math.sin(b) + math.sqrt(a * a + 1) + math.tanh(a) - math.cos(a * b)
        out[i] += math.atan2(a, b) + (2 + math.cos(b)) ** a + math.log1p(b * b) + math.erf(a)
        out[i] += math.asinh(a) + abs(a) + max(a, b) + math.expm1(b)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_mathematical_functions(dtype):
    def by_jax(a, b):
        out = jnp.exp(a) * jnp.sin(b) + jnp.sqrt(a * a + 1) + jnp.tanh(a) - jnp.cos(a * b)
        out += jnp.arctan2(a, b) + (2 + jnp.cos(b)) ** a + jnp.log1p(b * b) + jax.lax.erf(a)
        out += jnp.arcsinh(a) + jnp.abs(a) + jnp.maximum(a, b)
        return out + jnp.expm1(b)

    op = by_enzyme(functions)
    given = normal(N, dtype=dtype), normal(N, seed=1, dtype=dtype)
    assert_derivatives(op, by_jax, *given, second=True)


@cuda.jit
def csr_product(data, indices, indptr, v, out):
    row = cuda.grid(1)
    if row < out.size:
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * v[indices[k]]
        out[row] = total


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_product_of_a_sparse_matrix(dtype):
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 7, 150))]).astype(np.int32)
    indices = rng.integers(0, 15, indptr[-1]).astype(np.int32)
    rows = np.repeat(np.arange(150), np.diff(indptr))

    def by_jax(data, indices, indptr, v):
        return jax.ops.segment_sum(data * v[indices], rows, 150)

    op = by_enzyme(
        csr_product,
        lambda d, i, p, v: S((p.shape[0] - 1,), v.dtype),
        launch_dims=lambda d, i, p, v: p.shape[0] - 1,
    )
    given = normal(indptr[-1], dtype=dtype), indices, indptr, normal(15, dtype=dtype)
    assert_derivatives(op, by_jax, *given, second=True)


@cuda.jit
def neuron(v, current, out, spikes):
    i = cuda.grid(1)
    if i < v.size:
        u = 0.9 * v[i] + current[i]
        spikes[i] = u > 1.0
        out[i] = u - 1.0 if u > 1.0 else u


def test_a_branch_and_an_integer_output():
    def by_jax(v, current):
        u = 0.9 * v + current
        return jnp.where(u > 1, u - 1, u), (u > 1).astype(jnp.int32)

    op = by_enzyme(neuron, lambda v, _: (S(v.shape, v.dtype), S(v.shape, "int32")))
    assert_derivatives(op, by_jax, normal(N), normal(N, seed=1), batched=True)


@cuda.jit
def in_place(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i]) * x[i]


def test_an_output_in_the_memory_of_an_input():
    op = by_enzyme(in_place, input_output_aliases={0: 0})
    assert_derivatives(op, lambda x: jnp.sin(x) * x, normal(N), second=True, batched=True)


@cuda.jit
def replacing(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * y[i]


def test_an_input_that_is_replaced_has_no_cotangent():
    op = by_enzyme(replacing, input_output_aliases={0: 0})
    assert_derivatives(op, lambda x, y: 0 * x + 2 * y, normal(N), normal(N, seed=1))


@cuda.jit
def own_input(x, out):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= x[i]
        out[i] = 3 * x[i]


def test_a_kernel_that_writes_to_its_input():
    assert_derivatives(by_enzyme(own_input), lambda x: 3 * x * x, normal(N), batched=True)


@cuda.jit
def iterated(x, w, out):
    i = cuda.grid(1)
    if i < out.size:
        total = 1.0
        for k in range(w.size):
            total = math.sin(total * w[k]) + x[i]
        out[i] = total


@cuda.jit
def powers(x, out):
    i = cuda.grid(1)
    a = cuda.local.array(4, "float64")
    if i < x.size:
        for k in range(4):
            a[k] = x[i] ** (k + 1)
        out[i] = a[0] * a[3] + a[1] * a[2]


def test_values_that_a_loop_overwrites():
    def by_jax(x, w):
        return jax.lax.scan(lambda y, k: (jnp.sin(y * k) + x, None), jnp.ones_like(x), w)[0]

    assert_derivatives(by_enzyme(iterated), by_jax, normal(N), normal(7, seed=1))
    assert_derivatives(by_enzyme(powers), lambda x: 2 * x**5, normal(N))


@cuda.jit
def scaled(x, factor, out):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        out[i, j] = factor * x[i, j] * x[j, i]


def test_two_axes_and_a_scalar():
    op = by_enzyme(scaled)
    x = normal(20, 20)
    ours = jax.grad(lambda x, a: (op(x, factor=a) ** 2).sum(), (0, 1))(x, 1.7)
    theirs = jax.grad(lambda x, a: ((a * x * x.T) ** 2).sum(), (0, 1))(x, 1.7)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


@cuda.jit
def of_z(x, out):
    i = cuda.threadIdx.z
    if i < x.size:
        out[i] = x[i] * x[i]


def test_a_batch_of_a_kernel_that_uses_the_z_axis():
    op = by_enzyme(of_z, launch_dims=None, grid=1, block=(1, 1, 8))
    assert_derivatives(jax.vmap(op), lambda x: x * x, normal(5, 8))


@cuda.jit
def product(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * y[i] * x[i]


def test_complex_numbers():
    x, y = (normal(N, seed=s) + 1j * normal(N, seed=s + 1) for s in (0, 2))
    assert_derivatives(by_enzyme(product), lambda x, y: x * y * x, x, y)


@cuda.jit
def logarithms(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.exp(-1000 * x[i]) if x[i] < 0 else math.log(x[i])


def test_infinite_derivatives_and_nans_are_kept():
    x = np.array([0.0, 2.0, np.inf, np.nan, -4.0])
    ours = jax.grad(lambda x: by_enzyme(logarithms)(x).sum())(x)
    np.testing.assert_array_equal(ours, [np.inf, 0.5, 0.0, np.nan, -np.inf])
    ours = jax.grad(lambda x: (by_enzyme(logarithms)(x) * 0).sum())(x)
    np.testing.assert_array_equal(ours, [np.nan, 0.0, 0.0, np.nan, np.nan])


@cuda.jit
def inactive(x, n, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(n, 0, 1)
        out[i] = x[i] * x[i]


@cuda.jit
def compacted(x, n, out):
    i = cuda.grid(1)
    if i < x.size:
        out[cuda.atomic.add(n, 0, 1)] = x[i]


@cuda.jit
def counted(x, out):
    i = cuda.grid(1)
    out[i] = cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1)
    out[i] *= cuda.syncthreads_count(i)


@cuda.jit
def greatest(x, out):
    i = cuda.grid(1)
    cuda.atomic.max(out, 0, x[i])


@cuda.jit
def dynamic(x, out):
    s = cuda.shared.array(0, "float64")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    out[i] = s[t] * s[s.size - 1 - t]


def test_shared_memory_whose_size_the_launch_decides():
    def by_jax(x):
        rows = x.reshape(-1, 64)
        return (rows * rows[:, ::-1]).reshape(-1)

    op = by_enzyme(dynamic, threads_per_block=64, shared_mem=512)
    assert_derivatives(op, by_jax, normal(N), batched=True)


@cuda.jit
def smoothed(u, w, out):
    s = cuda.shared.array(0, "float64")
    t, i, n = cuda.threadIdx.x, cuda.grid(1), cuda.blockDim.x
    r = w.shape[0] // 2
    s[t + r] = u[i] if i < u.shape[0] else 0.0
    if t < r:
        s[t] = u[i - r] if i >= r else 0.0
        s[n + r + t] = u[i + n] if i + n < u.shape[0] else 0.0
    cuda.syncthreads()
    if i < out.shape[0]:
        total = 0.0
        for k in range(w.shape[0]):
            total += w[k] * s[t + k] * s[t + r]
        out[i] = total / u.shape[0]


def smoothed_by_jax(u, w):
    r = w.size // 2
    wide = jnp.pad(u, r)
    return sum(w[k] * wide[k : k + u.size] for k in range(w.size)) * u / u.size


def test_stencil_with_a_halo_in_shared_memory():
    op = by_enzyme(smoothed, threads_per_block=64, shared_mem=8 * (64 + 4))
    assert_derivatives(op, smoothed_by_jax, normal(N - 9), normal(5), second=True, batched=True)


@cuda.jit
def product_of_tiles(a, b, out):
    tile_a = cuda.shared.array((4, 4), "float64")
    tile_b = cuda.shared.array((4, 4), "float64")
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for i in range((a.shape[1] + 3) // 4):
        tile_a[ty, tx] = tile_b[ty, tx] = 0
        if y < a.shape[0] and tx + i * 4 < a.shape[1]:
            tile_a[ty, tx] = a[y, tx + i * 4]
        if x < b.shape[1] and ty + i * 4 < b.shape[0]:
            tile_b[ty, tx] = b[ty + i * 4, x]
        cuda.syncthreads()
        for j in range(4):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = total


def product_of_tiles_twice(a, b, out, stream):
    ab = cuda.device_array((a.shape[0], b.shape[1]), a.dtype)
    product_of_tiles[(3, 3), (4, 4), stream](a, b, ab)
    product_of_tiles[(3, 3), (4, 4), stream](ab, b, out)


@pytest.mark.parametrize(("m", "k", "n"), [(4, 8, 4), (4, 4, 8), (8, 4, 4), (3, 9, 5)])
def test_product_of_matrices_in_tiles(m, k, n):
    op = by_enzyme(
        product_of_tiles,
        lambda a, b: S((a.shape[0], b.shape[1]), a.dtype),
        launch_dims=lambda a, b: (b.shape[1], a.shape[0]),
        threads_per_block=(4, 4),
    )
    a, b = normal(m, k), normal(k, n, seed=1)
    assert_derivatives(op, jnp.matmul, a, b, batched=True)


@cuda.jit
def gammas(x, out):
    i = cuda.grid(1)
    out[i] = math.gamma(x[i]) + x[i] * math.lgamma(x[i])


def test_the_gamma_function():
    def by_jax(x):
        return jax.scipy.special.gamma(x) + x * jax.scipy.special.gammaln(x)

    x = np.concatenate([np.linspace(-4.9, 0.4, 64), np.linspace(0.6, 12, 64)])
    assert_derivatives(by_enzyme(gammas), by_jax, x)


@cuda.jit
def scaled_complement(x, out):
    i = cuda.grid(1)
    out[i] = libdevice.erfcx(x[i])


def test_what_enzyme_cannot_differentiate_is_refused_with_the_line():
    x, n = normal(64), np.zeros(1, np.int32)
    like = S((64,), "float64")
    op = by_enzyme(inactive, like)
    assert_derivatives(lambda x: op(x, n), lambda x: x * x, x)
    for kernel, reason, given in (
        (scaled_complement, "it calls __nv_erfcx", (x,)),
        (compacted, "the value that an atomic operation returns", (x, n)),
        (counted, "it uses barrier0.popc", (x,)),
        (greatest, "it has an atomic maximum of real numbers", (x,)),
    ):
        op = by_enzyme(kernel, like, threads_per_block=64)
        with pytest.raises(
            NoDerivativeError, match=rf"(?s)({reason}).*derivatives\.py:\d+.*KB2107"
        ):
            jax.grad(lambda x, given=given, op=op: op(x, *given[1:]).sum())(x)


def test_launches_without_derivatives_are_refused():
    op = by_enzyme(in_place, cooperative=True)
    with pytest.raises(NoDerivativeError, match="KB2107"):
        jax.grad(lambda x: op(x).sum())(normal(64))


@cuda.jit
def squares(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def waves(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.sin(x[i]) * y[i]


@cuda.jit
def grow(x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * y[i] + x[i]


@cuda.jit
def neighbours(u, out):
    i = cuda.grid(1)
    if i < u.size:
        out[i] = 0.5 * u[i] * u[i - 1] if i > 0 else u[i]


def neighbours_of(u):
    return jnp.concatenate([u[:1], 0.5 * u[1:] * u[:-1]])


def recorded(function, outs=lambda x, *_: S(x.shape, x.dtype), **options):
    return numba_cuda_callable(function, outs, record="always", derivatives="enzyme", **options)


def of_temporaries(x, y, out, stream):
    a, b = cuda.device_array(x.shape, x.dtype), cuda.device_array(x.shape, x.dtype)
    squares[2, 128, stream](x, a)
    waves[2, 128, stream](a, y, b)
    for _ in range(3):
        grow[2, 128, stream](b, a)
    neighbours[2, 128, stream](b, out)


def test_launches_that_overwrite_temporaries():
    def by_jax(x, y):
        a = x * x
        b = jnp.sin(a) * y
        for _ in range(3):
            b = b * a + b
        return neighbours_of(b)

    given = 0.5 * normal(N), normal(N, seed=1)
    assert_derivatives(recorded(of_temporaries), by_jax, *given, batched=True)


def test_launches_with_shared_memory():
    op = recorded(product_of_tiles_twice, lambda a, b: S((a.shape[0], b.shape[1]), a.dtype))
    given = normal(9, 7), normal(7, 7, seed=1)
    assert_derivatives(op, lambda a, b: a @ b @ b, *given, batched=True)


def of_copies(u, out, stream):
    t = cuda.device_array(u.shape, u.dtype)
    t[:] = u
    for _ in range(3):
        neighbours[2, 128, stream](t, out)
        t[:] = out
    t[:50] = 0.5
    waves[2, 128, stream](t, u, out)
    out[90:100] = t[40:50]


def test_copies_and_fills_of_parts():
    def by_jax(u):
        t = u
        for _ in range(3):
            t = neighbours_of(t)
        t = t.at[:50].set(0.5)
        return (jnp.sin(t) * u).at[90:100].set(t[40:50])

    assert_derivatives(recorded(of_copies), by_jax, normal(N), batched=True)


def of_one_buffer(x, y, out, stream):
    grow[2, 128, stream](out, y)
    grow[2, 128, stream](out, y)


def test_launches_in_the_memory_of_an_input():
    op = recorded(of_one_buffer, input_output_aliases={0: 0})
    given = normal(N), normal(N, seed=1)
    assert_derivatives(op, lambda x, y: x * (1 + y) ** 2, *given, batched=True)


def unrecordable(x, out, stream):
    out[:] = x.copy_to_host()


def test_functions_without_a_plan_and_second_derivatives_are_refused():
    like, x = S((N,), "float64"), normal(N)
    op = numba_cuda_callable(unrecordable, like, record="never", derivatives="enzyme")
    with pytest.raises(NoDerivativeError, match="KB2107"):
        jax.grad(lambda x: op(x).sum())(x)
    op = recorded(lambda x, out, stream: squares[2, 128, stream](x, out), like)
    with pytest.raises(NoDerivativeError, match="KB2107"):
        jax.hessian(lambda x: op(x).sum())(x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", warp_kernels.CASES)
def test_shuffles_and_votes(name, dtype):
    op, by_jax, given = warp_kernels.operation(name, dtype)
    second = name in ("all four", "prefixes", "by index")
    assert_derivatives(op, by_jax, *given, second=second, batched=True)
