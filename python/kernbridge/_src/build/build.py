"""Builds a shared library from source, or takes it from the cache.

Any thread and any process may build the same library at any time: one of them builds it, and the
others wait for the result. A library appears completely or not at all, its name is unique to its
content, and it is never overwritten.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from pathlib import Path

from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.build import library
from kernbridge._src.build.library import Built, Job, Request
from kernbridge._src.forge import artefacts


def build(request: Request) -> Built:
    """Return the library of a request, from the cache if it is there."""
    try:
        job = Job(request)
    except KernelToolchainError:
        if request.finish:
            request.finish()  # an error in the source is reported first
        raise
    built = _in_cache(job) or _in_private(job)
    if request.build_directory is not None:
        _copy(built.path, Path(request.build_directory) / f"{job.stem}.so")
    return built


def _in_cache(job: Job) -> Built | None:
    """Find or build a library in the cache; None where it is off, or the system refuses to."""
    folder = artefacts.usable()
    if folder is None:
        return None
    try:
        found = _find(job, folder)
        if found is None:
            artefacts.make_folders(folder, artefacts.modules(folder))
            # Another user may have been faster where everybody may make a folder.
            found = _make(job) if artefacts.usable() == folder else None
        return found
    except OSError as e:
        artefacts.warn(str(folder), e)
        return None


def _in_private(job: Job) -> Built:
    """Find or build a library in the folder of this process."""
    try:
        return _find(job, _private(os.getpid())) or _make(job)
    except OSError as e:
        raise KernelToolchainError(
            f"{job.request.name}: the library cannot be written to a temporary folder either: "
            f"{e}; free some space there, or set TMPDIR to another folder [KB4008]"
        ) from e


def _find(job: Job, root: Path) -> Built | None:
    job.root = root
    return None if job.request.force_rebuild else library.find(job)


def _make(job: Job) -> Built:
    from kernbridge._src.build import make  # a library that is found needs nothing of it

    return make.wait_or_make(job)


def _copy(source: Path, target: Path) -> None:
    """Put a copy into the user's build directory, unless it is there."""
    with contextlib.suppress(OSError):
        if target.read_bytes() == source.read_bytes():
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    artefacts.publish(target, source.read_bytes(), 0o755)


@functools.cache
def _private(pid: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kernbridge-", dir=_temporary()))

    def remove() -> None:
        if os.getpid() == pid:  # not in a process that was forked from this one
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _temporary() -> str:
    """Return a folder for temporary files in which nobody else can replace them."""
    objections = []
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")):
        why = artefacts.why_not(Path(place).absolute())
        if why is None and os.access(place, os.W_OK | os.X_OK):
            return place
        objections.append(f"{place}: {why or 'it cannot be written to'}")
    raise KernelToolchainError(
        "found no folder for temporary files in which no other user can replace a library; set "
        f"TMPDIR to such a folder. {'; '.join(objections)} [KB4008]"
    )
