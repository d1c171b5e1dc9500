"""CUDA kernels on the CPU whose barriers cut them into phases, and those that are run as fibres.

Each test is a program of its own, see test_cuda_on_cpu.
"""

import pytest

pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
pytestmark = pytest.mark.once

HEAD = """
import jax, jax.numpy as jnp, numba, numpy as np
import kernbridge
from kernbridge import numba_cuda_kernel
from numba import cuda
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)

def launched(kernel, like, grid, block, *inputs, phases=True, **options):
    op = numba_cuda_kernel(kernel, like, grid=grid, block=block, **options)
    (found,) = op.inspect(*inputs)
    assert ("kb_whole" in found.llvm_ir) == phases, found.llvm_ir
    return np.asarray(op(*inputs))

S = jax.ShapeDtypeStruct
ints = lambda *shape: rng.integers(-99, 99, shape).astype(np.int32)
"""


def test_loops_around_barriers_and_atomics_on_shared_memory(run):
    run("""
@cuda.jit
def sums(x, out):
    part = cuda.shared.array(96, numba.float32)
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    while step:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]

x = rng.integers(0, 99, 5 * 64).astype(np.float32)
found = launched(sums, S((5,), np.float32), 5, 64, x)
np.testing.assert_array_equal(found, x.reshape(5, 64).sum(1))

@cuda.jit
def product(a, b, out):
    left = cuda.shared.array((4, 8), numba.float64)
    right = cuda.shared.array((8, 8), numba.float64)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = 4 * cuda.blockIdx.y + y, 8 * cuda.blockIdx.x + x
    total = 0.0
    for k in range(0, a.shape[1], 8):
        left[y, x] = a[row, k + x]
        right[y, x], right[y + 4, x] = b[k + y, column], b[k + y + 4, column]
        cuda.syncthreads()
        for i in range(8):
            total += left[y, i] * right[i, x]
        cuda.syncthreads()
    out[row, column] = total

a, b = ints(12, 32).astype(np.float64), ints(32, 16).astype(np.float64)
found = launched(product, S((12, 16), np.float64), (2, 3), (8, 4), a, b)
np.testing.assert_array_equal(found, a @ b)

@cuda.jit
def counts(x, out):
    bins = cuda.shared.array(16, numba.int64)
    least = cuda.shared.array(1, numba.float32)
    t = cuda.threadIdx.x
    if t < 16:
        bins[t] = 0
    if t == 16:
        least[0] = 1e9
    cuda.syncthreads()
    for i in range(t, x.shape[1], cuda.blockDim.x):
        cuda.atomic.add(bins, x[cuda.blockIdx.x, i] & 15, 1)
        cuda.atomic.min(least, 0, numba.float32(x[cuda.blockIdx.x, i]))
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(out, (cuda.blockIdx.x, t), bins[t])
    cuda.atomic.max(out, (cuda.blockIdx.x, 16), numba.int64(-least[0]))

x = ints(3, 700)
found = launched(counts, S((3, 17), np.int64), 3, 40, x, zero_outputs=True)
assert "atomicrmw" in numba_cuda_kernel(
    counts, S((3, 17), np.int64), grid=3, block=40, zero_outputs=True
).inspect(x)[0].llvm_ir  # on other memory
for row, values in zip(found, x):
    np.testing.assert_array_equal(row[:16], np.bincount(values & 15, minlength=16))
    assert row[16] == -values.min()

@cuda.jit
def fenced(x, out):
    bins, t = cuda.shared.array(4, numba.int32), cuda.threadIdx.x
    if t < 4:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, t % 4, x[t])
    out[t] = x[t]
    cuda.threadfence()  # stays, for other blocks
    cuda.syncthreads()
    out[t] += bins[t % 4]

found = launched(fenced, S((32,), np.int32), 1, 32, x[0, :32])
np.testing.assert_array_equal(found, x[0, :32] + np.tile(x[0, :32].reshape(8, 4).sum(0), 8))
(about,) = numba_cuda_kernel(fenced, S((32,), np.int32), grid=1, block=32).inspect(x[0, :32])
assert "fence seq_cst" in about.llvm_ir
""")


@pytest.mark.exhaustive
def test_values_that_live_across_barriers(run):
    run("""
KINDS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"

@cuda.jit
def turned(x, out):
    part = cuda.shared.array(24, numba.uint8)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    first, pair = x[i], (x[(i + 1) % x.size], numba.int64(t))
    is_odd = x[i] == x[0]
    for k in range(3):
        part[t] = t + k
        cuda.syncthreads()
        first += x[(i + part[23 - t]) % x.size]
        pair = (pair[0] + first, pair[1] + part[(t + k) % 24])
        is_odd = is_odd != (part[t] % 2 == 1)
        cuda.syncthreads()
    out[0, i], out[1, i], out[2, i], out[3, i] = first, pair[0], pair[1], is_odd

for n, kind in enumerate(KINDS.split()):
    x = rng.integers(0, 3, 48 + 24 * (n % 2)).astype(kind)
    found = launched(turned, S((4, x.size), kind), x.size // 24, 24, x)
    i, t = np.arange(x.size), np.arange(x.size) % 24
    first, second, third, is_odd = x, np.roll(x, -1), t, x == x[0]
    for k in range(3):
        first = first + x[(i + 23 - t + k) % x.size]
        second = second + first
        third = third + (t + k) % 24 + k
        is_odd = is_odd != ((t + k) % 2 == 1)
    np.testing.assert_array_equal(found, np.stack([first, second, third.astype(kind), is_odd]))

@cuda.jit
def local(x, where, out):
    own = cuda.local.array((3, 5), numba.int16)
    i, one = cuda.grid(1), cuda.local.array(1, numba.float64)
    for k in range(15):
        own[k // 5, k % 5] = x[(i + k) % x.size]
    one[0] = i
    cuda.syncthreads()
    own[where[i] // 5, where[i] % 5] = -7
    one[0] += own[where[x.size - 1 - i] // 5, 2]
    cuda.syncthreads()
    total = one[0]
    for k in range(15):
        total += own[k // 5, k % 5] * (k + 1)
    out[i] = total

x, where = ints(80), rng.integers(0, 15, 80)
found = launched(local, S((80,), np.float64), 2, 40, x, where)
i = np.arange(80)
own = x[(i[:, None] + np.arange(15)) % 80]
own[i, where] = -7
one = i + own[i, where[::-1] // 5 * 5 + 2]
np.testing.assert_array_equal(found, one + own @ np.arange(1, 16))
""")


@pytest.mark.exhaustive
def test_uniform_branches_nested_loops_and_extents(run):
    run("""
@cuda.jit
def by_block(x, out):
    part = cuda.shared.array(0, numba.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i]
    if cuda.blockIdx.x % 2:
        cuda.syncthreads()
        out[i] = part[cuda.blockDim.x - 1 - t]
        cuda.syncthreads()
        part[t] = 2 * out[i]
    else:
        out[i] = 5
    cuda.syncthreads()
    out[i] += part[(t + 1) % cuda.blockDim.x]

x = ints(4, 33)
found = launched(by_block, S((132,), np.int32), 4, 33, x.reshape(-1), shared_mem=132)
turned = x[:, ::-1]
odd = turned + np.roll(2 * turned, -1, 1)
even = 5 + np.roll(x, -1, 1)
expected = np.where(np.arange(4)[:, None] % 2, odd, even)
np.testing.assert_array_equal(found.reshape(4, 33), expected)

@cuda.jit
def sort(x, out):
    part = cuda.shared.array(128, numba.int32)
    t, width = cuda.threadIdx.x, 2
    part[t] = x[cuda.grid(1)]
    while width <= cuda.blockDim.x:
        step = width // 2
        while step:
            cuda.syncthreads()
            other = t ^ step
            a, b = part[t], part[other]
            if other > t and (a > b) == (t & width == 0):
                part[t], part[other] = b, a
            step //= 2
        width *= 2
    cuda.syncthreads()
    out[cuda.grid(1)] = part[t]

x = ints(3, 128)
found = launched(sort, S((384,), np.int32), 3, 128, x.reshape(-1))
np.testing.assert_array_equal(found.reshape(3, 128), np.sort(x, 1))

@cuda.jit
def mirrored(x, out):
    part = cuda.shared.array((2, 3, 5), numba.float32)
    i, j, k = cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x
    part[i, j, k] = x[cuda.blockIdx.y, cuda.blockIdx.x, i, j, k]
    cuda.syncthreads()
    out[cuda.blockIdx.y, cuda.blockIdx.x, i, j, k] = part[1 - i, 2 - j, 4 - k]

x = ints(2, 4, 2, 3, 5).astype(np.float32)
found = launched(mirrored, S(x.shape, np.float32), (4, 2), (5, 3, 2), x)
np.testing.assert_array_equal(found, x[:, :, ::-1, ::-1, ::-1])

@cuda.jit
def nested(x, out):
    part = cuda.shared.array(32, numba.int32)
    t, n, again = cuda.threadIdx.x, 0, numba.int32(cuda.blockIdx.x + 1)
    part[t] = x[t]
    for k in range(6):
        if again > 0:  # the same for all threads at first
            if x[t] % 2:
                cuda.atomic.add(out, t, 1)
            else:
                cuda.atomic.add(out, 31 - t, 2)
            n += 3
        again = part[(t + k) % 32]
        cuda.syncthreads()
        part[t] += n
        cuda.syncthreads()
    cuda.atomic.add(out, t, 100 * n + 10_000 * part[31 - t])

x = ints(32)
found = launched(nested, S((32,), np.int32), 1, 32, x, zero_outputs=True)
part, again, is_odd = x, 1, x % 2
n = expected = np.zeros(32, np.int32)
for k in range(6):
    is_more = again > np.zeros(32)
    expected = expected + is_more * is_odd + 2 * (is_more * (1 - is_odd))[::-1]
    n = n + 3 * is_more
    again = part[(np.arange(32) + k) % 32]
    part = part + n
np.testing.assert_array_equal(found, expected + 100 * n + 10_000 * part[::-1])
""")


@pytest.mark.exhaustive
def test_barriers_that_threads_may_not_reach_together(run):
    run("""
@cuda.jit
def early(x, out):
    part = cuda.shared.array(64, numba.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = -7
    if i >= x.size:
        return
    cuda.syncthreads()
    part[t] = x[i]
    cuda.syncthreads()
    out[i] = part[63 - t]

x = ints(100)
found = launched(early, S((100,), np.int32), 2, 64, x, phases=False)
np.testing.assert_array_equal(found[:64], x[:64][::-1])
np.testing.assert_array_equal(found[64:], [*[-7] * 28, *x[64:][::-1][:8]])

@cuda.jit
def in_branches(x, out):
    part = cuda.shared.array(64, numba.int32)
    t = cuda.threadIdx.x
    if t < 32:
        part[t] = x[t] + 1
        cuda.syncthreads()
    else:
        part[t] = x[t] - 1
        cuda.syncthreads()
    out[t] = part[63 - t]

x = ints(64)
found = launched(in_branches, S((64,), np.int32), 1, 64, x, phases=False)
np.testing.assert_array_equal(found, (x + np.repeat([1, -1], 32))[::-1])

@cuda.jit
def as_loaded(x, n, out):
    part = cuda.shared.array(32, numba.int32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    for _ in range(n[0]):
        cuda.syncthreads()
        value = part[(t + 1) % 32]
        cuda.syncthreads()
        part[t] = value
    out[t] = part[t]

x, n = ints(32), np.array([5])
found = launched(as_loaded, S((32,), np.int32), 1, 32, x, n, phases=False)
np.testing.assert_array_equal(found, np.roll(x, -5))

@cuda.jit
def with_warps(x, out):
    part = cuda.shared.array(64, numba.int32)
    t = cuda.threadIdx.x
    part[t] = x[t] + cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 1)
    cuda.syncthreads()
    n = cuda.syncthreads_count(numba.int32(part[63 - t] > 0))
    any_ = cuda.syncthreads_or(numba.int32(part[t] > 150))
    out[t] = part[63 - t] + 1000 * n + 100_000 * any_
    out[t] += 200_000 * cuda.syncthreads_and(numba.int32(part[t] < 150))

x = ints(64)
found = launched(with_warps, S((64,), np.int32), 1, 64, x, phases=False)
part = x + x.reshape(-1, 2)[:, ::-1].reshape(-1)
rest = 1000 * (part > 0).sum() + 100_000 * (part > 150).any() + 200_000 * (part < 150).all()
np.testing.assert_array_equal(found, part[::-1] + rest)
""")


def test_the_first_thread_that_writes_outside_is_named(run):
    run("""
@cuda.jit
def shifted(x, out):
    part = cuda.shared.array(32, numba.float32)
    t, n = cuda.threadIdx.x + 8 * cuda.threadIdx.y, 32
    part[t] = x[t]
    cuda.syncthreads()
    for k in range(2):
        out[2 * t] = part[31 - t] + k
        cuda.syncthreads()

try:
    with kernbridge.cuda_on_cpu():
        shifted[(1, 2), (8, 4)](np.ones(32, np.float32), np.zeros(50, np.float32))
except kernbridge.errors.KernelFaultError as error:
    assert "block (0, 0, 0), thread (1, 3, 0): writes to 'out' (f32[1d]) out of" in str(error)
else:
    raise AssertionError
""")
