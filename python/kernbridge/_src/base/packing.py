"""Bytes in programs, compressed where that makes them fewer (src/core/kb_fields.h)."""

from __future__ import annotations

import struct
import zlib

_RAW = -zlib.MAX_WBITS  # without the header and the sum of zlib's own format


def packed(data: bytes) -> bytes:
    """The size of some bytes, their size as they are stored, and what is stored."""
    compressor = zlib.compressobj(wbits=_RAW)
    stored = compressor.compress(data) + compressor.flush()
    if len(stored) >= len(data):
        stored = data
    return struct.pack("<II", len(data), len(stored)) + stored
