"""Stands between `numba.cuda` and functions that are recorded, or called by XLA.

While a thread records, the names of `numba.cuda` that act on a device act on the recording. While
XLA calls a function, what names no stream goes on XLA's, in whose order the arrays are: Numba's
default stream would race with it. Other threads see no difference.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_thread = threading.local()


def recording() -> Any:
    """What this thread records into, or None."""
    return getattr(_thread, "recording", None)


@contextmanager
def recording_into(target: Any) -> Iterator[None]:
    """Record what this thread does."""
    before = recording()
    _thread.recording = target
    try:
        yield
    finally:
        _thread.recording = before


@contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Put what this thread launches, fills and copies on a stream, unless it names another."""
    _install_for_streams()
    before = getattr(_thread, "stream", None)
    _thread.stream = stream
    try:
        yield
    finally:
        _thread.stream = before


def install(handlers: Mapping[str, Callable[..., Any]], forbidden: Sequence[str]) -> None:
    """Let `handlers` take the calls of threads that record."""
    if not _handlers:
        _handlers.update(handlers)
        for name in forbidden:
            _handlers[name] = functools.partial(_refuse, name)
    _install()


def _refuse(name: str, *_: Any, **__: Any) -> None:
    from kernbridge._record_arrays import refuse

    refuse(f"cuda.{name}")


_handlers: dict[str, Callable[..., Any]] = {}
_installed: set[tuple[int, str]] = set()


def _instead(owner: Any, name: str, handler: str = "") -> None:
    original = getattr(owner, name, None)
    if original is None or (id(owner), name) in _installed:
        return
    _installed.add((id(owner), name))
    key = handler or name

    @functools.wraps(original)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        target = recording()
        if target is not None:
            return _handlers[key](target, *args, **kwargs)
        stream = getattr(_thread, "stream", None)
        if stream is not None and key in _ON_STREAM:
            return _ON_STREAM[key](stream, original, *args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, dispatch)


def _install() -> None:
    from kernbridge._numba_cuda_inside import cuda, dispatcher, driver

    CUDADispatcher = dispatcher.CUDADispatcher
    elsewhere = {
        "__getitem__": CUDADispatcher,
        "configure": CUDADispatcher,
        "forall": CUDADispatcher,
        "__call__": CUDADispatcher,
        "device_memset": driver,
        "device_to_device": driver,
    }
    for name in _handlers:
        if name != "launch":
            _instead(elsewhere.get(name, cuda), name)
    _instead(dispatcher._LaunchConfiguration, "__call__", "launch")


def _install_for_streams() -> None:
    from kernbridge._numba_cuda_inside import DeviceNDArrayBase, cuda, dispatcher

    for name in ("__getitem__", "configure", "forall"):
        _instead(dispatcher.CUDADispatcher, name)
    for name in ("device_array", "device_array_like"):
        _instead(cuda, name)
    _instead(DeviceNDArrayBase, "_default_stream")


def _nothing(*_: Any) -> None:
    """A launch of no blocks."""


def _getitem(ours: Any, original: Any, kernel: Any, given: Any) -> Any:
    return _configure(ours, kernel.configure, None, *given)


def _configure(
    ours: Any,
    original: Any,
    kernel: Any,
    griddim: Any,
    blockdim: Any,
    stream: Any = 0,
    sharedmem: int = 0,
) -> Any:
    if 0 in (griddim if isinstance(griddim, (tuple, list)) else (griddim,)):
        return _nothing
    owner = () if kernel is None else (kernel,)
    return original(*owner, griddim, blockdim, stream or ours, sharedmem)


def _forall(
    ours: Any, original: Any, kernel: Any, n: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0
) -> Any:
    return original(kernel, n, tpb, stream or ours, sharedmem)


def _device_array(ours: Any, original: Any, *args: Any, stream: Any = 0, **kwargs: Any) -> Any:
    return original(*args, **kwargs, stream=stream or ours)


def _default_stream(ours: Any, original: Any, array: Any, stream: Any) -> Any:
    """Of what an array does: `reshape` loses the stream that an array is bound to."""
    return original(array, stream) or ours


_ON_STREAM: dict[str, Callable[..., Any]] = {
    "__getitem__": _getitem,
    "configure": _configure,
    "forall": _forall,
    "device_array": _device_array,
    "device_array_like": _device_array,
    "_default_stream": _default_stream,
}
