"""Finds all files that NVRTC may read for a source, whose contents are part of the cache key.

NVRTC does not report which headers it read. Each name that a source or one of its headers may
include, whatever the conditions around it, is therefore searched for in every folder, and each file
that is found is part of the key. These are at least the files that the compiler reads. If only the
compiler knows a name (``#include MACRO``), or if a clock is read (``__TIME__``), nothing is cached.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
import time
from collections.abc import Sequence
from typing import NamedTuple

from kernbridge._src.build import flags as build_flags

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_BLANK = r"(?:[ \t\f\v]|/\*.*?\*/)*"
_DIRECTIVE = re.compile(
    rf"^(?:.*\*/)?{_BLANK}(?:#|%:|\?\?=){_BLANK}(?:include|include_next|import|embed)\b"
    rf'{_BLANK}(?:[<"]([^>"\n]+)[>"])?',
    re.MULTILINE,
)
_UNSEEN = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b|\?\?/")

_PRECOMPILED = re.compile(r"--?(?:pch|create-pch|use-pch)\b")


class Headers(NamedTuple):
    digest: bytes  # of the paths and contents of files
    known: bool  # whether that is all: if not, nothing may be kept


class _Text(NamedTuple):
    names: tuple[str, ...]
    known: bool


def look(
    source: str, options: Sequence[str], include_paths: Sequence[str], toolkit: Sequence[str]
) -> Headers:
    """Find all that a compilation of this source with these options may read now."""
    words = [option.strip() for option in options]
    found = list(build_flags.read(words))
    given = [value.strip() for option, value in found if option in build_flags.FOLDERS]
    # A name in quotes is looked for in the working folder too, and beside its includer.
    folders = list(dict.fromkeys(map(os.path.abspath, (".", *include_paths, *given))))
    roots = tuple(map(os.path.abspath, toolkit))
    text = _scan(source)
    known = text.known and not any(_UNSEEN.search(w) or _PRECOMPILED.match(w) for w in words)
    names = dict.fromkeys(value.strip() for option, value in found if option == "-include")
    names |= dict.fromkeys(text.names)
    beside: list[str] = []  # paths in the toolkit, beside a header that includes them
    tried: set[str] = set()
    read: dict[str, str] = {}  # the digests of files, by path
    before = (-1, -1)
    while beside or before != (now := (len(names), len(folders))):
        if beside:
            paths = [beside.pop()]
        else:
            before = now
            paths = [os.path.join(f, name) for f in (*folders, *roots) for name in names]
        for path in paths:
            if path in tried:
                continue
            tried.add(path)
            path = os.path.normpath(path)
            content = None if path in read else _content(path)
            if content is None:
                continue
            read[path], text = content
            names |= dict.fromkeys(text.names)
            folder = os.path.dirname(path)
            if any(path.startswith(root + os.sep) for root in roots):
                beside += [os.path.join(folder, name) for name in text.names]
                continue
            known = known and text.known
            if folder not in folders:
                folders.append(folder)
    parts = repr(sorted(read.items())).encode("utf-8", "surrogatepass")
    return Headers(hashlib.sha256(parts).digest(), known)


@functools.lru_cache(maxsize=1024)
def _scan(text: str) -> _Text:
    known = _UNSEEN.search(text) is None
    text = _SPLICE.sub("", text)
    included = [match[1] for match in _DIRECTIVE.finditer(text)]
    names = dict.fromkeys((*included, *build_flags.asks(text)))
    known = known and None not in names  # where a macro makes a name
    return _Text(tuple(filter(None, names)), known)


def _content(path: str) -> tuple[str, _Text] | None:
    """Return digest and names of a file, read again unless it is certain that nothing changed."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    if time.time() - about.st_ctime <= 0.05:  # until then, a change may not show in its times
        return _read.__wrapped__(path, ())
    times = about.st_mtime_ns, about.st_ctime_ns
    return _read(path, (about.st_dev, about.st_ino, about.st_size, *times))


@functools.lru_cache(maxsize=8192)
def _read(path: str, state: tuple[int, ...]) -> tuple[str, _Text]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as e:  # the compiler cannot read it either
        data = f"{type(e).__name__} {e.errno}".encode()
    text = data.decode(errors="surrogateescape")
    return hashlib.sha256(data).hexdigest(), _scan.__wrapped__(text)
