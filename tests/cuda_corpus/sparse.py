"""Sparse matrices in four formats, and graphs."""

import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32, U32 = np.float32, np.float64, np.int32, np.uint32
FULL = 0xFFFFFFFF


def _csr(rng, rows, columns, longest, dtype):
    """Row starts, columns and values of a matrix with empty rows among the others."""
    lengths = rng.integers(0, longest, rows) * (rng.random(rows) < 0.8)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(I32)
    column = rng.integers(0, columns, start[-1]).astype(I32)
    return start, column, rng.normal(size=start[-1]).astype(dtype)


def _product(start, column, value, x):
    y = np.zeros(start.size - 1, value.dtype)
    np.add.at(y, np.repeat(np.arange(y.size), np.diff(start)), value * x[column])
    return y


@CASES.case(
    covers="sparse rows, one thread each, in double precision",
    bug="fmul is fadd",
    inputs=lambda rng: (*_csr(rng, 101, 60, 9, F64), rng.normal(size=60)),
    outs=[((101,), F64)],
    launch_dims=101,
    reference=_product,
    rtol=1e-13,
    atol=1e-13,
    why="fused multiply-add",
)
@cuda.jit
def csr_by_row(start, column, value, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = 0.0
        for k in range(start[row], start[row + 1]):
            total += value[k] * x[column[k]]
        y[row] = total


@CASES.case(
    covers="sparse rows, one warp each, added by shuffles down",
    bug="a shuffle down is one up",
    inputs=lambda rng: (*_csr(rng, 23, 200, 90, F32), rng.normal(size=200).astype(F32)),
    outs=[((23,), F32)],
    grid=6,
    block=128,
    reference=_product,
    rtol=1e-5,
    atol=1e-5,
    why="fused multiply-add",
)
@cuda.jit
def csr_by_warp(start, column, value, x, y):
    row = cuda.grid(1) // 32
    lane = cuda.laneid
    if row < y.size:
        total = np.float32(0)
        for k in range(start[row] + lane, start[row + 1], 32):
            total += value[k] * x[column[k]]
        for k in range(5):
            total += cuda.shfl_down_sync(FULL, total, 16 >> k)
        if lane == 0:
            y[row] = total


def _coo(row, column, value, x):
    y = np.zeros(40, F32)
    np.add.at(y, row, value * x[column])
    return y


@CASES.case(
    covers="atomic addition of floats, whole numbers and so exact in any order (COO)",
    bug="an atomic add subtracts",
    inputs=lambda rng: (
        rng.integers(0, 40, 900).astype(I32),
        rng.integers(0, 55, 900).astype(I32),
        rng.integers(-9, 10, 900).astype(F32),
        rng.integers(-9, 10, 55).astype(F32),
    ),
    outs=[((40,), F32)],
    launch_dims=900,
    zero_outputs=True,
    reference=_coo,
)
@cuda.jit
def coo_scatter(row, column, value, x, y):
    k = cuda.grid(1)
    if k < row.size:
        cuda.atomic.add(y, row[k], value[k] * x[column[k]])


def _ell(column, value, x):
    return np.where(column < 0, 0, value * x[column]).sum(0)


@CASES.case(
    covers="padded columns with -1 where nothing is, left by `break` (ELL)",
    bug="nothing is below zero",
    inputs=lambda rng: (
        np.where(
            np.arange(7)[:, None] < rng.integers(0, 8, 83), rng.integers(0, 50, (7, 83)), -1
        ).astype(I32),
        rng.integers(-99, 99, (7, 83)).astype(I32),
        rng.integers(-99, 99, 50).astype(I32),
    ),
    outs=[((83,), I32)],
    launch_dims=83,
    reference=_ell,
)
@cuda.jit
def ell_rows(column, value, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = 0
        for k in range(column.shape[0]):
            c = column[k, row]
            if c < 0:
                break
            total += value[k, row] * x[c]
        y[row] = total


def _propagated(a, b, label, _):
    new = label.copy()
    np.minimum.at(new, a, label[b])
    np.minimum.at(new, b, label[a])
    return new


def _graph(rng):
    label = rng.permutation(70).astype(U32) * U32(0x03000001)
    ends = rng.integers(0, 70, (2, 110)).astype(I32)
    return ends[0], ends[1], label, label


@CASES.case(
    covers="atomic minimum of unsigned labels over edges, into an array updated in place",
    bug="an atomic minimum is a maximum",
    inputs=_graph,
    outs=[((70,), U32)],
    launch_dims=110,
    aliases={3: 0},
    reference=_propagated,
)
@cuda.jit
def propagate_labels(a, b, label, start, new):
    k = cuda.grid(1)
    if k < a.size:
        cuda.atomic.min(new, a[k], label[b[k]])
        cuda.atomic.min(new, b[k], label[a[k]])
