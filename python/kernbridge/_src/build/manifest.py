"""Records the files that a library was built from, and checks whether they have changed.

A module's folder contains `manifest.json` and one library for each state of its headers and its
compiler. A library can be used if no file that it was built from has changed: by size and time of
the last change, or by content if the times differ.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import NamedTuple

from kernbridge import _core
from kernbridge._src.build.command import Job
from kernbridge._src.build.request import Built
from kernbridge._src.forge import artefacts

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
UNKNOWN = ""
Absent = tuple[list[str], list[str]]
"""Folders, and names that none of them has: files that would be read in place of others."""


class Provenance(NamedTuple):
    """One library and what it was built from."""

    digest: str  # of all inputs
    size: int  # of the library
    sha: str
    # The files that were read and the programs that were run, a `Dependency` an index. Lists of
    # plain values: a list for each file would start Python's garbage collector.
    paths: list[str]
    sizes: list[int]
    times: list[int]
    shas: list[str]
    absent: list[Absent]


def find(job: Job) -> Built | None:
    """Find a library of a job that fits."""
    for known in read(job.folder, job.key):
        fresh = check(known, job)
        path = job.library(known.digest)
        if fresh is None or not is_whole(path, known):
            continue
        if fresh is not known:  # files were touched: not worth waiting for
            from kernbridge._src.forge import lock

            with contextlib.suppress(OSError), lock.held(job.root, job.key, 0) as mine:
                if mine:
                    note(job, fresh)
        return Built(path, known.digest, known.sha, job.shown, False)
    return None


def read(folder: Path, key: str) -> list[Provenance]:
    """Return the entries of a folder; none where there is nothing that can be trusted."""
    try:
        about = os.stat(folder, follow_symlinks=False)
    except OSError:
        return []
    if not stat.S_ISDIR(about.st_mode) or not artefacts.is_ours(about):
        return []
    try:
        found = json.loads(artefacts.read(folder / NAME) or b"{}")
        entries = [Provenance(**e) for e in found["entries"]] if found["key"] == key else []
        return [e for e in entries if isinstance(e.digest, str) and e.digest.isalnum()]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return []


def note(job: Job, known: Provenance) -> None:
    """Put what is known of a library in front of a manifest."""
    others = [e for e in read(job.folder, job.key) if e.digest != known.digest]
    entries = [e._asdict() for e in (known, *others)[:MOST_ENTRIES]]
    data = json.dumps({"key": job.key, "entries": entries}, separators=(",", ":"))
    artefacts.publish(job.folder / NAME, data.encode())


def check(known: Provenance, job: Job) -> Provenance | None:
    """Return what is known, with the times of now; None if something changed."""
    sizes, shas = known.sizes, known.shas
    try:
        times = list(known.times)
        paths = job.unpack(known.paths)
        changed = _core.changed_files(paths, sizes, times)
        for i in changed:
            about = os.stat(paths[i])
            if about.st_size != sizes[i] or shas[i] == UNKNOWN or digest_of(paths[i]) != shas[i]:
                return None
            times[i] = about.st_ctime_ns
        if any(_has_any(f, names) for fs, names in known.absent for f in job.unpack(fs)):
            return None
    except (OSError, ValueError, TypeError, IndexError, AttributeError, OverflowError):
        return None
    return known._replace(times=times) if changed else known


def _has_any(folder: str, names: list[str]) -> bool:
    """Whether a folder has one of these names; it need not exist."""
    try:
        return not set(os.listdir(folder)).isdisjoint(names)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:  # what cannot be listed may still be searched
        return any(os.path.lexists(os.path.join(folder, name)) for name in names)


def is_whole(path: Path, known: Provenance) -> bool:
    """Whether a library is the one that was built, and nobody else can have written it."""
    try:
        about = os.stat(path, follow_symlinks=False)
        if not stat.S_ISREG(about.st_mode) or not artefacts.is_ours(about):
            return False
        if about.st_size != known.size:
            return False
        if about.st_size <= HASHED_LIBRARY and digest_of(path) != known.sha:
            return False
    except OSError:
        return False
    artefacts.note_use(str(path), about)
    return True


def is_changed(built: Built) -> bool:
    """Whether a library is no longer the one that was built, or has gone."""
    try:
        return digest_of(built.path) != built.sha
    except OSError:
        return True


def digest_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file."""
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def dependency(path: str, about: os.stat_result) -> Dependency:
    """Describe a file as it is now; `about` is what it was before it was used."""
    sha = digest_of(path) if about.st_size <= HASHED_TOOL else UNKNOWN
    return path, about.st_size, about.st_ctime_ns, sha
