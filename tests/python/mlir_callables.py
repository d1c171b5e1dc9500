"""Functions that launch kernels of numba-cuda-mlir: on the CPU, on the fake GPU and on a GPU.

A case is a function that returns what an operation computed, and what NumPy does. `record` says how
the functions run.
"""

import enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
from mlir_kernels import close, numbers
from numba import cuda as numba_cuda
from numba_cuda_mlir import cuda
from numba_cuda_mlir.cuda import device_array as new_array

S = jax.ShapeDtypeStruct
F32 = jnp.float32
CASES = {}
CELL = np.dtype([("n", np.int32), ("v", np.float32), ("w", np.float64)])


class Mode(enum.IntEnum):
    SLOW = 3
    FAST = 5


class Range(NamedTuple):
    values: object
    factor: float


def case(function):
    CASES[function.__name__] = function
    return function


def call(function, outs, record, *inputs, **options):
    scalars = options.pop("scalars", {})
    op = kernbridge.numba_cuda_callable(function, outs, record=record, **options)
    return op(*inputs, **scalars)


@cuda.jit
def scale(x, out, factor, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i] * factor


@cuda.jit
def scale_by_float32(x, out, factor, n):
    # numba-cuda-mlir 0.6 itself passes numbers in the types of the first launch of a kernel.
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i] * factor


@cuda.jit
def add(x, y, out):
    for i in range(cuda.grid(1), out.shape[0], cuda.gridsize(1)):
        out[i] = x[i] + y[i]


@numba_cuda.jit
def negate(x, out):
    i = numba_cuda.grid(1)
    if i < out.shape[0]:
        out[i] = -x[i]


@cuda.jit
def twice_2d(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = 2 * x[i, j] + j


@cuda.jit
def of_numbers(whole, wide, real, single, small, flag, pair, wide_pair, half, out):
    out[0] = whole
    out[1] = wide
    out[2] = real
    out[3] = single
    out[4] = small
    out[5] = 1 if flag else 2
    out[6] = pair.real
    out[7] = pair.imag
    out[8] = wide_pair.real
    out[9] = wide_pair.imag
    out[10] = half


@cuda.jit
def of_tuples(nested, named, mode, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        arrays, shift = nested
        out[i] = arrays[0][i] * arrays[1][i] + shift + named.values[i] * named.factor
        if mode == Mode.FAST:
            out[i] += mode.value


@cuda.jit
def of_records(cells, one, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = cells[i].v * cells[i].n + cells[i].w + one.w


@cuda.jit
def to_records(x, cells):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cells[i].n = i
        cells[i].v = x[i]
        cells[i].w = x[i] + i


prepared = add[4, 32]


@case
def kernels_and_a_temporary(record):
    def function(x, y, out, stream):
        n = x.shape[0]
        temporary = cuda.device_array(n, dtype=x.dtype)
        add[(n + 31) // 32, 32, stream](x, y, temporary)
        scale[(n + 31) // 32, 32, stream, 0](temporary, out, 2.0, n)

    x, y = numbers(100), numbers(100)[::-1].copy()
    return call(function, S((100,), F32), record, x, y), 2 * (x + y)


@case
def configured_and_for_all(record):
    def function(x, out, stream):
        temporary = new_array(x.shape, x.dtype)
        scale.forall(x.size, tpb=32, stream=stream)(x, temporary, 3, x.size)
        prepared(x, temporary, out)
        cuda.synchronize()

    x = numbers(100)
    return call(function, S((100,), F32), record, x), 4 * x


@case
def both_packages(record):
    def function(x, out, stream):
        temporary = numba_cuda.device_array(x.shape, x.dtype)
        other = cuda.device_array_like(temporary)
        negate[4, 32, stream](x, temporary)
        scale[4, 32, stream](temporary, other, 0.5, x.size)
        other[:50].copy_to_device(x[:50])
        negate[4, 32, stream](other, out)

    x = numbers(100)
    expected = np.where(np.arange(100) < 50, -x, x / 2)
    return call(function, S((100,), F32), record, x), expected


@case
def strided_arrays(record):
    def function(x, out, stream):
        columns = cuda.device_array((8, 5), x.dtype, order="F")
        twice_2d[(1, 1), (8, 8), stream](x[1:, ::2], columns)
        twice_2d[(1, 1), (8, 8), stream](columns, out[:, 5:])
        twice_2d[(1, 1), (8, 8), stream](columns, out[:, :5])

    x = numbers(90).reshape(9, 10)
    once = 2 * x[1:, ::2] + np.arange(5)
    expected = np.tile(2 * once + np.arange(5), (1, 2))
    return call(function, S((8, 10), F32), record, x), expected


@case
def numbers_by_value(record):
    def function(out, stream):
        given = (7, 2**63 + 2**40, 1.5, np.float32(0.25), np.int8(-3), False)
        more = (np.complex64(1 - 2j), 3 + 4j, np.float16(0.125))
        of_numbers[1, 1, stream](*given, *more, out)

    expected = np.array([7, 2**63 + 2**40, 1.5, 0.25, -3, 2, 1, -2, 3, 4, 0.125])
    return call(function, S((11,), jnp.float64), record), expected


@case
def tuples_and_enumerations(record):
    def function(x, y, out, stream):
        # numba-cuda-mlir 0.6 itself faults on a GPU if an array was sliced backwards.
        same = x if record == "never" else x[::-1][::-1]
        for mode in Mode:
            of_tuples[4, 32, stream](((x, y[::2]), 2.5), Range(same, 3.0), mode, out)

    x, y = numbers(100), numbers(200)
    return call(function, S((100,), F32), record, x, y), x * y[::2] + 2.5 + x * 3 + Mode.FAST


@case
def records(record):
    def function(x, out, stream):
        cells = cuda.device_array(x.shape, CELL)
        to_records[4, 32, stream](x, cells)
        of_records[4, 32, stream](cells, cells[2], out)

    x, i = numbers(100), np.arange(100)
    return call(function, S((100,), jnp.float64), record, x), x * i + x + i + x[2] + 2


@case
def keyword_scalars(record):
    def function(x, out, stream, factor):
        scale_by_float32[4, 32, stream](x, out, factor, x.shape[0])

    x = numbers(100)
    factor = np.float32(1.5)
    got = call(function, S((100,), F32), record, x, scalars={"factor": factor})
    return got, factor * x


@case
def batches(record):
    def function(x, out, stream):
        scale[4, 32, stream](x, out, 2.0, x.shape[0])

    op = kernbridge.numba_cuda_callable(function, S((100,), F32), record=record)
    x = numbers(300).reshape(3, 100)
    return jax.jit(jax.vmap(op))(x), 2 * x


def check(name, record="always"):
    """Compare the values of a case, in float64 mode."""
    with jax.enable_x64(True):
        close(name, *CASES[name](record))
