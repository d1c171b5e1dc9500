"""Reads relocatable objects that a compiler of this process wrote."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2


def undefined(code: bytes) -> list[str]:
    header = _HEADER.unpack_from(code)
    start, count = header[6], header[12]
    sections = [_SECTION.unpack_from(code, start + i * _SECTION.size) for i in range(count)]
    table = next(s for s in sections if s[1] == _SYMTAB)
    (at, size, link), names = table[4:7], set()
    for name, _, _, section, *_ in _SYMBOL.iter_unpack(code[at : at + size]):
        begin = sections[link][4] + name
        if section == 0:
            names.add(code[begin : code.index(b"\0", begin)].decode())
    return sorted(names - {"", "_GLOBAL_OFFSET_TABLE_"})
