"""Holds the settings of `kernbridge.config`, so that every package can read them."""

from __future__ import annotations

import os
import re

from kernbridge import _core
from kernbridge._src.base.errors import coded

ALLOW_IMPORTS = "KERNBRIDGE_ALLOW_IMPORTS"

# To compile for: major, minor and suffix of each; None: the machine's.
architectures: tuple[tuple[int, int, str], ...] | None = None
prefer_system_nvcc: bool | None = None  # None: the choice of the environment
cuda_on_cpu = "compile"  # or "error"
told_of_cpu = False  # whether the user knows that CUDA kernels run on the CPU
gathers: str | None = None  # "warn" or "error"; None: an error on explicit meshes only
include_paths: tuple[str, ...] = ()  # searched for every source, after the paths of its own load
compiler_seconds: float | None = None  # None: the choice of the environment
compiler_memory: int | None = None  # bytes; None: what the machine has room for
EXPORTED_CODE = "KERNBRIDGE_EXPORTED_CODE"
_EXPORTED_CODE = ("run", "recompile", "refuse")  # as kb_carried_code numbers them
exported_code = "run"
carry_kernels: bool | None = None  # None: the choice of the environment
adjoint_test: bool | None = None  # None: the choice of the environment
allowed_imports: tuple[str, ...] = ()
keeps_64_bits = False  # whether 64-bit outputs keep their dtype if JAX disables 64-bit types

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def may_import(module: str) -> bool:
    named = (name.strip() for name in os.environ.get(ALLOW_IMPORTS, "").split(","))
    allowed = filter(None, (*allowed_imports, *named))
    return any(name in ("*", module) or module.startswith(f"{name}.") for name in allowed)


def set_exported_code(what: str, where: str) -> None:
    """Choose what happens to code in programs; `where` names the choice in a ValueError."""
    global exported_code
    if what not in _EXPORTED_CODE:
        text = f"{where} is {what!r}, expected 'run', 'recompile' or 'refuse'"
        raise ValueError(coded(text, "KB8002" if where == EXPORTED_CODE else "KB8001"))
    _core.set_carried_code(_EXPORTED_CODE.index(what))
    exported_code = what


def carries_kernels() -> bool:
    return bool(switch("KERNBRIDGE_CARRY_KERNELS")) if carry_kernels is None else carry_kernels


def tests_adjoints() -> bool:
    return switch("KERNBRIDGE_ADJOINT_TEST") is not False if adjoint_test is None else adjoint_test


def switch(variable: str) -> bool | None:
    """Return whether an environment variable is 1 or 0, or None if it is not set."""
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"{variable} is {value!r}, expected 1 or 0 [KB8002]")
    return value == "1" if value else None


def bytes_of(text: str) -> int | None:
    """Return the bytes of a size such as "500MB"; None if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Z]*)", text.upper())
    if match is None or match[2] not in _UNITS:
        return None
    return int(float(match[1]) * _UNITS[match[2]])
