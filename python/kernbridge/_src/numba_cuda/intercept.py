"""Redirects calls of `numba.cuda` from functions that are recorded or that XLA calls.

While a thread records a function, calls that act on a device are added to the recording. While XLA
calls a function on the CPU, they act on the memory of the process. While XLA calls a function on a
GPU, calls without a stream use XLA's stream, since Numba's default stream would race with it. Other
threads are not affected. The same applies to numba-cuda-mlir, if a program has imported it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.keys.host_state import STANDS_FOR
from kernbridge._src.numba_cuda import host_api


class _Thread(threading.local):
    """What a thread does now."""

    target: Any = None
    handlers: Mapping[str, Callable[..., Any]] = {}
    stream: Any = None


_LIBRARIES = ("numba", "numba_cuda_mlir", "kernbridge", "numpy", "jax")

_thread = _Thread()
_installed: set[tuple[str, str]] = set()  # packages, and names of functions
_replaced: dict[int, tuple[Any, Any]] = {}  # by id: a function of numba.cuda, what stands for it


def target() -> Any:
    """What this thread's calls act on in place of a device, or None."""
    return _thread.target


def acting_on(
    target: Any, handlers: Mapping[str, Callable[..., Any]]
) -> AbstractContextManager[None]:
    """Let `handlers`, which are installed, take this thread's calls; each gets `target` first."""
    return patched((_thread, "target", target), (_thread, "handlers", handlers))


def on_stream(stream: Any) -> AbstractContextManager[None]:
    """Put what this thread launches, fills and copies on a stream, unless it names another."""
    install(_ON_STREAM)
    return patched((_thread, "stream", stream))


def install(names: Iterable[str]) -> None:
    """Let threads have other functions than `numba.cuda` under these names, see `acting_on`."""
    for api in host_api.loaded():
        for name in names:
            if (api.package, name) not in _installed:
                _installed.add((api.package, name))
                _install(api, name)


def _install(api: host_api.HostApi, name: str) -> None:
    made: dict[int, Any] = {}  # by the function that it stands for, which several modules have
    for owner, attribute in api.owners(name):
        original = getattr(owner, attribute, None)
        if original is None or hasattr(original, STANDS_FOR):
            continue
        dispatch = made.setdefault(id(original), _dispatcher(api, name, original))
        setattr(owner, attribute, dispatch)
        if isinstance(owner, ModuleType):
            _replaced[id(original)] = original, dispatch


def _dispatcher(api: host_api.HostApi, name: str, original: Any) -> Any:
    @functools.wraps(original)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        if _thread.target is not None and name in _thread.handlers:
            return _thread.handlers[name](_thread.target, *args, **kwargs)
        if _thread.stream is not None and name in _ON_STREAM:
            return _ON_STREAM[name](api, original, *args, **kwargs)
        return original(*args, **kwargs)

    setattr(dispatch, STANDS_FOR, original)
    return dispatch


def replace_aliases(function: Any) -> None:
    """Replace functions of `numba.cuda` that Python functions hold under names of their own.

    `from numba.cuda import device_array` binds the function itself, which `install` cannot reach.
    The globals, closures and defaults of `function` are searched, and those of the functions that
    it names. What is put there acts as before where nothing is recorded.
    """
    _replace_in(function, set())


def _replace_in(callee: Any, seen: set[int]) -> None:
    function = host_api.python_function(callee)
    if function is None or id(function) in seen:
        return
    if (function.__module__ or "").split(".")[0] in _LIBRARIES:
        return
    seen.add(id(function))
    names = _names(function.__code__)
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.split(".")[0] not in _LIBRARIES:
            for attribute in names & vars(value).keys():
                _replace_value(vars(value), attribute, seen)
        else:
            _replace_value(function.__globals__, name, seen)
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            found = {"": cell.cell_contents}
            _replace_value(found, "", seen)
            if found[""] is not cell.cell_contents:
                cell.cell_contents = found[""]
    if function.__defaults__:
        defaults = dict(enumerate(function.__defaults__))
        for i in defaults:
            _replace_value(defaults, i, seen)
        function.__defaults__ = tuple(defaults.values())
    for name in function.__kwdefaults__ or ():
        _replace_value(function.__kwdefaults__, name, seen)
    inner = getattr(function, "__wrapped__", None)
    if inner is not None:
        _replace_in(inner, seen)


def _replace_value(where: Any, key: Any, seen: set[int]) -> None:
    value = where[key]
    original, dispatch = _replaced.get(id(value), (None, None))
    if original is not None and original is value:
        where[key] = dispatch
    elif isinstance(value, (FunctionType, MethodType, functools.partial)):
        _replace_in(value, seen)


def _names(code: CodeType) -> set[str]:
    """Names that a function's code reads, its inner functions' included."""
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _nothing(*_: Any) -> None:
    """A launch of no blocks."""


def _on(api: host_api.HostApi, stream: Any) -> Any:
    """The stream that a call names, or that of this thread, as the package takes it."""
    return api.own_stream(stream or _thread.stream)


def _taking_both(api: host_api.HostApi, launch: Any) -> Any:
    """A launch that takes arrays of the other package, too, if both are loaded."""
    if len(host_api.loaded()) == 1:
        return launch
    return lambda *arguments: launch(*map(api.own_array, arguments))


def _getitem(api: host_api.HostApi, original: Any, kernel: Any, given: Any) -> Any:
    return _configure(api, kernel.configure, None, *given)


def _configure(
    api: host_api.HostApi,
    original: Any,
    kernel: Any,
    griddim: Any,
    blockdim: Any,
    stream: Any = 0,
    *rest: Any,
    **options: Any,
) -> Any:
    if 0 in (griddim if isinstance(griddim, (tuple, list)) else (griddim,)):
        return _nothing
    owner, on = () if kernel is None else (kernel,), _on(api, stream)
    if _is_debugged(kernel):
        launch = original(*owner, griddim, blockdim, 0, *rest, **options)
        return _waiting(on, _taking_both(api, launch))
    return _taking_both(api, original(*owner, griddim, blockdim, on, *rest, **options))


def _is_debugged(kernel: Any) -> bool:
    return bool(getattr(kernel, "targetoptions", {}).get("debug"))


def _waiting(stream: Any, launch: Any) -> Any:
    """A launch on Numba's default stream that begins when a stream has ended its work.

    Numba reads a debugged kernel's exception by a copy on its default stream, which does not wait
    for XLA's: an exception of a kernel on XLA's stream could be read before it was raised.
    """

    def wait_and_launch(*arguments: Any) -> None:
        stream.synchronize()
        launch(*arguments)

    return wait_and_launch


def _forall(
    api: host_api.HostApi,
    original: Any,
    kernel: Any,
    n: int,
    tpb: int = 0,
    stream: Any = 0,
    sharedmem: int = 0,
) -> Any:
    return _taking_both(api, original(kernel, n, tpb, _on(api, stream), sharedmem))


def _device_array(
    api: host_api.HostApi, original: Any, *args: Any, stream: Any = 0, **kwargs: Any
) -> Any:
    return original(*args, **kwargs, stream=_on(api, stream))


def _default_stream(api: host_api.HostApi, original: Any, array: Any, stream: Any) -> Any:
    """Return the stream for what an array does: `reshape` loses the one that it is bound to."""
    return original(array, stream) or _on(api, 0)


_ON_STREAM: dict[str, Callable[..., Any]] = {
    "__getitem__": _getitem,
    "configure": _configure,
    "forall": _forall,
    "device_array": _device_array,
    "device_array_like": _device_array,
    "_default_stream": _default_stream,
}
