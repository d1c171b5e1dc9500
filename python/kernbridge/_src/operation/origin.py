"""Describes how a new process finds a kernel whose machine code a program does not contain.

A call carries an origin, JSON text. The core asks `resolve` when a program (exported, or taken from
JAX's compilation cache) names a kernel that this process has not registered.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.reports import warn

FORMAT = 2

_modules: dict[str, str] = {}


def register(kind: str, module: str) -> None:
    """Let a module find the kernels whose origins are of this kind.

    It is imported when one is first needed. Its function ``resolve(digest, origin)`` registers the
    kernel of a digest in the core, or raises KernelError that says what is missing; ValueError,
    KeyError and TypeError mean that the origin is damaged.
    """
    _modules[kind] = module


def write(kind: str, **parts: Any) -> str:
    return json.dumps({"format": FORMAT, "kind": kind, **parts}, separators=(",", ":"))


def warn_if_not_found(label: str, named: str, program: bytes) -> None:
    """Warn of an exported call whose kernel a fresh process would not find.

    `named` is the "module:qualname" that it looks the kernel up by, or empty; a call that carries a
    `program` needs no name.
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

    KernelError is raised if it cannot be found, or is another kernel by now; the message says what
    is missing.
    """
    try:
        origin = json.loads(text)
        if origin["format"] != FORMAT:
            raise ValueError(f"format {origin['format']}")
        importlib.import_module(_modules[origin["kind"]]).resolve(digest, origin)
    except (ValueError, KeyError, TypeError) as e:
        raise KernelError(
            "the program refers to its kernel in a format that this version of kernbridge cannot "
            f"read ({e}); it is damaged, or was exported by another version [KB5107]"
        ) from e
