"""Lists the entries of the cache, file by file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernbridge._src.forge import artefacts, limit

_MOST_HEADER = 64 << 10
"""An artefact's first line is at most so long; what is longer has no name here."""


class Entry(NamedTuple):
    """One compiled artefact, or one library.

    Attributes
    ----------
    kind : str
        The compiler that made it: "numba_cpu_code", "numba_cuda", "nvrtc", ... and "module" for a
        library of C, C++ or CUDA sources.
    name : str
        Of the kernel or the module; empty where the file does not hold it.
    bytes : int
        Its size.
    used : float
        When it was last used, in seconds since 1970, to `artefacts.STAMP` seconds.
    """

    kind: str
    name: str
    bytes: int
    used: float


def entries() -> list[Entry]:
    """List what the cache holds, the last used first. No code is loaded."""
    folder = artefacts.get_cache_dir()
    if folder is None:
        return []
    return sorted(_entries(folder), key=lambda e: (-e.used, e.kind, e.name))


def _entries(folder: Path) -> Iterator[Entry]:
    for file in limit.files(folder):
        if file.is_entry:
            kind = "module" if file.module else Path(file.path).parents[1].name
            name = file.module or _name_in(file.path)
            yield Entry(kind, name, file.bytes, file.used)


def _name_in(path: str) -> str:
    """Return the name of a kernel as the header of its artefact has it, or an empty text."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            name = str(json.loads(file.readline(_MOST_HEADER))["name"])
        return name if name.isprintable() else ""
    return ""
