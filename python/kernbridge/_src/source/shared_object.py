"""Checks whether a shared library can be opened before the system's loader is called.

For a library of another processor, the loader reports "No such file or directory", and a truncated
library ends the process with a bus error.
"""

from __future__ import annotations

import os
import struct

_MACHINES = {
    3: "i386",
    21: "ppc64le",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
_HEADER = struct.Struct("<16sHHIQQQIHHH")
_SEGMENT = struct.Struct("<IIQQQQ")
_LOADED = 1  # type of a segment
_OF_64_BITS, _LITTLE_ENDIAN = 2, 1


def why_not(data: bytes) -> str | None:
    """Return why the loader must not open an ELF file of these contents; None if it may."""
    if len(data) < _HEADER.size:
        return f"it is truncated: it has {len(data)} bytes, fewer than its header"
    ident, _, machine, _, _, segments, *_, size, count = _HEADER.unpack_from(data)
    here = os.uname().machine
    if ident[4] != _OF_64_BITS or ident[5] != _LITTLE_ENDIAN:
        return f"it is not a 64-bit little-endian library, and this process runs on {here}"
    if here in _MACHINES.values() and _MACHINES.get(machine) != here:
        of = _MACHINES.get(machine, f"processors of number {machine}")
        return f"it was built for {of}, but this process runs on {here}"
    ends = [segments + size * count]
    for i in range(count if ends[0] <= len(data) else 0):
        kind, _, offset, _, _, in_file = _SEGMENT.unpack_from(data, segments + i * size)
        if kind == _LOADED:
            ends.append(offset + in_file)
    if max(ends) > len(data):
        return f"it is truncated: it has {len(data)} bytes of {max(ends)}"
    return None
