"""Numba-CUDA kernels whose threads pass numbers to each other in a warp, and what they are in JAX.

The tests of this folder run their derivatives on the CPU, `tests/gpu/test_cuda_derivatives.py` on a
GPU.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge import numba_cuda_kernel

cuda = pytest.importorskip("numba.cuda")
ALL = 0xFFFFFFFF
LANES = np.arange(32)


def warps(of_one):
    """A function of one warp as a function of whole arrays."""

    def of_all(*arrays):
        return jax.vmap(of_one)(*(x.reshape(-1, 32) for x in arrays)).reshape(-1)

    return of_all


@cuda.jit
def block_sums(x, w, out):
    sums = cuda.shared.array(3, x.dtype)
    i, lane, warp = cuda.grid(1), cuda.laneid, cuda.threadIdx.x // 32
    v = x[i] * x[i] * w[i % w.size] if i < x.size else x.dtype.type(0)
    offset = 16
    while offset > 0:
        v += cuda.shfl_down_sync(ALL, v, offset)
        offset //= 2
    if lane == 0:
        sums[warp] = v
    cuda.syncthreads()
    if warp == 0:
        v = sums[lane] if lane < 3 else x.dtype.type(0)
        v += cuda.shfl_down_sync(ALL, v, 2)
        v += cuda.shfl_down_sync(ALL, v, 1)
        if lane == 0:
            cuda.atomic.add(out, cuda.blockIdx.x % 2, math.sin(v))


def block_sums_by_jax(x, w):
    terms = x * x * w[np.arange(x.size) % w.size]
    sums = jnp.sin(jnp.pad(terms, (0, -x.size % 96)).reshape(-1, 96).sum(1))
    return jnp.zeros(2, x.dtype).at[np.arange(sums.size) % 2].add(sums)


@cuda.jit
def all_four(x, out):
    i = cuda.grid(1)
    v = x[i] + cuda.shfl_down_sync(ALL, x[i], 1)
    v *= cuda.shfl_xor_sync(ALL, v, 4)
    v += cuda.shfl_sync(ALL, v, cuda.laneid // 3)
    out[i] = v * cuda.shfl_up_sync(ALL, v, 3)


@warps
def all_four_by_jax(x):
    v = x + x[np.minimum(LANES + 1, 31)]
    v = v * v[LANES ^ 4]
    v = v + v[LANES // 3]
    return v * v[np.where(LANES >= 3, LANES - 3, LANES)]


@cuda.jit
def half_a_warp(x, out):
    i = cuda.grid(1)
    v = math.exp(x[i])
    offset = 8
    while offset > 0:
        v += cuda.shfl_down_sync(0xFFFF, v, offset)
        offset //= 2
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x] = v * v


def half_a_warp_by_jax(x):
    return jnp.zeros_like(x).at[:4].set(jnp.exp(x).reshape(4, 16).sum(1) ** 2)


@cuda.jit
def prefixes(x, out):
    i, lane = cuda.grid(1), cuda.laneid
    v = x[i] * x[i]
    for k in range(5):
        before = cuda.shfl_up_sync(ALL, v, 1 << k)
        if lane >= 1 << k:
            v += before
    out[i] = v


@warps
def prefixes_by_jax(x):
    return jnp.cumsum(x * x)


@cuda.jit
def softmax(x, out):
    i = cuda.grid(1)
    largest = x[i]
    for k in range(5):
        largest = max(largest, cuda.shfl_xor_sync(ALL, largest, 1 << k))
    e = math.exp(x[i] - largest)
    total = e
    for k in range(5):
        total += cuda.shfl_xor_sync(ALL, total, 16 >> k)
    out[i] = e / total


@cuda.jit
def read_by_index(x, at, out):
    i = cuda.grid(1)
    v = x[i] * x[i]
    one = cuda.shfl_sync(ALL, v, 5)
    if at[i] % 2 == 0:
        v = v * one + cuda.shfl_sync(cuda.ballot_sync(cuda.activemask(), True), v, cuda.laneid)
    out[i] = v * cuda.shfl_sync(ALL, v * x[i], at[i])


def read_by_index_by_jax(x, at):
    def of_one(x, at):
        v = x * x
        v = jnp.where(at % 2 == 0, v * v[5] + v, v)
        return v * (v * x)[at]

    return warps(of_one)(x, at)


@cuda.jit
def parts(x, out):
    i, lane = cuda.grid(1), cuda.laneid
    half = 0xFFFF << (lane & 16)
    v = x[i] * x[i]
    v *= cuda.shfl_xor_sync(half, v, 4)
    if lane < 11:
        v += cuda.shfl_sync(0x7FF, v * v, lane // 2)
    elif lane < 20:
        v *= cuda.shfl_xor_sync(0xFF800, v, 0)
    v += cuda.shfl_up_sync(half, v, lane & 3)
    out[i] = v * cuda.shfl_down_sync(half, v, 15 - (lane & 15))


@warps
def parts_by_jax(x):
    v = x * x
    v = v * v[LANES ^ 4]
    low = v + (v * v)[LANES // 2]
    v = jnp.where(LANES < 11, low, jnp.where(LANES < 20, v * v, v))
    v = v + v[LANES - (LANES & 3)]
    return v * v[LANES | 15]


@cuda.jit
def votes(x, at, out):
    i = cuda.grid(1)
    v, n = x[i], cuda.popc(cuda.ballot_sync(ALL, x[i] > 0))
    if cuda.any_sync(ALL, v > 1) and not cuda.all_sync(ALL, v > 0) and not cuda.eq_sync(ALL, v > 0):
        v *= v * n
    v *= cuda.popc(cuda.match_any_sync(ALL, at[i]))
    if cuda.laneid < 7:
        v *= v * n
    if cuda.shfl_xor_sync(ALL, v * v, 2) > v:
        v *= 3
    out[i] = v * x[i - i % 32 + cuda.shfl_down_sync(ALL, at[i], 1)]


def votes_by_jax(x, at):
    def of_one(x, at):
        v = jnp.where((x > 1).any(), x * x * (x > 0).sum(), x)
        v = v * (at[:, None] == at).sum(1)
        v = jnp.where(LANES < 7, v * v * (x > 0).sum(), v)
        v = jnp.where((v * v)[LANES ^ 2] > v, 3 * v, v)
        return v * x[at[np.minimum(LANES + 1, 31)]]

    return warps(of_one)(x, at)


@cuda.jit(device=True)
def total(v):
    for k in range(5):
        v += cuda.shfl_xor_sync(ALL, v, 1 << k)
    return v


@cuda.jit
def other_uses(x, y, out):
    i = cuda.grid(1)
    of_local = cuda.local.array(4, x.dtype)
    for k in range(4):
        of_local[k] = x[i] * k * y[i]
    v = x.dtype.type(0)
    for k in range(4):
        v += cuda.shfl_xor_sync(ALL, of_local[k] * of_local[3 - k], k)
    unused = cuda.shfl_up_sync(ALL, x[i] * x[i], 1)  # noqa: F841
    wide = cuda.shfl_xor_sync(ALL, i * 3000000000, 1) % 7
    wrapped = cuda.shfl_sync(ALL, y[i], 40 + cuda.laneid)
    constant = cuda.shfl_down_sync(ALL, x.dtype.type(2.5), 1)
    out[i] = x[i] * (wrapped * constant + wide) + v * total(x[i] * y[i])


def other_uses_by_jax(x, y):
    def of_one(x, y, i):
        of_local = [x * k * y for k in range(4)]
        v = sum((of_local[k] * of_local[3 - k])[LANES ^ k] for k in range(4))
        wide = i[LANES ^ 1] * 3000000000 % 7
        return x * (y[(40 + LANES) % 32] * 2.5 + wide) + v * (x * y).sum()

    return warps(of_one)(x, y, np.arange(64)).astype(x.dtype)


@cuda.jit
def repeated(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    for k in range(n[0]):
        v = v * x[i] + cuda.shfl_xor_sync(ALL, v, k + 1)
    out[i] = v


def repeated_by_jax(x, n):
    rows = x.reshape(-1, 32)
    v = rows
    for k in range(4):
        v = v * rows + v[:, LANES ^ (k + 1)]
    return v.reshape(-1)


AT = np.random.default_rng(3).integers(0, 32, 64).astype(np.int32)
# A kernel, the same in JAX, and its other inputs.
CASES = {
    "all four": (all_four, all_four_by_jax, []),
    "block sums": (block_sums, block_sums_by_jax, [np.linspace(0.2, 0.9, 7)]),
    "half a warp": (half_a_warp, half_a_warp_by_jax, []),
    "prefixes": (prefixes, prefixes_by_jax, []),
    "softmax": (softmax, warps(jax.nn.softmax), []),
    "by index": (read_by_index, read_by_index_by_jax, [AT]),
    "parts": (parts, parts_by_jax, []),
    "votes": (votes, votes_by_jax, [AT]),
    "other uses": (other_uses, other_uses_by_jax, [np.linspace(0.5, 1.5, 64)]),
    "repeated": (repeated, repeated_by_jax, [np.array([4], np.int32)]),
}
LAUNCHES = {"block sums": (3, 96), "half a warp": (4, 16)}


def operation(name, dtype):
    """The kernel's operation, the function in JAX, and inputs."""
    kernel, by_jax, others = CASES[name]
    grid, block = LAUNCHES.get(name, (1, 64))
    n, like = 64, lambda x, *_: x
    if name == "block sums":
        n, like = 250, jax.ShapeDtypeStruct((2,), dtype)
    op = numba_cuda_kernel(
        kernel, like, grid=grid, block=block, zero_outputs=True, derivatives="enzyme"
    )
    x = np.random.default_rng(0).normal(size=n).astype(dtype)
    return op, by_jax, [x, *(o.astype(dtype) if o.dtype == float else o for o in others)]
