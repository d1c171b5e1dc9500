"""Functions that launch kernels, no two of the same structure, with planted bugs.

A bug changes the steps of the recorded plan, in the path that its case is there for; a run with it
must differ from the reference. Words of an array argument: address, extents, then strides where it
is not C-ordered; of a scalar: its bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from cuda_kernels import add, copy, scale, square
from numba import cuda, float32, int32

F32, I32, U8, F64 = np.float32, np.int32, np.uint8, np.float64
Bug = Callable[[list], None]


def S(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Case:
    """`covers` is the path of recorder and replay that this case is there for."""

    function: Callable[..., None]
    covers: str
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    outs: Any
    reference: Callable[..., tuple[np.ndarray, ...]]
    bugs: tuple[Bug, ...]
    aliases: dict[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__name__


CASES: list[Case] = []


def case(covers, inputs, outs, reference, *bugs, aliases=None):
    def add(function):
        CASES.append(Case(function, covers, inputs, outs, reference, bugs, aliases or {}))
        return function

    return add


def drop(k: int) -> Bug:
    return lambda steps: steps.pop(k)


def swap(i: int, j: int) -> Bug:
    def bug(steps):
        steps[i], steps[j] = steps[j], steps[i]

    return bug


def change(k: int, **values: Any) -> Bug:
    """Fields of step k."""

    def bug(steps):
        steps[k] = replace(steps[k], **values)

    return bug


def word(k: int, i: int, **values: Any) -> Bug:
    """Fields of word i of launch k."""

    def bug(steps):
        words = list(steps[k].words)
        words[i] = replace(words[i], **values)
        steps[k] = replace(steps[k], words=tuple(words))

    return bug


def grid(k: int, *blocks: int) -> Bug:
    def bug(steps):
        value = type(steps[k].grid[0])
        grid = tuple(value(constant=n) for n in (*blocks, 1, 1)[:3])
        steps[k] = replace(steps[k], grid=grid)

    return bug


def bits(value: Any, dtype: Any) -> int:
    data = np.array([value], dtype).tobytes().ljust(8, b"\0")
    return int(np.frombuffer(data, np.int64)[0])


def normal(*shapes):
    return lambda rng: tuple(rng.normal(size=s).astype(F32) for s in shapes)


def blocks(n: int, threads: int = 128) -> int:
    return -(-n // threads)


@cuda.jit
def root(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.sqrt(x[i])


@cuda.jit
def copy_2d(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j]


@cuda.jit
def fold(x, out, half):
    i = cuda.grid(1)
    if i < half:
        out[i] = x[i] + x[i + half]


@case("a temporary between two launches", normal(1001), S(1001), lambda x: (np.abs(x),),
      drop(0), word(1, 0, buffer=0), grid(1, 7))  # fmt: skip
def two_kernels(x, out, stream):
    temporary = cuda.device_array(x.size, F32)
    square[blocks(x.size), 128, stream](x, temporary)
    root[blocks(x.size), 128, stream](temporary, out)


@case("ping-pong of two temporaries in a loop that halves",
      lambda rng: (rng.integers(-99, 99, 1024).astype(F32),), S(1), lambda x: (x.sum()[None],),
      drop(4), word(3, 0, buffer=3), word(2, 4, value=100), drop(-1))  # fmt: skip
def tree_reduction(x, out, stream):
    a, b = cuda.device_array_like(x), cuda.device_array_like(x)
    copy[blocks(x.size), 128, stream](x, a)
    half = x.size // 2
    while half:
        fold[blocks(half), 128, stream](a, b, half)
        a, b = b, a
        half //= 2
    copy[1, 1, stream](a, out)


@cuda.jit
def block_sums(x, out):
    shared = cuda.shared.array(128, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 64
    while half:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = shared[0]


@case("static shared memory, partial sums and a last launch of one block",
      lambda rng: (rng.integers(-99, 99, 5000).astype(F32),), S(1), lambda x: (x.sum()[None],),
      grid(0, 39), word(1, 1, value=39), drop(1))  # fmt: skip
def partial_sums(x, out, stream):
    partial = cuda.device_array(blocks(x.size), F32)
    block_sums[blocks(x.size), 128, stream](x, partial)
    block_sums[1, 128, stream](partial, out)


@cuda.jit
def reversed_blocks(x, out):
    shared = cuda.shared.array(0, int32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    i = cuda.blockIdx.x * n + t
    shared[t] = x[i]
    cuda.syncthreads()
    out[i] = shared[n - 1 - t]


@case("dynamic shared memory", lambda rng: (np.arange(512, dtype=I32),), S(512, dtype=I32),
      lambda x: (x.reshape(4, 128)[:, ::-1].ravel(),),
      change(0, block=(64, 1, 1)), grid(0, 3))  # fmt: skip
def dynamic_shared(x, out, stream):
    reversed_blocks[4, 128, stream, 4 * 128](x, out)


@cuda.jit
def scan_step(x, out, distance):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + (x[i - distance] if i >= distance else 0)


@case("scalars that change from step to step",
      lambda rng: (rng.integers(0, 9, 777).astype(I32),), S(777, dtype=I32),
      lambda x: (np.cumsum(x, dtype=I32),),
      word(3, 4, value=7), drop(5), swap(0, 9))  # fmt: skip
def inclusive_scan(x, out, stream):
    a, b = cuda.device_array_like(x), cuda.device_array_like(x)
    a.copy_to_device(x, stream=stream)
    distance = 1
    while distance < x.size:
        scan_step[blocks(x.size), 128, stream](a, b, distance)
        a, b = b, a
        distance *= 2
    out.copy_to_device(a, stream=stream)


@cuda.jit
def count(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i], 1)


@case("an output zeroed by a fill, then atomics",
      lambda rng: (rng.integers(0, 10, 3001).astype(I32),), S(10, dtype=I32),
      lambda x: (np.bincount(x, minlength=10).astype(I32),),
      change(0, pattern=1), swap(0, 1), word(1, 1, value=2900))  # fmt: skip
def histogram(x, bins, stream):
    bins[:] = 0
    count[blocks(x.size), 128, stream](x, bins)


@cuda.jit
def accumulate(x, total):
    i = cuda.grid(1)
    if i < x.size:
        total[i] += x[i]


@case("a temporary filled with a number other than zero", normal(300), S(300),
      lambda x: (x + F32(2.5),), change(0, pattern=bits(2.0, F32)), drop(0),
      change(0, count=299))  # fmt: skip
def filled_temporary(x, out, stream):
    temporary = cuda.device_array_like(x)
    temporary[:] = 2.5
    accumulate[blocks(x.size), 128, stream](x, temporary)
    out[:] = temporary


@case("fills of 8 and 16 bytes", lambda rng: (), [S(5, dtype=np.complex64), S(6, dtype=I32)],
      lambda: (np.full(5, 1 + 2j, np.complex64), np.array([0, 0, 7, 7, 7, 0], I32)),
      change(0, pattern=bits(2 + 1j, np.complex64)), change(2, offset=4))  # fmt: skip
def wide_fills(z, k, stream):
    z[:] = 1 + 2j
    k[:] = 0
    k[2:5] = 7


@case("copies of parts of an input", normal((4, 50)), S(100),
      lambda x: (np.concatenate([x[2], x[0]]),),
      change(0, from_offset=0), change(1, size=100), change(1, to_offset=0))  # fmt: skip
def copied_rows(x, out, stream):
    out[:50].copy_to_device(x[2], stream=stream)
    out[50:] = x[0]


@case("row views by index, one launch each", normal((7, 33)), S(7, 33),
      lambda x: (x * np.arange(7, dtype=F32)[:, None],),
      word(3, 0, value=0), word(5, 2, value=bits(9.0, F64)), drop(6))  # fmt: skip
def rows(x, out, stream):
    for i in range(x.shape[0]):
        scale[1, 64, stream](x[i], float(i), out[i])


@case("columns: one stride", normal((40, 6)), S(40), lambda x: (x[:, 4],),
      word(0, 2, value=4), word(0, 0, value=0))  # fmt: skip
def column(x, out, stream):
    copy[1, 64, stream](x[:, 4], out)


@case("steps: every third element", normal(100), S(34), lambda x: (x[::3],),
      word(0, 2, value=4), word(0, 2, value=8))  # fmt: skip
def every_third(x, out, stream):
    copy[1, 64, stream](x[::3], out)


@case("a window of two axes: two strides", normal((20, 30)), S(5, 10),
      lambda x: (x[3:8, 10:20],), word(0, 3, value=40), word(0, 0, value=0))  # fmt: skip
def window(x, out, stream):
    copy_2d[(1, 1), (8, 16), stream](x[3:8, 10:20], out)


@case("a transposed copy", normal((9, 17)), S(17, 9), lambda x: (x.T,),
      word(0, 2, value=16), word(1, 2, value=8))  # fmt: skip
def transposed(x, out, stream):
    copy_2d[(2, 1), (16, 16), stream](x.T, out)


@cuda.jit
def blur_rows(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and 0 < j < out.shape[1] - 1:
        out[i, j] = (x[i, j - 1] + x[i, j] + x[i, j + 1]) / 3
    elif i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j]


def blurred(x):
    out = x.copy()
    out[:, 1:-1] = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
    return out


@case("a temporary of rank 2, seen whole and transposed", normal((31, 45)), S(31, 45),
      lambda x: (blurred(blurred(x).T).T,), word(0, 2, value=44), word(2, 2, value=30),
      word(3, 2, value=30))  # fmt: skip
def separable_blur(x, out, stream):
    a = cuda.device_array(x.shape, F32)
    blur_rows[(2, 3), (16, 16), stream](x, a)
    b = cuda.device_array(x.shape[::-1], F32)
    blur_rows[(3, 2), (16, 16), stream](a.T, b)
    out.copy_to_device(b.T, stream=stream)


@cuda.jit
def sum_last(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        total = float32(0)
        for k in range(x.shape[2]):
            total += x[i, j, k]
        out[i, j] = total


@cuda.jit
def plus_index(x, out):
    i, j, k = cuda.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = x[i, j, k] + i * 100 + j * 10 + k


@case("a temporary of rank 3 and a grid of three axes",
      lambda rng: (rng.integers(0, 9, (5, 6, 7)).astype(F32),), S(5, 6),
      lambda x: ((x + np.fromfunction(lambda i, j, k: i * 100 + j * 10 + k, x.shape, dtype=F32))
                 .sum(2).astype(F32),),
      grid(0, 3, 3, 1), word(1, 3, value=6))  # fmt: skip
def three_axes(x, out, stream):
    temporary = cuda.device_array(x.shape, F32)
    plus_index[(3, 3, 2), (2, 2, 4), stream](x, temporary)
    sum_last[(1, 1), (8, 8), stream](temporary, out)


@cuda.jit
def matmul(a, b, c):
    left = cuda.shared.array((8, 8), float32)
    right = cuda.shared.array((8, 8), float32)
    j, i = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range((a.shape[1] + 7) // 8):
        inside = i < a.shape[0] and k * 8 + tx < a.shape[1]
        left[ty, tx] = a[i, k * 8 + tx] if inside else 0
        inside = j < b.shape[1] and k * 8 + ty < b.shape[0]
        right[ty, tx] = b[k * 8 + ty, j] if inside else 0
        cuda.syncthreads()
        for n in range(8):
            total += left[ty, n] * right[n, tx]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = total


@case("tiles in shared memory; a block of two axes", normal((19, 30), (30, 21)), S(19, 21),
      lambda a, b: (a @ b,), grid(0, 2, 2),
      word(0, 2, value=20))  # fmt: skip
def tiled_matmul(a, b, c, stream):
    matmul[(3, 3), (8, 8), stream](a, b, c)


@case("reshape and ravel of an input and an output", normal((6, 8)), S(4, 12),
      lambda x: (2 * x.reshape(4, 12),), word(0, 0, value=8), drop(1))  # fmt: skip
def reshaped(x, out, stream):
    flat, two_rows = x.ravel(), out.reshape(2, 24)
    scale[1, 64, stream](flat[:24], 2.0, two_rows[0])
    scale[1, 64, stream](flat[24:], 2.0, two_rows[1])


@cuda.jit
def flip_sign(words):
    i = cuda.grid(1)
    if i < words.size:
        words[i] ^= 0x80000000


@case("a view as another dtype", normal(200), S(200), lambda x: (-x,), drop(1),
      word(1, 1, value=150))  # fmt: skip
def bit_view(x, out, stream):
    out[:] = x
    flip_sign[2, 128, stream](out.view(np.uint32))


@cuda.jit
def store_all(out, a, b, c, d, e, f, g):
    out[0], out[1], out[2], out[3] = a, b, c, d
    out[4], out[5], out[6] = e, f.real, g.imag


@case("scalars of every kind", lambda rng: (), S(7, dtype=F32),
      lambda: (np.array([-3, 2.5, 1, 0.25, -7, 1.5, -2.5], F32),),
      word(0, 2, value=3), word(0, 3, value=bits(2.0, F64)), word(0, 4, value=0),
      word(0, 9, value=bits(2.5, F64)))  # fmt: skip
def scalar_kinds(out, stream):
    store_all[1, 1, stream](
        out, -3, 2.5, True, F32(0.25), I32(-7), np.complex64(1.5 + 1j), 1.0 - 2.5j
    )


@cuda.jit
def jacobi(x, out):
    i = cuda.grid(1)
    if 0 < i < out.size - 1:
        out[i] = (x[i - 1] + x[i + 1]) * float32(0.5)
    elif i < out.size:
        out[i] = x[i]


def jacobi_reference(x):
    for _ in range(10):
        x = np.concatenate([x[:1], (x[:-2] + x[2:]) * F32(0.5), x[-1:]])
    return (x,)


@case("a loop of a constant number of steps, ending in the output", normal(500), S(500),
      jacobi_reference, drop(4), word(9, 0, buffer=0), word(5, 0, buffer=0))  # fmt: skip
def ten_steps(x, out, stream):
    a, b = x, cuda.device_array_like(x)
    for step in range(10):
        target = out if step == 9 else b
        jacobi[blocks(x.size), 128, stream](a, target)
        a, b = target, (cuda.device_array_like(x) if step == 0 else a)


@case("branches on shapes", normal(101, 50), [S(101), S(50)],
      lambda x, y: (2 * x, y * y), drop(0), word(0, 2, value=bits(3.0, F64)))  # fmt: skip
def branches(x, y, p, q, stream):
    for array, out in ((x, p), (y, q)):
        if array.size % 2:
            scale[1, 128, stream](array, 2.0, out)
        else:
            square[1, 128, stream](array, out)


def _twice(x, out, stream):
    temporary = cuda.device_array_like(x)
    add[blocks(x.size), 128, stream](x, x, temporary)
    add[blocks(x.size), 128, stream](temporary, x, out)


@case("a helper function with a temporary of its own, called twice", normal(150), S(150),
      lambda x: (9 * x,),
      word(3, 0, buffer=0), word(2, 0, buffer=0), word(1, 2, buffer=3))  # fmt: skip
def helper(x, out, stream):
    middle = cuda.device_array_like(x)
    _twice(x, middle, stream)
    _twice(middle, out, stream)


FACTOR, TABLE = 3.0, (0.5, 2.0, 4.0)


@case("closures and Python loops over a table", normal(64), S(64),
      lambda x: (x * F32(3 * 0.5 * 2 * 4),),
      drop(2), word(1, 2, value=bits(0.25, F64)))  # fmt: skip
def closure(x, out, stream):
    scale[1, 64, stream](x, FACTOR, out)
    for factor in TABLE:
        scale[1, 64, stream](out, factor, out)


@case("forall, with and without a block size", normal(1500), S(1500), lambda x: (x**4,),
      drop(0), grid(1, 5))  # fmt: skip
def for_all(x, out, stream):
    temporary = cuda.device_array_like(x)
    square.forall(x.size, stream=stream)(x, temporary)
    square.forall(x.size, tpb=128, stream=stream)(temporary, out)


@cuda.jit
def integrate(v, drive, leak):
    i = cuda.grid(1)
    if i < v.size:
        v[i] = v[i] * leak + drive[i]


@case("an output in the memory of an input", normal(400, 400), S(400),
      lambda v, d: ((v * 0.5 + d) * 0.5 + d,), drop(1), word(0, 4, value=bits(0.25, F64)),
      aliases={0: 0})  # fmt: skip
def in_place(v, drive, out, stream):
    for _ in range(2):
        integrate[blocks(v.size), 128, stream](out, drive, 0.5)


@case("an aliased output and another beside it", normal(90, 90), [S(90), S(90)],
      lambda v, d: (v * 0.5 + d, (v * 0.5 + d) ** 2), swap(0, 1), word(1, 0, buffer=1),
      aliases={0: 0})  # fmt: skip
def alias_and_more(v, drive, out, squares, stream):
    integrate[1, 128, stream](v, drive, 0.5)
    square[1, 128, stream](out, squares)


@case("an empty output and an empty launch among others", normal(20), [S(0), S(20)],
      lambda x: (np.zeros(0, F32), x * x), drop(0), word(0, 0, value=4, reach=76))  # fmt: skip
def empty_output(x, empty, out, stream):
    empty[:] = 1
    square[blocks(empty.size), 128, stream](x, empty)
    square[1, 32, stream](x, out)


@case("an input without elements", lambda rng: (np.zeros((0, 3), F32), np.ones(8, F32)), S(8),
      lambda e, x: (x + 5,), change(0, pattern=bits(4.0, F32)), drop(1))  # fmt: skip
def empty_input(e, x, out, stream):
    out[:] = 5.0 + len(e)
    accumulate[1, 32, stream](x, out)
    accumulate[1, 32, stream](e.ravel(), out)


@case("one kernel for two dtypes", lambda rng: (rng.normal(size=70).astype(F32),
                                               rng.integers(0, 99, 70).astype(I32)),
      [S(70), S(70, dtype=I32)], lambda x, k: (x + x, k + k),
      drop(1), word(0, 2, buffer=1))  # fmt: skip
def two_dtypes(x, k, p, q, stream):
    add[1, 128, stream](x, x, p)
    add[1, 128, stream](k, k, q)


@cuda.jit
def detect(v, threshold, spikes):
    i = cuda.grid(1)
    if i < v.size:
        spikes[i] = 1 if v[i] >= threshold[0] else 0


@cuda.jit
def reset(v, spikes, rest, out):
    i = cuda.grid(1)
    if i < v.size:
        out[i] = rest[0] if spikes[i] else v[i]


@case("an output that a later launch reads",
      lambda rng: (rng.uniform(-75, -50, 1000).astype(F32), np.array([-55], F32),
                   np.array([-70], F32)),
      [S(1000, dtype=I32), S(1000)],
      lambda v, t, r: ((v >= t).astype(I32), np.where(v >= t, r, v)),
      swap(0, 1), word(0, 2, buffer=2))  # fmt: skip
def lif_step(v, threshold, rest, spikes, out, stream):
    detect[blocks(v.size), 128, stream](v, threshold, spikes)
    reset[blocks(v.size), 128, stream](v, spikes, rest, out)


@cuda.jit
def compare_exchange(x, distance, size):
    i = cuda.grid(1)
    j = i ^ distance
    if i < j < x.size and (x[i] > x[j]) == ((i & size) == 0):
        x[i], x[j] = x[j], x[i]


@case("many launches with two integers each, in place", normal(256), S(256),
      lambda x: (np.sort(x),), drop(20), word(12, 2, value=1), swap(1, 36))  # fmt: skip
def bitonic_sort(x, out, stream):
    out[:] = x
    size = 2
    while size <= x.size:
        distance = size // 2
        while distance:
            compare_exchange[2, 128, stream](out, distance, size)
            distance //= 2
        size *= 2


@cuda.jit
def spmv(data, indices, indptr, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = float32(0)
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * x[indices[k]]
        y[row] = total


@cuda.jit
def divide(y, norm, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = y[i] / norm[0]


def csr(rng):
    dense = rng.integers(1, 5, (60, 40)) * (rng.random((60, 40)) < 0.2)
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(61)).astype(I32)
    x = rng.integers(1, 5, 40).astype(F32)
    return dense[rows, columns].astype(F32), columns.astype(I32), indptr, x


def csr_reference(data, indices, indptr, x):
    y = np.array([data[a:b] @ x[indices[a:b]] for a, b in itertools.pairwise(indptr)])
    return ((y / y.sum()).astype(F32),)


@case("inputs of several dtypes, an index that is an input", csr, S(60), csr_reference,
      drop(1), word(2, 2, buffer=3), word(0, 6, buffer=0))  # fmt: skip
def sparse_product(data, indices, indptr, x, out, stream):
    y, partial = cuda.device_array(60, F32), cuda.device_array(1, F32)
    spmv[1, 64, stream](data, indices, indptr, x, y)
    block_sums[1, 128, stream](y, partial)
    divide[1, 64, stream](y, partial, out)


@case("an output written in two halves", normal(100), S(100),
      lambda x: (np.concatenate([x[:50] * x[:50], 3 * x[50:]]),), drop(1),
      word(1, 3, value=0), word(0, 2, value=200))  # fmt: skip
def two_halves(x, out, stream):
    square[1, 64, stream](x[:50], out[:50])
    scale[1, 64, stream](x[50:], 3.0, out[50:])


@cuda.jit(device=True)
def cube(v):
    return v * v * v


@cuda.jit
def cubes(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cube(x[i])


@case("a device function; a temporary that nobody reads", normal(128), S(128),
      lambda x: (x * x * x,), drop(1), word(1, 0, value=4, reach=508))  # fmt: skip
def device_function(x, out, stream):
    unused = cuda.device_array(77, F64)
    unused[:] = 1.0
    cubes[1, 128, stream](x, out)


@cuda.jit
def sum_of_many(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, out):
    t = cuda.grid(1)
    if t < out.size:
        out[t] = (a[t] + b[t] + c[t] + d[t] + e[t] + f[t] + g[t] + h[t] + i[t] + j[t] + k[t]
                  + m[t] + n[t] + o[t] + p[t] + q[t] - r[t])  # fmt: skip


@case("more than sixteen arrays in one launch", lambda rng: tuple(
      rng.integers(-9, 9, 40).astype(F32) for _ in range(17)), S(40),
      lambda *a: (sum(a[:16]) - a[16],), word(0, 32, buffer=0), word(0, 0, buffer=16))  # fmt: skip
def many_arrays(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, out, stream):
    sum_of_many[1, 64, stream](a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, out)


def exchange_functions(i, j):
    """Two launches run each other's machine code."""

    def bug(steps):
        a, b = steps[i].function, steps[j].function
        steps[i], steps[j] = replace(steps[i], function=b), replace(steps[j], function=a)

    return bug


@cuda.jit
def sum_what_fits(x, out):
    shared = cuda.shared.array(0, float32)
    t, n = cuda.threadIdx.x, shared.size
    if t < n:
        shared[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(n):
            total += shared[k]
        out[0] = total


@case("the size of dynamic shared memory",
      lambda rng: (rng.integers(1, 99, 200).astype(F32),), S(1), lambda x: (x.sum()[None],),
      change(0, shared=0), change(0, shared=400), change(0, shared=796))  # fmt: skip
def shared_size(x, out, stream):
    sum_what_fits[1, 256, stream, x.nbytes](x, out)


@cuda.jit
def scan_block(x, out, totals):
    shared = cuda.shared.array(64, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    distance = 1
    while distance < 64:
        before = shared[t - distance] if t >= distance else 0
        cuda.syncthreads()
        shared[t] += before
        cuda.syncthreads()
        distance *= 2
    if i < out.size:
        out[i] = shared[t]
    if t == 63:
        totals[cuda.blockIdx.x] = shared[63]


@cuda.jit
def scan_totals(totals):
    if cuda.grid(1) == 0:
        for k in range(1, totals.size):
            totals[k] += totals[k - 1]


@cuda.jit
def add_totals(totals, out):
    i = cuda.grid(1)
    if cuda.blockIdx.x > 0 and i < out.size:
        out[i] += totals[cuda.blockIdx.x - 1]


@case("an output that a later launch reads and writes; a temporary through three launches",
      lambda rng: (rng.integers(1, 9, 501).astype(I32),), S(501, dtype=I32),
      lambda x: (np.cumsum(x, dtype=I32),),
      drop(1), swap(1, 2), word(1, 1, value=3), grid(2, 7))  # fmt: skip
def blocked_scan(x, out, stream):
    n = blocks(x.size, 64)
    totals = cuda.device_array(n, I32)
    scan_block[n, 64, stream](x, out, totals)
    scan_totals[1, 32, stream](totals)
    add_totals[n, 64, stream](totals, out)


def make_step(amount):
    @cuda.jit
    def step(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] * amount + 1

    return step


def make_same_names():
    first, second = make_step(3.0), make_step(5.0)

    @case("two kernels of one name and signature, that differ in what they close over",
          normal(130), S(130), lambda x: ((x * 3 + 1) * 5 + 1,),
          exchange_functions(0, 1), swap(0, 1))  # fmt: skip
    def same_names(x, out, stream):
        middle = cuda.device_array_like(x)
        first[blocks(x.size), 128, stream](x, middle)
        second[blocks(x.size), 128, stream](middle, out)


make_same_names()


@cuda.jit
def fused_block(x, out):
    for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
        out[i] = -x[i]


@case("a branch on a threshold of the size", normal(40, 400), [S(40), S(400)],
      lambda x, y: (-x, y * -2), grid(1, 3), word(0, 1, value=39), drop(0))  # fmt: skip
def threshold(x, y, p, q, stream):
    for array, out in ((x, p), (y, q)):
        if array.size < 100:
            fused_block[1, 32, stream](array, out)
        else:
            scale[blocks(array.size), 128, stream](array, -2.0, out)


@case("an input that is written: it is copied, and temporaries are numbered behind the copy",
      normal(90, 90), S(90), lambda x, y: ((x + y) + y,),
      drop(0), word(1, 0, buffer=1), word(2, 0, buffer=1))  # fmt: skip
def scratch_input(x, y, out, stream):
    accumulate[1, 128, stream](y, x)
    temporary = cuda.device_array_like(x)
    copy[1, 128, stream](x, temporary)
    add[1, 128, stream](temporary, y, out)


@cuda.jit
def spikes_of(v, threshold, refractory, spiked):
    i = cuda.grid(1)
    if i < v.size:
        spiked[i] = v[i] >= threshold and refractory[i] == 0


@cuda.jit
def count_down(spiked, refractory, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = U8(3) if spiked[i] else U8(max(int(refractory[i]) - 1, 0))


@case("elements of one byte: bool and uint8",
      lambda rng: (rng.normal(size=301).astype(F32), rng.integers(0, 3, 301).astype(U8)),
      [S(301, dtype=np.bool_), S(301, dtype=U8)],
      lambda v, r: (_s := (v >= F32(0.25)) & (r == 0),
                    np.where(_s, 3, np.maximum(r.astype(I32) - 1, 0)).astype(U8)),
      swap(0, 1), word(0, 2, value=bits(1.0, F32)), grid(1, 2))  # fmt: skip
def refractory_spikes(v, refractory, spiked, left, stream):
    spikes_of[blocks(v.size), 128, stream](v, F32(0.25), refractory, spiked)
    count_down[blocks(v.size), 128, stream](spiked, refractory, left)


@cuda.jit
def plus_exactly(x, amount, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + amount


@case("temporaries of 64 bits where JAX has 32", normal(77), S(77),
      lambda x: (x,), word(0, 2, value=bits(1e15, F64)), drop(0), swap(0, 1))  # fmt: skip
def wide_temporary(x, out, stream):
    temporary = cuda.device_array(x.shape)
    plus_exactly[1, 128, stream](x, F64(1e6), temporary)
    plus_exactly[1, 128, stream](temporary, F64(-1e6), out)


@case("scalars from shape, size, strides, nbytes, ndim and len", normal((5, 12)), S(60),
      lambda x: (x.ravel() * F32(5 + 12 + 60 + 48 + 240 + 2 + 5 + 4),),
      word(0, 2, value=375), change(0, block=(32, 1, 1)))  # fmt: skip
def facts(x, out, stream):
    total = x.shape[0] + x.shape[1] + x.size + x.strides[0] + x.nbytes + x.ndim + len(x)
    scale[1, 64, stream](x.ravel(), total + x.dtype.itemsize, out)


@cuda.jit
def rows_of(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * (i + 1)


@case("a temporary in Fortran's order", normal((11, 7)), S(11, 7),
      lambda x: (x * np.arange(1, 12, dtype=F32)[:, None] ** 2,),
      word(1, 1, value=10), word(0, 4, value=10), drop(0))  # fmt: skip
def fortran_temporary(x, out, stream):
    temporary = cuda.device_array(x.shape, x.dtype, order="F")
    rows_of[(2, 1), (8, 8), stream](x, temporary)
    rows_of[(2, 1), (8, 8), stream](temporary, out)


@cuda.jit
def rotate(z, by, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = z[i] * by


@case("complex arrays, and complex scalars of 8 and 16 bytes",
      lambda rng: ((rng.normal(size=50) + 1j * rng.normal(size=50)).astype(np.complex64),),
      S(50, dtype=np.complex64), lambda z: ((z * (1 - 2j) * 2j).astype(np.complex64),),
      word(0, 2, value=bits(2 + 1j, np.complex64)), word(1, 3, value=bits(3.0, F64)),
      drop(0))  # fmt: skip
def complex_scalars(z, out, stream):
    middle = cuda.device_array_like(z)
    rotate[1, 64, stream](z, np.complex64(1 - 2j), middle)
    rotate[1, 64, stream](middle, 2j, out)


@case("blocks of three axes, and a grid whose first axis is one block",
      lambda rng: (rng.integers(0, 9, (3, 9, 5)).astype(F32),), S(3, 9, 5),
      lambda x: (x + np.fromfunction(lambda i, j, k: i * 100 + j * 10 + k, x.shape, dtype=F32),),
      grid(0, 1, 2, 2), change(0, block=(3, 4, 2)), grid(0, 1, 3, 1))  # fmt: skip
def blocks_of_three_axes(x, out, stream):
    plus_index[(1, 3, 2), (3, 4, 4), stream](x, out)


@case("copies between outputs and temporaries, from inside both",
      normal(60), [S(60), S(25)], lambda x: (x * x, (x * x)[30:55]),
      change(1, from_offset=80), change(1, size=96), change(2, to_offset=4, size=96),
      drop(0))  # fmt: skip
def copies_between(x, out, part, stream):
    temporary = cuda.device_array(40, F32)
    square[1, 64, stream](x, out)
    temporary[10:35] = out[30:55]
    part.copy_to_device(temporary[10:35], stream=stream)
