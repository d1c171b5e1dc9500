"""Writes the format of machine code in programs and on disk (kb_checksum.h, kb_fields.h)."""

from __future__ import annotations

import hashlib
import struct


def sealed(magic: str, version: int, owner: bytes, body: bytes) -> bytes:
    """Some code after its head, which has the SHA-256 of what it belongs to and of the code."""
    digest = hashlib.sha256(owner + body).digest()
    return magic.encode() + struct.pack("<I", version) + digest + body


def fields(*values: int | str | bytes) -> bytes:
    """Numbers of four bytes, texts without NUL, and bytes, one after the other.

    Texts and bytes are preceded by their sizes.
    """
    parts = []
    for value in values:
        if isinstance(value, int):
            parts.append(struct.pack("<I", value))
            continue
        if isinstance(value, str):
            value = value.encode("utf-8", "backslashreplace").replace(b"\0", rb"\x00")
        parts += (struct.pack("<I", len(value)), value)
    return b"".join(parts)
