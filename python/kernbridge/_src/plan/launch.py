"""Checks and resolves the launch arguments of `numba_cuda_kernel` and `cuda_kernel`.

How many threads a block can have, given the registers of a kernel, is computed as cuda_occupancy.h
does.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kernbridge._src.calls.call import Call, Types
from kernbridge._src.operation.spec import RANK_METHODS, call_with_shapes
from kernbridge._src.plan import cubin
from kernbridge._src.plan.program import Launch, Value

THREADS_DEFAULT = 256  # of a block of one dimension
THREADS_MAX = 1024
BLOCK_MAX = (1024, 1024, 64)
GRID_MAX = (2**31 - 1, 65535, 65535)
CLUSTER_MAX = 16  # blocks; more than 8 need a GPU that allows it
SHARED_MAX = 2**31 - 1

REGISTERS = 64 << 10  # of a multiprocessor, and the most that one block may have
REGISTERS_MAX = 255  # of a thread
_WARP = 32
_PARTITIONS = 4  # of a multiprocessor, each with its own registers
_REGISTER_UNIT = 256  # registers are allocated to warps in multiples of this

_BLOCKS = {2: (16, 16), 3: (8, 8, 4)}  # threads, by the number of launch dimensions


@dataclass(frozen=True)
class LaunchRule:
    """Computes the launch from the shapes of a call; hashable unless one of its functions is not.

    `grid`, `block` and `launch_dims` are numbers, functions of the inputs, or None.
    """

    label: str
    grid: Any
    block: Any
    launch_dims: Any
    threads_per_block: Any  # a number, or "auto"
    shared_mem: int
    cooperative: bool
    cluster: Any
    pdl: bool

    def __post_init__(self) -> None:
        label, grid, block, threads = self.label, self.grid, self.block, self.threads_per_block
        if block is not None and threads != THREADS_DEFAULT:
            raise ValueError(
                f"{label}: both block and threads_per_block={threads!r} are given; give one of "
                "them [KB1101]"
            )
        if isinstance(threads, (tuple, list)):
            block, threads = read_block(label, threads, "threads_per_block"), THREADS_DEFAULT
        if not isinstance(threads, str):
            threads = read_int(label, "threads_per_block", threads, 1, THREADS_MAX)
        elif threads != "auto":
            raise TypeError(
                f"{label}: threads_per_block is {threads!r} of type str, expected an integer, a "
                'tuple of them, or "auto" [KB1102]'
            )
        if self.launch_dims is not None and grid is not None:
            raise ValueError(
                f"{label}: both launch_dims and grid are given; give launch_dims, the number of "
                "threads, or grid, the number of blocks [KB1101]"
            )
        if self.launch_dims is None and (grid is None or block is None):
            given = "neither" if grid is None and block is None else "only one of them"
            raise ValueError(
                f"{label}: the launch needs launch_dims, or both grid and block; {given} is given"
                " [KB1101]"
            )
        numbers = {"grid": grid, "block": block, "launch_dims": self.launch_dims}
        for name, value in numbers.items():
            if value is not None and not callable(value):
                numbers[name] = _READERS[name](label, value)
        vars(self).update(
            numbers,
            threads_per_block=threads,
            shared_mem=read_int(label, "shared_mem", self.shared_mem, 0, SHARED_MAX),
            cooperative=bool(self.cooperative),
            cluster=None if self.cluster is None else _read_cluster(label, self.cluster),
            pdl=bool(self.pdl),
        )
        if isinstance(self.grid, tuple):
            self._check_cluster(self.grid)

    @property
    def functions(self) -> list[tuple[str, Any]]:
        return [(name, f) for name in _READERS if callable(f := getattr(self, name))]

    def vmap_method(self, method: str | None) -> str | None:
        """Return the `vmap_method` of a call with this launch; None: the kernel sees slices.

        A launch of fixed size covers one slice, so that a kernel which saw the batch as an axis of
        its arrays would leave most of it out. A function computes the launch from those arrays.
        """
        fixed = not (callable(self.launch_dims) or callable(self.grid))
        return None if fixed and method in RANK_METHODS else method

    def resolve(self, operands: Types, call: Call) -> Launch:
        """The launch of a call, without machine code; operands are without batch axes."""
        arrays = (*operands, *call.outs)

        def numbers(name: str) -> Any:
            value = getattr(self, name)
            if callable(value):
                value = call_with_shapes(self.label, name, value, *call.split(operands))
                value = _READERS[name](self.label, value)
            return value

        block = numbers("block")
        if self.launch_dims is None:
            what, sizes, per_block = "grid", numbers("grid"), (1, 1, 1)
        else:
            what, sizes = "launch_dims", numbers("launch_dims")
            per_block = self._per_block(sizes, block)
        is_empty = any(0 in t.shape for t in arrays)
        for name, given in ((what, sizes), ("block", block or ())):
            if 0 in given and not is_empty:
                raise ValueError(
                    f"{self.label}: {name} is {given}, which launches no thread, but no array of "
                    "the call is empty; CUDA refuses such a launch: give at least 1 [KB1102]"
                )
        auto = block is None and isinstance(self.threads_per_block, str) and len(sizes) == 1
        launches_nothing = block is not None and 0 in block
        if launches_nothing:
            sizes, block = (0,), pad([max(1, n) for n in block])
            per_block = block
        pairs = zip(pad(sizes), per_block, strict=True)
        x, y, z = (self._value(what, n, b, arrays) for n, b in pairs)
        if not auto and not launches_nothing:
            self._check_cluster([v.constant for v in (x, y, z)])
        return Launch(
            *((x, y, z), block or per_block, self.shared_mem),
            cluster=self.cluster,
            cooperative=self.cooperative,
            pdl=self.pdl,
            auto_block=auto,
        )

    def _check_cluster(self, grid: Sequence[Any]) -> None:
        pairs = zip(pad(grid), self.cluster or (1, 1, 1), strict=True)
        if any(_is_int(n) and n % c for n, c in pairs):
            raise ValueError(
                f"{self.label}: cluster {self.cluster} does not divide grid {tuple(grid)} [KB1102]"
            )

    def _per_block(
        self, dims: Sequence[Any], block: tuple[int, int, int] | None
    ) -> tuple[int, int, int]:
        """Return the threads of a block, at most as many as there are to launch."""
        if block is None:
            threads = 1 if isinstance(self.threads_per_block, str) else self.threads_per_block
            pairs = zip(_BLOCKS.get(len(dims), (threads,)), dims, strict=True)
            return pad([max(1, min(b, int(n))) if _is_int(n) else b for b, n in pairs])
        if any(b > 1 for b in block[len(dims) :]):
            raise ValueError(
                f"{self.label}: block {block} has more dimensions than launch_dims {dims}; give "
                "launch_dims as many, the number of threads along each [KB1102]"
            )
        return block

    def _value(self, what: str, n: Any, divisor: int, buffers: Types) -> Value:
        if _is_int(n):
            return Value(constant=-(-int(n) // divisor))
        found = find_dim(n, buffers)
        if found is None:
            raise ValueError(
                f"{self.label}: {what} has the symbolic extent {n}, which is neither an extent "
                "nor the size of an input or output (nor such a number divided and rounded up); "
                f"return one of these from a function that is passed as {what} [KB1102]"
            )
        return Value(found.kind, 0, found.buffer, found.dim, found.divisor * divisor)


def find_dim(n: Any, buffers: Types) -> Value | None:
    """Return where C reads a symbolic number at run time."""
    for divisor in (1, *sorted({int(d) for d in re.findall(r"\d+", str(n))} - {0, 1})):
        for b, t in enumerate(buffers):
            for d, extent in enumerate(t.shape):
                if _is_quotient(n, extent, divisor):
                    return Value("extent", 0, b, d, divisor)
            if _is_quotient(n, math.prod(t.shape), divisor):
                return Value("count", 0, b, 0, divisor)
    return None


def _is_quotient(n: Any, size: Any, divisor: int) -> bool:
    """Whether a symbolic number is a symbolic size divided and rounded up, however written."""
    if _is_int(size):
        return False
    return n in (-(-size // divisor), (size + divisor - 1) // divisor, (size - 1) // divisor + 1)


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def pad(values: Sequence[Any]) -> tuple[Any, Any, Any]:
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z


def _read_dims(label: str, what: str, dims: Any) -> tuple[Any, ...]:
    dims = tuple(dims) if isinstance(dims, (tuple, list)) else () if dims is None else (dims,)
    if not 1 <= len(dims) <= 3:
        raise ValueError(
            f"{label}: {what} must have 1-3 dimensions, got {len(dims)}: {dims!r} [KB1102]"
        )
    return tuple(_read_extent(label, what, n) for n in dims)


def _read_extent(label: str, what: str, n: Any) -> Any:
    """A non-negative int, or a symbolic dimension as it is."""
    if isinstance(n, (bool, float, str)):
        remedy = "; divide and round up with -(-a // b)" if isinstance(n, float) else ""
        remedy = "; names of dimensions need signature=" if isinstance(n, str) else remedy
        raise TypeError(f"{label}: {what} contains {n!r}, expected integers{remedy} [KB1102]")
    if jax.export.is_symbolic_dim(n):
        return n
    try:
        n = operator.index(n)
    except TypeError:
        whole = "; pass one function that returns all of them" if callable(n) else ""
        raise TypeError(
            f"{label}: {what} contains {n!r} of type {type(n).__name__}, expected "
            f"integers{whole} [KB1102]"
        ) from None
    if n < 0:
        raise ValueError(f"{label}: {what} contains the negative number {n} [KB1102]")
    return n


def read_grid(label: str, grid: Any) -> tuple[Any, ...]:
    grid = _read_dims(label, "grid", grid)
    for n, most, axis in zip(grid, GRID_MAX, "xyz", strict=False):
        if _is_int(n) and n > most:
            raise ValueError(
                f"{label}: grid {grid} has {n} blocks along {axis}, but can have at most {most} "
                "[KB1102]"
            )
    return grid


def read_block(label: str, block: Any, what: str = "block") -> tuple[int, int, int]:
    """Threads along x, y, z; a zero among them is let through."""
    block = _read_dims(label, what, block)
    if not all(map(_is_int, block)):
        raise ValueError(
            f"{label}: {what} is {block}, expected numbers: a block has the same size for all "
            "shapes of an exported program; compute the grid from the shapes instead [KB1102]"
        )
    padded = pad(block)
    n = math.prod(padded)
    if n > THREADS_MAX or any(n > m for n, m in zip(padded, BLOCK_MAX, strict=True)):
        raise ValueError(
            f"{label}: {what} {block} has {n} threads, but a block can have at most {THREADS_MAX}, "
            f"and at most {BLOCK_MAX} along x, y, z; launch more blocks instead [KB1102]"
        )
    return padded


_READERS: dict[str, Callable[[str, Any], tuple[Any, ...]]] = {
    "grid": read_grid,
    "block": read_block,
    "launch_dims": lambda label, dims: _read_dims(label, "launch_dims", dims),
}


def _read_cluster(label: str, cluster: Any) -> tuple[int, int, int]:
    cluster = _read_dims(label, "cluster", cluster)
    padded = pad([read_int(label, "cluster", n, 1, CLUSTER_MAX) for n in cluster])
    n = math.prod(padded)
    if n > CLUSTER_MAX:
        raise ValueError(
            f"{label}: cluster {cluster} has {n} blocks, but a cluster can have at most "
            f"{CLUSTER_MAX} [KB1102]"
        )
    return padded


def read_int(label: str, what: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"{label}: {what} is {value!r} of type {type(value).__name__}, expected an integer "
            "[KB1102]"
        )
    if not least <= value <= most:
        raise ValueError(f"{label}: {what} is {value}, expected {least} to {most} [KB1102]")
    return int(value)


def check_registers(label: str, step: Launch) -> None:
    """Raise if no GPU that the kernel was compiled for can launch its blocks."""
    threads = math.prod(step.block)
    if step.auto_block or threads <= threads_with(REGISTERS_MAX):
        return
    used = []
    for _, image in step.function.images:
        with contextlib.suppress(ValueError):  # of a CPU, or the driver judges it
            used.append(cubin.read(image, step.function.entry).registers)
    least = min(used, default=0)
    most = threads_with(least)
    if threads <= most:
        return
    raise ValueError(
        f"{label}: a block of {threads} threads cannot be launched: {step.function.name!r} needs "
        f"{least} registers per thread, but each of {threads} threads can have only "
        f"{registers_with(threads)}. Use at most {most} threads per block, or let the compiler "
        f"use fewer registers, with @cuda.jit(launch_bounds={threads}) in Numba or "
        f"__launch_bounds__({threads}) in CUDA C++ [KB1102]"
    )


def threads_with(registers: int) -> int:
    """Return how many threads have room for so many registers each, whole warps of them."""
    of_warp = _round_up(max(registers, 1) * _WARP, _REGISTER_UNIT)
    return REGISTERS // _PARTITIONS // of_warp * _PARTITIONS * _WARP


def registers_with(threads: int) -> int:
    """Return how many registers each thread of a block of this size can have."""
    warps = _round_up(-(-threads // _WARP), _PARTITIONS)
    of_warp = REGISTERS // warps // _REGISTER_UNIT * _REGISTER_UNIT
    return min(of_warp // _WARP, REGISTERS_MAX)


def _round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
