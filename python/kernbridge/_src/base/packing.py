"""Bytes in programs, compressed where that makes them fewer (src/core/kb_fields.h)."""

from __future__ import annotations

import struct
import zlib

_RAW = -zlib.MAX_WBITS  # without the header and the sum of zlib's own format


def text(content: str) -> bytes:
    """The size of a text and its bytes, without NUL."""
    data = content.encode("utf-8", "backslashreplace").replace(b"\0", rb"\x00")
    return struct.pack("<I", len(data)) + data


def packed(data: bytes) -> bytes:
    """The size of some bytes, their size as they are stored, and what is stored."""
    compressor = zlib.compressobj(wbits=_RAW)
    stored = compressor.compress(data) + compressor.flush()
    if len(stored) >= len(data):
        stored = data
    return struct.pack("<II", len(data), len(stored)) + stored
