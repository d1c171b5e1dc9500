"""A source becomes a shared library: from the cache, or by a compiler.

Any thread and any process may build the same thing at any time: one of them does, the others wait
and take what it made. A library appears whole or not at all, under a name that no other content
has, and is never written again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from pathlib import Path

from kernbridge._src.base import progress
from kernbridge._src.base.errors import KernelToolchainError, defect
from kernbridge._src.build import command, manifest, run, work
from kernbridge._src.build.command import Job
from kernbridge._src.build.request import Built, Request
from kernbridge._src.store import artefacts, limit, lock, trust
from kernbridge._src.toolchain import compilers


def build(request: Request) -> Built:
    """Return the library of a request, from the cache if it is there."""
    if request.language not in command.SUFFIXES:
        languages = ", ".join(map(repr, command.SUFFIXES))
        raise ValueError(
            defect(f"{request.name}: language {request.language!r}, expected {languages}")
        )
    root = _root()
    job = command.plan(request, root)
    if not all(map(os.path.exists, job.tools)):
        compilers.forget()
        job = command.plan(request, root)
    built = (None if request.force_rebuild else manifest.find(job)) or _build(job)
    if request.build_directory is not None:
        _copy(built.path, Path(request.build_directory) / f"{job.stem}.so")
    return built


def _build(job: Job) -> Built:
    """Build, or wait for who does."""
    patience = run.timeout()
    limit.limit()  # an error in it is reported before the work
    with contextlib.ExitStack() as stack:
        # The other one may need as long as a compiler may run, after one that it waits for itself.
        held = lock.held(job.root, job.key, 2 * patience + 10)
        with progress.waiting(job.request.name):
            mine = stack.enter_context(held)
        found = None if job.request.force_rebuild else manifest.find(job)
        if found is not None:
            return found
        path, digest = work.make(job, mine, patience)
    limit.enforce(job.root)
    return Built(path, digest, True)


def _copy(library: Path, target: Path) -> None:
    """Put a copy into the user's build directory, unless it is there."""
    with contextlib.suppress(OSError):
        if target.read_bytes() == library.read_bytes():
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    artefacts.publish(target, library.read_bytes(), 0o755)


def _root() -> Path:
    """Return the cache's folder, or one of this process where there is none to write to."""
    folder = artefacts.usable()
    if folder is None:
        return _private(os.getpid())
    place = limit.modules(folder)
    if place.is_dir():
        return folder
    try:
        artefacts.make_folders(folder, place)
    except OSError as e:
        artefacts.warn(str(folder), e)
        return _private(os.getpid())
    # Another user may have been faster where everybody may make a folder.
    return folder if artefacts.usable() == folder else _private(os.getpid())


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
        why = trust.why_not(Path(place).absolute())
        if why is None and os.access(place, os.W_OK | os.X_OK):
            return place
        objections.append(f"{place}: {why or 'it cannot be written to'}")
    raise KernelToolchainError(
        "there is no folder for temporary files in which nobody else can replace a library; set "
        f"TMPDIR to one. {'; '.join(objections)}"
        " [KB4008]"
    )
