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

from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.build import command, manifest
from kernbridge._src.build.command import Job
from kernbridge._src.build.manifest import Entry, Places
from kernbridge._src.build.request import Built, Request
from kernbridge._src.store import artefacts, trust
from kernbridge._src.store import limit as store_limit
from kernbridge._src.toolchain import compilers


def build(request: Request) -> Built:
    """Give the library of a request, from the cache if it is there.

    Raises
    ------
    ValueError
        If the language is unknown.
    KernelToolchainError
        If a compiler is missing.
    CompilationError
        If the compiler refuses the source.

    Examples
    --------
    >>> from kernbridge._src.build.build import build
    >>> from kernbridge._src.build.request import Request
    >>> request = Request("answer", "c", "int answer(void) { return 42; }", "")
    >>> build(request).path.suffix
    '.so'
    """
    if request.language not in command.SUFFIXES:
        languages = ", ".join(map(repr, command.SUFFIXES))
        raise ValueError(f"{request.name}: language {request.language!r}, expected {languages}")
    job = command.plan(request)
    if not all(map(os.path.exists, job.tools)):
        compilers.forget()
        job = command.plan(request)
    root = _root()
    found = None if request.force_rebuild else _look(root, job)
    if found is None:
        found = _build(root, job)
    if request.build_directory is not None:
        _copy(found.path, Path(request.build_directory), job.request.name)
    return found


def _root() -> Path:
    """The cache's folder, or one of this process where there is none that can be written."""
    folder = artefacts.usable()
    if folder is None:
        return _private(os.getpid())
    place = store_limit.modules(folder)
    if place.is_dir():
        return folder
    try:
        artefacts._make_folders(folder, place)
    except OSError as e:
        artefacts._warn(str(folder), e)
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
    """A folder for temporary files in which nobody else can replace them."""
    objections = []
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")):
        why = trust.why_not(Path(place).absolute())
        if why is None and os.access(place, os.W_OK | os.X_OK):
            return place
        objections.append(f"{place}: {why or 'it cannot be written to'}")
    raise KernelToolchainError(
        "there is no folder for temporary files in which nobody else can replace a library; set "
        f"TMPDIR to one. {'; '.join(objections)}"
    )


def _place(root: Path, job: Job) -> tuple[Path, str]:
    """A module's folder, and the stem of files in it."""
    name = command.safe_name(job.request.name)
    return store_limit.modules(root) / f"{name}_{job.key[:16]}", name


def _places(job: Job) -> Places:
    own = job.request.own_include_paths
    return Places(tuple(os.path.abspath(p).rstrip(os.sep) + os.sep for p in own))


def _look(root: Path, job: Job, owned: bool = False) -> Built | None:
    """The library if it is there and fits."""
    folder, name = _place(root, job)
    places = _places(job)
    for entry in manifest.read(folder, job.key):
        fresh = manifest.check(entry, places)
        if fresh is None:
            continue
        path = manifest.library(folder, name, entry.digest)
        if not manifest.is_whole(path, entry):
            continue
        if fresh is not entry:
            _refresh(root, job, fresh, owned)
        return Built(path, entry.digest, False)
    return None


def _refresh(root: Path, job: Job, entry: Entry, owned: bool) -> None:
    """Note new times of files whose content is the same; not worth waiting for."""
    from kernbridge._src.store import lock

    hold = contextlib.nullcontext(True) if owned else lock.held(root, job.key, 0)
    with contextlib.suppress(OSError), hold as mine:
        if mine:
            manifest.note(_place(root, job)[0], job.key, entry)


def _build(root: Path, job: Job) -> Built:
    """Build, or wait for who does."""
    from kernbridge._src.build import run, work
    from kernbridge._src.store import lock

    limit = run.timeout()
    store_limit.limit()  # an error in it is told before the work
    name = job.request.name
    waiting = run.Progress(f"kernbridge: waiting for {name}, which is being built elsewhere")
    # The other one may need as long as a compiler may run, after one that it waits for itself.
    with lock.held(root, job.key, 2 * limit + 10, waiting.tick) as mine:
        waiting.end()
        found = None if job.request.force_rebuild else _look(root, job, mine)
        if found is not None:
            return found
        folder, stem = _place(root, job)
        path, digest = work.make(root, job, _places(job), folder, stem, mine, limit)
    store_limit.grew(root, path.stat().st_size)
    return Built(path, digest, True)


def _copy(library: Path, folder: Path, name: str) -> None:
    """Put a copy where the user wants one, unless it is there."""
    target = folder / f"{command.safe_name(name)}.so"
    with contextlib.suppress(OSError):
        if target.read_bytes() == library.read_bytes():
            return
    folder.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
    try:
        os.close(fd)
        shutil.copyfile(library, temporary)
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
