"""Atomics on global and shared memory; none of the results depends on the order."""

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32, I64, U32, U64 = np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64


def _joint(x, y):
    count = np.zeros((5, 7), I32)
    np.add.at(count, (x, y), 1)
    total = np.zeros(5, F64)
    np.subtract.at(total, x, y)
    return count, total


@CASES.case(
    covers="atomic add with an index of two axes, one negative; atomic subtraction of doubles",
    bug="an atomic add adds zero",
    inputs=lambda rng: (
        rng.integers(0, 5, 1201).astype(I32),
        rng.integers(-7, 0, 1201).astype(I32),
    ),
    outs=[((5, 7), I32), ((5,), F64)],
    launch_dims=1201,
    zero_outputs=True,
    reference=_joint,
)
@cuda.jit
def joint_histogram(x, y, count, total):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(count, (x[i], y[i]), 1)
        cuda.atomic.sub(total, x[i], np.float64(y[i]))


@CASES.case(
    covers="a histogram of each block in shared memory, merged by atomics on global memory",
    bug="an atomic add adds zero",
    inputs=lambda rng: (rng.integers(0, 256, 2000).astype(np.uint8),),
    outs=[((37,), I32)],
    grid=5,
    block=96,
    zero_outputs=True,
    reference=lambda x: np.bincount(x.astype(I32) * 37 >> 8, minlength=37),
)
@cuda.jit
def private_histogram(x, count):
    bins = cuda.shared.array(37, numba.int32)
    t = cuda.threadIdx.x
    if t < 37:
        bins[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, (np.int32(x[i]) * 37) >> 8, 1)
    cuda.syncthreads()
    if t < 37:
        cuda.atomic.add(count, t, bins[t])


def _bits(x, place):
    both, any_, odd = np.full(6, 0xFFFFFFFF, U32), np.zeros(6, U32), np.zeros(6, U32)
    np.bitwise_and.at(both, place, x)
    np.bitwise_or.at(any_, place, x & U32(0x0F0F3355))
    np.bitwise_xor.at(odd, place, x)
    return ~both, any_, odd


@CASES.case(
    covers="atomic and, or, exclusive or",
    bug="an atomic and is an or",
    inputs=lambda rng: (
        rng.integers(0, 1 << 32, 57, dtype=U32) | rng.integers(0, 1 << 32, 57, dtype=U32),
        rng.integers(0, 6, 57).astype(I32),
    ),
    outs=[((6,), U32), ((6,), U32), ((6,), U32)],
    grid=1,
    block=57,
    zero_outputs=True,
    reference=_bits,
)
@cuda.jit
def bit_sets(x, place, lacking, found, odd):
    common = cuda.shared.array(6, numba.uint32)
    t = cuda.threadIdx.x
    if t < 6:
        common[t] = 0xFFFFFFFF
    cuda.syncthreads()
    cuda.atomic.and_(common, place[t], x[t])
    cuda.atomic.or_(found, place[t], x[t] & np.uint32(0x0F0F3355))
    cuda.atomic.xor(odd, place[t], x[t])
    cuda.syncthreads()
    if t < 6:
        lacking[t] = ~common[t]


@CASES.case(
    covers="atomic maximum and minimum of signed and unsigned integers of both widths",
    bug="a signed maximum is unsigned",
    inputs=lambda rng: (
        rng.integers(-500, 500, 700).astype(I32),
        rng.integers(0, 1 << 63, 700, dtype=U64) * U64(2),
    ),
    outs=[((4,), I32), ((4,), I64), ((4,), U64)],
    launch_dims=700,
    zero_outputs=True,
    reference=lambda x, u: (
        [max(0, x[k::4].max()) for k in range(4)],
        [min(0, x[k::4].min()) for k in range(4)],
        [u[k::4].max() for k in range(4)],
    ),
)
@cuda.jit
def integer_extremes(x, u, largest, smallest, largest_unsigned):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(largest, i % 4, x[i])
        cuda.atomic.min(smallest, i % 4, np.int64(x[i]))
        cuda.atomic.max(largest_unsigned, i % 4, u[i])


@CASES.case(
    covers="atomic maximum and minimum of floats and doubles, in shared memory, NaN left out",
    bug="floats compare the other way round",
    inputs=lambda rng: (np.where(rng.random((3, 70)) < 0.2, np.nan, rng.normal(size=(3, 70))),),
    outs=[((3,), F32), ((3,), F64), ((3,), F64), ((3,), F32)],
    grid=3,
    block=70,
    reference=lambda x: (
        np.nanmax(x.astype(F32), 1),
        np.nanmin(x, 1),
        np.nanmax(np.nan_to_num(x), 1),
        np.nanmin(np.nan_to_num(x.astype(F32)), 1),
    ),
)
@cuda.jit
def float_extremes(x, nan_largest, nan_smallest, largest, smallest):
    high = cuda.shared.array(1, numba.float32)
    low = cuda.shared.array(1, numba.float64)
    double_high = cuda.shared.array(1, numba.float64)
    single_low = cuda.shared.array(1, numba.float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    if t == 0:
        high[0] = -1e30
        low[0] = 1e300
        double_high[0] = -1e300
        single_low[0] = 1e30
    cuda.syncthreads()
    v = x[b, t]
    plain = v if v == v else 0.0
    cuda.atomic.nanmax(high, 0, np.float32(v))
    cuda.atomic.nanmin(low, 0, v)
    cuda.atomic.max(double_high, 0, plain)
    cuda.atomic.min(single_low, 0, np.float32(plain))
    cuda.syncthreads()
    if t == 0:
        nan_largest[b] = high[0]
        nan_smallest[b] = low[0]
        largest[b] = double_high[0]
        smallest[b] = single_low[0]


@CASES.case(
    covers="atomic exchange: what goes in comes out once",
    bug="an exchange keeps the old value",
    inputs=lambda rng: (rng.integers(1, 1000, 300).astype(I32),),
    outs=[((1,), I32), ((1,), I64), ((10,), np.int64)],
    launch_dims=300,
    zero_outputs=True,
    reference=lambda x: (x.sum(), (x.astype(I64) ** 2).sum(), 0),
)
@cuda.jit
def exchanges(x, total, squares, place):
    i = cuda.grid(1)
    if i < x.size:
        taken = cuda.atomic.exch(place, i % 10, np.int64(x[i]))
        taken += cuda.atomic.exch(place, i % 10, np.int64(0))
        cuda.atomic.add(total, 0, np.int32(taken))
        cuda.atomic.add(squares, 0, np.int64(x[i]) ** 2)


@CASES.case(
    covers="a hash table of open addresses, filled by compare and swap",
    bug="a compare and swap always succeeds",
    inputs=lambda rng: (rng.integers(1, 1000, 190).astype(I32),),
    outs=[((3,), I32), ((191,), I32)],
    grid=1,
    block=190,
    zero_outputs=True,
    reference=lambda x: (
        [np.unique(x).size, np.unique(x).sum(), (np.unique(x) ** 2).sum()],
        np.append(x, 0),
    ),
)
@cuda.jit
def hash_set(x, sums, echo):
    table = cuda.shared.array(256, numba.int32)
    t = cuda.threadIdx.x
    for k in range(t, 256, 190):
        table[k] = 0
    cuda.syncthreads()
    slot = (x[t] * 37) % 256
    for _ in range(256):
        found = cuda.atomic.cas(table, slot, 0, x[t])
        if found == 0 or found == x[t]:
            break
        slot = (slot + 1) % 256
    cuda.syncthreads()
    echo[t] = table[slot]
    for k in range(t, 256, 190):
        if table[k] != 0:
            cuda.atomic.add(sums, 0, 1)
            cuda.atomic.add(sums, 1, table[k])
            cuda.atomic.add(sums, 2, table[k] * table[k])


@CASES.case(
    covers="counters that wrap upwards and downwards, of 32 and 64 bits",
    bug="an atomic inc counts nothing",
    inputs=lambda rng: (rng.integers(0, 3, 500).astype(I32),),
    outs=[((3,), U32), ((3,), U32), ((3,), U64)],
    launch_dims=500,
    zero_outputs=True,
    reference=lambda x: (np.bincount(x) % 8, -np.bincount(x) % 11, np.bincount(x) % 101),
)
@cuda.jit
def wrapping_counters(x, up, down, wide):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.inc(up, x[i], np.uint32(7))
        cuda.atomic.dec(down, x[i], np.uint32(10))
        cuda.atomic.inc(wide, x[i], np.uint64(100))


@CASES.case(
    covers="the value before an atomic add: a place for each, in any order",
    bug="an atomic add gives the new value",
    inputs=lambda rng: (rng.integers(0, 2, 600).astype(bool),),
    outs=[((2,), I32), ((601,), I32)],
    launch_dims=600,
    zero_outputs=True,
    reference=lambda p: ([p.sum(), (~p).sum()], np.append(np.ones(600, I32), 0)),
)
@cuda.jit
def tickets(p, taken, times):
    i = cuda.grid(1)
    if i < p.size:
        kind = 0 if p[i] else 1
        before = cuda.atomic.add(taken, kind, 1)
        times[before if p[i] else p.size - 1 - before] += 1
