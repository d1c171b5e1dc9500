"""Writes the manifest of a bundle, which src/embed/kb_manifest.h describes and reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from kernbridge import _core

NAME = "manifest.txt"
VERSION = 1
ALIGNMENT = 64  # of values in the file of data

# Types whose elements are whole bytes, as PJRT takes them from a host.
DTYPES = frozenset(name for name, (_code, bits) in _core.dtypes().items() if bits >= 8)


@dataclass(frozen=True, slots=True)
class Array:
    """An argument or a result of a program."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    donated: bool = False
    offset: int | None = None  # of its values in the data; None for a result, too

    def words(self) -> list[str]:
        """Return what inputs and outputs have in common, from the rank on."""
        return [str(len(self.shape)), *map(str, self.shape), _one_line(self.name)]


@dataclass(frozen=True, slots=True)
class Program:
    """A program for one platform."""

    platform: str
    code: bytes
    inputs: Sequence[Array]
    outputs: Sequence[Array]

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"program.{self.platform}.mlirbc"


DATA_FILE = "arguments.bin"


def write(made_by: str, programs: Sequence[Program], data: bytes | None) -> bytes:
    """Return the text for these programs and the values of their arguments, if there are any."""
    lines = [f"kernbridge-bundle {VERSION}", f"made-by {_one_line(made_by)}"]
    if data is not None:
        lines.append(f"data {_described(data)} {DATA_FILE}")
    for program in programs:
        lines.append(f"program {_described(program.code)} {program.platform} {program.file}")
        for a in program.inputs:
            offset = "-" if a.offset is None else str(a.offset)
            lines.append(" ".join(("input", a.dtype, str(int(a.donated)), offset, *a.words())))
        lines += [" ".join(("output", a.dtype, *a.words())) for a in program.outputs]
    text = "".join(line + "\n" for line in lines).encode()
    return text + f"end {hashlib.sha256(text).hexdigest()}\n".encode()


def _described(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha256(content).hexdigest()}"


def _one_line(text: str) -> str:
    """The text without what would end a line or a string of C."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return escaped.encode("utf-8", "backslashreplace").decode()
