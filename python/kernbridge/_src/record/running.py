"""Runs functions that launch Numba-CUDA kernels and cannot be recorded, as Python on the CPU.

The functions of `numba.cuda` act on the memory of the process, and a launch runs immediately, on
the thread of XLA that calls the function. A `HostArray` is a NumPy array over memory of XLA or of
its own, with the attributes of a Numba-CUDA array.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base.errors import KernelError
from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile
from kernbridge._src.numba_cuda import callback
from kernbridge._src.numba_cuda import compile as numba_cuda_compile
from kernbridge._src.numba_cuda.callback import Configured, Order
from kernbridge._src.numba_cuda.kernel import Leaf, NotAnArgument, read_argument
from kernbridge._src.plan import launch as plan_launch
from kernbridge._src.plan import targets
from kernbridge._src.plan.program import DeviceParameter, Word
from kernbridge._src.record.record import LAUNCHES, HostStream, array_leaf

_BEST_BLOCK = 256  # threads, where Numba asks the driver for the best occupancy


class HostArray(np.ndarray):
    alloc_size = property(lambda self: self.nbytes)
    stream = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3, "stream": None}

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        if ary is None:
            return np.array(self, subok=False)
        ary[...] = self
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        self[...] = ary

    def is_c_contiguous(self) -> bool:
        return bool(self.flags.c_contiguous)

    def is_f_contiguous(self) -> bool:
        return bool(self.flags.f_contiguous)

    def bind(self, stream: Any = 0) -> HostArray:
        return self

    def split(self, section: int, stream: Any = 0) -> Iterator[Any]:
        return (self[i : i + section] for i in range(0, len(self), section))

    def ravel(self, order: Any = "C", stream: Any = 0) -> Any:
        return super().ravel(order)

    def squeeze(self, axis: Any = None, stream: Any = 0) -> Any:
        return super().squeeze(axis)


class HostEvent:
    """An event of Numba, which has always happened already."""

    def __init__(self) -> None:
        self._recorded = 0.0

    def record(self, stream: Any = 0) -> None:
        self._recorded = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = 0) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, evtend: HostEvent) -> float:
        return 1e3 * (evtend._recorded - self._recorded)


class Running:
    """One call of a function, whose launches are made at once."""

    def launch(self, how: Configured, arguments: Sequence[Any]) -> None:
        kernel, grid, block = how.kernel, how.grid, how.block
        target = targets.of_platform("cpu")
        label = f"launch of {kernel.py_func.__name__!r}"
        why = numba_cuda_compile.why_not_native(kernel, target)
        if how.cluster is not None:
            raise KernelError(f"{label}: a launch with a cluster does not run on CPUs [KB4005]")
        if why:
            raise KernelError(f"{label}: the kernel has {why}, which does not run on CPUs [KB4005]")
        if block == "auto":
            grid, block = -(-grid // _BEST_BLOCK), _BEST_BLOCK
        blocks = plan_launch.pad(plan_launch.read_grid(label, grid))
        threads = plan_launch.read_block(label, block)
        size = plan_launch.read_int(label, "sharedmem", how.shared, 0, plan_launch.SHARED_MAX)
        try:
            found = [read_argument(value, _read_leaf) for value in arguments]
        except NotAnArgument as e:
            raise TypeError(f"{label}: {e}") from None
        parameters = [parameter for parameter, _ in found]
        words = [word.value for _, leaves in found for leaf in leaves for word in leaf]
        function, _ = numba_cuda_compile.compile_for_launch(
            label, kernel, parameters, False, target
        )
        if 0 in blocks or 0 in threads:
            return
        digest = cuda_on_cpu_compile.digest_of(function)
        packed = (ctypes.c_int64 * len(words))(*words)
        try:
            _core.launch_host_code(digest, blocks, threads, size, packed)
        except (RuntimeError, ValueError) as e:
            raise KernelError(f"{label}, grid {blocks}, block {threads}: {e}") from None


def _read_leaf(value: Any) -> Leaf | None:
    if isinstance(value, np.void):
        address = Word("constant", value.__array_interface__["data"][0])
        return DeviceParameter("record", value.dtype), [address]
    if not isinstance(value, np.ndarray):
        return None
    return array_leaf(value, Word("constant", value.ctypes.data))


def _new(_: Any, shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C",
         *__: Any, **___: Any) -> Any:  # fmt: skip
    if strides is None:
        return np.empty(shape, dtype, order=order).view(HostArray)
    shape = shape if isinstance(shape, tuple) else (shape,)
    return np.ndarray.__new__(HostArray, shape, dtype, None, 0, strides, order)


def _like(_: Any, ary: Any, *__: Any, **___: Any) -> Any:
    return np.empty_like(ary, subok=False).view(HostArray)


def _to_device(_: Any, obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
    if to is None:
        to = _like(_, np.asarray(obj))
    if copy:
        to[...] = obj
    return to


def _as_cuda_array(_: Any, obj: Any, sync: bool = True) -> Any:
    if not isinstance(obj, HostArray):
        raise TypeError(f"cuda.as_cuda_array of a {type(obj).__name__} on the CPU")
    return obj


def _copy(_: Any, dst: Any, src: Any, size: int, stream: Any = 0) -> None:
    _bytes(dst)[:size] = _bytes(src)[:size]


def _set(_: Any, dst: Any, val: Any, size: int, stream: Any = 0) -> None:
    _bytes(dst)[:size] = int(val) & 0xFF


def _bytes(array: Any) -> Any:
    return array.reshape(-1, order="A").view(np.uint8)


def _refuse(name: str) -> Callable[..., None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise KernelError(f"cuda.{name} does not run on CPUs [KB4005]")

    return refuse


def _refuse_call(*_: Any, **__: Any) -> None:
    raise ValueError("a kernel is called without [grid, block]")


_HANDLERS: dict[str, Callable[..., Any]] = {
    **LAUNCHES,
    "__call__": _refuse_call,
    **dict.fromkeys(("device_array", "pinned_array", "mapped_array", "managed_array"), _new),
    **dict.fromkeys(("device_array_like", "pinned_array_like", "mapped_array_like"), _like),
    "to_device": _to_device,
    "as_cuda_array": _as_cuda_array,
    "pinned": lambda r, *arrays: nullcontext(),
    "synchronize": lambda r: None,
    "stream": lambda r: HostStream(),
    "default_stream": lambda r: HostStream(),
    "external_stream": lambda r, ptr: HostStream(),
    "current_context": lambda r, devnum=None: HostStream(),
    "event": lambda r, timing=True: HostEvent(),
    "event_elapsed_time": lambda r, begin, end: begin.elapsed_time(end),
    "device_memset": _set,
    "device_to_device": _copy,
    "from_cuda_array_interface": _refuse("from_cuda_array_interface"),
    "open_ipc_array": _refuse("open_ipc_array"),
}


def run(function: Callable[..., Any], order: Order, arrays: Sequence[Any]) -> None:
    given = [a.view(HostArray) if isinstance(a, np.ndarray) else a for a in arrays]
    positional, named = order(given, HostStream())
    callback.install(_HANDLERS)
    callback.replace_aliases(function)
    with callback.acting_on(Running(), _HANDLERS):
        function(*positional, **named)
