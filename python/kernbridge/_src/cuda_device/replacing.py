"""Replaces functions of a package, and its host API, on threads that launch on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kernbridge._src.cuda_device import arguments, device, mode
from kernbridge._src.cuda_device.driver import VERSION, choosing


def choose(owner: Any, name: str, on_cpu: Callable[..., Any]) -> None:
    """Let a thread that is on the CPU call `on_cpu`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (original if mode.current() is None else on_cpu)(*args, **kwargs)

    setattr(owner, name, chosen)


def _with_globals(function: Any, **names: Any) -> Any:
    """A copy of a function to which some global names mean something else."""
    space = {**function.__globals__, **names}
    return FunctionType(function.__code__, space, function.__name__, function.__defaults__)


def install_host_api(inside: Any) -> None:
    """Put the processor beneath the host API of a package, whose modules `inside` has."""
    driver, devices = inside.driver, inside.devices
    processor = device.Processor(driver)
    vars(driver).setdefault("_logger", driver.make_logger())
    driver.driver.__class__ = choosing(driver.Driver, processor.host)
    on_host = [devices._DeviceContextManager(processor.device)]
    on_gpus = devices._DeviceList.lst
    devices._DeviceList.lst = property(
        lambda self: on_gpus.fget(self) if mode.current() is None else on_host
    )
    for name in ("_to_core_stream", "_stream_handle"):
        ours = _with_globals(getattr(driver, name), ExperimentalStream=device.CoreStream)
        choose(driver, name, ours)
    choose(inside.nvvm, "is_available", lambda: True)  # none is needed
    choose(inside.runtime.Runtime, "get_version", lambda self: VERSION)
    require = driver.require_device_memory

    def require_of_cpu(memory: Any) -> None:
        require(memory)
        device.refuse_memory_of_gpus(memory)

    choose(driver, "require_device_memory", require_of_cpu)
    choose(inside.devicearray, "_to_strided_memory_view", arguments.copied)
    choose(inside.devicearray, "_make_strided_memory_view", arguments.view_of)
