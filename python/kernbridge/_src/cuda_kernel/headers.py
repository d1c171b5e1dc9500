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
import time
from collections.abc import Sequence
from typing import NamedTuple

from kernbridge._src.build import flags as build_flags

SETTLED = 0.05
"""Seconds after which a change of a file shows in its times."""

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
    """What a compilation may read."""

    digest: bytes  # of the files' paths and contents; of those in the toolkit, of sizes and times
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
    folders = [value.strip() for option, value in found if option in build_flags.FOLDERS]
    names = [value.strip() for option, value in found if option == "-include"]
    known = not any(_UNSEEN.search(word) or _PRECOMPILED.match(word) for word in words)
    text = _scan(source)
    search = _Search((*include_paths, *folders), tuple(map(os.path.abspath, toolkit)))
    search.ask((*names, *text.names), None)
    search.run()
    parts = repr(sorted(search.found.items())).encode("utf-8", "surrogatepass")
    return Headers(hashlib.sha256(parts).digest(), known and text.known and search.known)


@functools.lru_cache(maxsize=1024)
def _scan(text: str) -> _Text:
    """Return the names that a text may include."""
    known = _UNSEEN.search(text) is None
    text = _SPLICE.sub("", text)
    included = [match[1] for match in _DIRECTIVE.finditer(text)]
    names = dict.fromkeys((*included, *build_flags.asks(text)))
    known = known and None not in names  # where a macro makes a name
    return _Text(tuple(filter(None, names)), known)


class _Search:
    """All files that names may stand for, and the names in those."""

    def __init__(self, folders: Sequence[str], toolkit: tuple[str, ...]) -> None:
        # A name in quotes is looked for in the working folder too, and beside its includer.
        self.folders = list(dict.fromkeys(map(os.path.abspath, (".", *folders))))
        self.toolkit = toolkit
        self.names: dict[str, None] = {}
        self.found: dict[str, str] = {}
        self.known = True
        self._tried: set[str] = set()
        self._beside: list[str] = []  # paths in the toolkit

    def ask(self, names: Sequence[str], folder: str | None) -> None:
        """Note names; `folder`: of a header of the toolkit that includes them."""
        for name in names:
            self.names[name] = None
            if folder is not None:
                self._beside.append(os.path.join(folder, name))

    def run(self) -> None:
        """Look for names until no more are found."""
        before = (-1, -1)
        while before != (now := (len(self.names), len(self.folders))):
            before = now
            for folder in (*self.folders, *self.toolkit):
                for name in tuple(self.names):
                    self._try(os.path.join(folder, name))
            while self._beside:
                self._try(self._beside.pop())

    def _try(self, path: str) -> None:
        if path in self._tried:
            return
        self._tried.add(path)
        path = os.path.normpath(path)
        try:
            about = os.stat(path)
        except (OSError, ValueError):
            return
        if path in self.found or not os.path.isfile(path):
            return
        folder = os.path.dirname(path)
        if any(path.startswith(root + os.sep) for root in self.toolkit):
            self.found[path] = f"{about.st_size} {about.st_mtime_ns}"
            self.ask(_of_toolkit(path, about.st_size, about.st_mtime_ns), folder)
            return
        self.found[path], text = _of_user(path, about)
        self.known = self.known and text.known
        self.ask(text.names, None)
        if folder not in self.folders:
            self.folders.append(folder)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as e:  # the compiler will not read it either, as long as that is so
        return f"{type(e).__name__} {e.errno}".encode()


@functools.lru_cache(maxsize=4096)
def _of_toolkit(path: str, size: int, modified: int) -> tuple[str, ...]:
    return _scan.__wrapped__(_read(path).decode(errors="surrogateescape")).names


def _of_user(path: str, about: os.stat_result) -> tuple[str, _Text]:
    """Return digest and names of a file, read again unless it is certain that nothing changed."""
    if time.time() - about.st_ctime <= SETTLED:
        return _content(path)
    state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return _settled(path, state)


def _content(path: str) -> tuple[str, _Text]:
    data = _read(path)
    text = data.decode(errors="surrogateescape")
    return hashlib.sha256(data).hexdigest(), _scan.__wrapped__(text)


@functools.lru_cache(maxsize=4096)
def _settled(path: str, state: tuple[int, ...]) -> tuple[str, _Text]:
    return _content(path)
