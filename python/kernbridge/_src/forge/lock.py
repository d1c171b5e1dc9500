"""Locks for what is made once on a machine, and the removal of folders that dead builders left.

A lock is a file that a process holds locked; it is free when the process has gone, however it went.
Lock files are never removed (that could give two owners); there are at most 4096, each empty. A
staging folder bears the name of the lock that its builder holds, so one whose lock is free is dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kernbridge._src.forge import artefacts, progress

POLL = 0.02
"""Seconds between two looks at a lock that another holds."""
NAME_LENGTH = 3
"""Hexadecimal digits of a lock's name."""


def staging(root: Path) -> Path:
    """Return the folder of unfinished builds."""
    return artefacts.versioned(root) / "staging"


@contextlib.contextmanager
def held(root: Path, key: str, patience: float, label: str = "") -> Iterator[bool]:
    """Hold the lock of a key; returns whether it could be had within `patience` seconds.

    While it waits for what others make, it says so of `label`. Where a file system knows no locks
    it is not had either: then two may build the same thing, which costs time only.
    """
    folder = artefacts.versioned(root) / "locks"
    artefacts.make_folders(root, folder)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(folder / f"{key[:NAME_LENGTH]}.lock", flags, 0o600)
    try:
        mine = _try(file)
        if mine is None and patience:
            with progress.waiting(label):
                end = time.monotonic() + patience
                while mine is None and time.monotonic() < end:
                    time.sleep(POLL)
                    mine = _try(file)
        yield bool(mine)
    finally:
        with contextlib.suppress(OSError):  # a child that was forked meanwhile has the file, too
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _try(file: int) -> bool | None:
    """Lock a file: True; False if that cannot be, and None if another holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return False
    return True


@contextlib.contextmanager
def workspace(root: Path, key: str, owned: bool) -> Iterator[Path]:
    """Make a folder to build in, on the file system of the cache, for as long as this lasts."""
    parent = staging(root)
    artefacts.make_folders(root, parent)
    sweep(root, key if owned else None)
    prefix = key[:NAME_LENGTH] if owned else "free"
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=parent))  # mode 0700
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root: Path, mine: str | None) -> None:
    """Remove what dead builders left. `mine`: the key whose lock the caller holds."""
    for folder in list(staging(root).iterdir()):
        name = folder.name.split("-")[0]
        if mine is not None and name == mine[:NAME_LENGTH]:
            shutil.rmtree(folder, ignore_errors=True)
        elif name == "free":
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > 86400:
                    shutil.rmtree(folder, ignore_errors=True)
        else:
            with held(root, name, 0) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)
