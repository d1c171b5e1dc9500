"""Writes the format of machine code in programs and on disk (kb_checksum.h, kb_fields.h)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

from kernbridge import _core

Buffers = Sequence[tuple[int, int, str]]  # dtype, rank and name of inputs, then of outputs


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


class HostCode(NamedTuple):
    """Machine code that does not depend on this process."""

    code: bytes  # a relocatable object, which defines the entry
    features: int  # what the processor must have, as bits of `_core.cpu_features()`
    places: dict[int, str]  # the text of the line that each status stands for
    # Whether all of it follows from the kernel: no text of an exception from a class of the
    # user's, and no function from Numba's cache on disk, which may come from an older source.
    lasting: bool


def host_code(
    identity: bytes, head: Sequence[int | str], buffers: Buffers, code: HostCode
) -> bytes:
    """The bytes of a kernel in programs and on disk (src/object/kb_host_code.h).

    `head` is its label, where it is defined, and the numbers of inputs, outputs and hidden results.
    """
    places = [part for place in sorted(code.places.items()) for part in place]
    listed = [part for buffer in buffers for part in buffer]
    body = code.features.to_bytes(8, "little")
    body += fields(*head, *listed, len(code.places), *places, code.code)
    return sealed(_core.HOST_CODE_MAGIC, _core.HOST_CODE_VERSION, identity, body)
