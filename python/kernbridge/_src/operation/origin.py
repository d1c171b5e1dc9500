"""Describes how a new process finds a kernel whose machine code a program does not contain.

A call carries an origin, JSON text. The core asks `resolve` when a program (exported, or taken from
JAX's compilation cache) names a kernel that this process has not registered.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from kernbridge._src.base import extensions
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.reports import warn

FORMAT = 2

# The module that finds the kernels of each kind of origin. Its function `resolve(digest, origin)`
# registers a kernel in the core, or raises KernelError; a ValueError, KeyError or TypeError means
# that the origin is damaged.
_MODULES = {"numba": "kernbridge._src.numba_cpu.kernel", "source": "kernbridge._src.source.module"}


def register(kind: str, module: str) -> None:
    """Let a module find the kernels of another kind of origin."""
    _MODULES[kind] = module


def write(kind: str, **parts: Any) -> str:
    return json.dumps({"format": FORMAT, "kind": kind, **parts}, separators=(",", ":"))


def warn_if_not_found(label: str, named: str, program: bytes) -> None:
    """Warn of an exported call whose kernel another process would not find.

    That process looks for the name `named`, "module:qualname", unless the call has a `program`.
    """
    module = named.partition(":")[0]
    if program or not (module == "__main__" or "<" in named):
        return
    why = (
        "in that process, another module runs as __main__"
        if module == "__main__"
        else "it is not at the top level of its module"
    )
    warn(
        f"{label} is exported by its name, {named}, but another process will not find it: {why}. "
        "Define the kernel at the top level of a module that the process can import. Until then, "
        "the program runs only in processes that wrap the same kernel before they load the "
        "program. [KB6102]"
    )


def resolve(digest: bytes, text: str) -> None:
    """Find and register the kernel of this digest.

    KernelError is raised if the kernel is not found or has changed.
    """
    try:
        origin = json.loads(text)
        if origin["format"] != FORMAT:
            raise ValueError(f"format {origin['format']}")
        kind = origin["kind"]
        failed = "" if kind in _MODULES else extensions.load_installed()
        if isinstance(kind, str) and kind not in _MODULES:
            raise KernelError(
                f"the program refers to a kernel of the kind {kind!r}, and no extension of this "
                f"installation finds these{failed}; install the package that made the kernel, or "
                "the version of kernbridge that exported the program [KB5107]"
            )
        importlib.import_module(_MODULES[kind]).resolve(digest, origin)
    except (ValueError, KeyError, TypeError) as e:
        raise KernelError(
            "the program refers to its kernel in a format that this version of kernbridge cannot "
            f"read ({e}); it is damaged, or was exported by another version [KB5107]"
        ) from e
