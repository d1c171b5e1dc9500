"""The table of extensions. The core imports none of them, and asks here for what it needs of one.

Each entry names the module of an extension that implements an interface of the core. The module is
imported when it is first asked for. A folder of `kernbridge._ext` can therefore be deleted, and
what nobody uses costs no time at import. Other packages are found by their entry points.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import MethodType
from typing import Any

from kernbridge._src.base.errors import KernelToolchainError

_MODULES = {
    "benchmark": "benchmark.measure",  # XLACustomKernel.benchmark
    "cuda_on_cpu": "emulator.cuda_source",  # the language of CUDA C++ for the CPU
    "derivatives": "enzyme.automatic",  # operation/derivatives.py
    "host code": "emulator.compiler.compile",  # compiles CUDA kernels of a program for the CPU
    "inline": "inline.function",  # functions of JAX as values of `static=`
    "inlined": "inline.asked",  # what the identity of a kernel contains of such functions
    "inlined_rules": "inline.rules",  # JAX's derivatives of such functions
    "mlir": "mlir.compile",  # the dialect of numba-cuda-mlir
    "mlir_host": "mlir.private_mlir_host",  # its functions for the host, for callables
    "launches": "emulator.device.mode",  # whether launches of Numba-CUDA run on the CPU
    "switch": "emulator.device.switch",  # KERNBRIDGE_CUDA_ON_CPU
    "target": "emulator.target",  # the target of CUDA kernels on the CPU
}


@cache
def find(name: str) -> Any:
    """The module of an entry, or None if this installation does not have the extension."""
    package, _, _ = _MODULES[name].partition(".")
    try:
        importlib.import_module(f"kernbridge._ext.{package}")
    except ModuleNotFoundError:
        return None
    return importlib.import_module(f"kernbridge._ext.{_MODULES[name]}")


def load(name: str, purpose: str) -> Any:
    """The module of an entry, which the caller needs for a purpose.

    It is a KernelToolchainError if this installation does not have the extension.
    """
    found = find(name)
    if found is None:
        folder = f"kernbridge/_ext/{_MODULES[name].partition('.')[0]}"
        raise KernelToolchainError(
            f"{purpose} needs the extension {folder!r}, which this installation does not have; "
            "install kernbridge again [KB4011]"
        )
    return found


class Method:
    """A method of a class of the core that is a function of an extension."""

    def __init__(self, name: str, function: str) -> None:
        self._name, self._function = name, function

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        function = getattr(load(self._name, f"`{self._function}`"), self._function)
        return function if owner is None else MethodType(function, owner)


@cache
def load_installed() -> str:
    """Let the extensions of other packages register what they have; called by JAX's plugin.

    These are the entry points of the group `kernbridge.extensions`: a module, which is imported, or
    a function of a module, which is also called. The core calls this, too, when it is asked for
    something that it does not know. Returns what an error about that adds to its message: which
    extensions could not be loaded.
    """
    from importlib.metadata import entry_points

    failed = ""
    for point in entry_points(group="kernbridge.extensions"):
        try:
            found = point.load()
            if callable(found):
                found()
        except Exception as e:
            failed += f" (the extension {point.value!r} cannot be loaded: {type(e).__name__}: {e})"
    return failed
