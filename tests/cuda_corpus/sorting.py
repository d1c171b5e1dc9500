"""Sorting networks, ranks and dynamic programming in shared memory."""

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, I32 = np.float32, np.int32


@CASES.case(
    covers="a bitonic network of key and value in shared memory",
    bug="only the first barrier works",
    inputs=lambda rng: (rng.permutation(256).reshape(2, 128).astype(F32) - 77,),
    outs=[((2, 128), F32), ((2, 128), np.uint8)],
    grid=2,
    block=128,
    reference=lambda x: (np.sort(x, 1), np.argsort(x, 1)),
)
@cuda.jit
def bitonic_pairs(x, out, origin):
    key = cuda.shared.array(128, numba.float32)
    index = cuda.shared.array(128, numba.uint8)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    key[t] = x[b, t]
    index[t] = t
    cuda.syncthreads()
    k = 2
    while k <= 128:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t and (key[t] > key[other]) == ((t & k) == 0):
                key[t], key[other] = key[other], key[t]
                index[t], index[other] = index[other], index[t]
            cuda.syncthreads()
            j //= 2
        k *= 2
    out[b, t] = key[t]
    origin[b, t] = index[t]


@CASES.case(
    covers="odd and even exchanges of short words, until a barrier counts none",
    bug="a reducing barrier gives zero",
    inputs=lambda rng: (rng.integers(-300, 300, (2, 63)).astype(np.int16),),
    outs=[((2, 63), np.int16), ((2,), I32)],
    grid=2,
    block=32,
    shared_mem=63 * 2,
    reference=lambda x: (np.sort(x, 1), [_rounds(row) for row in x]),
)
@cuda.jit
def odd_even_sort(x, out, rounds):
    row = cuda.shared.array(0, numba.int16)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    for k in range(t, 63, 32):
        row[k] = x[b, k]
    cuda.syncthreads()
    taken = 0
    swapped = 1
    while swapped != 0 and taken < 64:
        mine = 0
        for parity in range(2):
            k = 2 * t + parity
            if k + 1 < 63 and row[k] > row[k + 1]:
                row[k], row[k + 1] = row[k + 1], row[k]
                mine = 1
            cuda.syncthreads()
        swapped = cuda.syncthreads_or(np.int32(mine))
        taken += 1
    for k in range(t, 63, 32):
        out[b, k] = row[k]
    if t == 0:
        rounds[b] = taken


def _rounds(row):
    row, rounds, swapped = row.tolist(), 0, True
    while swapped:
        swapped = False
        for parity in range(2):
            for k in range(parity, 62, 2):
                if row[k] > row[k + 1]:
                    row[k], row[k + 1], swapped = row[k + 1], row[k], True
        rounds += 1
    return rounds


@CASES.case(
    covers="stable ranks by counting, of bytes in tiles of shared memory",
    bug="zext is sext",
    inputs=lambda rng: (rng.integers(0, 256, 150).astype(np.uint8),),
    outs=[((150,), np.uint8), ((150,), I32)],
    grid=3,
    block=64,
    reference=lambda x: (np.sort(x, kind="stable"), np.argsort(x, kind="stable")),
)
@cuda.jit
def rank_sort(x, out, order):
    tile = cuda.shared.array(64, numba.uint8)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    own = x[i] if i < x.size else 0
    rank = 0
    for first in range(0, x.size, 64):
        if first + t < x.size:
            tile[t] = x[first + t]
        cuda.syncthreads()
        for k in range(min(64, x.size - first)):
            if tile[k] < own or (tile[k] == own and first + k < i):
                rank += 1
        cuda.syncthreads()
    if i < x.size:
        out[rank] = own
        order[rank] = i


def _distance(a, b):
    row = list(range(b.size + 1))
    for i, c in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, d in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (c != d))
    return row[-1]


@CASES.case(
    covers="three diagonals that rotate in shared memory (Levenshtein distance)",
    bug="the first barrier does nothing",
    inputs=lambda rng: (
        rng.integers(0, 4, (3, 33)).astype(np.int8),
        rng.integers(0, 4, (3, 27)).astype(np.int8),
    ),
    outs=[((3,), I32)],
    grid=3,
    block=34,
    reference=lambda a, b: [_distance(*pair) for pair in zip(a, b, strict=True)],
)
@cuda.jit
def edit_distance(a, b, out):
    diagonal = cuda.shared.array((3, 34), numba.int32)
    i = cuda.threadIdx.x
    k = cuda.blockIdx.x
    n = a.shape[1]
    m = b.shape[1]
    for d in range(n + m + 1):
        cuda.syncthreads()
        j = d - i
        if 0 <= j <= m:
            if i == 0 or j == 0:
                best = i + j
            else:
                best = diagonal[(d + 1) % 3, i - 1]
                if a[k, i - 1] != b[k, j - 1]:
                    best += 1
                best = min(best, diagonal[(d + 2) % 3, i - 1] + 1, diagonal[(d + 2) % 3, i] + 1)
            diagonal[d % 3, i] = best
    if i == n:
        out[k] = diagonal[(n + m) % 3, n]


@CASES.case(
    covers="counts of digits, a block and a digit each, by bit fields of the key",
    bug="blockIdx.y is 0",
    inputs=lambda rng: (rng.integers(0, 1 << 32, 350, dtype=np.uint32),),
    outs=[((4, 3, 16), I32)],
    grid=(3, 4),
    block=120,
    reference=lambda x: np.stack(
        [
            [np.bincount(part >> np.uint32(4 * d) & np.uint32(15), minlength=16) for part in
             (x[:120], x[120:240], x[240:])]
            for d in range(4)
        ]
    ),
)  # fmt: skip
@cuda.jit
def digit_counts(x, out):
    count = cuda.shared.array(16, numba.int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shift = np.uint32(4 * cuda.blockIdx.y)
    if t < 16:
        count[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(count, np.int32((x[i] >> shift) & np.uint32(15)), 1)
    cuda.syncthreads()
    if t < 16:
        out[cuda.blockIdx.y, cuda.blockIdx.x, t] = count[t]


def _ordered(x):
    bits = np.roll(x, -1, 1).view(I32)
    return bits ^ (bits >> 31 & 0x7FFFFFFF)


@CASES.case(
    covers="dynamic arrays of two dtypes, and slices, that are the same memory (keys of floats)",
    bug="the last shared array lies elsewhere",
    inputs=lambda rng: (rng.normal(size=(2, 61)).astype(F32),),
    outs=[((2, 61), I32)],
    grid=2,
    block=61,
    shared_mem=100 * 4,
    reference=_ordered,
)
@cuda.jit
def float_keys(x, out):
    value = cuda.shared.array(0, numba.float32)[20:81]
    bits = cuda.shared.array(0, numba.int32)[20:]
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    value[t] = x[b, t]
    cuda.syncthreads()
    own = bits[(t + 1) % value.size]
    out[b, t] = own ^ ((own >> 31) & 0x7FFFFFFF)
