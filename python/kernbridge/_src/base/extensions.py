"""The table of extensions. The core imports none of them, and asks here for what it needs of one.

Each entry names the module of an extension that implements an interface of the core. The module is
imported when it is first asked for. A folder of `kernbridge._ext` can therefore be deleted, and
what nobody uses costs no time at import. Other packages are found by their entry points.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from typing import Any

from kernbridge._src.base.errors import KernelToolchainError

_MODULES = {
    "benchmark": "benchmark.measure",  # XLACustomKernel.benchmark
    "cuda_on_cpu": "emulator.cuda_source",  # the language of CUDA C++ for the CPU
    "derivatives": "enzyme.automatic",  # operation/derivatives.py
    "inline": "inline.function",  # functions of JAX in kernels, and what these call of them
    "inlined_rules": "inline.rules",  # JAX's derivatives of such functions
    "mlir": "mlir.compile",  # the dialect of numba-cuda-mlir
    "mlir_host": "mlir.private_mlir",  # its functions for the host, for callables
    "launches": "emulator.device.mode",  # whether launches of Numba-CUDA run on the CPU
    "recorder": "recorder.launcher",  # functions of CUDA modules as plans
    "switch": "emulator.device.switch",  # KERNBRIDGE_CUDA_ON_CPU
    "target": "emulator.target",  # the target of CUDA kernels on the CPU
}
_loading = threading.local()


@cache
def find(name: str) -> Any:
    """The module of an entry, or None if this installation does not have the extension."""
    try:
        return load(name, name)
    except KernelToolchainError:
        return None


def load(name: str, purpose: str) -> Any:
    """The module of an entry; KernelToolchainError if this installation does not have it."""
    with needed(purpose, KernelToolchainError):
        return importlib.import_module(f"kernbridge._ext.{_MODULES[name]}")


@contextmanager
def needed(purpose: str, error: type[Exception] = ImportError) -> Iterator[None]:
    """Name the extension in the error if one is imported that this installation does not have."""
    try:
        yield
    except ModuleNotFoundError as e:
        module = (e.name or "").split(".")
        if module[:2] != ["kernbridge", "_ext"]:
            raise
        folder = "/".join(module[:3])
        raise error(
            f"{purpose} needs the extension {folder!r}, which this installation does not have; "
            "install kernbridge again [KB4011]"
        ) from None


@cache
def load_installed() -> str:
    """Let the extensions of other packages register what they have; called by JAX's plugin.

    These are the entry points of the group `kernbridge.extensions`: a module, which is imported, or
    a function of a module, which is also called. The core calls this, too, when it is asked for
    something that it does not know. Returns what an error about that adds to its message: which
    extensions could not be loaded.
    """
    if vars(_loading):  # an extension asks, too
        return ""
    _loading.begun = True
    failed = ""
    for point in metadata.entry_points(group="kernbridge.extensions"):
        try:
            found = point.load()
            if callable(found):
                found()
        except Exception as e:
            failed += f" (the extension {point.value!r} cannot be loaded: {type(e).__name__}: {e})"
    return failed
