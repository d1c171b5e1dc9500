"""Folders of unfinished builds, and the removal of those that dead builders left.

A folder bears the name of the lock that its builder holds, so one whose lock is free is dead.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kernbridge._src.forge import artefacts
from kernbridge._src.forge.obtain import NAME_LENGTH, locked


def staging(root: Path) -> Path:
    """Return the folder of unfinished builds."""
    return root / artefacts.VERSION / "staging"


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
            with locked(root, name, 0) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)
