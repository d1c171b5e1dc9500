"""Reduces relocatable objects to the parts that kernbridge's loader needs.

A compiler also writes unwind tables and the names of sections and of every function. Without them,
the object of a simple kernel has half the size.
"""

from __future__ import annotations

import struct
from collections import namedtuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS, _NOTE, _UNWIND = 1, 2, 3, 4, 8, 7, 0x70000001
_WRITE, _ALLOC = 1, 2
_RELOCATED = b".data.rel.ro"  # sections that only the loader writes: it puts addresses there
_LOCAL, _RESERVED = 0, 0xFF00  # binding of a symbol; special indices of sections begin there


# A header of a section, and an entry of the table of symbols. All fields are integers.
Section = namedtuple("Section", "name type flags addr offset size link info align entsize")
Symbol = namedtuple("Symbol", "name info other section value size")


class _Reader:
    """The tables of an object that a compiler of this process wrote."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        self.header = _HEADER.unpack_from(code)
        start, count, self.names = self.header[6], self.header[12], self.header[13]
        self.sections = [
            Section(*_SECTION.unpack_from(code, start + i * _SECTION.size)) for i in range(count)
        ]
        table = next(s for s in self.sections if s.type == _SYMTAB)
        self.symbols = [Symbol(*fields) for fields in _SYMBOL.iter_unpack(self.contents(table))]
        self.strings = self.sections[table.link]

    def contents(self, section: Section) -> bytes:
        if section.type == _NOBITS:
            return b""
        return self.code[section.offset : section.offset + section.size]

    def name(self, strings: Section, at: int) -> bytes:
        start = strings.offset + at
        return self.code[start : self.code.index(b"\0", start)]

    def section_name(self, section: Section) -> bytes:
        return self.name(self.sections[self.names], section.name)


def undefined(code: bytes) -> list[str]:
    """The names that an object uses and does not define."""
    reader = _Reader(code)
    names = (reader.name(reader.strings, s.name) for s in reader.symbols[1:] if s.section == 0)
    return sorted({name.decode() for name in names} - {"_GLOBAL_OFFSET_TABLE_"})


def defined(code: bytes) -> set[str]:
    """The names that an object defines for others."""
    reader = _Reader(code)
    symbols = (s for s in reader.symbols if s.section and s.info >> 4 != _LOCAL)
    return {reader.name(reader.strings, s.name).decode() for s in symbols}


def stripped(code: bytes, names: set[str]) -> bytes:
    """The object with what is in memory when it runs, and some of the names that it defines."""
    reader = _Reader(code)
    placed = set()  # sections that are in memory when the code runs
    for i, s in enumerate(reader.sections):
        unneeded = s.type in (_NOTE, _UNWIND) or reader.section_name(s) == b".eh_frame"
        if s.flags & _ALLOC and s.size and not unneeded:
            placed.add(i)
    sections = enumerate(reader.sections)
    tables = [(i, s) for i, s in sections if s.type == _RELA and s.info in placed]
    symbols, numbers, strings = _symbols(reader, tables, {name.encode() for name in names})

    kept = sorted(placed | {i for i, _ in tables})
    indices = {old: new for new, old in enumerate(kept, 1)}
    symbols = [
        s._replace(section=s.section if s.section >= _RESERVED else indices.get(s.section, 0))
        for s in symbols
    ]
    n_local = sum(s.info >> 4 == _LOCAL for s in symbols)
    body = bytearray(_HEADER.size)
    headers = [Section(*[0] * 10)]

    def add(section: Section, contents: bytes) -> None:
        body.extend(bytes(-len(body) % 8))
        headers.append(section._replace(name=0, offset=len(body)))
        body.extend(contents)

    symbol_table = len(kept) + 1
    for old in kept:
        section, contents = reader.sections[old], reader.contents(reader.sections[old])
        if section.type == _RELA:
            contents = _renumbered(contents, numbers)
            section = section._replace(link=symbol_table, info=indices[section.info])
        elif reader.section_name(section).startswith(_RELOCATED):
            section = section._replace(flags=section.flags & ~_WRITE)
        add(section, contents)
    packed = b"".join(_SYMBOL.pack(*s) for s in symbols)
    table = Section(0, _SYMTAB, 0, 0, 0, len(packed), symbol_table + 1, n_local, 8, _SYMBOL.size)
    add(table, packed)
    add(Section(0, _STRTAB, 0, 0, 0, len(strings), 0, 0, 1, 0), strings)
    body.extend(bytes(-len(body) % 8))
    fields = list(reader.header)
    fields[6], fields[12], fields[13] = len(body), len(headers), 0
    body[: _HEADER.size] = _HEADER.pack(*fields)
    return bytes(body) + b"".join(_SECTION.pack(*h) for h in headers)


def _symbols(
    reader: _Reader, tables: list[tuple[int, Section]], kept: set[bytes]
) -> tuple[list[Symbol], dict[int, int], bytes]:
    """The symbols that are needed, the new number of each, and their names."""
    used = {
        info >> 32
        for _, table in tables
        for _, info, _ in _RELOCATION.iter_unpack(reader.contents(table))
    }
    strings = bytearray(1)
    symbols, numbers = [Symbol(*[0] * 6)], {0: 0}
    for i, symbol in enumerate(reader.symbols):  # local ones come first, there as here
        name = reader.name(reader.strings, symbol.name)
        if i == 0 or (i not in used and name not in kept):
            continue
        at = 0
        if symbol.section == 0 or name in kept:
            at = len(strings)
            strings += name + b"\0"
        numbers[i] = len(symbols)
        symbols.append(symbol._replace(name=at))
    return symbols, numbers, bytes(strings)


def _renumbered(relocations: bytes, numbers: dict[int, int]) -> bytes:
    """Relocations of the symbols with new numbers."""
    return b"".join(
        _RELOCATION.pack(at, numbers[info >> 32] << 32 | info & 0xFFFFFFFF, addend)
        for at, info, addend in _RELOCATION.iter_unpack(relocations)
    )
