"""Checks and resolves the launch arguments of `numba_cuda_kernel` and `cuda_kernel`."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kernbridge._src.gpu.program import DeviceFunction, Launch, Value, Word
from kernbridge._src.operation.spec import RANK_METHODS, ArrayType, Call, call_with_shapes

THREADS_MAX = 1024
BLOCK_MAX = (1024, 1024, 64)
GRID_MAX = (2**31 - 1, 65535, 65535)
CLUSTER_MAX = 16  # blocks; more than 8 need a GPU that allows it
SHARED_MAX = 2**31 - 1

_BLOCKS = {2: (16, 16), 3: (8, 8, 4)}  # threads, by the number of launch dimensions


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Grid and block of one call."""

    grid: tuple[Value, Value, Value]
    block: tuple[int, int, int]
    auto_block: bool = False


@dataclass(frozen=True)
class LaunchRule:
    """Computes the launch from the shapes of a call; hashable unless `launch_dims` is not."""

    label: str
    grid: tuple[Any, ...] | None
    block: tuple[int, int, int] | None
    launch_dims: Any
    threads_per_block: int | str
    shared_mem: int
    cooperative: bool
    cluster: tuple[int, int, int] | None
    pdl: bool

    @staticmethod
    def of(
        label: str,
        grid: Any,
        block: Any,
        launch_dims: Any,
        threads_per_block: Any,
        shared_mem: Any,
        cooperative: Any,
        cluster: Any,
        pdl: Any,
    ) -> LaunchRule:
        """Check all that can be checked without inputs."""
        if launch_dims is not None and (grid is not None or block is not None):
            raise ValueError(
                f"{label}: both launch_dims and grid or block are given; give launch_dims, or both "
                "grid and block"
                " [KB1101]"
            )
        if launch_dims is None and (grid is None or block is None):
            given = "neither" if grid is None and block is None else "only one of them"
            raise ValueError(
                f"{label}: the launch needs launch_dims, or both grid and block; {given} is given"
                " [KB1101]"
            )
        if launch_dims is not None and not callable(launch_dims):
            launch_dims = _read_dims(label, "launch_dims", launch_dims)
        rule = LaunchRule(
            label=label,
            grid=None if grid is None else read_grid(label, grid),
            block=None if block is None else read_block(label, block),
            launch_dims=launch_dims,
            threads_per_block=_read_threads(label, threads_per_block),
            shared_mem=read_int(label, "shared_mem", shared_mem, 0, SHARED_MAX),
            cooperative=bool(cooperative),
            cluster=None if cluster is None else _read_cluster(label, cluster),
            pdl=bool(pdl),
        )
        if rule.grid is not None and rule.cluster is not None:
            pairs = zip(pad(rule.grid), rule.cluster, strict=True)
            if any(_is_int(n) and n % c for n, c in pairs):
                raise ValueError(
                    f"{label}: cluster {rule.cluster} does not divide grid {rule.grid} [KB1102]"
                )
        return rule

    def vmap_method(self, method: str | None) -> str | None:
        """Return the `vmap_method` of a call with this launch; None: the kernel sees slices.

        A launch of fixed size covers one slice, so that a kernel which saw the batch as an axis of
        its arrays would leave most of it out. A function computes the launch from those arrays.
        """
        fixed = not callable(self.launch_dims)
        return None if fixed and method in RANK_METHODS else method

    def resolve(self, operands: Sequence[ArrayType], call: Call) -> LaunchShape:
        """The grid and the block of a call; operands are without batch axes."""
        arrays = (*operands, *call.outs)
        if self.grid is not None and self.block is not None:
            if 0 in self.block:  # launches nothing, as a grid of zero
                block = pad([max(1, n) for n in self.block])
                return LaunchShape((Value(), Value(constant=1), Value(constant=1)), block)
            x, y, z = (self._value("grid", n, 1, arrays) for n in pad(self.grid))
            return LaunchShape((x, y, z), self.block)
        dims = self.launch_dims
        if callable(dims):
            given = call.split(operands)
            dims = call_with_shapes(self.label, "launch_dims", dims, *given)
        dims = _read_dims(self.label, "launch_dims", dims)
        auto = isinstance(self.threads_per_block, str) and len(dims) == 1
        block = self._block_for(dims)
        x, y, z = (
            self._value("launch_dims", n, 1 if auto else b, arrays)
            for n, b in zip(pad(dims), block, strict=True)
        )
        return LaunchShape((x, y, z), block, auto)

    def step(
        self,
        shape: LaunchShape,
        function: DeviceFunction,
        words: Sequence[Word],
        zeroed: tuple[int, ...],
        cooperative: bool = False,
        wide: bool = False,
    ) -> Launch:
        """The launch of a function; without threads, it fills the buffers `zeroed`."""
        return Launch(
            function=function,
            grid=shape.grid,
            block=shape.block,
            shared=self.shared_mem,
            words=tuple(words),
            cluster=self.cluster,
            cooperative=self.cooperative or cooperative,
            pdl=self.pdl,
            auto_block=shape.auto_block,
            zeroed=zeroed,
            wide=wide,
        )

    def _block_for(self, dims: Sequence[Any]) -> tuple[int, int, int]:
        """Threads of a block: the rule's, or fewer where there are fewer to launch."""
        threads = 1 if isinstance(self.threads_per_block, str) else self.threads_per_block
        most = _BLOCKS.get(len(dims), (threads,))
        return pad(
            [max(1, min(b, int(n))) if _is_int(n) else b for b, n in zip(most, dims, strict=True)]
        )

    def _value(self, what: str, n: Any, divisor: int, buffers: Sequence[ArrayType]) -> Value:
        if _is_int(n):
            return Value(constant=-(-int(n) // divisor))
        found = find_dim(n, buffers)
        if found is None:
            raise ValueError(
                f"{self.label}: {what} has the symbolic extent {n}, which is neither an extent "
                "nor the size of an input or output (nor such a number divided and rounded up); "
                "pass a function of the inputs that returns one of these as launch_dims [KB1102]"
            )
        return Value(found.kind, 0, found.buffer, found.dim, found.divisor * divisor)


def join_words(parameters: Iterable[Sequence[Word]], wide: bool) -> tuple[Word, ...]:
    """The words of all parameters; in a batched entry, a stride follows each address."""
    words: list[Word] = []
    for word in itertools.chain.from_iterable(parameters):
        words.append(word)
        if wide and word.kind == "address":
            words.append(Word("stride", buffer=word.buffer))
    return tuple(words)


def find_dim(n: Any, buffers: Sequence[ArrayType]) -> Value | None:
    """Where a symbolic number is to be read from at run time."""
    for divisor in (1, 32, 64, 128, 256, 512, 1024):
        for b, t in enumerate(buffers):
            for d, extent in enumerate(t.shape):
                if not _is_int(extent) and -(-extent // divisor) == n:
                    return Value("extent", 0, b, d, divisor)
            size = math.prod(t.shape)
            if not _is_int(size) and -(-size // divisor) == n:
                return Value("count", 0, b, 0, divisor)
    return None


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def pad(values: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Return the extents along x, y and z; those that are not there are 1."""
    x, y, z = (*values, 1, 1, 1)[:3]
    return x, y, z


def _read_dims(label: str, what: str, dims: Any) -> tuple[Any, ...]:
    dims = _as_tuple(dims)
    if not 1 <= len(dims) <= 3:
        raise ValueError(
            f"{label}: {what} must have 1-3 dimensions, got {len(dims)}: {dims!r} [KB1102]"
        )
    return tuple(_read_extent(label, what, n) for n in dims)


def _read_extent(label: str, what: str, n: Any) -> Any:
    """A non-negative int, or a symbolic dimension as it is."""
    if isinstance(n, (bool, float, str)):
        raise TypeError(f"{label}: {what} contains {n!r}, expected integers [KB1102]")
    if jax.export.is_symbolic_dim(n):
        return n
    try:
        n = operator.index(n)
    except TypeError:
        of_shapes = "; for a launch that depends on shapes, pass a function as launch_dims="
        raise TypeError(
            f"{label}: {what} contains {n!r} of type {type(n).__name__}, expected "
            f"integers{of_shapes if callable(n) else ''} [KB1102]"
        ) from None
    if n < 0:
        raise ValueError(f"{label}: {what} contains the negative number {n} [KB1102]")
    return n


def read_grid(label: str, grid: Any) -> tuple[Any, ...]:
    """Blocks along x, y, z."""
    grid = _read_dims(label, "grid", grid)
    for n, most, axis in zip(grid, GRID_MAX, "xyz", strict=False):
        if _is_int(n) and n > most:
            raise ValueError(
                f"{label}: grid {grid} has {n} blocks along {axis}, but can have at most {most} "
                "[KB1102]"
            )
    return grid


def read_block(label: str, block: Any) -> tuple[int, int, int]:
    """Threads along x, y, z; a zero among them is let through."""
    block = _read_dims(label, "block", block)
    padded = pad(block)
    n = math.prod(padded)
    if n > THREADS_MAX or any(n > m for n, m in zip(padded, BLOCK_MAX, strict=True)):
        raise ValueError(
            f"{label}: block {block} has {n} threads, but a block can have at most {THREADS_MAX}, "
            f"and at most {BLOCK_MAX} along x, y, z; launch more blocks instead [KB1102]"
        )
    return padded


def _read_cluster(label: str, cluster: Any) -> tuple[int, int, int]:
    cluster = _as_tuple(cluster)
    if not 1 <= len(cluster) <= 3:
        raise ValueError(f"{label}: cluster must have 1-3 dimensions, got {len(cluster)} [KB1102]")
    padded = pad([read_int(label, "cluster", n, 1, CLUSTER_MAX) for n in cluster])
    n = math.prod(padded)
    if n > CLUSTER_MAX:
        raise ValueError(
            f"{label}: cluster {cluster} has {n} blocks, but a cluster can have at most "
            f"{CLUSTER_MAX} [KB1102]"
        )
    return padded


def _read_threads(label: str, value: Any) -> int | str:
    """A number of threads, or how it is chosen."""
    if not isinstance(value, str):
        return read_int(label, "threads_per_block", value, 1, THREADS_MAX)
    if value == "auto":
        return value
    raise TypeError(
        f'{label}: threads_per_block is {value!r} of type str, expected an integer or "auto" '
        "[KB1102]"
    )


def read_int(label: str, what: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"{label}: {what} is {value!r} of type {type(value).__name__}, expected an integer "
            "[KB1102]"
        )
    if not least <= value <= most:
        raise ValueError(f"{label}: {what} is {value}, expected {least} to {most} [KB1102]")
    return int(value)
