"""How large the cache is, and what goes when it is too large: the least recently used first."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernbridge._src.store import artefacts, lock

VARIABLE = "KERNBRIDGE_CACHE_SIZE"
DEFAULT = "2GB"
PROTECTED = 2 * artefacts.STAMP
"""Seconds since its last use for which nothing is removed: somebody may be about to load it."""
RECOUNT = 3600
"""Seconds after which the size is measured, not added up."""

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
MODULE = re.compile(r"(?P<name>.+)_(?P<key>[0-9a-f]{16})")
_LIBRARY = re.compile(r".+-[0-9a-f]{16}\.so")
_UNFINISHED = re.compile(r"\..+\.tmp")
"""A manifest whose writer died."""


class Stats(NamedTuple):
    """How much a cache holds.

    Attributes
    ----------
    entries : int
        Compiled artefacts of Numba kernels, and libraries of C, C++ and CUDA sources.
    bytes : int
        Of all of them, with what is noted about them.
    """

    entries: int
    bytes: int


class _File(NamedTuple):
    path: str
    bytes: int
    used: float
    entry: bool


def limit() -> int:
    """Bytes that the cache may hold; 0: no limit.

    Raises
    ------
    ValueError
        If the environment says something else than a size.
    """
    text = os.environ.get(VARIABLE, "").strip() or DEFAULT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Z]*)", text.upper())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{VARIABLE} is {text!r}, expected a size such as '500MB', '2GB' or 0")
    return int(float(match[1]) * _UNITS[match[2]])


def cache_stats() -> Stats:
    """Count what the cache holds.

    Examples
    --------
    >>> from kernbridge._src.store.limit import cache_stats
    >>> cache_stats().entries >= 0
    True
    """
    folder = artefacts.directory()
    files = list(_files(folder)) if folder is not None else []
    return Stats(sum(f.entry for f in files), sum(f.bytes for f in files))


def clear_cache(name: str | None = None) -> int:
    """Remove compiled kernels from the cache.

    What is loaded stays loaded; a process that builds meanwhile keeps what it builds.

    Parameters
    ----------
    name : str or None
        Of one module of C, C++ or CUDA; None removes all that kernbridge put there.

    Returns
    -------
    int
        How many modules and artefacts were removed.

    Examples
    --------
    >>> from kernbridge._src.store.limit import clear_cache
    >>> clear_cache("no_such_module")
    0
    """
    folder = artefacts.usable()
    if folder is None:
        return 0
    removed = 0
    for module in _modules(folder):
        match = MODULE.fullmatch(module.name)
        if match is not None and name in (None, match["name"]):
            for file in _of_module(module):
                _remove(file.path)
            removed += 1
            with contextlib.suppress(OSError):
                module.rmdir()
    if name is None:
        for file in _artefacts(folder):
            removed += _remove(file.path)
        _remove(str(_tally(folder)))
    return removed


def grew(folder: Path, added: int) -> None:
    """Remember that a cache grew, and shrink it to its limit if that is due.

    Never raises an `OSError`: what cannot be removed stays.
    """
    most = limit()
    with lock.held(folder, "evict", 0) as mine:
        if not mine:
            return
        tally = _tally(folder)
        total = _read_tally(tally)
        if total is None or (most and total + added > most):
            total = shrink(folder, most)
        else:
            total += added
        with contextlib.suppress(OSError):
            artefacts._publish(tally, json.dumps({"bytes": total, "at": time.time()}).encode())


def shrink(folder: Path, most: int) -> int:
    """Remove the least recently used files until `most` bytes are left (0: none is removed).

    Returns
    -------
    int
        Bytes that the cache holds afterwards.
    """
    files = sorted(_files(folder), key=lambda f: f.used)
    total = sum(f.bytes for f in files)
    newest = time.time() - PROTECTED
    for file in files:
        if not most or total <= most or file.used > newest:
            break
        if file.entry and _remove(file.path):
            total -= file.bytes
            total -= _tidy(Path(file.path).parent)
    return total


def _tidy(module: Path) -> int:
    """Remove a folder that holds no library any more; gives the bytes of its notes."""
    if MODULE.fullmatch(module.name) is None:
        return 0
    left = list(_of_module(module))
    if any(f.entry for f in left):
        return 0
    removed = sum(f.bytes for f in left if _remove(f.path))
    with contextlib.suppress(OSError):  # a builder may have put something there
        module.rmdir()
    return removed


def _tally(folder: Path) -> Path:
    return folder / f"v{artefacts.FORMAT}" / "size.json"


def _read_tally(path: Path) -> int | None:
    """Bytes as they were added up; None if it is time to measure them."""
    try:
        found = json.loads(path.read_bytes())
        recent = 0 <= time.time() - found["at"] < RECOUNT
        return int(found["bytes"]) if recent else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _files(folder: Path) -> Iterator[_File]:
    """All that kernbridge put into a cache, apart from locks and unfinished builds."""
    yield from _artefacts(folder)
    for module in _modules(folder):
        yield from _of_module(module)


def modules(folder: Path) -> Path:
    """Where the libraries of a cache are."""
    return folder / f"v{artefacts.FORMAT}" / "modules"


def _modules(folder: Path) -> Iterator[Path]:
    for path in _list(modules(folder)):
        if MODULE.fullmatch(path.name) and path.is_dir():
            yield path


def _of_module(module: Path) -> Iterator[_File]:
    for path in _list(module):
        library = _LIBRARY.fullmatch(path.name) is not None
        if library or path.name == "manifest.json" or _UNFINISHED.fullmatch(path.name):
            yield from _look(path, library)


def _artefacts(folder: Path) -> Iterator[_File]:
    for kind in _list(folder / f"v{artefacts.FORMAT}"):
        if kind.name in ("modules", "locks", "staging") or not kind.name.isidentifier():
            continue
        for first in _list(kind):
            if re.fullmatch(r"[0-9a-f]{2}", first.name) is None:
                continue
            for path in _list(first):
                if re.fullmatch(r"[0-9a-f]+\.bin", path.name):
                    yield from _look(path, True)


def _look(path: Path, entry: bool) -> Iterator[_File]:
    with contextlib.suppress(OSError):
        about = path.lstat()
        yield _File(str(path), about.st_size, about.st_mtime, entry)


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
