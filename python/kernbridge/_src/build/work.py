"""Runs a build in a separate folder, checks which files it read, and publishes the result."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import sys
import time
from pathlib import Path

from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.build import command as build_command
from kernbridge._src.build import failures, manifest
from kernbridge._src.build import headers as build_headers
from kernbridge._src.build.command import Job
from kernbridge._src.build.manifest import Absent, Dependency, Provenance
from kernbridge._src.build.request import Built
from kernbridge._src.forge import artefacts, limit, lock, progress
from kernbridge._src.toolchain import programs

ATTEMPTS = 3
"""Builds of one request, if its headers change meanwhile."""
TICK = 0.012
"""Seconds that may pass before a change shows in a file's times."""

_LINE = re.compile(r'^#line \d+ "(.*)"', re.MULTILINE)


def build(job: Job) -> Built:
    """Build a library, or wait for who does."""
    patience = programs.get_compiler_limits().seconds
    limit.limit()  # an error in it is reported before the work
    with contextlib.ExitStack() as stack:
        # The other one may need as long as a compiler may run, after one that it waits for itself.
        held = lock.held(job.root, job.key, 2 * patience + 10, job.request.name)
        mine = stack.enter_context(held)
        found = None if job.request.force_rebuild else manifest.find(job)
        if found is not None:
            return found
        built = make(job, mine)
    limit.enforce(job.root)
    return built


def make(job: Job, owned: bool) -> Built:
    """Build and publish a library; `owned` says whether the caller holds the lock of its key."""
    with lock.workspace(job.root, job.key, owned) as workspace:
        for _ in range(ATTEMPTS):
            begin = time.time_ns()
            time.sleep(TICK)
            tools = _compile(job, workspace)
            headers, settled = _read(job, workspace, begin)
            if settled:
                break
        texts = [job.request.source, *map(_text, user := _of_user(job, headers))]
        absent, asked, appeared = _absent(job, headers, user, texts, begin)
        paths, sizes, times, shas = map(list, zip(*tools, *headers, *asked, strict=True))
        paths = job.pack(paths)
        kept = settled and not (
            appeared or job.inputs.unknown or any(map(build_headers.unseen, texts))
        )
        # A time counts only where the content is not known.
        parts = [
            [path, f"{size} {time}" if sha == manifest.UNKNOWN else sha]
            for path, size, time, sha in zip(paths, sizes, times, shas, strict=True)
        ]
        digest = hashlib.sha256(json.dumps([job.key, parts]).encode()).hexdigest()
        if not kept:  # what the compiler saw is not known: no other library has this name
            digest = hashlib.sha256(digest.encode() + os.urandom(16)).hexdigest()
        library = workspace / f"{job.stem}.so"
        size, sha = library.stat().st_size, manifest.digest_of(library)
        provenance = (
            Provenance(digest, size, sha, paths, sizes, times, shas, absent) if kept else None
        )
        return Built(_publish(job, library, digest, provenance), digest, sha, job.shown, True)


def _compile(job: Job, workspace: Path) -> list[Dependency]:
    """Run the compiler; return the programs that decide what it makes."""
    request, inside = job.request, str(workspace) + os.sep
    source = workspace / f"{job.stem}{build_command.SUFFIXES[request.language]}"
    source.write_text(request.source, encoding="utf-8", errors="surrogateescape", newline="")
    command = job.fill(workspace)
    shown = shlex.join(command).replace(inside, "")
    if request.verbose:
        print(f"kernbridge: {shown}", file=sys.stderr, flush=True)
    tools: list[Dependency] = []
    try:
        before = [os.stat(path) for path in job.tools]
        with progress.compiling(request.name, job.label, "building"):
            ended = programs.run(
                command,
                errors=True,
                environment=build_command.environment(workspace),
                meanwhile=lambda: tools.extend(map(manifest.dependency, job.tools, before)),
            )
    except OSError as e:
        raise KernelToolchainError(
            f"{request.name}: {job.tool} cannot be started: {e} [KB4008]"
        ) from e
    output = ended.text.replace(inside, "")
    if request.verbose and output.strip():
        print(output.rstrip("\n"), file=sys.stderr, flush=True)
    if ended.status != 0 or not (workspace / f"{job.stem}.so").is_file():
        tool = os.path.basename(job.tool)
        failures.fail(request.name, tool, ended, output, shown, request.source)
    return tools


def _read(job: Job, workspace: Path, begin: int) -> tuple[list[Dependency], bool]:
    """Return the files that a build read, and whether they are what the compiler saw."""
    end = time.time_ns()
    try:
        made = _text(str(workspace / f"{job.stem}.d"))
    except OSError:  # flags of the user's that send it elsewhere
        return [], False
    inside = str(workspace) + os.sep
    said = set(
        _LINE.findall(job.request.source)
    )  # nvcc lists the names in #line directives as files
    found, settled = [], True
    for name in (*build_headers.read_make(made), *job.inputs.files):
        path = os.path.join(os.getcwd(), name)
        if path.startswith(inside) or (name in said and not os.path.exists(path)):
            continue
        try:
            about = os.stat(path)
            found.append(manifest.dependency(path, about))
            moved = any(begin <= t <= end for t in (about.st_ctime_ns, about.st_mtime_ns))
            settled = settled and not moved
        except OSError:  # gone since
            settled = False
    return found, settled


def _of_user(job: Job, headers: list[Dependency]) -> list[str]:
    """Return the headers that are neither ours nor of a package."""
    packages = build_headers.packages(job.tools)
    return [
        path
        for path, *_ in headers
        if path not in job.inputs.files
        and not path.startswith(job.own)
        and not build_headers.is_packaged(path, packages)
    ]


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")


def _absent(
    job: Job, headers: list[Dependency], user: list[str], texts: list[str], begin: int
) -> tuple[list[Absent], list[Dependency], bool]:
    """Return files that would be read if they were there, those that are and were only asked for,
    and whether one of them came while the compiler ran."""
    known = dict.fromkeys(path for path, *_ in headers)
    folders = dict.fromkeys((*job.inputs.folders, *map(os.path.dirname, user)))
    searched = (*folders, build_headers.LOCAL)
    found: dict[str, None] = dict.fromkeys(job.inputs.absent)
    for path in known:
        if path in job.inputs.files:
            continue
        if folders or (path.startswith("/usr/include/") and "/c++/" not in path):
            found |= dict.fromkeys(build_headers.shadows(path, searched))
    found |= dict.fromkeys(f"{path}.gch" for path in user)
    system = ("/usr/include", *(os.path.dirname(path) for path, *_ in headers))
    asked = dict.fromkeys(
        os.path.join(folder, name)
        for text in texts
        for name in filter(None, build_headers.asks(text))
        for folder in dict.fromkeys((*searched, *system))
    )
    there = [
        manifest.dependency(path, os.stat(path))
        for path in asked
        if os.path.isfile(path) and path not in known
    ]
    absent, appeared = [], False
    for path in dict.fromkeys((*found, *asked)):
        try:
            appeared |= path not in known and os.lstat(path).st_ctime_ns >= begin
        except OSError:
            absent.append(path)
    return build_headers.group(job.pack(absent)), there, appeared


def _publish(job: Job, library: Path, digest: str, provenance: Provenance | None) -> Path:
    """Move a library to its place, then note it in the manifest."""
    target = job.library(digest)
    library.chmod(0o700)
    if library.stat().st_size > manifest.HASHED_LIBRARY:
        with open(library, "rb") as file:
            os.fsync(file.fileno())
    for left in (2, 1, 0):
        try:
            artefacts.make_folders(job.root, target.parent)
            if library.exists():
                os.replace(library, target)
            if provenance is not None:
                manifest.note(job, provenance)
            break
        except FileNotFoundError:  # the folder was removed meanwhile: it was empty
            if not left:
                raise
    return target
