"""Neighbours in one, two and three dimensions."""

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, I32 = np.float32, np.int32
FMA = "fused multiply-add"


def _heat(u, alpha):
    new = u.copy()
    c = u[1:-1, 1:-1, 1:-1]
    around = (
        u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
        + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
    )  # fmt: skip
    new[1:-1, 1:-1, 1:-1] = c + alpha * (around - 6 * c)
    return new


@CASES.case(
    covers="a seven-point stencil on a three-dimensional grid of blocks",
    bug="blockIdx.z is 0",
    inputs=lambda rng: (rng.uniform(0, 1, (13, 10, 9)).astype(F32),),
    outs=[((13, 10, 9), F32)],
    launch_dims=(9, 10, 13),
    scalars={"alpha": F32(0.1)},
    reference=_heat,
    rtol=1e-6,
    atol=1e-6,
    why=FMA,
)
@cuda.jit
def heat_3d(u, new, alpha):
    k, j, i = cuda.grid(3)
    n, m, p = u.shape
    if i < n and j < m and k < p:
        c = u[i, j, k]
        if 0 < i < n - 1 and 0 < j < m - 1 and 0 < k < p - 1:
            around = u[i + 1, j, k] + u[i - 1, j, k] + u[i, j + 1, k] + u[i, j - 1, k]
            around += u[i, j, k + 1] + u[i, j, k - 1]
            c += alpha * (around - 6 * c)
        new[i, j, k] = c


WEIGHTS = np.array([1, -4, 7, 11, 7, -4, 1], I32)


@CASES.case(
    covers="a tile with a halo in static shared memory, weights in constant memory",
    bug="the first barrier does nothing",
    inputs=lambda rng: (rng.integers(-500, 500, 500).astype(I32),),
    outs=[((500,), I32)],
    grid=8,
    block=64,
    reference=lambda x: np.convolve(x, WEIGHTS, "same"),
)
@cuda.jit
def convolve_halo(x, out):
    tile = cuda.shared.array(70, numba.int32)
    weights = cuda.const.array_like(WEIGHTS)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    k = t
    while k < 70:
        j = i - t + k - 3
        tile[k] = x[j] if 0 <= j < x.size else 0
        k += 64
    cuda.syncthreads()
    if i < out.size:
        total = 0
        for k in range(7):
            total += tile[t + k] * weights[k]
        out[i] = total


def _life(board):
    around = sum(np.roll(board, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
    return (around == 3) | (board == 1) & (around == 2)


@CASES.case(
    covers="threads along two axes over a torus of bytes (game of life)",
    bug="threadIdx.y is 0",
    inputs=lambda rng: (rng.integers(0, 2, (37, 29)).astype(np.uint8),),
    outs=[((37, 29), np.uint8)],
    launch_dims=(37, 29),
    reference=_life,
)
@cuda.jit
def life_torus(board, new):
    i, j = cuda.grid(2)
    n, m = board.shape
    if i < n and j < m:
        around = 0
        for a in range(-1, 2):
            for b in range(-1, 2):
                if a != 0 or b != 0:
                    around += board[(i + a) % n, (j + b) % m]
        new[i, j] = around == 3 or (board[i, j] == 1 and around == 2)


def _jacobi(f):
    u = np.zeros_like(f)
    for _ in range(12):
        p = np.pad(u, 1)
        u = (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] + f) * F32(0.25)
    return u


@CASES.case(
    covers="two shared arrays that swap roles at barriers (Jacobi sweeps)",
    bug="static shared arrays overlap",
    inputs=lambda rng: (rng.normal(size=(13, 17)).astype(F32),),
    outs=[((13, 17), F32)],
    grid=1,
    block=(17, 13),
    reference=_jacobi,
    rtol=1e-5,
    atol=1e-6,
    why=FMA,
)
@cuda.jit
def jacobi_sweeps(f, out):
    a = cuda.shared.array((15, 19), numba.float32)
    b = cuda.shared.array((15, 19), numba.float32)
    j = cuda.threadIdx.x
    i = cuda.threadIdx.y
    for k in range(i * 17 + j, 15 * 19, 13 * 17):
        a[k // 19, k % 19] = 0
        b[k // 19, k % 19] = 0
    cuda.syncthreads()
    for sweep in range(12):
        source = a if sweep % 2 == 0 else b
        target = b if sweep % 2 == 0 else a
        around = source[i, j + 1] + source[i + 2, j + 1] + source[i + 1, j] + source[i + 1, j + 2]
        target[i + 1, j + 1] = (around + f[i, j]) * np.float32(0.25)
        cuda.syncthreads()
    out[i, j] = a[i + 1, j + 1]


def _automaton(cells, rule):
    cells = cells.copy()
    for _ in range(20):
        code = 4 * np.roll(cells, 1, 1) + 2 * cells + np.roll(cells, -1, 1)
        cells = (rule[code]).astype(np.uint8)
    return cells


@CASES.case(
    covers="static and dynamic shared memory in one kernel (cellular automaton)",
    bug="dynamic shared memory begins at 0",
    inputs=lambda rng: (
        rng.integers(0, 2, (3, 53)).astype(np.uint8),
        np.array([0, 1, 1, 1, 0, 1, 1, 0], I32),
    ),
    outs=[((3, 53), np.uint8)],
    grid=3,
    block=53,
    shared_mem=53,
    reference=_automaton,
)
@cuda.jit
def rule_110(cells, rule, out):
    table = cuda.shared.array(8, numba.int32)
    row = cuda.shared.array(0, numba.uint8)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    n = cuda.blockDim.x
    if t < 8:
        table[t] = rule[t]
    row[t] = cells[b, t]
    cuda.syncthreads()
    for _ in range(20):
        code = 4 * row[(t + n - 1) % n] + 2 * row[t] + row[(t + 1) % n]
        new = table[code]
        cuda.syncthreads()
        row[t] = new
        cuda.syncthreads()
    out[b, t] = row[t]


def _sobel(x):
    p = np.pad(x, 1, mode="edge").astype(I32)
    g = p[:, 2:] - p[:, :-2]
    h = p[2:] - p[:-2]
    gx = g[:-2] + 2 * g[1:-1] + g[2:]
    gy = h[:, :-2] + 2 * h[:, 1:-1] + h[:, 2:]
    return np.abs(gx) + np.abs(gy)


@CASES.case(
    covers="a grid of two-dimensional tiles, with halos that a block reads in several turns",
    bug="blockIdx.x is blockIdx.y",
    inputs=lambda rng: (rng.integers(0, 256, (27, 41)).astype(np.uint8),),
    outs=[((27, 41), I32)],
    grid=(4, 5),
    block=(12, 6),
    reference=_sobel,
)
@cuda.jit
def sobel_tiled(x, out):
    tile = cuda.shared.array((8, 14), numba.int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    n, m = x.shape
    top = cuda.blockIdx.y * 6 - 1
    left = cuda.blockIdx.x * 12 - 1
    for k in range(ty * 12 + tx, 8 * 14, 72):
        i = min(max(top + k // 14, 0), n - 1)
        j = min(max(left + k % 14, 0), m - 1)
        tile[k // 14, k % 14] = x[i, j]
    cuda.syncthreads()
    j, i = cuda.grid(2)
    if i < n and j < m:
        gx = gy = 0
        for k in range(3):
            w = 2 if k == 1 else 1
            gx += w * (tile[ty + k, tx + 2] - tile[ty + k, tx])
            gy += w * (tile[ty + 2, tx + k] - tile[ty, tx + k])
        out[i, j] = abs(gx) + abs(gy)
