"""Reads ELF64 files in plain Python: objects that a compiler of this process wrote, and cubins.

A file may come from a cache or from another program: for any bytes, the result is a value or a
`ValueError`.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<4xBB10xHH20xQI6xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS = 2, 8


class Elf:
    """Sections and symbols of an ELF file. Nothing is read without its bounds being checked."""

    def __init__(self, data: bytes) -> None:
        with refusing_damage():
            *self.kind, start, self.flags, size, count, names = _HEADER.unpack_from(data)
            if size != _SECTION.size:
                raise ValueError(f"{count} sections of {size} bytes")
            self.headers = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
            self.parts = [b"" if h[1] == _NOBITS else part(data, h[4], h[5]) for h in self.headers]
            self.names = [_string(self.parts[names], h[0]) for h in self.headers]

    def symbols(self) -> Iterator[tuple[str, int, int, int, int, int]]:
        """Name, type + 16 binding, flags, section, value and size of each."""
        for header, table in zip(self.headers, self.parts, strict=True):
            for i in range(len(table) // _SYMBOL.size if header[1] == _SYMTAB else 0):
                name, *others = _SYMBOL.unpack_from(table, i * _SYMBOL.size)
                yield _string(self.parts[header[6]], name), *others


@contextlib.contextmanager
def refusing_damage() -> Iterator[None]:
    """Raise ValueError where a cubin ends too early or contradicts itself."""
    try:
        yield
    except (struct.error, LookupError, OverflowError, TypeError, ValueError) as e:
        raise ValueError(f"damaged cubin: {e}") from None


def part(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError(f"{size} bytes at {at} are past the end at {len(data)}")
    return data[at : at + size]


def _string(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()


def undefined(code: bytes) -> list[str]:
    """The names that a relocatable object needs from elsewhere."""
    names = {name for name, _, _, section, _, _ in Elf(code).symbols() if section == 0}
    return sorted(names - {"", "_GLOBAL_OFFSET_TABLE_"})
