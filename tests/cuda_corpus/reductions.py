"""Many values to one, by barriers, warps and blocks that finish last."""

import itertools
import math

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32, I64 = np.float32, np.float64, np.int32, np.int64
FULL = 0xFFFFFFFF


@CASES.case(
    covers="a tree in dynamic shared memory, of a block that is no power of two",
    bug="the first barrier does nothing",
    inputs=lambda rng: (rng.integers(-(1 << 40), 1 << 40, 777),),
    outs=[((9,), I64)],
    grid=9,
    block=90,
    shared_mem=90 * 8,
    reference=lambda x: np.pad(x, (0, 33)).reshape(9, 90).sum(1),
)
@cuda.jit
def block_sums(x, out):
    part = cuda.shared.array(0, numba.int64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = x[i] if i < x.size else 0
    n = cuda.blockDim.x
    while n > 1:
        cuda.syncthreads()
        half = (n + 1) // 2
        if t + half < n:
            part[t] += part[t + half]
        n = half
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@CASES.case(
    covers="the last block, found by a counter that wraps, adds what the others left (fences)",
    bug="an atomic inc counts nothing",
    inputs=lambda rng: (rng.integers(-1000, 1000, 1500).astype(I32),),
    outs=[((1,), I32), ((11,), I32), ((1,), np.uint32)],
    grid=11,
    block=37,
    zero_outputs=True,
    reference=lambda x: (
        x.sum(),
        [x[np.arange(x.size) // 37 % 11 == b].sum() for b in range(11)],
        0,
    ),
)
@cuda.jit
def last_block_total(x, total, part, done):
    last = cuda.shared.array(1, numba.int32)
    mine = cuda.shared.array(37, numba.int32)
    t = cuda.threadIdx.x
    own = 0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    mine[t] = own
    cuda.syncthreads()
    if t == 0:
        own = 0
        for k in range(37):
            own += mine[k]
        part[cuda.blockIdx.x] = own
        cuda.threadfence()
        before = cuda.atomic.inc(done, 0, np.uint32(cuda.gridDim.x - 1))
        last[0] = before == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] != 0 and t == 0:
        own = 0
        for k in range(cuda.gridDim.x):
            own += part[k]
        total[0] = own


@CASES.case(
    covers="argmax over shared arrays of two dtypes, ties to the lower index",
    bug="greater is greater or equal",
    inputs=lambda rng: (rng.integers(0, 9, (6, 75)).astype(F32),),
    outs=[((6,), F32), ((6,), I32)],
    grid=6,
    block=75,
    reference=lambda x: (x.max(1), x.argmax(1)),
)
@cuda.jit
def argmax_rows(x, value, index):
    best = cuda.shared.array(75, numba.float32)
    where = cuda.shared.array(75, numba.int32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    best[t] = x[b, t]
    where[t] = t
    cuda.syncthreads()
    step = 1
    while step < 75:
        if t % (2 * step) == 0 and t + step < 75 and best[t + step] > best[t]:
            best[t] = best[t + step]
            where[t] = where[t + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        value[b] = best[0]
        index[b] = where[0]


@CASES.case(
    covers="means and variances merged by double shuffles down (Welford)",
    bug="a shuffle gives the own value",
    inputs=lambda rng: (rng.normal(size=(8, 100)) + 3,),
    outs=[((8,), F64), ((8,), F64)],
    grid=4,
    block=64,
    reference=lambda x: (x.mean(1), x.var(1, ddof=1)),
    rtol=1e-12,
    why="fused multiply-add",
)
@cuda.jit
def welford_rows(x, mean, variance):
    row = cuda.grid(1) // 32
    lane = cuda.laneid
    m = 0.0
    s = 0.0
    n = 0
    for j in range(lane, x.shape[1], 32):
        n += 1
        d = x[row, j] - m
        m += d / n
        s += d * (x[row, j] - m)
    count = np.int32(n)
    offset = 16
    while offset:
        m2 = cuda.shfl_down_sync(FULL, m, offset)
        s2 = cuda.shfl_down_sync(FULL, s, offset)
        n2 = cuda.shfl_down_sync(FULL, count, offset)
        both = count + n2
        d = m2 - m
        m += d * n2 / both
        s += s2 + d * d * count * n2 / both
        count = np.int32(both)
        offset //= 2
    if lane == 0:
        mean[row] = m
        variance[row] = s / (count - 1)


@CASES.case(
    covers="64-bit integers shuffled by exclusive or, in three warps",
    bug="wide shuffles lose the high word",
    inputs=lambda rng: (rng.integers(-(1 << 60), 1 << 60, 96),),
    outs=[((96,), I64), ((96,), I64)],
    grid=1,
    block=96,
    reference=lambda x: (
        np.repeat(np.bitwise_xor.reduce(x.reshape(3, 32), 1), 32),
        np.repeat(x.reshape(3, 32).max(1), 32),
    ),
)
@cuda.jit
def butterfly(x, parity, largest):
    i = cuda.grid(1)
    p = x[i]
    m = x[i]
    for k in range(5):
        p ^= cuda.shfl_xor_sync(FULL, p, 16 >> k)
        m = max(m, cuda.shfl_xor_sync(FULL, m, 16 >> k))
    parity[i] = p
    largest[i] = m


@CASES.case(
    covers="barriers that count, and whether all or any thread holds a predicate",
    bug="a reducing barrier gives zero",
    inputs=lambda rng: (rng.integers(-3, 40, (7, 50)).astype(I32),),
    outs=[((7, 50), I32), ((7,), I32), ((7,), I32)],
    grid=7,
    block=50,
    reference=lambda x: (
        np.stack([(x > 4 * k).sum(1) for k in range(5)], 1)[:, np.arange(50) % 5],
        (x > -3).all(1),
        (x == 39).any(1),
    ),
)
@cuda.jit
def predicates(x, count, everywhere, somewhere):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    for k in range(5):
        c = cuda.syncthreads_count(np.int32(x[b, t] > 4 * k))
        if t % 5 == k:
            count[b, t] = c
    a = cuda.syncthreads_and(np.int32(x[b, t] > -3))
    s = cuda.syncthreads_or(np.int32(x[b, t] == 39))
    if t == 0:
        everywhere[b] = a != 0
        somewhere[b] = s != 0


@CASES.case(
    covers="one block a segment: shuffles down, then shared memory across the warps",
    bug="a shuffle down is one up",
    inputs=lambda rng: (
        rng.integers(-99, 99, 600).astype(F32),
        np.concatenate([[0], np.sort(rng.integers(0, 601, 4)), [600]]).astype(I32),
    ),
    outs=[((5,), F32)],
    grid=5,
    block=128,
    reference=lambda x, start: np.array([x[a:b].sum() for a, b in itertools.pairwise(start)]),
)
@cuda.jit
def segment_sums(x, start, out):
    part = cuda.shared.array(4, numba.float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    own = np.float32(0)
    for i in range(start[b] + t, start[b + 1], cuda.blockDim.x):
        own += x[i]
    for k in range(5):
        own += cuda.shfl_down_sync(FULL, own, 16 >> k)
    if t % 32 == 0:
        part[t // 32] = own
    cuda.syncthreads()
    if t == 0:
        out[b] = part[0] + part[1] + part[2] + part[3]


@CASES.case(
    covers="the largest value taken out again and again, with barriers in the loop (top k)",
    bug="the last barrier does nothing",
    inputs=lambda rng: (rng.permutation(120).astype(I32) * 7 - 300,),
    outs=[((6,), I32), ((6,), I32)],
    grid=1,
    block=120,
    reference=lambda x: (np.sort(x)[::-1][:6], np.argsort(-x)[:6]),
)
@cuda.jit
def top_six(x, value, index):
    key = cuda.shared.array(120, numba.int32)
    taken = cuda.shared.array(120, numba.bool_)
    t = cuda.threadIdx.x
    taken[t] = False
    for k in range(6):
        key[t] = -1 if taken[t] else t
        cuda.syncthreads()
        half = 60
        n = 120
        while n > 1:
            if t + half < n:
                other = key[t + half]
                mine = key[t]
                if mine < 0 or (other >= 0 and x[other] > x[mine]):
                    key[t] = other
            cuda.syncthreads()
            n = half
            half = (half + 1) // 2
        if t == key[0]:
            value[k] = x[t]
            index[k] = t
            taken[t] = True
        cuda.syncthreads()


@CASES.case(
    covers="a block of 1024 threads that add to shared doubles (columns divided by their norms)",
    bug="the last barrier does nothing",
    inputs=lambda rng: (rng.normal(size=(32, 32)),),
    outs=[((32, 32), F64)],
    grid=1,
    block=(32, 32),
    reference=lambda x: x / np.sqrt((x * x).sum(0)),
    rtol=1e-13,
    why="the order of atomic additions",
)
@cuda.jit
def unit_columns(x, out):
    square = cuda.shared.array(32, numba.float64)
    j = cuda.threadIdx.x
    i = cuda.threadIdx.y
    if i == 0:
        square[j] = 0.0
    cuda.syncthreads()
    cuda.atomic.add(square, j, x[i, j] * x[i, j])
    cuda.syncthreads()
    out[i, j] = x[i, j] / math.sqrt(square[j])
