"""Derivatives of Numba-CUDA kernels by Enzyme on the fake driver and on the CPU.

`tests/gpu/test_cuda_derivatives.py` has kernels of many kinds.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import check_rules, numba_cuda_callable, numba_cuda_kernel
from kernbridge.errors import KernbridgeWarning, NoDerivativeError
from needs_enzyme import assert_derivatives, needs_enzyme

cuda = pytest.importorskip("numba.cuda")
pytestmark = needs_enzyme  # also with the oldest JAX and Numba
exhaustive = pytest.mark.exhaustive


@cuda.jit
def mirrored(x, at, out):
    s = cuda.shared.array(32, "float32")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] * x[i]
    cuda.syncthreads()
    cuda.atomic.add(out, at[i], s[t] * s[31 - t])


def by_jax(x, at):
    rows = (x * x).reshape(-1, 32)
    return jnp.zeros(5, x.dtype).at[at].add((rows * rows[:, ::-1]).reshape(-1))


def operation():
    return numba_cuda_kernel(
        mirrored,
        jax.ShapeDtypeStruct((5,), jnp.float32),
        launch_dims=64,
        threads_per_block=32,
        zero_outputs=True,
        derivatives="enzyme",
    )


@pytest.mark.exhaustive
def test_the_plan_of_a_derivative(gpu):
    x = 0.5 * np.random.default_rng(0).normal(size=64).astype(np.float32)
    assert_derivatives(operation(), by_jax, x, np.arange(64, dtype=np.int32) % 5, batched=True)
    gradients = jax.jit(jax.vmap(jax.grad(lambda x: operation()(x, jnp.zeros(64, int)).sum())))
    before = gpu.library.fake_cuda_n_launches()
    gradients(jnp.stack([x] * 3)).block_until_ready()
    assert gpu.library.fake_cuda_n_launches() - before == 1


@cuda.jit
def products(x, w, out):
    s, r = cuda.shared.array(4, "float32"), cuda.shared.array(4, "float32")
    t, i = cuda.threadIdx.x, cuda.blockIdx.x
    s[t], r[t] = x[i, t], w[t]
    cuda.syncthreads()
    out[i, t] = s[t] * r[3 - t] * x.shape[0] + s[3 - t] * w.shape[0]


def products_twice(x, w, out, stream):
    inner = cuda.device_array((4, 4), x.dtype)
    products[4, 4, stream](x, w, inner)
    products[3, 4, stream](inner, w, out)


@pytest.mark.parametrize("recorded", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_shared_arrays_are_not_counted_as_arrays_of_the_call(recorded):
    def rows_by_jax(n, x, w):
        return (x * w[3::-1] * x.shape[0] + x[:, ::-1] * w.size)[:n]

    def by_jax(x, w):
        return rows_by_jax(3, rows_by_jax(4, x, w) if recorded else x, w)

    like = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    if recorded:
        op = numba_cuda_callable(products_twice, like, record="always", derivatives="enzyme")
    else:
        op = numba_cuda_kernel(products, like, grid=3, block=4, derivatives="enzyme")
    x = 0.5 * np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    assert_derivatives(op, by_jax, x, np.linspace(0.2, 0.9, 6, dtype=np.float32), batched=True)


@cuda.jit
def iterated(x, n, out):
    i = cuda.grid(1)
    if i < out.size:
        y = x[i]
        for _ in range(n[0]):
            y = y * y + x[i]
        out[i] = y


def iterated_by_a_callable(x, n, out, stream):
    iterated[1, 8, stream](x, n, out)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_loop_that_overwrites_values(recorded):
    like = jax.ShapeDtypeStruct((8,), jnp.float32)
    op = numba_cuda_kernel(iterated, like, launch_dims=8, derivatives="enzyme")
    if recorded:
        op = numba_cuda_callable(
            iterated_by_a_callable, like, record="always", derivatives="enzyme"
        )
    x, n = jnp.linspace(0, 0.5, 8), jnp.array([3])
    with pytest.warns(KernbridgeWarning, match="KB2108"):
        found = jax.grad(lambda x: op(x, n).sum())(x)

    def by_jax(x):
        y = x
        for _ in range(3):
            y = y * y + x
        return y.sum()

    np.testing.assert_allclose(found, jax.grad(by_jax)(x), rtol=1e-5)


@cuda.jit
def first_squares(x, w, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i].real
        if w[i] > 0:
            out[i] += w[i] * w[i] * x.size


@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("complex64", marks=pytest.mark.exhaustive)]
)
def test_cotangents_of_elements_that_no_thread_reads_are_zeros(dtype):
    def by_jax(x, w):
        first = x[:90] * x[:90].real
        return first + (jnp.maximum(w[:90], 0) ** 2 * x.size).astype(x.dtype)

    like = jax.ShapeDtypeStruct((90,), dtype)
    op = numba_cuda_kernel(
        first_squares, like, launch_dims=100, threads_per_block=32, derivatives="enzyme"
    )
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=n).astype("float32") for n in (300, 110))
    x = x if dtype == "float32" else (x + 1j * rng.normal(size=300)).astype(dtype)
    assert_derivatives(op, by_jax, x, w, batched=True)


@cuda.jit
def mirrored_first(x, w, out):
    s = cuda.shared.array(32, "float32")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] * x[i] if i < x.size else 0
    cuda.syncthreads()
    if i < out.size and w[i % w.size] > 0:
        out[i] = s[t] * s[31 - t] * w[i % w.size]


@pytest.mark.once
def test_cotangents_that_are_read_before_threads_wait():
    def by_jax(x, w):
        rows = jnp.pad(x * x, (0, 96 - x.size)).reshape(3, 32)
        products = (rows * rows[:, ::-1]).reshape(-1)[:75]
        return products * jnp.maximum(jnp.resize(w, 75), 0)

    like = jax.ShapeDtypeStruct((75,), jnp.float32)
    op = numba_cuda_kernel(
        mirrored_first,
        like,
        launch_dims=96,
        threads_per_block=32,
        zero_outputs=True,
        derivatives="enzyme",
    )
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=n).astype("float32") for n in (80, 11))
    assert_derivatives(op, by_jax, x, w, batched=True)


@cuda.jit
def of_real_parts(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i].real * x[i].real


@pytest.mark.exhaustive
def test_parts_of_complex_numbers():
    like = jax.ShapeDtypeStruct((40,), jnp.float32)
    op = numba_cuda_kernel(of_real_parts, like, launch_dims=40, derivatives="enzyme")
    rng = np.random.default_rng(0)
    x = (rng.normal(size=50) + 1j * rng.normal(size=50)).astype(np.complex64)
    assert_derivatives(op, lambda x: x[:40].real ** 2, x)


SOURCE = """
import sys
sys.path.insert(0, {folder!r})
import jax, jax.numpy as jnp, numpy as np
from test_cuda_kernels import by_jax, operation
x, at = jnp.linspace(-1, 1, 64), jnp.arange(64) % 5
ours = jax.jit(jax.grad(lambda x: operation()(x, at).sum()))
np.testing.assert_allclose(ours(x), jax.grad(lambda x: by_jax(x, at).sum())(x), rtol=1e-5)
program = jax.export.export(ours)(jax.ShapeDtypeStruct((64,), jnp.float32))
open("program", "wb").write(bytes(program.serialize()))
print(ours(x)[:3].tolist())
"""
SAVED = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import jax, jax.numpy as jnp, kernbridge
program = jax.export.deserialize(bytearray(open("program", "rb").read()))
print(program.call(jnp.linspace(-1, 1, 64))[:3].tolist())
"""


@pytest.mark.exhaustive
def test_an_exported_gradient_needs_neither_numba_nor_enzyme(request, run_python):
    printed = run_python(SOURCE.format(folder=str(request.path.parent)), KERNBRIDGE_TEST_CUDA="")
    assert printed.splitlines()[-1] == run_python(SAVED, KERNBRIDGE_ENZYME="/nowhere").strip()


@cuda.jit
def scaled_squares(x, w, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = w[0] * x[i] * x[i]


def test_half_precision_is_differentiated_as_float32():
    op = numba_cuda_kernel(scaled_squares, lambda x, _: x, launch_dims=9, derivatives="enzyme")
    x, w = jnp.linspace(-1, 2, 9, dtype=jnp.bfloat16), jnp.full(1, 0.75, jnp.float16)
    by_x, by_w = jax.grad(lambda x, w: op(x, w).astype(float).sum(), (0, 1))(x, w)
    assert (by_x.dtype, by_w.dtype) == (x.dtype, w.dtype)
    wide = np.asarray(x, np.float32)
    np.testing.assert_allclose(np.asarray(by_x, np.float32), 1.5 * wide, rtol=2**-8)
    np.testing.assert_allclose(float(by_w[0]), np.sum(wide**2), rtol=2**-8)


@cuda.jit
def weighted_rows(x, w, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j] * w[j]
        out[i] = total


def test_derivatives_are_split_among_devices():
    op = numba_cuda_kernel(
        weighted_rows,
        signature="x: f32[rows, n], w: f32[n] -> f32[rows]",
        launch_dims="rows",
        sharding_rule=True,
        derivatives="enzyme",
    )
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.device_put(jnp.arange(40, dtype=jnp.float32).reshape(8, 5) / 40, rows)
    w = jnp.arange(5, dtype=jnp.float32)
    compiled = jax.jit(jax.grad(lambda x, w: op(x, w).sum(), (0, 1))).lower(x, w).compile()
    assert "all-gather" not in compiled.as_text()
    by_x, by_w = compiled(x, w)
    assert by_x.sharding.is_equivalent_to(rows, 2)
    np.testing.assert_allclose(by_x, 2 * x * w, rtol=1e-6)
    np.testing.assert_allclose(by_w, (x * x).sum(axis=0), rtol=1e-6)


FACTORS = np.random.default_rng(5).normal(size=3000).astype(np.float32)


@cuda.jit
def scaled(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * x[i] * cuda.const.array_like(FACTORS)[7 * i]


@pytest.mark.exhaustive
def test_a_large_constant_array():
    like = jax.ShapeDtypeStruct((90,), jnp.float32)
    op = numba_cuda_kernel(scaled, like, launch_dims=90, derivatives="enzyme")
    x = jnp.linspace(1, 2, 90)
    np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(x), 2 * x * FACTORS[:630:7], 1e-6)


@cuda.jit
def extremes(x, at, high, low, total):
    s = cuda.shared.array(32, "float64")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] * x[i] if i < x.size else 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.max(high, at[i], s[t] * x[i])
        cuda.atomic.add(total, at[i], s[t])
        for k in range(2):
            cuda.atomic.min(low, (k, at[i]), (k + 1) * x[i] - s[t])


@cuda.jit
def raised(x, at, high):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(high, at[i], x[i] * x[i] * x[i])


def raised_by_jax(x, at, high):
    return high.at[at].max(x * x * x)


@exhaustive
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=exhaustive), "float64"])
def test_winners_of_maxima_and_minima_share_cotangents(dtype):
    def by_jax(x, at):
        high, low, total = (jnp.zeros(n, dtype) for n in (5, (2, 7), 6))
        for k in range(2):
            low = low.at[k, at].min((k + 1) * x - x * x)
        return high.at[at].max(x**3), low, total.at[at].add(x * x)

    rng = np.random.default_rng(0)
    x, at = rng.integers(-4, 4, 60).astype(dtype) / 2, rng.integers(0, 5, 60)
    threads = {"launch_dims": 64, "threads_per_block": 32, "derivatives": "enzyme"}
    with jax.enable_x64(True):
        like = [jax.ShapeDtypeStruct(n, dtype) for n in ((5,), (2, 7), (6,))]
        op = numba_cuda_kernel(extremes, like, zero_outputs=True, **threads)
        is_double = dtype == "float64"
        assert_derivatives(op, by_jax, x, at, second=is_double, batched=is_double, alone=False)


def test_the_first_numbers_of_maxima_share_cotangents():
    op = numba_cuda_kernel(raised, inplace="high", launch_dims=64, derivatives="enzyme")
    high = jnp.array([-1, 0, 1, 3.375, 9], jnp.float32)
    x, at = jnp.arange(-30, 30, dtype=jnp.float32) % 6 / 2 - 1, jnp.arange(60) % 5
    ours, theirs = (
        jax.grad(lambda x, f=f: (f(x, at, high) * jnp.arange(1, 6)).sum())(x)
        for f in (op, raised_by_jax)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    with pytest.raises(NoDerivativeError, match=r"neither as zeros nor as a constant input"):
        jax.grad(lambda high: op(x, at, high).sum())(high)


@cuda.jit
def extremes_of_polynomials(x, w, at, high, low):
    i = cuda.grid(1)
    if i < x.size:
        y = w[i] if w[i] > 0.125 else 0.5
        v = 0.75 * y + w[i]
        if math.sin(x[i]) > 0.125:
            v = x[i] * w[i] - (x[i] * x[i] + w[i] * w[i]) * y
        for _ in range(3):
            v = v * y + x[i] * 0.5
        cuda.atomic.max(high, at[i], v)
        u = x[i] - w[i] * x[i]
        if u > 0.125:
            cuda.atomic.min(low, at[i], u * v + y)


@pytest.mark.once
@exhaustive
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_forms_of_a_kernel_offer_the_same_numbers(dtype):
    """Products that are fused into sums in one form, and not in another, would lose winners."""

    def by_jax(x, w, at, high, low):
        y = jnp.where(w > 0.125, w, 0.5)
        v = jnp.where(jnp.sin(x) > 0.125, x * w - (x * x + w * w) * y, 0.75 * y + w)
        for _ in range(3):
            v = v * y + x * 0.5
        u = x - w * x
        return high.at[at].max(v), low.at[at].min(jnp.where(u > 0.125, u * v + y, np.inf))

    with jax.enable_x64(dtype == "float64"):
        rng = np.random.default_rng(0)
        x, w = rng.normal(size=(2, 500)).astype(dtype)
        high, at = jnp.full(40, -1e30, dtype), rng.integers(0, 40, 500)
        op = numba_cuda_kernel(
            extremes_of_polynomials, inplace="high, low", launch_dims=512, derivatives="enzyme"
        )
        rtol = 1e-4 if dtype == "float32" else 1e-10
        for mode in (jax.jacfwd, jax.jacrev):
            ours, theirs = (mode(f, (0, 1))(x, w, at, high, -high) for f in (op, by_jax))
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@exhaustive
def test_maxima_against_central_differences():
    like = jax.ShapeDtypeStruct((5,), jnp.float32)
    op = numba_cuda_kernel(raised, like, launch_dims=64, zero_outputs=True, derivatives="enzyme")
    x, at = np.random.default_rng(0).normal(size=60).astype("float32"), np.arange(60) % 5
    assert all("passed" in str(check) for check in check_rules(op, x, at))


@cuda.jit
def highest_of_sums(x, out):
    s = cuda.shared.array(1, "float32")
    s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, x[cuda.grid(1)])
    cuda.syncthreads()
    cuda.atomic.max(out, 0, s[0])


@cuda.jit
def highest_and_last(x, out):
    i = cuda.grid(1)
    cuda.atomic.max(out, 0, x[i])
    out[i] = x[i]


@cuda.jit
def lowest_number(x, out):
    cuda.atomic.nanmin(out, 0, x[cuda.grid(1)])


@cuda.jit
def returned(x, out):
    out[1] = cuda.atomic.add(out, 0, x[cuda.grid(1)])


@cuda.jit
def greatest(x, out):
    cuda.atomic.max(out, 0, x[cuda.grid(1)])


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (returned, "it uses the value that an atomic"),
        (greatest, "it has an atomic maximum of real numbers, which begin neither as zeros"),
        (highest_of_sums, "it has an atomic maximum of real numbers, which might be others if"),
        (highest_and_last, "it has an atomic maximum of real numbers, which might be others if"),
        (lowest_number, "it waits for other threads, or replaces numbers atomically"),
    ],
)
def test_what_is_refused(kernel, why):
    like, zeros = jax.ShapeDtypeStruct((64,), jnp.float32), kernel is not greatest
    op = numba_cuda_kernel(kernel, like, grid=1, block=64, zero_outputs=zeros, derivatives="enzyme")
    with pytest.raises(NoDerivativeError, match=rf"(?s){why}.*test_cuda_kernels\.py:\d+.*KB2107"):
        jax.grad(lambda x: op(x).sum())(jnp.ones(64, jnp.float32))
