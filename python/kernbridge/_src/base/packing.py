"""Reads and writes the format of machine code in programs and on disk.

The format has a header, strings, and bytes that are compressed if this makes them smaller
(src/core/kb_seal.h and kb_fields.h).
"""

from __future__ import annotations

import hashlib
import struct
import zlib

_RAW = -zlib.MAX_WBITS  # without the header and the sum of zlib's own format


def sealed(magic: str, version: int, owner: bytes, body: bytes) -> bytes:
    """Some code behind its head, which has the SHA-256 of what it belongs to and of the code."""
    digest = hashlib.sha256(owner + body).digest()
    return magic.encode() + struct.pack("<I", version) + digest + body


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
