"""Prefix sums, compaction and what is made of them."""

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, I32, I64, U32 = np.float32, np.int32, np.int64, np.uint32
FULL = 0xFFFFFFFF


@CASES.case(
    covers="an inclusive scan with two buffers in dynamic shared memory (Hillis-Steele)",
    bug="barriers do nothing",
    inputs=lambda rng: (rng.integers(-99, 99, (3, 77)).astype(I32),),
    outs=[((3, 77), I32)],
    grid=3,
    block=77,
    shared_mem=2 * 77 * 4,
    reference=lambda x: np.cumsum(x, 1),
)
@cuda.jit
def inclusive_scan(x, out):
    buffer = cuda.shared.array(0, numba.int32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    n = cuda.blockDim.x
    now = 0
    buffer[t] = x[b, t]
    cuda.syncthreads()
    step = 1
    while step < n:
        value = buffer[now + t]
        if t >= step:
            value += buffer[now + t - step]
        now = n - now
        buffer[now + t] = value
        cuda.syncthreads()
        step *= 2
    out[b, t] = buffer[now + t]


@CASES.case(
    covers="an exclusive scan up and down a tree, two elements a thread (Blelloch)",
    bug="barriers do nothing",
    inputs=lambda rng: (rng.integers(0, 1 << 35, 128),),
    outs=[((128,), I64), ((1,), I64)],
    grid=1,
    block=64,
    reference=lambda x: (np.cumsum(x) - x, x.sum()),
)
@cuda.jit
def exclusive_scan(x, out, total):
    tree = cuda.shared.array(128, numba.int64)
    t = cuda.threadIdx.x
    tree[2 * t] = x[2 * t]
    tree[2 * t + 1] = x[2 * t + 1]
    step = 1
    d = 64
    while d > 0:
        cuda.syncthreads()
        if t < d:
            i = step * (2 * t + 1) - 1
            tree[i + step] += tree[i]
        step *= 2
        d //= 2
    cuda.syncthreads()
    if t == 0:
        total[0] = tree[127]
        tree[127] = 0
    d = 1
    while d < 128:
        step //= 2
        cuda.syncthreads()
        if t < d:
            i = step * (2 * t + 1) - 1
            j = i + step
            left = tree[i]
            tree[i] = tree[j]
            tree[j] += left
        d *= 2
    cuda.syncthreads()
    out[2 * t] = tree[2 * t]
    out[2 * t + 1] = tree[2 * t + 1]


@CASES.case(
    covers="a scan by shuffles up, and one of the warps' totals by another warp's lanes",
    bug="a shuffle up is one down",
    inputs=lambda rng: (rng.integers(-1000, 1000, (2, 160)).astype(I32),),
    outs=[((2, 160), I32)],
    grid=2,
    block=160,
    reference=lambda x: np.cumsum(x, 1),
)
@cuda.jit
def warp_scan(x, out):
    totals = cuda.shared.array(5, numba.int32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    lane = t % 32
    own = x[b, t]
    for k in range(5):
        below = cuda.shfl_up_sync(FULL, own, 1 << k)
        if lane >= 1 << k:
            own += below
    if lane == 31:
        totals[t // 32] = own
    cuda.syncthreads()
    for k in range(t // 32):
        own += totals[k]
    out[b, t] = own


def _compacted(x):
    out = np.full((4, 32), -1, I32)
    for row, values in zip(out, x.reshape(4, 32), strict=True):
        kept = values[values % 3 == 0]
        row[: kept.size] = kept
    return out, (x.reshape(4, 32) % 3 == 0).sum(1)


@CASES.case(
    covers="stream compaction: ballot, population count, lanes below",
    bug="a ballot is zero",
    inputs=lambda rng: (rng.integers(0, 1000, 128).astype(I32),),
    outs=[((4, 32), I32), ((4,), I32)],
    grid=2,
    block=64,
    reference=_compacted,
)
@cuda.jit
def compaction(x, out, count):
    i = cuda.grid(1)
    warp = i // 32
    lane = cuda.laneid
    out[warp, lane] = -1
    cuda.syncwarp()
    keep = x[i] % 3 == 0
    votes = cuda.ballot_sync(FULL, keep)
    if keep:
        out[warp, cuda.popc(votes & ((1 << lane) - 1))] = x[i]
    if lane == 0:
        count[warp] = cuda.popc(votes)


def _segmented(x, head):
    out = np.empty_like(x)
    for b in range(x.shape[0]):
        total = 0
        for i in range(x.shape[1]):
            total = x[b, i] if head[b, i] else total + x[b, i]
            out[b, i] = total
    return out


@CASES.case(
    covers="a scan of pairs that starts anew at flags, in shared arrays of two dtypes",
    bug="static shared arrays overlap",
    inputs=lambda rng: (rng.integers(-20, 20, (2, 61)).astype(F32), rng.random((2, 61)) < 0.15),
    outs=[((2, 61), F32)],
    grid=2,
    block=61,
    reference=_segmented,
)
@cuda.jit
def segmented_scan(x, head, out):
    value = cuda.shared.array(61, numba.float32)
    flag = cuda.shared.array(61, numba.uint8)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    value[t] = x[b, t]
    flag[t] = head[b, t] or t == 0
    cuda.syncthreads()
    step = 1
    while step < 61:
        v = value[t]
        f = flag[t]
        if f == 0 and t >= step:
            v += value[t - step]
            f = flag[t - step]
        cuda.syncthreads()
        value[t] = v
        flag[t] = f
        cuda.syncthreads()
        step *= 2
    out[b, t] = value[t]


def _split(keys):
    out = np.empty_like(keys)
    for b in range(keys.shape[0]):
        out[b] = keys[b][np.argsort(keys[b] & 255, kind="stable")]
    return out


@CASES.case(
    covers="a radix sort of a block, bit by bit, each a split by counting barriers and scans",
    bug="a reducing barrier gives zero",
    inputs=lambda rng: (rng.integers(0, 1 << 16, (3, 48)).astype(U32),),
    outs=[((3, 48), U32)],
    grid=3,
    block=48,
    reference=_split,
)
@cuda.jit
def radix_splits(keys, out):
    key = cuda.shared.array(48, numba.uint32)
    rank = cuda.shared.array(48, numba.int32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    key[t] = keys[b, t]
    for bit in range(8):
        cuda.syncthreads()
        mine = key[t]
        zero = (mine >> np.uint32(bit)) & np.uint32(1) == 0
        rank[t] = zero
        zeros = cuda.syncthreads_count(np.int32(zero))
        before = 0
        for k in range(t):
            before += rank[k]
        cuda.syncthreads()
        if zero:
            key[before] = mine
        else:
            key[zeros + t - before] = mine
    cuda.syncthreads()
    out[b, t] = key[t]
