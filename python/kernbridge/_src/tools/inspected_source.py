"""Prints functions of C, C++ and CUDA modules for `kernbridge inspect`."""

from __future__ import annotations

import ctypes
import re
import shlex
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

from kernbridge._src.operation.operation import Operation
from kernbridge._src.source.frontend import Export, SourceFrontend
from kernbridge._src.source.module import SourceFunction
from kernbridge._src.toolchain import programs

_HEADING = re.compile(r"^([0-9a-f]+) <(.+)>:$")


class SourceInspection(NamedTuple):
    """A function of an open library."""

    name: str
    platform: str
    signature: str  # as far as the source shows it
    annotation: str
    library: str
    digest: str  # of all that the library was built from
    command: str  # of the compiler; empty if kernbridge did not run it
    symbol: str  # of what calls of XLA reach; empty where objdump is not found
    assembly: str | None  # of the function and of what calls it; None where objdump is not found


def export_of(value: Any) -> Export | None:
    """Return the exported function that a value is, or that an operation calls; else None."""
    if isinstance(value, SourceFunction):
        return value._export
    if isinstance(value, Operation) and isinstance(value._frontend, SourceFrontend):
        return value._frontend.export
    return None


def look_at(export: Export) -> SourceInspection:
    """Describe a function, and disassemble it if objdump is found."""
    function = export.function
    symbol, assembly = _disassemble(export)
    parameters = [f"{p.ctype} {p.name}".strip().replace("* ", "*") for p in function.parameters]
    if function.whole_call:
        parameters = ["const kb_call *call"]
    return SourceInspection(
        name=f"{export.module}.{function.name}",
        platform="cuda" if export.cuda else "cpu",
        signature=f"{_name_of(export)}({', '.join(parameters)})",
        annotation=function.tokens,
        library=export.path,
        digest=export.digest,
        command=shlex.join(export.command),
        symbol=symbol,
        assembly=assembly,
    )


def _name_of(export: Export) -> str:
    return (export.function.qualified or export.function.name).removeprefix("::")


def _disassemble(export: Export) -> tuple[str, str | None]:
    """Return the symbol of the function that calls reach, and the assembly that belongs to it."""
    tool = shutil.which("objdump")
    if tool is None:
        return "", None
    command = [tool, "-d", "-C", "--no-show-raw-insn", export.path]
    try:
        done = programs.run(command, written=1 << 28)
    except OSError:
        return "", None
    if done.status:
        return "", None
    blocks = list(_blocks(done.text))
    start = export.run - _base_of(export.run)
    symbol = next((name for at, name, _ in blocks if at == start), "")
    mine = re.compile(f"(?:{re.escape(_called(symbol))}|{re.escape(_name_of(export))})(?![\\w$])")
    found = [text for _, name, text in blocks if mine.match(name)]
    return symbol, "\n\n".join(found)


def _called(symbol: str) -> str:
    """Return a symbol without its parameters; those of its lambdas begin in the same way."""
    return symbol.partition("(")[0]


def _blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the functions that objdump shows: address, name and text."""
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        heading = _HEADING.match(lines[0])
        if heading is not None:
            yield int(heading[1], 16), heading[2], "\n".join(lines)


class _Place(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _base_of(address: int) -> int:
    """Return where the library that contains an address is in memory."""
    place = _Place()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(place))
    return int(place.base or 0) if found else 0
