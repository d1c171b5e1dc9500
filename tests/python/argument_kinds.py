"""Functions that launch kernels with tuples, named tuples, enumerations and records as arguments.

The same cases run on the fake GPU, on the CPU and, by tests/gpu, on a GPU, where Numba's own launch
of the same function is the reference as well.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from numba import cuda

S = jax.ShapeDtypeStruct
F32, I32, U32 = np.float32, np.int32, np.uint32


class Point(typing.NamedTuple):
    x: float
    y: int


class Pair(typing.NamedTuple):
    source: typing.Any
    target: typing.Any


class Mode(enum.Enum):
    COPY = 1
    NEGATE = 2


class Shift(enum.IntEnum):
    NONE = 0
    SEVEN = 7


CELL = np.dtype([("matrix", np.float32, (2, 3)), ("n", np.int32)], align=True)


@dataclass(frozen=True)
class Case:
    """`expected` is what the function, called with `inputs`, writes to its outputs `outs`."""

    function: Callable[..., None]
    inputs: tuple[np.ndarray, ...]
    outs: list[jax.ShapeDtypeStruct]
    expected: tuple[np.ndarray, ...]

    @property
    def name(self) -> str:
        return self.function.__name__


CASES: list[Case] = []


def case(inputs, expected):
    def add(function):
        outs = [S(e.shape, e.dtype) for e in expected]
        CASES.append(Case(function, inputs, outs, expected))
        return function

    return add


@cuda.jit
def of_tuples(arrays, numbers, nothing, out):
    i = cuda.grid(1)
    (a, b), c = arrays
    if i < out.size:
        out[i] = a[i] + numbers[0] * b[i] + numbers[1][1] * c[i] + len(nothing) + numbers[1][0]


FIVE = np.arange(5, dtype=F32)


@case((FIVE, np.ones(5, F32)), (5 * FIVE + F32(2.5),))
def tuples_of_arrays_numbers_and_tuples(x, y, out, stream):
    twice = cuda.device_array_like(x)
    twice[:] = x
    numbers = (2, (np.float32(0.5), 4.0))
    of_tuples[1, 32, stream](((x, y), twice), numbers, (), out)


@cuda.jit
def of_points(p, pair, out):
    i = cuda.grid(1)
    if i < pair.target.size:
        pair.target[i] = pair.source[i] * p.x + p.y
        out[i] = len(p)


@case((FIVE,), (F32(0.5) * FIVE + 3, np.full(5, 2, I32)))
def named_tuples(x, out, lengths, stream):
    of_points[1, 32, stream](Point(0.5, 3), Pair(target=out, source=x), lengths)


@cuda.jit
def of_modes(x, mode, shifts, out):
    i = cuda.grid(1)
    if i < out.size:
        value = x[i] if mode == Mode.COPY else -x[i]
        out[i] = value + (shifts[0] + (1 if shifts[1] is Mode.NEGATE else 0))


@case((FIVE,), (FIVE + 8, -FIVE))
def enumerations(x, copied, negated, stream):
    of_modes[1, 32, stream](x, Mode.COPY, (Shift.SEVEN, Mode.NEGATE), copied)
    of_modes[1, 32, stream](x, Mode.NEGATE, (Shift.NONE, Mode.COPY), negated)


@cuda.jit
def add_rows(rows, out):
    i = cuda.grid(1)
    if i < out.size:
        total = np.float32(0)
        for k in range(len(rows)):
            total += rows[k][i]
        out[i] = total


@case((np.arange(12, dtype=F32).reshape(3, 4),), (np.float32([12, 15, 18, 21]),))
def tuples_that_are_indexed_by_variables(x, out, stream):
    add_rows[1, 32, stream](tuple(x[k] for k in range(3)), out)


@cuda.jit
def of_cells(cells, out):
    i = cuda.grid(1)
    if i < out.size:
        total = np.float32(0)
        for row in range(2):
            for column in range(3):
                total += cells[i].matrix[row, column]
        out[i] = total * cells[i]["n"]


@cuda.jit
def fill_cells(x, cells):
    i = cuda.grid(1)
    if i < cells.size:
        for row in range(2):
            for column in range(3):
                cells[i].matrix[row, column] = x[i] + column
        cells[i]["n"] = i


@case((FIVE,), ((6 * FIVE + 6) * FIVE,))
def nested_arrays_in_a_temporary(x, out, stream):
    cells = cuda.device_array(x.size, CELL)
    fill_cells[1, 32, stream](x, cells)
    of_cells[1, 32, stream](cells[:1], out[:1])
    of_cells[1, 32, stream](cells, out)


THREE = np.zeros(3, CELL)
THREE["matrix"], THREE["n"] = np.arange(18).reshape(3, 2, 3), [1, 2, 3]
WORDS = THREE.view(U32).reshape(3, -1)


@case((WORDS,), ((THREE["matrix"].sum((1, 2)) * THREE["n"]).astype(F32),))
def nested_arrays_in_a_view(words, out, stream):
    of_cells[1, 32, stream](words.view(CELL).reshape(out.size), out)


@cuda.jit
def of_one_cell(cell, out):
    out[cuda.grid(1)] = cell.matrix[1, 2] * cell.n


@case((WORDS,), ((THREE["matrix"][:, 1, 2] * THREE["n"]).astype(F32),))
def records(words, out, stream):
    cells = cuda.device_array(3, CELL)
    cells.view(np.uint32)[:] = words.reshape(words.size)
    for i in range(3):
        of_one_cell[1, 1, stream](cells[i], out[i:])
