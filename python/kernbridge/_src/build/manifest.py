"""What a library was built from, and whether that is still so.

A module's folder holds `manifest.json` and one library for each state of its headers and compiler
that was met. A library fits when every file that it was built from is as it was: by size and time
of the last change, or, where the time differs, by content.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kernbridge import _core
from kernbridge._src.store import artefacts

NAME = "manifest.json"
MOST_ENTRIES = 16
HASHED_TOOL = 256 << 20
"""A program or library of up to so many bytes is known by its content, others by size and time."""
HASHED_LIBRARY = 256 << 10
"""A library of up to so many bytes is read before it is loaded; larger ones reached the disk."""

Dependency = tuple[str, int, int, str]
"""Path, size, time of the last change (ns), and SHA-256; of a large program `UNKNOWN`.

The time is that of the file's inode: nobody can set it back, as they can the time of modification.
"""
SHA = 64
UNKNOWN = "-" * SHA


class Entry(NamedTuple):
    """One library and what it was built from.

    Attributes
    ----------
    digest : str
        Of all inputs.
    size, sha : int, str
        Of the library.
    compiler : str
        Its version, for people.
    paths, sizes, times, shas : str, list, list, str
        Of the files that were read and the programs that were run: see `Dependency`. Paths have a
        line each, digests `SHA` characters: two texts are read from JSON faster than hundreds.
    absent : str
        Files that would be read in place of others if they were there, a line each.
    """

    digest: str
    size: int
    sha: str
    compiler: str
    paths: str
    sizes: list[int]
    times: list[int]
    shas: str
    absent: str


class Places(NamedTuple):
    """Our own include folders: in a manifest their place does not count.

    Attributes
    ----------
    own : tuple of str
        Ending in a separator.
    """

    own: tuple[str, ...]

    def pack(self, path: str) -> str:
        """As a manifest holds a path."""
        for i, folder in enumerate(self.own):
            if path.startswith(folder):
                return f"@{i}/{path[len(folder) :]}"
        return path

    def unpack(self, path: str) -> str:
        """As the file system knows it."""
        if not path.startswith("@"):
            return path
        number, _, rest = path[1:].partition("/")
        return self.own[int(number)] + rest


def library(folder: Path, name: str, digest: str) -> Path:
    """Where a library lies."""
    return folder / f"{name}-{digest[:16]}.so"


def read(folder: Path, key: str) -> list[Entry]:
    """The entries of a folder; empty where there is nothing that can be trusted."""
    try:
        about = os.stat(folder, follow_symlinks=False)
    except OSError:
        return []
    if not stat.S_ISDIR(about.st_mode) or not artefacts._is_ours(about):
        return []
    data = artefacts._read(folder / NAME)
    if data is None:
        return []
    try:
        found = json.loads(data)
        if found["key"] != key:
            return []
        return [Entry(**e) for e in found["entries"]]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return []


def encode(key: str, entries: Iterable[Entry]) -> bytes:
    """What `read` reads."""
    kept = [e._asdict() for e in list(entries)[:MOST_ENTRIES]]
    return json.dumps({"key": key, "entries": kept}, separators=(",", ":")).encode()


def entry(
    digest: str,
    library: Path,
    compiler: str,
    dependencies: Iterable[Dependency],
    absent: Iterable[str],
) -> Entry:
    """Of a library that was just built."""
    paths, sizes, times, shas = zip(*dependencies, strict=True)
    return Entry(
        digest=digest,
        size=library.stat().st_size,
        sha=digest_of(library),
        compiler=compiler,
        paths="\n".join(paths),
        sizes=list(sizes),
        times=list(times),
        shas="".join(shas),
        absent="\n".join(absent),
    )


def note(folder: Path, key: str, entry: Entry) -> None:
    """Put an entry in front of a manifest."""
    others = [e for e in read(folder, key) if e.digest != entry.digest]
    artefacts._publish(folder / NAME, encode(key, [entry, *others]))


def check(entry: Entry, places: Places) -> Entry | None:
    """The entry, with new times where contents are the same; None if something changed."""
    try:
        paths = [places.unpack(path) for path in entry.paths.split("\n")]
        times = list(entry.times)
        changed = _core.changed_files(paths, entry.sizes, entry.times)
        for i in changed:
            about, sha = os.stat(paths[i]), entry.shas[i * SHA : (i + 1) * SHA]
            if about.st_size != entry.sizes[i] or sha == UNKNOWN or digest_of(paths[i]) != sha:
                return None
            times[i] = about.st_ctime_ns
        if entry.absent and _core.any_exists([places.unpack(p) for p in entry.absent.split("\n")]):
            return None
    except (OSError, ValueError, TypeError, IndexError, AttributeError):
        return None
    return entry._replace(times=times) if changed else entry


def is_whole(path: Path, entry: Entry) -> bool:
    """Whether a library is the one that was built, and nobody else can have written it."""
    try:
        about = os.stat(path, follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode) or not artefacts._is_ours(about):
            return False
        if about.st_size != entry.size:
            return False
        if about.st_size <= HASHED_LIBRARY and digest_of(path) != entry.sha:
            return False
    except OSError:
        return False
    artefacts.note_use(str(path), about)
    return True


def digest_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file."""
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tool(path: str, about: os.stat_result) -> Dependency:
    """A program as a dependency; `about` is what it was before it ran."""
    sha = digest_of(path) if about.st_size <= HASHED_TOOL else UNKNOWN
    return path, about.st_size, about.st_ctime_ns, sha


def header(path: str, places: Places, begin: int, end: int) -> tuple[Dependency, bool]:
    """A file that a compiler read; and whether it changed between two times (ns)."""
    about = os.stat(path)
    moved = begin <= about.st_ctime_ns <= end or begin <= about.st_mtime_ns <= end
    sha = digest_of(path) if about.st_size <= HASHED_TOOL else UNKNOWN
    return (places.pack(path), about.st_size, about.st_ctime_ns, sha), moved


def read_make(text: str) -> list[str]:
    r"""The prerequisites in what a compiler's -MD writes, each once.

    Examples
    --------
    >>> from kernbridge._src.build.manifest import read_make
    >>> read_make("x.o: a.h b\\ c.h \\\n  $$d.h\n")
    ['a.h', 'b c.h', '$d.h']
    """
    text = text.replace("\\\r\n", " ").replace("\\\n", " ")
    found: dict[str, None] = {}
    for rule in text.splitlines():
        words = _split(rule)
        # The target ends in a colon of its own or with a blank before.
        ends = [i for i, word in enumerate(words) if word.endswith(":")]
        for word in words[ends[0] + 1 :] if ends else ():
            found[word] = None
    return list(found)


def _split(rule: str) -> list[str]:
    words, word, i = [], "", 0
    while i < len(rule):
        two = rule[i : i + 2]
        if two in ("\\ ", "\\#", "\\:", "$$"):
            word += two[1]
            i += 2
            continue
        if rule[i] in " \t":
            words += [word] if word else []
            word = ""
        else:
            word += rule[i]
        i += 1
    return [*words, word] if word else words
