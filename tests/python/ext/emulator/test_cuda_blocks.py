"""CUDA kernels on the CPU whose threads wait for each other: shared memory, barriers, warps.

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
S = jax.ShapeDtypeStruct
rng = np.random.default_rng(0)
ALL = 0xFFFFFFFF
"""


def test_shared_arrays_static_and_dynamic(run):
    run("""
@cuda.jit
def reversed_sums(x, out):
    words = cuda.shared.array((4, 32), numba.int32)
    halves = cuda.shared.array(128, numba.int16)
    flags = cuda.shared.array(3, numba.float64)
    rest = cuda.shared.array(0, numba.int64)
    again = cuda.shared.array(0, numba.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    words[t // 32, t % 32] = x[i]
    halves[t] = x[i] + 1
    if t < 3:
        flags[t] = t + 0.5
    rest[t] = -x[i]
    cuda.syncthreads()
    r = 127 - t
    out[i] = words[r // 32, r % 32] * 1000 + halves[r] + flags[2] + rest[r] + again[2 * r]

for n_blocks in (1, 3, 40):
    x = jnp.asarray(rng.integers(1, 100, 128 * n_blocks), jnp.int32)
    op = numba_cuda_kernel(reversed_sums, S(x.shape, jnp.float64), grid=n_blocks, block=128,
                           shared_mem=128 * 8)
    y = np.asarray(x, np.int64).reshape(-1, 128)[:, ::-1].reshape(-1)
    for f in (op, jax.jit(op)):
        np.testing.assert_array_equal(f(x), y * 1000 + y + 1 + 2.5 - 2 * y)
    X = jnp.stack([x, x + 1, 2 * x])
    Y = np.stack([y, y + 1, 2 * y])
    np.testing.assert_array_equal(jax.vmap(op)(X), Y * 1000 + Y + 1 + 2.5 - 2 * Y)
""")


def test_barriers_and_their_forms(run):
    run("""
@cuda.jit
def steps(x, out):
    s = cuda.shared.array(96, numba.int64)
    t = cuda.threadIdx.x + 8 * (cuda.threadIdx.y + 4 * cuda.threadIdx.z)
    s[t] = x[t]
    for k in range(5):
        cuda.syncthreads()
        left = s[(t + 95) % 96]
        cuda.syncthreads()
        s[t] = s[t] * 3 + left + k
    positive = cuda.syncthreads_count(numba.int32(s[t] > 0))
    every = cuda.syncthreads_and(numba.int32(s[t] > -(1 << 40)))
    not_every = cuda.syncthreads_and(numba.int32(t != 17))
    some = cuda.syncthreads_or(numba.int32(t == 95))
    none = cuda.syncthreads_or(numba.int32(t == 96))
    out[0, t] = s[t]
    out[1, t] = positive
    out[2, t] = (every != 0) + 10 * (not_every != 0) + 100 * (some != 0) + 1000 * (none != 0)

x = rng.integers(-9, 9, 96)
op = numba_cuda_kernel(steps, S((3, 96), jnp.int64), grid=1, block=(8, 4, 3))
s = x.copy()
for k in range(5):
    s = s * 3 + np.roll(s, 1) + k
got = np.asarray(op(jnp.asarray(x)))
np.testing.assert_array_equal(got[0], s)
assert (got[1] == (s > 0).sum()).all() and (got[2] == 101).all(), got[1:]

@cuda.jit
def leave_early(out):
    t = cuda.threadIdx.x
    if t >= 40:
        return
    s = cuda.shared.array(64, numba.int32)
    s[t] = t
    cuda.syncthreads()
    out[t] = s[39 - t]

op = numba_cuda_kernel(leave_early, S((40,), jnp.int32), grid=1, block=64)
np.testing.assert_array_equal(op(), np.arange(40)[::-1])
""")


def test_shuffles(run):
    run("""
@cuda.jit
def shuffles(x, out):
    t, lane = cuda.threadIdx.x, cuda.laneid
    out[0, t] = cuda.shfl_sync(ALL, x[t], (lane * 7) % 32)
    out[1, t] = cuda.shfl_up_sync(ALL, x[t], 3)
    out[2, t] = cuda.shfl_down_sync(ALL, x[t], 5)
    out[3, t] = cuda.shfl_xor_sync(ALL, x[t], 9)
    out[4, t] = cuda.shfl_sync(ALL, x[t], 35)
    if lane % 2:
        out[5, t] = cuda.shfl_xor_sync(0xAAAAAAAA, x[t], 2)
    else:
        out[5, t] = cuda.shfl_down_sync(0x55555555, x[t], 4)

lane = np.arange(32)
for dtype in (jnp.int32, jnp.int64, jnp.float32, jnp.float64):
    x = np.asarray(rng.integers(-(2**30), 2**30, 64) + 0.5).astype(dtype)
    if dtype == jnp.int64:
        x = x * 2**31 + 7
    op = numba_cuda_kernel(shuffles, S((6, 64), dtype), grid=1, block=64)
    w = x.reshape(2, 32)
    want = [w[:, lane * 7 % 32], w[:, np.where(lane < 3, lane, lane - 3)],
            w[:, np.where(lane > 26, lane, lane + 5)], w[:, lane ^ 9], w[:, lane * 0 + 3],
            w[:, np.where(lane % 2, lane ^ 2, np.where(lane > 27, lane, lane + 4))]]
    np.testing.assert_array_equal(op(jnp.asarray(x)), np.stack(want).reshape(6, 64))
""")


@pytest.mark.exhaustive
def test_votes_matches_and_masks(run):
    run("""
@cuda.jit
def votes(x, out):
    t = cuda.threadIdx.x
    v = x[t]
    out[0, t] = cuda.all_sync(ALL, v >= 0) + 2 * cuda.any_sync(ALL, v == 3)
    out[1, t] = cuda.eq_sync(ALL, v > 100) + 2 * cuda.eq_sync(ALL, v == 3)
    out[2, t] = cuda.ballot_sync(ALL, v % 2)
    out[3, t] = cuda.match_any_sync(ALL, v)
    mask, same = cuda.match_all_sync(ALL, v)
    out[4, t] = mask + same
    mask, same = cuda.match_all_sync(ALL, numba.int64(t // 32))
    out[5, t] = mask + same
    out[6, t] = cuda.lanemask_lt()
    out[7, t] = cuda.laneid + 100 * cuda.warpsize
    if t % 32 < 20:
        out[8, t] = cuda.activemask()
    else:
        out[8, t] = cuda.activemask()
    cuda.syncwarp()

n = 32 + 32 + 12
x = rng.integers(0, 5, n).astype(np.int32)
x[:32] = 3
op = numba_cuda_kernel(votes, S((9, n), jnp.int64), grid=1, block=n)
got = np.array(op(jnp.asarray(x)))
got[[2, 3, 6, 8]] &= ALL  # Numba has some of these as signed numbers of 32 bits
for first in range(0, n, 32):
    w = x[first : first + 32]
    lane = np.arange(len(w))
    bits = lambda p: int((np.asarray(p, np.int64) << lane).sum())
    here = got[:, first : first + 32]
    assert (here[0] == 1 + 2 * (w == 3).any()).all()
    assert (here[1] == 1 + 2 * ((w == 3).all() | (w != 3).all())).all()
    assert (here[2] == bits(w % 2)).all()
    assert here[3].tolist() == [bits(w == v) for v in w]
    full = bits(lane >= 0)
    same = (w == w[0]).all()
    signed = lambda n: n - (n >> 31 << 32)
    assert (here[4] == (signed(full) + 1 if same else 0)).all(), here[4]
    assert (here[5] == signed(full) + 1).all()
    assert here[6].tolist() == [(1 << l) - 1 for l in lane]
    assert here[7].tolist() == [3200 + l for l in lane]
    assert here[8].tolist() == [bits(lane < 20) if l < 20 else bits(lane >= 20) for l in lane]
""")


@pytest.mark.exhaustive
def test_fences_atomics_and_the_last_block(run):
    run("""
@cuda.jit
def total(x, partial, count, out):
    s = cuda.shared.array(1, numba.float64)
    last = cuda.shared.array(1, numba.int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, x[cuda.grid(1)])
    cuda.syncthreads()
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]
        cuda.threadfence()
        last[0] = cuda.atomic.inc(count, 0, numba.uint32(10_000)) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        a = 0.0
        for i in range(partial.size):
            a += partial[i]
        out[0] = a

x = jnp.asarray(rng.integers(0, 100, 64 * 57), jnp.float64)
op = numba_cuda_kernel(total, (S((57,), jnp.float64), S((1,), jnp.uint32), S((1,), jnp.float64)),
                       grid=57, block=64, zero_outputs=True)
for _ in range(20):
    assert float(jax.jit(op)(x)[2][0]) == float(x.sum())
""")


@pytest.mark.exhaustive
def test_float_extremes_by_atomics(run):
    run("""
@cuda.jit
def extremes(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(out, 0, x[i])
        cuda.atomic.min(out, 1, x[i])
        cuda.atomic.nanmax(out, 2, x[i])
        cuda.atomic.nanmin(out, 3, x[i])
        cuda.atomic.add(out, 4, x.dtype.type(1))
        cuda.atomic.sub(out, 5, x.dtype.type(2))

for dtype in (np.float32, np.float64):
    x = rng.normal(size=999).astype(dtype)
    x[5] = np.nan
    op = numba_cuda_kernel(extremes, S((6,), dtype), grid=8, block=128, zero_outputs=True)
    good = x[~np.isnan(x)]
    want = [good.max(), good.min(), good.max(), good.min(), 999, -1998]
    np.testing.assert_array_equal(op(jnp.asarray(x)), np.asarray(want, dtype))
""")


def test_what_waits_for_ever_is_an_error(run):
    run("""
@cuda.jit
def stuck(out):
    if cuda.threadIdx.x == 3:
        cuda.syncthreads()
    else:
        cuda.syncwarp()
    out[cuda.threadIdx.x] = 1

@cuda.jit
def outsider(out):
    out[cuda.threadIdx.x] = cuda.shfl_sync(0x1, 1, 0)

@cuda.jit
def fine(out):
    out[cuda.threadIdx.x] = cuda.syncthreads_count(1)

def failed(kernel, *expected):
    op = numba_cuda_kernel(kernel, S((64,), jnp.int32), grid=3, block=64)
    try:
        jax.block_until_ready(op())
    except Exception as e:
        for text in expected:
            assert text in str(e), str(e)
    else:
        raise SystemExit("no error")

failed(stuck, "stuck", "waits in cuda.syncwarp", "thread (3, 0, 0)", "cuda.syncthreads",
       "block (0, 0, 0)")
failed(outsider, "thread (1, 0, 0)", "0x00000001", "its own lane, 1, is not")
op = numba_cuda_kernel(fine, S((64,), jnp.int32), grid=3, block=64)
assert (op() == 64).all()
""")


def test_print_and_waiting_for_another_thread(run):
    printed = run("""
@cuda.jit
def talks(x, out):
    t = cuda.threadIdx.x
    if t == 1:
        print("thread", t, "has", x[t], numba.uint32(7), numba.int64(-1) << 40, "100%",
              "addrspace(1) of LLVM")
    if t == 0:
        while cuda.atomic.add(out, 2, 0) == 0:
            cuda.nanosleep(10)
    if t == 1:
        cuda.atomic.add(out, 2, 5)
    out[t] = t

op = numba_cuda_kernel(talks, S((3,), jnp.int32), grid=1, block=2, zero_outputs=True)
assert op(jnp.asarray([1.5, 2.5])).tolist() == [0, 1, 5]
""")
    assert f"thread 1 has 2.500000 7 {-1 << 40} 100% addrspace(1) of LLVM" in printed


@pytest.mark.exhaustive
def test_recorded_callables_and_exported_programs(run, run_python):
    run("""
from jax import export
from kernbridge import numba_cuda_callable

@cuda.jit
def block_sums(x, out):
    s = cuda.shared.array(0, numba.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        total = np.float32(0)
        for i in range(cuda.blockDim.x):
            total += s[i]
        out[cuda.blockIdx.x] = total

@cuda.jit
def spread(sums, out):
    mine = cuda.shfl_sync(ALL, sums[cuda.blockIdx.x], 0)
    out[cuda.grid(1)] -= mine

def centred(x, out, stream):
    sums = cuda.device_array(4, np.float32, stream=stream)
    block_sums[4, 32, stream, 128](x, sums)
    out.copy_to_device(x, stream=stream)
    spread[4, 32, stream](sums, out)

x = jnp.asarray(rng.integers(0, 9, 128), jnp.float32)
op = numba_cuda_kernel(block_sums, S((4,), jnp.float32), grid=4, block=32, shared_mem=128)
rows = np.asarray(x).reshape(4, 32)
np.testing.assert_array_equal(op(x), rows.sum(1))
recorded = numba_cuda_callable(centred, S((128,), jnp.float32))
centre = lambda rows: (rows - rows.sum(1, keepdims=True)).reshape(-1)
np.testing.assert_array_equal(recorded(x), centre(rows))
np.testing.assert_array_equal(jax.vmap(recorded)(jnp.stack([x, 2 * x]))[1], centre(2 * rows))
check = [export.DisabledSafetyCheck.custom_call("kernbridge.cuda.host")]
exported = export.export(jax.jit(op), disabled_checks=check)(S((128,), jnp.float32))
open("program", "wb").write(exported.serialize())
""")
    run_python(
        """
import sys, jax.numpy as jnp, kernbridge
from jax import export
f = export.deserialize(open("program", "rb").read())
x = jnp.arange(128.0)
assert f.call(x).tolist() == x.reshape(4, 32).sum(1).tolist()
assert "numba" not in sys.modules
""",
        KERNBRIDGE_LIBCUDA="/nowhere/libcuda.so",
    )


@pytest.mark.exhaustive
def test_launches_that_a_gpu_refuses_and_outputs_that_nobody_writes(run):
    run(
        """
@cuda.jit
def half(x, out):
    i = cuda.grid(1)
    if i < x.size and i != 5:
        out[i] = x[i]

def failed(op, *words):
    try:
        jax.block_until_ready(op(jnp.ones(64, jnp.float32)))
    except Exception as e:
        assert all(word in str(e) for word in words), e
    else:
        raise SystemExit("no error")

out = S((64,), jnp.float32)
failed(numba_cuda_kernel(half, out, grid=1, block=64, shared_mem=228 * 1024), "shared memory")
failed(numba_cuda_kernel(half, out, grid=1, block=64), "half", "5")
""",
        KERNBRIDGE_DEBUG="poison",
    )


@pytest.mark.exhaustive
def test_cooperative_grids(run):
    run("""
@cuda.jit
def wave(given, x, out):
    grid = cuda.cg.this_grid()
    i, n = cuda.grid(1), given.size
    x[i] = given[i]
    grid.sync()
    for k in range(6):
        out[i] = x[(i + n - 1) % n] + k
        grid.sync()
        x[i] = out[i]
        grid.sync()

n = 32 * 40
outs = (S((n,), jnp.int32), S((n,), jnp.int32))
ops = [numba_cuda_kernel(wave, outs, grid=40, block=32, check=c) for c in (False, True)]
x = np.arange(n, dtype=np.int32)
y = x
for k in range(6):
    y = np.roll(y, 1) + k
try:
    jax.block_until_ready(numba_cuda_kernel(wave, outs, grid=2049, block=32)(x))
except jax.errors.JaxRuntimeError as e:
    assert "a cooperative grid has at most 65536 threads on the CPU" in str(e), e
else:
    raise SystemExit("no error")
for op in ops:
    np.testing.assert_array_equal(op(x)[1], y)
    np.testing.assert_array_equal(jax.vmap(op)(jnp.stack([x] * 3))[1][2], y)
try:
    jax.block_until_ready(numba_cuda_kernel(wave, outs, grid=3000, block=32)(x))
except Exception as e:
    assert "at most 65536 threads" in str(e), e
else:
    raise SystemExit("no error")
""")
