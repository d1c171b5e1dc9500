"""Replaces functions of a package, and its host API, on threads that launch on the CPU."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType
from typing import Any

from kernbridge._src.cuda_device import device, launch, mode


def choose(owner: Any, name: str, on_cpu: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (original if mode.current() is None else on_cpu)(*args, **kwargs)

    setattr(owner, name, chosen)


def install_host_api(inside: Any) -> None:
    """Put the processor beneath the host API of a package, whose modules `inside` has."""
    driver, devices = inside.driver, inside.devices
    processor = device.Processor(driver)
    vars(driver).setdefault("_logger", driver.make_logger())
    driver.driver.__class__ = device.choosing(driver.Driver, processor.host)
    on_host = [devices._DeviceContextManager(processor.device)]
    on_gpus = devices._DeviceList.lst
    devices._DeviceList.lst = property(
        lambda self: on_gpus.fget(self) if mode.current() is None else on_host
    )
    for name in ("_to_core_stream", "_stream_handle"):  # with streams of our own class
        original = getattr(driver, name)
        space = {**original.__globals__, "ExperimentalStream": device.CoreStream}
        ours = FunctionType(original.__code__, space, name, original.__defaults__)
        choose(driver, name, ours)
    choose(inside.nvvm, "is_available", lambda: True)  # none is needed
    choose(inside.runtime.Runtime, "get_version", lambda self: device.VERSION)
    require = driver.require_device_memory

    def require_of_cpu(memory: Any) -> None:
        require(memory)
        device.refuse_memory_of_gpus(memory)

    choose(driver, "require_device_memory", require_of_cpu)
    choose(inside.devicearray, "_to_strided_memory_view", launch.copied)
    choose(inside.devicearray, "_make_strided_memory_view", launch.view_of)


def when_imported(name: str, do: Callable[[], None]) -> None:
    """Call `do` when the module of this name has been executed, or now if it has been imported."""
    if name in sys.modules:
        do()
    else:
        sys.meta_path.insert(0, _Finder(name, do))


class _Finder(MetaPathFinder):
    """Finds one module, as Python does, and calls a function when it has been executed."""

    def __init__(self, name: str, do: Callable[[], None]) -> None:
        self._name = name
        self._do = do

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_do(module: Any) -> None:
            execute(module)
            if self in sys.meta_path:  # else another thread was faster
                sys.meta_path.remove(self)
                self._do()

        spec.loader.exec_module = execute_and_do  # type: ignore[method-assign]
        return spec
