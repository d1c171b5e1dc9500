"""Replacements for device arrays, streams and events while a function runs on the CPU.

A `HostArray` is a NumPy array over memory of XLA or of its own, with the attributes of a Numba-CUDA
array. All operations are synchronous, so there is nothing to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SYNCHRONOUS = 0


class HostArray(np.ndarray):
    """An array that kernels on the CPU work on."""

    alloc_size = property(lambda self: self.nbytes)
    stream = _SYNCHRONOUS

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3, "stream": None}

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """The same as of a Numba device array."""
        if ary is None:
            return np.array(self, subok=False)
        ary[...] = self
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """The same as of a Numba device array."""
        self[...] = ary

    def is_c_contiguous(self) -> bool:
        """The same as of a Numba device array."""
        return bool(self.flags.c_contiguous)

    def is_f_contiguous(self) -> bool:
        """The same as of a Numba device array."""
        return bool(self.flags.f_contiguous)

    def bind(self, stream: Any = 0) -> HostArray:
        """The same as of a Numba device array."""
        return self

    def split(self, section: int, stream: Any = 0) -> Iterator[Any]:
        """The same as of a Numba device array."""
        return (self[i : i + section] for i in range(0, len(self), section))

    def ravel(self, order: Any = "C", stream: Any = 0) -> Any:
        """The same as of a Numba device array."""
        return super().ravel(order)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> Any:
        """The same as of a Numba device array."""
        return super().squeeze(axis)


def host_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C") -> Any:
    """New memory, as `cuda.device_array` makes it."""
    if strides is None:
        return np.empty(shape, dtype, order=order).view(HostArray)
    shape = shape if isinstance(shape, tuple) else (shape,)
    return np.ndarray.__new__(HostArray, shape, dtype, None, 0, strides, order)


def host_array_like(ary: Any) -> Any:
    """New memory like that of an array, as `cuda.device_array_like` makes it."""
    return np.empty_like(ary, subok=False).view(HostArray)


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
    """The same as `cuda.to_device`."""
    if to is None:
        to = host_array_like(np.asarray(obj))
    if copy:
        to[...] = obj
    return to


class HostStream:
    """Stands for a stream, and for a context."""

    handle = 0

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[HostStream]:
        """The same as of a Numba stream."""
        yield self


class HostEvent:
    """Stands for an event."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._recorded = 0.0

    def record(self, stream: Any = 0) -> None:
        """The same as of a Numba event."""
        self._recorded = time.perf_counter()

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def wait(self, stream: Any = 0) -> None:
        """There is nothing to wait for."""

    def query(self) -> bool:
        """The same as of a Numba event."""
        return True

    def elapsed_time(self, evtend: HostEvent) -> float:
        """The same as of a Numba event: milliseconds."""
        return 1e3 * (evtend._recorded - self._recorded)
