"""Replacements for device arrays, scalars and streams while a function is recorded.

A `DeviceArray` knows its shape, dtype, strides and position in a buffer, but has no elements. A
function that reads elements can therefore not be recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from kernbridge._src.numba_cuda.arguments import typed_scalar

if TYPE_CHECKING:
    from kernbridge._src.operation.spec import ArrayType
    from kernbridge._src.plan.program import Step


class Recorder(Protocol):
    """Steps and temporaries, as they come."""

    steps: list[Step]
    temporaries: list[ArrayType]
    places: list[str]  # of each step: the line of the user
    details: list[dict[str, str]]  # of each step: its arguments

    def copy(self, target: Any, source: Any) -> None:
        """Add a copy from array to array."""
        ...

    def fill(self, target: Any, value: Any) -> None:
        """Add a fill of an array with a scalar."""
        ...

    def transposed(self, array: Any) -> Any:
        """An array with its axes reversed."""
        ...


class NotRecordable(BaseException):
    """The function did what no plan can hold. Not an Exception: functions must not swallow it."""


def refuse(what: str) -> NoReturn:
    """End the recording."""
    raise NotRecordable(what)


def host_like(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A C-ordered array of any size that takes no memory and is never read or written."""
    strides: list[int] = []
    step = dtype.itemsize
    for n in reversed(shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return np.lib.stride_tricks.as_strided(
        np.empty(1, dtype), shape=shape, strides=strides, writeable=False
    )


def reach_of(array: DeviceArray) -> int:
    """Bytes from its begin that an array touches."""
    if array.size == 0:
        return 0
    if min(array.strides, default=0) < 0:
        refuse("a device array with negative strides")
    return array.itemsize + sum(
        (n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)
    )


class Scalar:
    """A keyword scalar: its value is known when the plan runs, to kernels."""

    def __init__(self, buffer: int, name: str, dtype: np.dtype[Any]) -> None:
        self.buffer, self.name, self.dtype = buffer, name, dtype

    def _read(self, *_: Any) -> NoReturn:
        refuse(f"reading the value of the keyword scalar {self.name!r} on the host")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __array__ = _read
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _read
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __neg__ = __abs__ = _read
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _read
    __hash__ = None  # type: ignore[assignment]


class DeviceArray:
    """Stands for a Numba device array: `offset` bytes into `buffer`, laid out as `host` is."""

    def __init__(self, recording: Recorder, buffer: int, offset: int, host: Any) -> None:
        self.recording = recording
        self.buffer = buffer
        self.offset = offset
        self.host = host

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: int(self.host.size))
    itemsize = property(lambda self: self.host.itemsize)
    nbytes = property(lambda self: int(self.host.nbytes))
    alloc_size = property(lambda self: int(self.host.nbytes))

    def describe(self) -> str:
        """The array, as messages name it."""
        return f"{self.dtype.name}{list(self.shape)}"

    def __len__(self) -> int:
        return len(self.host)

    def __repr__(self) -> str:
        return f"<{self.describe()} of a function that is being recorded>"

    def is_c_contiguous(self) -> bool:
        """The same as of a Numba device array."""
        return bool(self.host.flags.c_contiguous)

    def is_f_contiguous(self) -> bool:
        """The same as of a Numba device array."""
        return bool(self.host.flags.f_contiguous)

    def _view(self, host: Any) -> DeviceArray:
        moved = host.__array_interface__["data"][0] - self.host.__array_interface__["data"][0]
        return DeviceArray(self.recording, self.buffer, self.offset + moved, host)

    def __getitem__(self, key: Any) -> Any:
        keys = _keys_of(key)
        if sum(isinstance(k, (int, np.integer)) for k in keys) == self.ndim:
            if self.dtype.names:
                return Record(self[tuple(slice(k, k + 1 or None) for k in keys)])
            refuse(f"reading element [{key}] on the host")
        return self._view(self.host[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        keys = _keys_of(key)
        if len(keys) == self.ndim and all(isinstance(k, (int, np.integer)) for k in keys):
            key = tuple(slice(k, k + 1 or None) for k in keys)
        target = self._view(self.host[key])
        if isinstance(value, DeviceArray):
            self.recording.copy(target, value)
        elif (scalar := typed_scalar(value)) is not None:
            self.recording.fill(target, scalar)
        else:
            refuse(f"assigning a {type(value).__name__} from the host")

    def reshape(self, *shape: Any, order: str = "C") -> DeviceArray:
        """The same as of a Numba device array: a view of a contiguous array."""
        if not self.host.flags.c_contiguous:
            refuse("reshaping an array that is not C-ordered")
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if order != "C":
            refuse("reshape with another order than C")
        return self._view(_reshaped(self.host, tuple(int(n) for n in wanted)))

    def ravel(self, order: str = "C", stream: Any = 0) -> DeviceArray:
        """The same as of a Numba device array."""
        return self.reshape(self.size, order=order)

    def view(self, dtype: Any) -> DeviceArray:
        """The same as of a Numba device array."""
        return self._view(self.host.view(dtype))

    def transpose(self, axes: Any = None) -> DeviceArray:
        """The same as of a Numba device array: a copy, for arrays of rank 2."""
        if self.ndim != 2 or axes not in (None, (1, 0), [1, 0]):
            refuse("transposing an array that is not of rank 2")
        return self.recording.transposed(self)

    T = property(lambda self: self.transpose())

    def squeeze(self, axis: Any = None, stream: Any = 0) -> DeviceArray:
        """The same as of a Numba device array."""
        return self._view(self.host.squeeze(axis))

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copy another device array into this one."""
        if not isinstance(ary, DeviceArray):
            refuse("copy_to_device from an array of the host")
        self.recording.copy(self, ary)

    def copy_to_host(self, *_: Any, **__: Any) -> NoReturn:
        """Never possible."""
        refuse("copy_to_host")

    def __iter__(self) -> Iterator[DeviceArray]:
        if self.ndim < 2:
            refuse("iterating over elements on the host")
        return (self[i] for i in range(len(self)))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and not name.endswith("array_interface__"):
            raise AttributeError(name)
        refuse(f"the attribute {name!r} of a device array")

    def _read(self, *_: Any, **__: Any) -> NoReturn:
        refuse("reading a device array on the host")

    __array__ = __float__ = __int__ = __bool__ = __index__ = __complex__ = _read


class Record:
    """Stands for an element of a device array of records; kernels get it by its address."""

    def __init__(self, array: DeviceArray) -> None:
        self.array = array  # with this element alone

    dtype = property(lambda self: self.array.dtype)

    def __repr__(self) -> str:
        return f"<a record at byte {self.array.offset} of buffer {self.array.buffer}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"the attribute {name!r} of a record of a device array")

    def __getitem__(self, key: Any) -> NoReturn:
        refuse(f"reading the field {key!r} of a record on the host")


def _keys_of(key: Any) -> tuple[Any, ...]:
    keys = key if isinstance(key, tuple) else (key,)
    for k in keys:
        if not (k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice))):
            refuse(f"indexing a device array by a {type(k).__name__}")
    return keys


def _reshaped(host: Any, shape: tuple[int, ...]) -> Any:
    if shape.count(-1) == 1:
        rest = math.prod(n for n in shape if n != -1)
        shape = tuple(host.size // max(rest, 1) if n == -1 else n for n in shape)
    if math.prod(shape) != host.size:
        raise ValueError(f"cannot reshape array of size {host.size} into shape {shape}")
    like = host_like(shape, host.dtype)
    return np.lib.stride_tricks.as_strided(host, shape, like.strides, writeable=False)


class Stream:
    """Stands for XLA's stream: everything in a plan is in its order."""

    handle = 0

    def synchronize(self) -> None:
        """Nothing to wait for: the plan's steps run in order, and the host reads nothing."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """The same as of a Numba stream."""
        yield self

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"the attribute {name!r} of the stream")
