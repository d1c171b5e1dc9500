"""The build itself: compile in a folder of its own, look at what was read, publish."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from pathlib import Path

from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.build import command as build_command
from kernbridge._src.build import inputs, manifest, run
from kernbridge._src.build.command import Job
from kernbridge._src.build.manifest import Dependency, Entry, Places
from kernbridge._src.store import lock

ATTEMPTS = 3
"""Builds of one request, if its headers change meanwhile."""
TICK = 0.012
"""Seconds that may pass before a change shows in a file's times."""

_LINE = re.compile(r'^#line \d+ "(.*)"', re.MULTILINE)


def make(
    root: Path, job: Job, places: Places, folder: Path, stem: str, owned: bool, limit: float
) -> tuple[Path, str]:
    """Build and publish a library; gives its path and digest.

    Parameters
    ----------
    root : Path
        Of the cache.
    places : Places
        Our include folders.
    folder, stem : Path, str
        Where it goes, and how its file begins.
    owned : bool
        Whether the caller holds the lock of the job's key.
    limit : float
        Seconds for the compiler.
    """
    with lock.workspace(root, job.key, owned) as workspace:
        for _ in range(ATTEMPTS):
            begin = time.time_ns()
            time.sleep(TICK)
            version, tools = _compile(job, workspace, stem, limit)
            headers, settled = _read(job, workspace, stem, places, begin)
            if settled:
                break
        absent, asked, appeared = _absent(job, places, headers, begin)
        read = [*tools, *headers, *asked]
        digest = _digest(job.key, read)
        kept = (
            settled
            and not appeared
            and not job.inputs.unknown
            and not _unseen(job, places, headers)
        )
        if not kept:  # what the compiler saw is not known: no other library has this name
            digest = hashlib.sha256(digest.encode() + os.urandom(16)).hexdigest()
        library = workspace / f"{stem}.so"
        target = manifest.library(folder, stem, digest)
        entry = manifest.entry(digest, library, version, read, absent) if kept else None
        _publish(root, library, target, job.key, entry)
    return target, digest


def _compile(job: Job, workspace: Path, stem: str, limit: float) -> tuple[str, list[Dependency]]:
    """Run the compiler; gives its version, and the programs that decide what it makes."""
    request = job.request
    source = workspace / f"{stem}{build_command.SUFFIXES[request.language]}"
    source.write_text(request.source, encoding="utf-8", errors="surrogateescape", newline="")
    command = job.fill(str(workspace), stem)
    shown = run.show(command, str(workspace))
    if request.verbose:
        print(f"kernbridge: {shown}", file=sys.stderr, flush=True)
    progress = run.Progress(f"kernbridge: building {request.name} with {job.label}")
    tools: list[Dependency] = []
    try:
        before = [os.stat(path) for path in job.tools]
        asked = run.start_version(job.tool)
        try:
            status, output = run.run(
                command,
                build_command.environment(str(workspace)),
                progress,
                limit,
                lambda: tools.extend(map(manifest.tool, job.tools, before)),
            )
        finally:
            version = run.end_version(asked)
            progress.end()
    except OSError as e:
        raise KernelToolchainError(f"{request.name}: {job.tool} cannot be started: {e}") from e
    output = output.replace(str(workspace) + os.sep, "")
    if request.verbose and output.strip():
        print(output.rstrip("\n"), file=sys.stderr, flush=True)
    if status != 0 or not (workspace / f"{stem}.so").is_file():
        tool = os.path.basename(job.tool)
        run.fail(request.name, tool, status, output, shown, limit)
    return version, tools


def _read(
    job: Job, workspace: Path, stem: str, places: Places, begin: int
) -> tuple[list[Dependency], bool]:
    """The files that a build read, and whether they are what the compiler saw."""
    end = time.time_ns()
    try:
        made = (workspace / f"{stem}.d").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # flags of the user's that send it elsewhere
        return [], False
    inside = str(workspace) + os.sep
    said = set(_LINE.findall(job.request.source))  # nvcc takes what #line says for files
    found, settled = [], True
    for name in (*manifest.read_make(made), *job.inputs.files):
        path = os.path.join(os.getcwd(), name)
        if path.startswith(inside) or (name in said and not os.path.exists(path)):
            continue
        try:
            dependency, moved = manifest.header(path, places, begin, end)
        except OSError:  # gone since
            settled = False
            continue
        found.append(dependency)
        settled = settled and not moved
    return found, settled


def _digest(key: str, dependencies: list[Dependency]) -> str:
    # A time counts only where the content is not known.
    parts = [
        [path, f"{size} {time}" if sha == manifest.UNKNOWN else sha]
        for path, size, time, sha in dependencies
    ]
    return hashlib.sha256(json.dumps([key, parts]).encode()).hexdigest()


def _of_user(job: Job, places: Places, headers: list[Dependency]) -> list[str]:
    """The headers that are neither ours nor of a package."""
    packages = inputs.packages(job.tools)
    others = {*job.inputs.files, *(path for path, *_ in headers if places.unpack(path) != path)}
    paths = [path for path, *_ in headers if path not in others]
    return [path for path in paths if not inputs.is_packaged(path, packages)]


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _unseen(job: Job, places: Places, headers: list[Dependency]) -> str:
    """Why the library must not be kept, by what its texts say; "" if it may."""
    texts = (job.request.source, *map(_text, _of_user(job, places, headers)))
    return next((why for text in texts if (why := inputs.unseen(text))), "")


def _absent(
    job: Job, places: Places, headers: list[Dependency], begin: int
) -> tuple[list[str], list[Dependency], bool]:
    """Files that would be read if they were there, those that are and were only asked for, and
    whether one of them came while the compiler ran."""
    user = _of_user(job, places, headers)
    folders = dict.fromkeys((*job.inputs.folders, *map(os.path.dirname, user)))
    searched = (*folders, inputs.LOCAL)
    found: dict[str, None] = dict.fromkeys(job.inputs.absent)
    for path, *_ in headers:
        if path in job.inputs.files:
            continue
        if folders or (path.startswith("/usr/include/") and "/c++/" not in path):
            found |= dict.fromkeys(inputs.shadows(places.unpack(path), searched))
    found |= dict.fromkeys(f"{path}.gch" for path in user)
    names = [n for t in (job.request.source, *map(_text, user)) for n in inputs.asked(t)]
    system = ("/usr/include", *(os.path.dirname(places.unpack(p)) for p, *_ in headers))
    asked = dict.fromkeys(
        os.path.join(folder, name)
        for name in names
        for folder in dict.fromkeys((*searched, *system))
    )
    known = {path for path, *_ in headers}
    there = [
        manifest.header(path, places, 0, 0)[0]
        for path in asked
        if os.path.isfile(path) and path not in known
    ]
    absent, appeared = [], False
    for path in dict.fromkeys((*found, *asked)):
        try:
            appeared |= path not in known and os.lstat(path).st_ctime_ns >= begin
        except OSError:
            absent.append(places.pack(path))
    return absent, there, appeared


def _publish(root: Path, library: Path, target: Path, key: str, entry: Entry | None) -> None:
    """Move a library to its place, then tell of it."""
    from kernbridge._src.store import artefacts

    library.chmod(0o700)
    if library.stat().st_size > manifest.HASHED_LIBRARY:
        with open(library, "rb") as file:
            os.fsync(file.fileno())
    for left in (2, 1, 0):
        try:
            artefacts._make_folders(root, target.parent)
            if library.exists():
                os.replace(library, target)
            if entry is not None:
                manifest.note(target.parent, key, entry)
            return
        except FileNotFoundError:  # the folder was removed meanwhile: it was empty
            if not left:
                raise
