"""Kernels that several tests share, at the top level of a module, for fresh processes to find.

Each is compiled once in a session: its machine code is in the session's cache (session_cache.py),
where the workers of pytest-xdist and the programs that tests start find it. Those for GPUs are in
cuda_kernels.py.
"""

import numba
import numpy as np


@numba.njit
def add(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit
def combine(x, y, out):
    """x + y, of any rank."""
    for i in range(out.size):
        out.flat[i] = x.flat[i] + y.flat[i]


@numba.njit
def differ(x, y, out):
    """x != y for bool, of any rank."""
    for i in range(out.size):
        out.flat[i] = x.flat[i] != y.flat[i]


@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


@numba.njit
def square(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]


@numba.njit
def matvec(a, x, out):
    for i in range(a.shape[0]):
        out[i] = 0
        for j in range(a.shape[1]):
            out[i] += a[i, j] * x[j]


@numba.njit
def split(x, out1, out2):
    for i in range(out1.size):
        out1[i] = x[i] * 2
        out2[i] = x[i] * 3


@numba.njit
def scale(x, alpha, out):
    for i in range(out.size):
        out[i] = alpha * x[i]


@numba.njit
def raise_if_negative(x, out):
    for i in range(out.size):
        if x[i] < 0:
            raise ValueError("negative value", i)
        out[i] = np.sqrt(x[i])


@numba.njit
def row_sum(x, w, out):
    """A 1-D kernel that would be wrong if it saw a batch axis."""
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += x[i] * w[i]
    out[0] = total
