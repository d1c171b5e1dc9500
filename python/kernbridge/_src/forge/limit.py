"""What the cache holds, and its size: the least recently used entries are removed first."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernbridge._src.base import settings
from kernbridge._src.forge import artefacts

VARIABLE = "KERNBRIDGE_CACHE_SIZE"
DEFAULT = "2GB"
PROTECTED = 2 * artefacts.STAMP
"""Seconds since the last use of a file for which it is kept: a process may be about to load it."""

_KEPT = re.compile(
    r"modules/(?P<module>.+)_[0-9a-f]{16}/"
    r"(?:(?P<library>.+-[0-9a-f]{16}\.so)|manifest\.json|\..+\.tmp)"
    r"|[^\W\d]\w*/[0-9a-f]{2}/(?P<artefact>[0-9a-f]+\.bin)"
)
"""The files that kernbridge keeps, as paths in a cache. A manifest whose writer died is a .tmp."""


class File(NamedTuple):
    """One file that kernbridge put into a cache."""

    path: str
    bytes: int
    used: float  # the time of its last use, to `artefacts.STAMP` seconds
    kind: str  # what made it, such as "numba_cpu_code" and "nvrtc"; "module": C, C++ or CUDA
    name: str  # of the module, or of the kernel as far as it has been read and the file holds it
    is_entry: bool  # whether it is a library or an artefact, and no note about one


def limit() -> int:
    """Return the bytes that the cache may hold, 0 for no limit, or raise ValueError."""
    text = os.environ.get(VARIABLE, "").strip() or DEFAULT
    found = settings.bytes_of(text)
    if found is None:
        raise ValueError(
            f"{VARIABLE} is {text!r}, expected a size such as '500MB', '2GB' or 0 [KB8002]"
        )
    return found


def cache_stats() -> tuple[int, int]:
    """Count the artefacts and libraries in the cache, and all bytes with the notes about them.

    Examples
    --------
    >>> from kernbridge._src.forge.limit import cache_stats
    >>> min(cache_stats()) >= 0
    True
    """
    held = list(files(artefacts.get_cache_dir()))
    return sum(f.is_entry for f in held), sum(f.bytes for f in held)


def clear_cache(name: str | None = None) -> int:
    """Remove compiled kernels from the cache.

    What is loaded stays loaded; a process that builds meanwhile keeps what it builds.

    Parameters
    ----------
    name : str or None
        A module of C, C++ or CUDA; None removes all that kernbridge put there.

    Returns
    -------
    int
        How many modules and artefacts were removed.

    Examples
    --------
    >>> from kernbridge._src.forge.limit import clear_cache
    >>> clear_cache("no_such_module")
    0
    """
    removed = set()
    for file in list(files(artefacts.usable())):
        is_module = file.kind == "module"
        if (name is None or (is_module and file.name == name)) and _remove(file):
            removed.add(os.path.dirname(file.path) if is_module else file.path)
    return len(removed)


def enforce(folder: Path, most: int) -> None:
    """Remove the least recently used files of a cache that is larger than its limit."""
    held = sorted(files(folder), key=lambda f: f.used) if most else []
    total = sum(f.bytes for f in held)
    newest = time.time() - PROTECTED
    left = Counter(os.path.dirname(f.path) for f in held if f.is_entry)
    for file in held:
        if total <= most or file.used > newest:
            break
        if not file.is_entry or not _remove(file):  # what cannot be removed stays
            continue
        total -= file.bytes
        place = os.path.dirname(file.path)
        left[place] -= 1
        if file.kind == "module" and not left[place]:
            # A folder goes with its last library, and with it the notes about its libraries.
            notes = [f for f in held if not f.is_entry and os.path.dirname(f.path) == place]
            total -= sum(f.bytes for f in notes if _remove(f))


def files(folder: Path | None) -> Iterator[File]:
    """List all that kernbridge put into a cache, apart from locks and unfinished builds."""
    if folder is None:  # there is no cache
        return
    root = os.path.join(folder, artefacts.VERSION)
    for path in glob.iglob("*/*/*", root_dir=root, include_hidden=True):
        match = _KEPT.fullmatch(path)
        if match is None:
            continue
        try:
            about = os.lstat(at := f"{root}/{path}")
        except OSError:  # another process was faster
            continue
        is_entry = bool(match["library"] or match["artefact"])
        kind = "module" if match["module"] else path.split("/")[0]
        yield File(at, about.st_size, about.st_mtime, kind, match["module"] or "", is_entry)


def _remove(file: File) -> bool:
    """Remove a file, and the folder of a module if that is empty then; report success."""
    try:
        os.unlink(file.path)
    except FileNotFoundError:  # another process was faster
        pass
    except OSError:
        return False
    if file.kind == "module":
        with contextlib.suppress(OSError):  # a builder may have put something there
            os.rmdir(os.path.dirname(file.path))
    return True


def entries() -> list[File]:
    """List what the cache holds, the last used first, with names. No code is loaded."""
    held = [f for f in files(artefacts.get_cache_dir()) if f.is_entry]
    named = [f._replace(name=f.name or _name_in(f.path)) for f in held]
    return sorted(named, key=lambda f: (-f.used, f.kind, f.name))


def _name_in(path: str) -> str:
    """Return the name of a kernel as the header of its artefact has it, or an empty text."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            name = str(json.loads(file.readline(64 << 10))["name"])
        return name if name.isprintable() else ""
    return ""
