"""Runs Python functions that launch kernels: while they are recorded, and where XLA calls them.

While a thread records a function, calls of `numba.cuda` that act on a device are added to the
recording. While XLA calls a function, calls without a stream use XLA's stream, since Numba's
default stream would race with it. Other threads are not affected. The same applies to
numba-cuda-mlir, if a program has imported it.

Functions and kernels that cannot be launched from C are called through Python: the core calls
`call` on XLA's thread, with the GIL, and passes the addresses of one slice. An exception that the
function raises becomes an XLA error. Such a call cannot be part of a CUDA graph or of an exported
program.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import operator
import secrets
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from kernbridge._src.base import extensions
from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.errors import without_code
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.patched import patched
from kernbridge._src.base.reports import line_of, python_function
from kernbridge._src.calls.call import Call, Types
from kernbridge._src.keys import fingerprint
from kernbridge._src.keys.extensions import reads
from kernbridge._src.keys.function_state import STANDS_FOR
from kernbridge._src.numba_common.parameters import Assignment, PythonFrontend
from kernbridge._src.operation import derivatives
from kernbridge._src.plan import targets
from kernbridge._src.plan.frontend import Lowered, PlannedFrontend, plan
from kernbridge._src.plan.program import Callback
from kernbridge._src.plan.targets import Target


class _Thread(threading.local):
    recording: Any = None  # which calls of `numba.cuda` are added to
    handlers: Mapping[str, _Function] = {}  # by name: what adds a call to it
    stream: Any = None  # XLA's, while it calls a function


_Function = Callable[..., Any]
REMEDY = "write to an output instead"  # of copies
_NAMES = {code: name for name, code in CODES.items()}
_MLIR = "numba_cuda_mlir"
_LIBRARIES = ("numba", _MLIR, "kernbridge", "numpy", "jax")

thread = _Thread()
_replaced: dict[int, tuple[Any, Any]] = {}  # by id: a function of numba.cuda and its replacement


@dataclass(frozen=True)
class HostApi:
    modules: tuple[ModuleType, ...]  # with its functions; programs import the first one
    kernels: Any  # the class of dispatchers
    configured: Any  # the class of what `kernel[grid, block]` returns
    driver: ModuleType
    arrays: Any  # the class of arrays

    @property
    def cuda(self) -> Any:
        return self.modules[0]

    def owners(self, name: str) -> list[tuple[Any, str]]:
        """The objects and attributes that hold the function of this name."""
        if name in ("__getitem__", "__call__", "configure", "forall"):
            return [(self.kernels, name)]
        if name == "launch":
            return [(self.configured, "__call__")]
        if name in ("device_memset", "device_to_device"):
            return [(self.driver, name)]
        owners = (self.arrays,) if name == "_default_stream" else self.modules
        return [(owner, name) for owner in owners]


def loaded() -> list[HostApi]:
    """The APIs of Numba-CUDA and, if the program has imported it, of numba-cuda-mlir."""
    from kernbridge._src.numba_common import private_numba_cuda as numba_cuda

    dispatcher, array = numba_cuda.dispatcher, numba_cuda.DeviceNDArrayBase
    kernels, configured = dispatcher.CUDADispatcher, dispatcher._LaunchConfiguration
    found = [HostApi((numba_cuda.cuda,), kernels, configured, numba_cuda.driver, array)]
    if f"{_MLIR}.cuda" in sys.modules and (extension := extensions.find("mlir_host")):
        found.append(extension.api(HostApi))
    return found


def used_by(function: Any) -> HostApi:
    """The API whose arrays and streams are passed to a function.

    It is numba-cuda-mlir's if that is the only package which the function, or one that it calls,
    names.
    """
    numba_cuda, *mlir = loaded()
    named = {_package_of(value) for value, _ in _read_by(function, set())} if mlir else set()
    return mlir[0] if _MLIR in named and not named & {"numba", "numba_cuda"} else numba_cuda


@dataclass(frozen=True)
class Configured:
    kernel: Any
    grid: Any
    block: Any
    shared: Any = 0
    cluster: Any = None


def read_configured(configuration: Any) -> Configured:
    if hasattr(configuration, "dispatcher"):
        c = configuration
        return Configured(c.dispatcher, c.griddim, c.blockdim, c.sharedmem)
    kernel, launch = configuration._dispatcher, configuration._available_launch_config
    grid, block, shared = launch["grid"], launch["block"], launch["sharedmem"] or 0
    return Configured(kernel, grid, block, shared, launch["cluster"])


def in_order(kernel: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of a launch in the order of the kernel's parameters, where some are named.

    Numba-CUDA itself takes no names. Parameters that are left out have their defaults.
    """
    if not named:
        return arguments
    taken = inspect.signature(kernel.py_func)
    try:
        given = taken.bind(*arguments, **named)
    except TypeError as e:
        text = f"launch of {kernel.py_func.__name__!r}: {e}; the kernel takes {taken} [KB2001]"
        raise TypeError(text) from None
    given.apply_defaults()
    return given.args


def _package_of(value: Any) -> str:
    """The top-level package of a module, a dispatcher or a function."""
    owner = type(value).__module__ if fingerprint.is_dispatcher(value) else None
    if isinstance(value, ModuleType):
        owner = value.__name__
    return str(owner or getattr(value, "__module__", "")).partition(".")[0]


def install(names: Iterable[str]) -> None:
    """Replace the functions of `numba.cuda` of these names by ones that look at `thread`."""
    for api, name in itertools.product(loaded(), names):
        made: dict[int, Any] = {}  # by the original, which several modules have
        for owner, attribute in api.owners(name):
            original = getattr(owner, attribute, None)
            if original is None or hasattr(original, STANDS_FOR):
                continue
            dispatch = made.setdefault(id(original), _dispatcher(api, name, original))
            setattr(owner, attribute, dispatch)
            if isinstance(owner, ModuleType):
                _replaced[id(original)] = original, dispatch


def _dispatcher(api: HostApi, name: str, original: Any) -> Any:
    @functools.wraps(original)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        if thread.recording is not None and name in thread.handlers:
            return thread.handlers[name](thread.recording, *args, **kwargs)
        if thread.stream is not None and name in _ON_STREAM:
            return _ON_STREAM[name](api, original, *args, **kwargs)
        return original(*args, **kwargs)

    setattr(dispatch, STANDS_FOR, original)
    return dispatch


def replace_aliases(function: Any) -> None:
    """Replace functions of `numba.cuda` that Python functions hold under names of their own.

    `from numba.cuda import device_array` binds the function itself, which `install` cannot reach.
    The globals, closures and defaults of `function` are searched, and then the same of the
    functions that it names. A replacement acts as before where nothing is recorded.
    """
    for value, replace in _read_by(function, set()):
        original, dispatch = _replaced.get(id(value), (None, None))
        if dispatch is not None and original is value:
            replace(dispatch)


def _read_by(callee: Any, seen: set[int]) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """What a function and its callees read from outside, with functions that replace each."""
    function = python_function(callee)
    if function is None or id(function) in seen:
        return
    if (function.__module__ or "").split(".")[0] in _LIBRARIES:
        return
    seen.add(id(function))
    names = reads(function.__code__).names
    found: list[tuple[Any, Any]] = []
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.split(".")[0] not in _LIBRARIES:
            found += [(vars(value), attribute) for attribute in names & vars(value).keys()]
        else:
            found.append((function.__globals__, name))
    defaults = dict(enumerate(function.__defaults__ or ()))
    found += [(held, key) for held in (defaults, function.__kwdefaults__ or {}) for key in held]
    read = [(where[key], functools.partial(operator.setitem, where, key)) for where, key in found]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            read.append((cell.cell_contents, functools.partial(setattr, cell, "cell_contents")))
    for value, replace in read:
        yield value, replace
        if isinstance(value, (FunctionType, MethodType, functools.partial)):
            yield from _read_by(value, seen)
    if defaults:
        function.__defaults__ = tuple(defaults.values())
    yield from _read_by(getattr(function, "__wrapped__", None), seen)


def _on(api: HostApi, stream: Any) -> Any:
    """The stream that a call names, or else this thread's, as an object of the package."""
    stream = stream or thread.stream
    if isinstance(stream, (int, api.driver.Stream)) or not hasattr(stream, "handle"):
        return stream
    return api.cuda.external_stream(int(stream.handle))


def _taking_both(api: HostApi, launch: Any) -> Any:
    """A launch that also takes arrays of the other package, if both are loaded."""

    def own(value: Any) -> Any:
        if isinstance(value, api.arrays) or not hasattr(value, "__cuda_array_interface__"):
            return value
        return api.cuda.as_cuda_array(value, sync=False)

    return launch if len(loaded()) == 1 else lambda *arguments: launch(*map(own, arguments))


def _configure(
    api: HostApi,
    original: Any,
    kernel: Any,
    griddim: Any,
    blockdim: Any,
    stream: Any = 0,
    *rest: Any,
    **options: Any,
) -> Any:
    if 0 in (griddim if isinstance(griddim, (tuple, list)) else (griddim,)):
        return lambda *_: None  # a launch of no blocks
    on, debugged = _on(api, stream), kernel.targetoptions.get("debug")
    launch = original(kernel, griddim, blockdim, 0 if debugged else on, *rest, **options)
    launch = _taking_both(api, launch)

    # Numba reads the exception by a copy on its default stream, which does not wait for XLA's: an
    # exception of a kernel on XLA's stream could be read before it was raised.
    def launched(*arguments: Any, **named: Any) -> None:
        if debugged:
            on.synchronize()
        launch(*in_order(kernel, arguments, named))

    return launched


def _device_array(api: HostApi, original: Any, *args: Any, stream: Any = 0, **kwargs: Any) -> Any:
    return original(*args, **kwargs, stream=_on(api, stream))


_ON_STREAM: dict[str, _Function] = {
    "configure": _configure,  # which `kernel[grid, block]` and what `forall` returns call
    "forall": lambda api, original, *args, **kw: _taking_both(api, original(*args, **kw)),
    "device_array": _device_array,
    "device_array_like": _device_array,
    # The stream for what an array does: `reshape` loses the one that it is bound to.
    "_default_stream": lambda api, original, *args: original(*args) or _on(api, 0),
}


@dataclass(frozen=True, eq=False)
class Callee:
    """A Python function, its arguments, and the number by which the core names it."""

    function: _Function
    assignment: Assignment  # of the buffers and the stream
    scalars: range  # buffers whose value the function gets
    around: Callable[[], AbstractContextManager[Any]]  # where the function runs
    handle: int = field(default_factory=lambda: secrets.randbits(63))


# A callee lives as long as its front end, to which operations and their traces in JAX refer, or as
# long as a compiled program, to which JAX ties it. JAX may drop the Python side of a program that
# still runs, so the callees that were used last are kept in any case.
_callees: weakref.WeakValueDictionary[int, Callee] = weakref.WeakValueDictionary()
_used_last: LRUCache[Callee] = LRUCache(64)


class CallingFrontend(PlannedFrontend, PythonFrontend):
    """A front end that can call through Python if there is no plan."""

    platforms: Any = property(lambda self: targets.platforms())
    lacking = "Numba-CUDA has no type for"
    _own_callees: Any = functools.cached_property(lambda self: LRUCache(256))

    def lower_as_python(
        self, key: Hashable, function: _Function, operands: Types, call: Call, target: Target
    ) -> Lowered:
        """Lower a call of a Python function, which is made once for each key.

        Inputs that are not aliased are copied, since Numba would let them be written.
        """
        assignment = self.assign(call)
        names = assignment.names
        for t, name in zip((*operands, *call.outs), names, strict=False):
            if t.dtype.name in target.numba_lacks:
                raise ValueError(
                    f"{self.label}: {name!r} is {t.dtype.name}, which Numba-CUDA's own arrays do "
                    "not support; pass float32 to functions that cannot be recorded [KB2003]"
                )
        scalars = range(call.n_inputs, call.n_operands)
        callee = self._own_callees.find_or_make(
            (key, assignment, scalars, target),
            lambda: Callee(function, assignment, scalars, target.running),
        )
        _callees[callee.handle] = callee
        _used_last.put(callee.handle, callee)
        native, program = plan(
            *(self.label, self.place, operands, call, names, [Callback(callee.handle)]),
            copied=call.read_only,
            target=target,
        )
        return native._replace(keep=callee), program


def call(
    handle: int, buffers: tuple[tuple[int, tuple[int, ...], int], ...], stream: int, device: int
) -> bool | None:
    """Run the function of a handle on XLA's stream, or the test of a plan. Called by the core."""
    if handle in derivatives.plans:
        test = derivatives.plans[handle]
        if test is not None and not test.enter(buffers):
            return False
        derivatives.plans[handle] = None
        return True
    callee = _callees.get(handle)
    if callee is None:
        raise RuntimeError(
            "the Python function of this call no longer exists: the operation and the compiled "
            "program that calls it were released while it ran; keep the program until its "
            "results are ready"
        )
    try:
        with callee.around():
            _call(callee, buffers, stream, device)
    except Exception as e:
        first, *rest = without_code(str(e)).strip().split("\n")
        text = "\n".join((f"{type(e).__name__}: {first} at {line_of(e)}", *rest))
        raise RuntimeError(text) from None
    return None


def _call(callee: Callee, buffers: Sequence[Any], stream: int, device: int) -> None:
    api = used_by(callee.function)
    with contextlib.ExitStack() as devices:
        for other in loaded():
            n_devices = len(other.cuda.gpus)  # the core numbers the CPU after all GPUs
            devices.enter_context(other.cuda.gpus[min(device, n_devices - 1)])
        on = api.cuda.external_stream(stream)
        arrays = [_array(api.cuda, *b).bind(on) for b in buffers]
        for i in callee.scalars:  # waits for the value of an array of rank 0
            host = arrays[i].reshape(1).copy_to_host(stream=on)
            on.synchronize()
            arrays[i] = host[0]
        positional, named = callee.assignment.arguments([*arrays, on])
        install(_ON_STREAM)
        replace_aliases(callee.function)
        with patched((thread, "stream", on)):
            callee.function(*positional, **named)


def _array(cuda: Any, address: int, shape: tuple[int, ...], code: int) -> Any:
    dtype = np.dtype(_NAMES[code])
    if 0 in shape:
        return cuda.device_array(shape, dtype)
    typestr = f"<u{dtype.itemsize}" if dtype.name == "bfloat16" else dtype.str
    interface = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}
    array = cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=interface), sync=False)
    return array if typestr == dtype.str else array.view(dtype)
