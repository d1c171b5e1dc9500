"""Libraries of C and C++ modules in programs, which the core opens (src/module/kb_library.h)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kernbridge import _core
from kernbridge._src.base.packing import sealed, sized, text


def encode(
    digest: bytes,
    label: str,
    buffers: Sequence[tuple[int, int, str]],
    n_inputs: int,
    function: str,
    zeroed: bool,
    values: Sequence[bytes],
    library: bytes,
) -> bytes:
    """The bytes of a call of a function of a library; `digest` identifies the kernel."""
    body = b"".join(
        (
            text(label),
            text(""),
            struct.pack("<III", n_inputs, len(buffers) - n_inputs, 0),
            *(struct.pack("<II", dtype, rank) + text(name) for dtype, rank, name in buffers),
            text(function),
            struct.pack("<II", zeroed, len(values)),
            *(sized(value) for value in values),
            sized(library),
        )
    )
    return sealed(_core.LIBRARY_MAGIC, _core.LIBRARY_VERSION, digest, body)
