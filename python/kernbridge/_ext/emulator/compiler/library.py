"""Provides the functions that kernels call, in `.ll` files, and adds calls and constants to IR.

`src/ext/emulator/ll/generate.py` writes them when kernbridge is built. All definitions are
`linkonce_odr`, so that LLVM's linker takes only those that are referenced, and `alwaysinline`. Each
file is parsed at most once in a process, when the first kernel needs it.
"""

from __future__ import annotations

import base64
import copy
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import ir

TABLE_LINE = "; large constant "  # its name, its alignment and its bytes follow, as base64

_FOLDER = "_ext/emulator/compiler/ll"  # in an editable install, CMake's files are in another one
_FILES = (
    *("gpu", "arithmetic", "atomics", "nrt"),
    *("halves", "f16", "f16_integers", "bf16", "bf16_integers"),
    *("libdevice_calls", "libdevice_conversions", "libdevice_integers"),
)


def defines(name: str) -> bool:
    return name in _files_by_name()


def link(module: Any) -> set[str]:
    """Link the functions that the module declares and the files define, and what these call.

    Returns the names of the functions that are still declared.
    """
    files = _files_by_name()
    while True:
        declared = {f.name for f in module.functions if f.is_declaration}
        if declared.isdisjoint(files):
            return declared
        for file in sorted({files[name] for name in declared.intersection(files)}):
            link_file(module, file)


@cache
def _parsed(file: str) -> Any:
    return llvm.parse_assembly(_text(file))


def link_file(module: Any, file: str) -> None:
    """Link what the module declares and the file defines."""
    module.link_in(_parsed(file), preserve=True)


def link_tables(module: Any, tables: str) -> None:
    """Define the large constants that the module declares, from the lines `HostModule.tables`."""
    for line in tables.split(TABLE_LINE)[1:]:
        name, align, encoded = line.split()
        constant = f"@{name} = constant {_bytes(base64.b64decode(encoded))}, align {align}\n"
        module.link_in(llvm.parse_assembly(constant))
        module.get_global_variable(name).linkage = "internal"


def names(file: str) -> set[str]:
    return set(re.findall(r"^define [^@]*@([\w.]+)", _text(file), flags=re.M))


@cache
def _files_by_name() -> dict[str, str]:
    return {name: file for file in _FILES for name in names(file)}


def _text(name: str) -> str:
    folders = (Path(p, _FOLDER) for p in sys.modules["kernbridge"].__path__)
    return next(p for p in (f / f"{name}.ll" for f in folders) if p.exists()).read_text()


class Constants:
    """Constants of a module, whose text this is."""

    def __init__(self, module: str) -> None:
        self._module, self._lines = module, list[str]()

    def __str__(self) -> str:
        return "".join(self._lines)

    def add(self, typed: str, name: str = "") -> str:
        """A constant of a value with its type, private if it has no name; returns its address."""
        linkage = "" if name else "private "
        name = name or f"{self._module}.{len(self._lines)}"
        self._lines.append(f"@{name} = {linkage}constant {typed}\n")
        return f"@{name}"

    def array(self, kind: str, items: Sequence[Any], name: str = "") -> str:
        values = ", ".join(f"{kind} {item}" for item in items)
        return self.add(f"[{len(items)} x {kind}] [{values}]", name)

    def string(self, text: str) -> str:
        """A string that C can read."""
        return self.add(_bytes(text.encode() + b"\0"))


def _bytes(data: bytes) -> str:
    return f'[{len(data)} x i8] c"\\{data.hex(chr(92))}"'


def replaced(instruction: Any, at: int, operand: Any) -> Any:
    made = copy.copy(instruction)
    made.operands = list(instruction.operands)
    made.operands[at] = operand
    return made


def called(builder: Any, name: str, arguments: Sequence[Any], result: Any = None) -> Any:
    """Append a call of a function, which is declared if necessary; returns its value."""
    kind = ir.FunctionType(result or ir.VoidType(), [a.type for a in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)
