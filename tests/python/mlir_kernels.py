"""Kernels of numba-cuda-mlir by value: on the CPU, on the fake GPU and on a GPU.

A case is a function that returns what an operation computed, and what NumPy does.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from kernbridge import numba_cuda_kernel
from numba_cuda_mlir import cuda, types

S = jax.ShapeDtypeStruct
F32, F64, I32 = jnp.float32, jnp.float64, jnp.int32
N = 1000
TABLE = np.array([2.0, 3.0, 5.0, 7.0, 11.0], np.float32)
ALL = 0xFFFFFFFF
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def numbers(n=N, dtype=np.float32):
    return np.random.default_rng(1).uniform(0.5, 2, n).astype(dtype)


@cuda.jit(device=True)
def square(value):
    return value * value


def scaled_by(constant):
    @cuda.jit
    def scaled(x, factor, out, shift=0.5):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = square(x[i]) * factor + constant + shift

    return scaled


@cuda.jit(device=True, inline="never")
def total(row, n):
    found = row[0]
    for j in range(1, n):
        if row[j] > 1.9:
            break
        found += row[j]
    return found


@cuda.jit
def totals(x, n, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = total(x[i], n)


@cuda.jit
def added(x, y, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + 2 * y[j, i]


@cuda.jit
def reversed_blocks(x, out):
    shared = cuda.shared.array(64, types.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i]
    cuda.syncthreads()
    out[i] = shared[63 - t]


@cuda.jit
def reversed_dynamic(x, out):
    shared = cuda.shared.array(0, types.float32)
    fixed = cuda.shared.array((2, 3), types.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i]
    if t < 6:
        fixed[t // 3, t % 3] = t
    cuda.syncthreads()
    out[i] = shared[cuda.blockDim.x - 1 - t] + fixed[1, 2]


@cuda.jit
def strided(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        local = cuda.local.array(3, types.float32)
        for k in range(3):
            local[k] = x[i] * k
        out[i] = local[1] + local[2]


@cuda.jit
def sums(x, out, counts):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])
        cuda.atomic.max(out, 1, x[i])
        cuda.atomic.add(counts, i % 3, 1)
        cuda.atomic.max(counts, 3, i)


@cuda.jit
def functions(x, out):
    i = cuda.grid(1)
    if i < out.size:
        v = x[i]
        out[i] = math.sin(v) + math.exp(-v) + math.log(v) + math.sqrt(v) + v**2 + math.atan2(v, 2.0)


@cuda.jit
def integers(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = x[i] // y[i]
        out[1, i] = x[i] % y[i]
        out[2, i] = x[i] << (y[i] & 7)
        out[3, i] = x[i] ^ y[i]
        out[4, i] = int(x[i] * 0.5)


@cuda.jit
def kinds(flags, halves, pairs, bytes_, out):
    i = cuda.grid(1)
    if i < out.size:
        z = pairs[i] * pairs[i]
        if flags[i]:
            z = z + 1
        out[i] = z * float(halves[i]) + bytes_[i]


@cuda.jit
def halved(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def negated(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = not x[i]


@cuda.jit
def looked_up(x, out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < out.size:
        out[i] = table[x[i]]


@cuda.jit
def lanes(x, out):
    t = cuda.threadIdx.x
    v = x[t]
    out[0, t] = cuda.shfl_sync(ALL, v, 3)
    out[1, t] = cuda.shfl_down_sync(ALL, v, 1)
    out[2, t] = cuda.shfl_xor_sync(ALL, v, 5)
    out[3, t] = cuda.shfl_up_sync(ALL, v, 2)
    out[4, t] = cuda.popc(cuda.ballot_sync(ALL, v > 40))
    out[5, t] = cuda.any_sync(ALL, v > 61)
    out[6, t] = cuda.all_sync(ALL, v > 40)


@cuda.jit
def places(out):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    j = cuda.threadIdx.y + cuda.blockIdx.y * cuda.blockDim.y
    k = cuda.threadIdx.z + cuda.blockIdx.z * cuda.blockDim.z
    out[k, j, i] = 100 * k + 10 * j + i


@cuda.jit
def moved(x, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        row, behind = out[i], x[i, 2:]
        for j in range(row.size):
            row[j] = behind[j]


@cuda.jit
def of_one(x, out):
    out[()] = x[()] + 1


@cuda.jit
def counted(x, out):
    i = cuda.grid(1)
    if i < out.size:
        x[i] += i


@cuda.jit
def greedy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        cuda.atomic.add(x, i, 1)
        out[i] = x[i]


@case
def elementwise():
    op = numba_cuda_kernel(scaled_by(3.0), S((N,), F32), launch_dims=N)
    x = numbers()
    return op(x, factor=np.float32(2)), x * x * np.float32(2) + 3.5


@case
def closures_differ():
    ops = [numba_cuda_kernel(scaled_by(c), S((N,), F32), launch_dims=N) for c in (1.0, 4.0)]
    x = numbers()
    got = [op(x, factor=np.float32(2), shift=np.float64(1)) for op in ops]
    return got, [x * x * np.float32(2) + c + 1 for c in (1.0, 4.0)]


@case
def two_dimensions():
    op = numba_cuda_kernel(added, S((33, 20), F32), launch_dims=(33, 20))
    x, y = numbers(660).reshape(33, 20), numbers(660).reshape(20, 33)
    return op(x, y), x + 2 * y.T


@case
def calls_of_functions():
    x = numbers(63).reshape(9, 7)
    ends = [next((j for j in range(1, 6) if row[j] > 1.9), 6) for row in x]
    op = numba_cuda_kernel(totals, S((9,), F32), launch_dims=9)
    sums = np.array([row[:end].sum() for row, end in zip(x, ends, strict=True)])
    return op(x, n=np.int32(6)), sums


@case
def batch():
    op = numba_cuda_kernel(added, S((33, 20), F32), launch_dims=(33, 20))
    x, y = numbers(1320).reshape(2, 33, 20), numbers(660).reshape(20, 33)
    return jax.jit(jax.vmap(op, (0, None)))(x, y), x + 2 * y.T


@case
def shared_memory():
    op = numba_cuda_kernel(reversed_blocks, S((128,), F32), grid=2, block=64)
    x = numbers(128)
    return op(x), x.reshape(2, 64)[:, ::-1].ravel()


@case
def dynamic_shared_memory():
    op = numba_cuda_kernel(reversed_dynamic, S((96,), F32), grid=2, block=48, shared_mem=192)
    x = numbers(96)
    return op(x), x.reshape(2, 48)[:, ::-1].ravel() + 5


@case
def grid_stride_and_local_memory():
    op = numba_cuda_kernel(strided, S((100_003,), F32), grid=2, block=64)
    x = numbers(100_003)
    return op(x), 3 * x


@case
def atomics():
    outs = (S((2,), F32), S((4,), I32))
    op = numba_cuda_kernel(sums, outs, launch_dims=99, zero_outputs=True)
    x = np.arange(99, dtype=np.float32)
    return op(x), [np.array([x.sum(), 98.0]), np.array([33, 33, 33, 98])]


@case
def mathematics():
    got, expected = [], []
    for dtype in (np.float32, np.float64):
        x = numbers(dtype=dtype)
        got.append(numba_cuda_kernel(functions, S((N,), dtype), launch_dims=N)(x))
        v = x.astype(np.float64)
        expected.append(np.sin(v) + np.exp(-v) + np.log(v) + np.sqrt(v) + v**2 + np.arctan2(v, 2.0))
    return got, expected


@case
def integer_arithmetic():
    got, expected = [], []
    for dtype in (np.int32, np.int64):
        x = np.arange(-50, 50, dtype=dtype)
        y = np.where(np.arange(100) % 2, 3, -7).astype(dtype)
        got.append(numba_cuda_kernel(integers, S((5, 100), dtype), launch_dims=100)(x, y))
        x, y = x.astype(np.int64), y.astype(np.int64)
        half = np.trunc(x * 0.5).astype(np.int64)
        expected.append(np.stack([x // y, x % y, x << (y & 7), x ^ y, half]))
    return got, expected


@case
def unsigned_integers():
    got, expected = [], []
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        x = np.arange(1, 101, dtype=dtype)
        got.append(numba_cuda_kernel(halved, S((100,), np.uint64), launch_dims=100)(x))
        expected.append(x.astype(np.uint64) ** 2)
    return got, expected


@case
def dtypes():
    op = numba_cuda_kernel(kinds, S((N,), np.complex128), launch_dims=N)
    flags = np.arange(N) % 3 == 0
    halves = numbers(dtype=np.float16)
    pairs = (numbers() + 1j * numbers()[::-1]).astype(np.complex64)
    small = np.arange(N).astype(np.int8)
    wide = pairs.astype(np.complex128)
    expected = (wide * wide + flags) * halves.astype(np.float64) + small
    return op(flags, halves, pairs, small).astype(np.complex64), expected


@case
def small_integers():
    got, expected = [], []
    for dtype in (np.int8, np.int16):
        x = np.arange(-50, 50, dtype=dtype)
        got.append(numba_cuda_kernel(halved, S((100,), np.int64), launch_dims=100)(x))
        expected.append(x.astype(np.int64) ** 2)
    return got, expected


@case
def half_precision():
    got, expected = [], []
    for dtype in (np.float16, jnp.bfloat16):
        x = jnp.asarray(numbers(), dtype)
        got.append(numba_cuda_kernel(halved, S((N,), dtype), launch_dims=N)(x).astype(np.float32))
        expected.append((x * x).astype(np.float32))
    return got, expected


@case
def booleans():
    x = np.arange(N) % 3 == 0
    return numba_cuda_kernel(negated, S((N,), np.bool_), launch_dims=N)(x), ~x


@case
def constant_memory():
    op = numba_cuda_kernel(looked_up, S((5,), F32), launch_dims=5)
    return op(np.array([4, 0, 3, 1, 2], np.int32)), TABLE[[4, 0, 3, 1, 2]]


@case
def warps():
    op = numba_cuda_kernel(lanes, S((7, 32), I32), grid=1, block=32)
    x = np.arange(32, dtype=np.int32) * 2
    down, up = np.append(x[1:], x[-1]), np.append(x[:2], x[:-2])
    ones = np.ones(32, np.int32)
    return op(x), np.stack([6 * ones, down, x[np.arange(32) ^ 5], up, 11 * ones, ones, 0 * ones])


@case
def three_dimensions():
    op = numba_cuda_kernel(places, S((4, 6, 10), I32), grid=(5, 2, 2), block=(2, 3, 2))
    k, j, i = np.indices((4, 6, 10))
    return op(), 100 * k + 10 * j + i


@case
def views_of_rows():
    op = numba_cuda_kernel(moved, S((9, 5), F32), launch_dims=9)
    x = numbers(63).reshape(9, 7)
    return op(x), x[:, 2:]


@case
def no_dimension():
    op = numba_cuda_kernel(of_one, S((), F32), grid=1, block=1)
    return op(np.float32(2)), np.float32(3)


@cuda.jit
def of_cells(cells, shift, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cells[i].a * cells[i].b + shift[0] - shift[1]


@case
def views_and_static_arguments():
    record = np.dtype([("a", np.float32), ("b", np.float32)])
    options = {"view": {"cells": record}, "static": {"shift": (2.5, np.int32(1))}}
    op = numba_cuda_kernel(of_cells, S((N,), F32), launch_dims=N, **options)
    x = numbers(2 * N).reshape(N, 2)
    return op(x), x[:, 0] * x[:, 1] + 1.5


@case
def aliased():
    op = numba_cuda_kernel(counted, S((N,), F32), launch_dims=N, input_output_aliases={0: 0})
    return op(np.ones(N, np.float32)), 1 + np.arange(N)


def close(name, got, expected):
    """Compare trees of arrays."""
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        g = np.asarray(g)
        near = {"float32": 1e-5, "complex64": 1e-5}.get(g.dtype.name, 1e-12)
        np.testing.assert_allclose(g, e, rtol=near, atol=near, err_msg=name)


def check(name):
    """Compare the values of a case, in float64 mode."""
    with jax.enable_x64(True):
        close(name, *CASES[name]())
