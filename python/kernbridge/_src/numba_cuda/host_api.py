"""Lists the functions of Numba-CUDA and numba-cuda-mlir that act on a device."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from types import FunctionType, ModuleType
from typing import Any

from kernbridge._src.keys import encode, extensions

_MLIR = "numba_cuda_mlir"


@dataclass(frozen=True)
class HostApi:
    """The host API of one of the packages."""

    package: str
    modules: tuple[ModuleType, ...]  # with its functions; programs import the first one
    kernels: Any  # the class of dispatchers
    configured: Any  # the class of what `kernel[grid, block]` returns
    driver: ModuleType
    arrays: Any  # the class of arrays

    @property
    def cuda(self) -> Any:
        """The module that programs import."""
        return self.modules[0]

    def owners(self, name: str) -> list[tuple[Any, str]]:
        """Where the function of this name is: objects, and the names of their attributes."""
        if name in ("__getitem__", "__call__", "configure", "forall"):
            return [(self.kernels, name)]
        if name == "launch":
            return [(self.configured, "__call__")]
        if name in ("device_memset", "device_to_device"):
            return [(self.driver, name)]
        if name == "_default_stream":
            return [(self.arrays, name)]
        return [(module, name) for module in self.modules]

    def own_stream(self, stream: Any) -> Any:
        """A stream as this package takes it, where it may be one of the other package."""
        if isinstance(stream, (int, self.driver.Stream)) or not hasattr(stream, "handle"):
            return stream
        return self.cuda.external_stream(int(stream.handle))

    def own_array(self, value: Any) -> Any:
        """An array as this package takes it, where it may be one of the other package."""
        if isinstance(value, self.arrays) or not hasattr(value, "__cuda_array_interface__"):
            return value
        return self.cuda.as_cuda_array(value, sync=False)


def loaded() -> list[HostApi]:
    """Those of Numba-CUDA, and of numba-cuda-mlir where the program has imported it."""
    return [_numba_cuda(), *([_mlir()] if f"{_MLIR}.cuda" in sys.modules else ())]


def used_by(function: Any) -> HostApi:
    """The API whose arrays and streams a function is to be called with.

    It is numba-cuda-mlir's if that is the only package which the function, or one that it calls,
    names.
    """
    if f"{_MLIR}.cuda" in sys.modules:
        named = {_package_of(value) for value in _values(function, set())}
        if _MLIR in named and not named & {"numba", "numba_cuda"}:
            return _mlir()
    return _numba_cuda()


@dataclass(frozen=True)
class Configured:
    """A kernel and how it is launched, of either package."""

    kernel: Any
    grid: Any
    block: Any
    shared: Any = 0
    cluster: Any = None


def read_configured(configuration: Any) -> Configured:
    """What `kernel[grid, block]` returned."""
    if hasattr(configuration, "dispatcher"):
        c = configuration
        return Configured(c.dispatcher, c.griddim, c.blockdim, c.sharedmem)
    launch = configuration._available_launch_config
    return Configured(
        configuration._dispatcher,
        launch["grid"],
        launch["block"],
        launch["sharedmem"] or 0,
        launch["cluster"],
    )


@cache
def _numba_cuda() -> HostApi:
    from kernbridge._src.numba_common import private_numba_cuda as inside

    return HostApi(
        "numba_cuda",
        (inside.cuda,),
        inside.dispatcher.CUDADispatcher,
        inside.dispatcher._LaunchConfiguration,
        inside.driver,
        inside.DeviceNDArrayBase,
    )


@cache
def _mlir() -> HostApi:
    from kernbridge._src.numba_common import private_mlir_host as inside

    return HostApi(
        _MLIR,
        (inside.cuda, inside.numba_cuda, inside.api),
        inside.descriptor.MLIRDispatcher,
        inside.descriptor._ArgMarshaller,
        inside.driver,
        inside.devicearray.DeviceNDArrayBase,
    )


def _package_of(value: Any) -> str:
    """The first part of the name of the module that an object is of."""
    owner = type(value).__module__ if encode.is_dispatcher(value) else None
    if isinstance(value, ModuleType):
        owner = value.__name__
    return str(owner or getattr(value, "__module__", "")).partition(".")[0]


def python_function(function: Any) -> FunctionType | None:
    """The Python function that runs where a callable is called: of a partial, method or object."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        function = getattr(type(function).__call__, "__func__", type(function).__call__)
    return function if isinstance(function, FunctionType) else None


def _values(callee: Any, seen: set[int]) -> Iterator[Any]:
    """What a function and those that it calls read from outside."""
    function = python_function(callee)
    if function is None or id(function) in seen:
        return
    seen.add(id(function))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for space, root, *names in encode.reads(function.__code__)[0]:
        value = function.__globals__.get(root)
        if space == "cell":
            try:
                value = cells[root].cell_contents if root in cells else None
            except ValueError:  # an empty cell
                continue
        for name in names:
            if not isinstance(value, ModuleType) or extensions.is_library(value.__name__):
                break
            value = getattr(value, name, None)
        yield value
        if isinstance(value, (FunctionType, partial)) and not extensions.is_library(
            value.__module__
        ):
            yield from _values(value, seen)
