"""A digest of kernbridge's own code, as part of the keys of generated code.

Code that another version of kernbridge generated may be wrong for this one. A version number that
is raised by hand is forgotten sooner or later, so the contents of the files are used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_FOLDER = Path(__file__).parents[1]
_STARTED = time.time_ns()
_SUFFIXES = (".py", ".pyc", ".so", ".pyd", ".h", ".hpp", ".ll")


def _files(folder: str, inside: str) -> Iterator[tuple[str, str]]:
    """The files of a folder by their names in it. `Path.rglob` takes four times as long."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIXES):
                yield inside + entry.name, entry.path
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path, f"{inside}{entry.name}/")


@functools.cache
def digest_of(*files: str) -> str:
    """Return the digest of some files of kernbridge, such as ``"keys/fingerprint.py"``.

    Without files, it is the digest of every file of kernbridge that can decide what is generated:
    all of its modules, its version among them, and its extension, since a list of the modules
    that generate code would be one more thing to forget. That takes some milliseconds. The
    digest of a few files takes 0.2 ms, and is the same in every version that has these files.
    """
    if files:
        return _hash((name, str(_FOLDER / name)) for name in files)
    folders = sys.modules["kernbridge"].__path__  # two if editable
    return _hash(sorted(file for folder in folders for file in _files(folder, "")))


def _hash(files: Iterable[tuple[str, str]]) -> str:
    h = hashlib.sha256()
    for name, path in files:
        try:
            with open(path, "rb", buffering=0) as file:
                content = hashlib.sha256(file.read()).digest()
                if _STARTED < os.fstat(file.fileno()).st_ctime_ns <= time.time_ns():
                    content += os.urandom(16)
        except OSError:  # a file of an archive, or one that has just been replaced
            content = b""
        h.update(f"\n{name}:".encode() + content)
    return h.hexdigest()
