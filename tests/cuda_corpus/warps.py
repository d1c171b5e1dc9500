"""Votes, matches, shuffles and the registers of a warp."""

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32, I64, U32 = np.float32, np.float64, np.int32, np.int64, np.uint32
FULL = 0xFFFFFFFF


def _votes(x):
    warps = x.reshape(-1, 2, 16)
    positive = warps > 0
    answers = [positive.any(-1), positive.all(-1), (warps == warps[..., :1]).all(-1)]
    weights = 1 << np.arange(32, dtype=np.uint64).reshape(2, 16)
    codes = sum(a.astype(I32) << k for k, a in enumerate(answers))
    ballots = (positive * weights).sum(-1).astype(U32)
    return np.repeat(codes, 16, -1).ravel(), np.repeat(ballots, 16, -1).ravel()


def _vote_inputs(rng):
    x = rng.integers(-1, 2, (5, 2, 16))
    x[1, 0] = 1
    x[2, 1] = -1
    x[3] = 5
    return (x.ravel().astype(I32),)


@CASES.case(
    covers="any, all, eq and ballot among half a warp, in two branches",
    bug="any is all",
    inputs=_vote_inputs,
    outs=[((160,), I32), ((160,), U32)],
    grid=5,
    block=32,
    reference=_votes,
)
@cuda.jit
def half_warp_votes(x, answers, ballots):
    i = cuda.grid(1)
    positive = x[i] > 0
    first = cuda.shfl_sync(FULL, x[i], cuda.laneid & 16)
    same = x[i] == first
    code = 0
    if cuda.laneid < 16:
        code |= 1 if cuda.any_sync(0xFFFF, positive) else 0
        code |= 2 if cuda.all_sync(0xFFFF, positive) else 0
        code |= 4 if cuda.eq_sync(0xFFFF, same) and same else 0
        votes = cuda.ballot_sync(0xFFFF, positive)
    else:
        code |= 1 if cuda.any_sync(0xFFFF0000, positive) else 0
        code |= 2 if cuda.all_sync(0xFFFF0000, positive) else 0
        code |= 4 if cuda.eq_sync(0xFFFF0000, same) and same else 0
        votes = cuda.ballot_sync(0xFFFF0000, positive)
    answers[i] = code
    ballots[i] = np.uint32(votes)


def _matches(key, wide):
    key, wide = key.reshape(3, 32), wide.reshape(3, 32)
    bits = 1 << np.arange(32, dtype=np.uint64)
    masks = ((key[:, :, None] == key[:, None]) * bits).sum(-1).astype(U32)
    sizes = (wide[:, :, None] == wide[:, None]).sum(-1)
    same = np.repeat((key == key[:, :1]).all(1), 32)
    return masks.ravel(), sizes.ravel(), same


def _match_inputs(rng):
    key = rng.integers(0, 5, (3, 32)).astype(I32)
    key[1] = 3
    return key.ravel(), rng.integers(0, 4, 96).astype(F64) / 8


@CASES.case(
    covers="lanes that hold the same integer, the same double; whether all do",
    bug="a match finds nobody",
    inputs=_match_inputs,
    outs=[((96,), U32), ((96,), I32), ((96,), bool)],
    grid=1,
    block=96,
    reference=_matches,
)
@cuda.jit
def equal_keys(key, wide, mask, size, same):
    i = cuda.grid(1)
    mask[i] = np.uint32(cuda.match_any_sync(FULL, key[i]))
    size[i] = cuda.popc(cuda.match_any_sync(FULL, wide[i]))
    everywhere = cuda.match_all_sync(FULL, key[i])
    same[i] = everywhere[1]


@CASES.case(
    covers="lanes chosen by data, for four dtypes; a last warp of 16 threads",
    bug="a shuffle gives the own value",
    inputs=lambda rng: (
        rng.integers(0, 16, 48).astype(I32),
        rng.normal(size=48).astype(F32),
        rng.normal(size=48),
        rng.integers(-(1 << 50), 1 << 50, 48),
    ),
    outs=[((48,), F32), ((48,), F64), ((48,), I64), ((48,), I32)],
    grid=1,
    block=48,
    reference=lambda lane, f, d, k: tuple(
        a[np.arange(48) // 32 * 32 + lane] for a in (f, d, k, lane)
    ),
)
@cuda.jit
def gathered_lanes(lane, f, d, k, f_out, d_out, k_out, lane_out):
    i = cuda.grid(1)
    mask = 0xFFFFFFFF if i < 32 else 0xFFFF
    f_out[i] = cuda.shfl_sync(mask, f[i], lane[i])
    d_out[i] = cuda.shfl_sync(mask, d[i], lane[i])
    k_out[i] = cuda.shfl_sync(mask, k[i], lane[i])
    lane_out[i] = cuda.shfl_sync(mask, lane[i], lane[i])


@CASES.case(
    covers="a sorting network in registers, exchanged by exclusive or",
    bug="an exclusive-or shuffle is one down",
    inputs=lambda rng: (rng.integers(-1000, 1000, 64).astype(I32),),
    outs=[((64,), I32)],
    grid=2,
    block=32,
    reference=lambda x: np.sort(x.reshape(2, 32), 1).ravel(),
)
@cuda.jit
def warp_bitonic(x, out):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    own = x[i]
    k = 2
    while k <= 32:
        j = k // 2
        while j > 0:
            other = cuda.shfl_xor_sync(FULL, own, j)
            keep_small = ((lane & j) == 0) == ((lane & k) == 0)
            own = min(own, other) if keep_small else max(own, other)
            j //= 2
        k *= 2
    out[i] = own


@CASES.case(
    covers="lane numbers, masks of lower lanes and warp size in a block of two axes",
    bug="the lane is threadIdx.x",
    inputs=lambda rng: (rng.integers(0, 1000, (2, 3, 21)).astype(I32),),
    outs=[((2, 3, 21), I32), ((2, 3, 21), I32), ((2, 3, 21), U32)],
    grid=2,
    block=(21, 3),
    reference=lambda x: (
        x + (np.arange(63) % 32).reshape(3, 21),
        np.broadcast_to((np.arange(63) // 32).reshape(3, 21), x.shape),
        np.broadcast_to(((1 << np.arange(63) % 32) - 1).reshape(3, 21), x.shape),
    ),
)
@cuda.jit
def lane_registers(x, lane, warp, below):
    i = cuda.threadIdx.x
    j = cuda.threadIdx.y
    b = cuda.blockIdx.x
    lane[b, j, i] = x[b, j, i] + cuda.laneid
    warp[b, j, i] = (i + 21 * j) // cuda.warpsize
    below[b, j, i] = np.uint32(cuda.lanemask_lt())


@CASES.case(
    covers="shared memory exchanged among eight lanes that wait for each other alone",
    bug="waiting for a warp does nothing",
    inputs=lambda rng: (rng.integers(-1000, 1000, 128).astype(I32),),
    outs=[((128,), I32)],
    grid=2,
    block=64,
    reference=lambda x: np.outer(x.reshape(16, 8).sum(1), 8 - np.arange(8)).ravel(),
)
@cuda.jit
def groups_of_eight(x, out):
    cell = cuda.shared.array(64, numba.int32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    mask = 0xFF << (cuda.laneid & 24)
    cell[t] = x[i]
    cuda.threadfence_block()
    step = 1
    while step < 8:
        cuda.syncwarp(mask)
        other = cell[t ^ step]
        cuda.syncwarp(mask)
        cell[t] += other
        step *= 2
    out[i] = cell[t] * (8 - t % 8)


@CASES.case(
    covers="one atomic for all lanes of a key: match, ffs, popc and a shuffle from the leader",
    bug="popc is clz",
    inputs=lambda rng: (rng.integers(0, 6, 192).astype(I32),),
    outs=[((6,), I32), ((192,), I32)],
    grid=2,
    block=96,
    zero_outputs=True,
    reference=lambda key: (
        np.bincount(key, minlength=6),
        np.concatenate([[(w[:k] == w[k]).sum() for k in range(32)] for w in key.reshape(6, 32)]),
    ),
)
@cuda.jit
def aggregated_counters(key, count, rank):
    i = cuda.grid(1)
    peers = cuda.match_any_sync(FULL, key[i])
    leader = cuda.ffs(peers) - 1
    before = cuda.popc(peers & ((1 << cuda.laneid) - 1))
    if cuda.laneid == leader:
        cuda.atomic.add(count, key[i], cuda.popc(peers))
    rank[i] = cuda.shfl_sync(FULL, before, leader) + before


@CASES.case(
    covers="the active lanes of a whole warp, and of one that the block does not fill",
    bug="all lanes are active",
    inputs=lambda rng: (rng.integers(0, 100, 120).astype(I32),),
    outs=[((120,), I32)],
    grid=3,
    block=40,
    reference=lambda x: x + np.where(np.arange(120) % 40 < 32, 32, 8),
)
@cuda.jit
def active_lanes(x, out):
    lanes = cuda.popc(cuda.activemask())
    i = cuda.grid(1)
    out[i] = x[i] + lanes
