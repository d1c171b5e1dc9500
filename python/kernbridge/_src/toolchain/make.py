"""Builds a library in a separate folder, finds which files it was built from, and publishes it.

Any thread and any process may build the same library at any time: one of them builds it, and the
others wait for the result. A library appears completely or not at all, its name is unique to its
content, and it is never overwritten.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from kernbridge._src.base import compiler_text, errors
from kernbridge._src.base.errors import CompilationError, KernelToolchainError
from kernbridge._src.base.progress import shown
from kernbridge._src.forge import artefacts, limit
from kernbridge._src.forge.obtain import NAME_LENGTH, locked, log
from kernbridge._src.toolchain import library, programs, search
from kernbridge._src.toolchain.compilers import UNREPORTED_VARIABLES
from kernbridge._src.toolchain.library import Built, File, Finished, Known, LibraryJob, Request
from kernbridge._src.toolchain.programs import Ended
from kernbridge._src.toolchain.search import Answer, asks

ATTEMPTS = 3
"""Builds of one request, if its headers change meanwhile."""
TICK = 12_000_000
"""Nanoseconds that may pass before a change shows in a file's times."""
LOCAL = "/usr/local/include"
"""Compilers search it before the folders of the system's packages."""

_LINE = re.compile(r'^#line \d+ "(.*)"', re.MULTILINE)
# What reads the clock, and what includes or embeds a file that no compiler reports.
_UNSEEN = re.compile(
    r"\b__(?:DATE|TIME|TIMESTAMP)__\b|\.incbin\b|\.include\s*\\*\"|#\s*embed\b|\b__has_embed\b"
)
_NOT_OF_COMPILERS = (
    *("LANGUAGE", "LC_MESSAGES", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "SOURCE_DATE_EPOCH"),
)
_SYSTEM = ("/usr/", "/lib/", "/nix/store/", "/gnu/store/")
# A word of a makefile; a backslash or a dollar may stand before a character that means itself.
_WORD = re.compile(r"(?:\\[ #:]|[^ \t])+")
_ESCAPED = re.compile(r"\\([ #:])|\$(\$)")
_INCOMPATIBLE = (
    r"(?m)host_config\.h\b.*#\s*error\b.*-- unsupported \w+"
    r"|^nvcc fatal\s*: (?:Failed to preprocess host compiler properties"
    r"|Host compiler targets unsupported OS|Cannot find compiler)"
)
_UNSUPPORTED_ARCH = (
    r"(?m)^(?:nvcc fatal\s*: (?:Unsupported gpu architecture|Unsupported NVVM architecture"
    r"|Value '[^']*' is not defined for option 'gpu-(?:architecture|code)')"
    r"|ptxas fatal\s*: Value '[^']*' is not defined for option 'gpu-name').*"
)


def deliver(job: LibraryJob, cache: Path | None, found: Built | None) -> Built:
    """Build a library, unless it was found, and put a copy where the request wants one."""
    request = job.request
    built = found or _in_cache(job, cache) or _in_private(job)
    how = f"compiled %s with {job.command.label}" if built.built else "loaded %s from the cache"
    log.info(f"{how}: %s", request.name, built.path)
    if request.build_directory is not None:
        _copy(built.path, Path(request.build_directory) / f"{job.stem}.so")
    return built


def _in_cache(job: LibraryJob, folder: Path | None) -> Built | None:
    """Build a library in the cache; None where it is off, or the system refuses to."""
    if folder is None:
        return None
    try:
        artefacts.make_folders(folder, job.folder.parent)
        # Another user may have been faster where everybody may make a folder.
        return _wait_or_make(job) if artefacts.usable() == folder else None
    except OSError as e:
        artefacts.warn(str(folder), e)
        return None


def _in_private(job: LibraryJob) -> Built:
    """Find or build a library in the folder of this process."""
    try:
        return library.find(job, artefacts.private(os.getpid())) or _wait_or_make(job)
    except OSError as e:
        raise KernelToolchainError(
            f"{job.request.name}: the library cannot be written to a temporary folder either: "
            f"{e}; free some space there, or set TMPDIR to another folder [KB4008]"
        ) from e


def _copy(source: Path, target: Path) -> None:
    with contextlib.suppress(OSError):
        if target.read_bytes() == source.read_bytes():
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    artefacts.publish(target, source.read_bytes(), 0o755)


def _wait_or_make(job: LibraryJob) -> Built:
    """Build a library, or wait for the process that is building it."""
    request, begin = job.request, time.time_ns()
    patience = programs.get_compiler_limits().seconds
    most = limit.limit()  # an error in it is reported before the work
    finished = request.finish() if request.finish else Finished(source=request.source)
    # Another one may need as long as a compiler may run, after one that it waits for itself.
    with locked(job.root, job.key, 2 * patience + 10, request.name) as (mine, has_waited):
        found = library.find(job, job.root) if has_waited else None
        if found is not None:
            return found
        with workspace(job.root, job.key, mine) as folder:
            built = _make(job, finished, folder, time.time_ns() if has_waited else begin)
    limit.enforce(job.root, most)
    return built


@contextlib.contextmanager
def workspace(root: Path, key: str, owned: bool) -> Iterator[Path]:
    """Make a folder to build in, on the file system of the cache, for as long as this lasts."""
    parent = root / artefacts.VERSION / "staging"
    artefacts.make_folders(root, parent)
    prefix = key[:NAME_LENGTH] if owned else "free"
    for folder in list(parent.iterdir()):  # what dead builders left
        name = folder.name.split("-")[0]
        with contextlib.suppress(OSError), locked(root, name, 0) as (is_free, _):
            if name == "free":  # of a builder without a lock
                is_free = time.time() - folder.stat().st_mtime > 86400
            if is_free or (owned and name == prefix):
                shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=parent))  # mode 0700
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


Inputs = tuple[list[File], list[File], str]
"""Headers that a build read; libraries, objects and what else flags name; and the working folder if
it decides which these are."""


def _make(job: LibraryJob, finished: Finished, workspace: Path, begin: int) -> Built:
    for attempt in range(ATTEMPTS):
        begin = time.time_ns() if attempt else begin
        time.sleep(max(0, (begin + TICK - time.time_ns()) / 1e9))
        try:
            tools, answer = _compile(job, finished, workspace)
        except CompilationError as e:
            raise (finished.explain(e) if finished.explain else e) from None
        inputs = _read(job, answer, finished.source, workspace, begin)
        if inputs is not None:
            break
    known = _known(job, finished, tools, inputs, answer, begin) if inputs else None
    # Where it is not known what the compiler saw, no other library has this name.
    digest = known["digest"] if known else os.urandom(32).hex()
    made = workspace / f"{job.stem}.so"
    size, sha = made.stat().st_size, library.digest_of(made)
    if known:
        known |= {"size": size, "sha": sha, "notes": finished.notes}
    return Built(_publish(job, made, digest, known), digest, sha, True, finished.notes)


def _known(
    job: LibraryJob,
    finished: Finished,
    tools: list[File],
    inputs: Inputs,
    answer: Answer,
    begin: int,
) -> Known | None:
    """Return what a library was built from; None if nothing says what that is."""
    headers, others, cwd = inputs
    is_known = (
        search.is_known(job.flags, answer)
        and (answer.linked or not search.links(job.flags, job.request.ldflags))
        and UNREPORTED_VARIABLES.isdisjoint(job.variables)
        and not any(search.is_thin(path) for path, *_ in others)
    )
    found = _absent(job, inputs, answer, finished.source, begin) if is_known else None
    if found is None:
        return None
    absent, asked = found
    read = (*tools, *headers, *others, *asked)
    files = [(job.pack(path), size, time, sha) for path, size, time, sha in read]
    # A time counts only where the content is not known.
    parts = [[path, sha or f"{size} {time}"] for path, size, time, sha in files]
    spec = "" if job.request.finish else job.request.spec  # the source says it
    about = [*job.options, cwd, spec, finished.source, finished.flags, parts]
    return {"digest": library.digest_of_values(about), "cwd": cwd, "absent": absent, "files": files}


def _compile(job: LibraryJob, finished: Finished, workspace: Path) -> tuple[list[File], Answer]:
    """Run the compiler; return the programs that decide what it makes, and what it says of its
    searches."""
    request, inside = job.request, str(workspace) + os.sep
    source = workspace / f"{job.stem}{job.language.suffix}"
    source.write_text(finished.source, encoding="utf-8", errors="surrogateescape", newline="")
    commands = job.commands(workspace, finished.flags)
    command = " && ".join(map(shlex.join, commands)).replace(inside, "")
    _say(request, f"kernbridge: {command}")
    environment = {k: v for k, v in os.environ.items() if k not in _NOT_OF_COMPILERS}
    environment |= {"TMPDIR": str(workspace), "LC_ALL": "C.UTF-8"}  # messages in English
    preprocess = _preprocessor(commands[0], environment)
    tool, check = job.command.compiler.path, job.language.check
    if check:
        check(request.name, source.name, finished.source, preprocess)
    tools: list[File] = []
    asking = [list(command) for command in commands]
    asking[0] += search.OF_NVCC if request.language == "cuda" else search.OF_COMPILER
    asking[-1] += search.OF_LINKER if search.links(job.flags, request.ldflags) else ()
    try:
        before = [(path, os.stat(path)) for path in job.tools]
        with shown(f"building {request.name} with {job.command.label}"):
            ended = programs.run(
                asking[0],
                errors=True,
                environment=environment,
                meanwhile=lambda: tools.extend(library.describe(before)),
            )
            texts = [ended.text]
            if ended.status == 0 and not ended.limit and check:
                _translate(job, workspace, preprocess, finished.flags)
                ended = programs.run(asking[1], errors=True, environment=environment)
                texts.append(ended.text)
    except OSError as e:
        raise KernelToolchainError(f"{request.name}: {tool} cannot be started: {e} [KB4008]") from e
    answer, output = search.read(texts)
    output = output.replace(inside, "")
    _say(request, output.rstrip())
    if ended.status != 0 or not (workspace / f"{job.stem}.so").is_file():
        fail(request.name, os.path.basename(tool), ended, output, command, finished.source)
    return tools, answer


def _say(request: Request, text: str) -> None:
    """Log what a compiler is told and says; `verbose` asks for it on stderr."""
    if text:
        log.debug("%s", text)
    if text and request.verbose:
        print(text, file=sys.stderr, flush=True)


def _preprocessor(command: Sequence[str], environment: Mapping[str, str]) -> library.Preprocess:
    @functools.cache
    def preprocess(text: str | None) -> str:
        words = [*command[:1], "-E", "-P", "-w", "-x", "c++", "-undef", "-"]
        if text is None:
            out = command.index("-o")
            words = [*command[:out], *command[out + 2 :], "-w", "-dD"]
        made, most = (text or "").encode(), 1 << 28
        return programs.run(words, input=made, environment=environment, written=most).text

    return preprocess


def _translate(
    job: LibraryJob, workspace: Path, preprocess: library.Preprocess, flags: Sequence[str]
) -> None:
    others = (*_SYSTEM, LOCAL, *job.own, str(workspace), *job.command.system)
    for path in read_make(_text(str(workspace / f"{job.stem}.d"))):
        if job.language.check and not path.startswith(others) and os.path.isfile(path):
            job.language.check(job.request.name, path, _text(path), preprocess)
    text = _text(str(workspace / f"{job.stem}.i"))
    made = job.language.translate(job, flags, text)
    made_path = workspace / f"{job.stem}.ii"
    made_path.write_text(made, encoding="utf-8", errors="surrogateescape", newline="")


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")


def _read(
    job: LibraryJob, answer: Answer, source: str, workspace: Path, begin: int
) -> Inputs | None:
    """Return the files that a build read; None if one of them may have changed meanwhile."""
    end = time.time_ns()
    try:
        headers = read_make(_text(str(workspace / f"{job.stem}.d")))
    except OSError:  # flags of the user's that send it elsewhere
        return None
    inside = str(workspace) + os.sep
    said = set(_LINE.findall(source))  # nvcc lists the names in #line directives as files
    others = (*answer.files, *search.named_files(job.flags))
    found: list[dict[str, os.stat_result]] = [{}, {}]
    relative = not all(map(os.path.isabs, (*answer.folders, *answer.absent)))
    for i, name in (*((0, name) for name in headers), *((1, name) for name in others)):
        path = os.path.join(os.getcwd(), name)
        if path in found[0] or path.startswith(inside):
            continue
        if name in said and not os.path.exists(path):
            continue
        try:
            about = found[i][path] = os.stat(path)
        except OSError:  # gone since
            return None
        if any(begin <= t <= end for t in (about.st_ctime_ns, about.st_mtime_ns)):
            return None
        relative = relative or not os.path.isabs(name)
    relative |= bool(search.included(job.flags, map(os.path.basename, itertools.chain(*found))))
    try:
        described = [library.describe(files.items()) for files in found]
    except OSError:
        return None
    return described[0], described[1], os.getcwd() if relative else ""


def read_make(text: str) -> list[str]:
    """Return the prerequisites in what a compiler's -MD writes, each once."""
    found: dict[str, None] = {}
    for rule in re.sub(r"\\\r?\n", " ", text).splitlines():
        words = [_ESCAPED.sub(r"\1\2", word) for word in _WORD.findall(rule)]
        # The target ends in a colon of its own or with a blank before.
        ends = [i for i, word in enumerate(words) if word.endswith(":")]
        found |= dict.fromkeys(words[ends[0] + 1 :] if ends else ())
    return list(found)


def _of_user(job: LibraryJob) -> Callable[[str], bool]:
    """Return whether users edit a file: one neither of ours nor of a package."""
    homes = [os.path.dirname(tool) for tool in job.tools]
    packages = [os.path.join(os.path.dirname(h), "") for h in homes if h.endswith("/bin")]
    packages += [
        os.path.join(p, d, "") for p in (sys.prefix, sys.base_prefix) for d in ("lib", "include")
    ]
    folders = (*job.own, *_SYSTEM, *(folder for folder in packages if folder != "/"))
    return lambda path: path.startswith(LOCAL) or not path.startswith(folders)


def _absent(
    job: LibraryJob, inputs: Inputs, answer: Answer, source: str, begin: int
) -> tuple[list[str], list[File]] | None:
    """Return absent files that would be read if they existed, and existing files that the user's
    texts only ask for; None if these are not all, or if one appeared while the compiler ran."""
    headers, others, _ = inputs
    is_of_user, given = _of_user(job), (*job.user, *job.flags, *job.variables.values())
    user = [path for path, *_ in headers if is_of_user(path)]
    texts = [source, *map(_text, user)]
    names = [name for text in texts for name in asks(text)]
    is_known = not any(map(_UNSEEN.search, texts)) and None not in names  # which a macro makes
    if not is_known or ((headers or names) and not answer.folders):
        return None
    folders = [os.path.join(os.getcwd(), f) for f in answer.folders]
    exists = functools.cache(os.path.lexists)
    watched = [
        exists(f) and (is_of_user(os.path.join(f, "")) or any(name in text for text in given))
        for f, name in zip(folders, answer.folders, strict=True)
    ]
    places = [  # by which the path of a header may begin
        (form, i)
        for i, f in enumerate(folders)
        for form in {os.path.join(g, "") for g in (f, os.path.normpath(f), os.path.realpath(f))}
    ]
    beside = list(dict.fromkeys(map(os.path.dirname, user)))  # where a name in quotes is found
    known = dict.fromkeys(path for path, *_ in (*headers, *others))
    found = dict.fromkeys((*map(os.path.abspath, answer.absent), *(f"{p}.gch" for p in user)))
    found |= dict.fromkeys(itertools.filterfalse(exists, folders))  # for all that could be in them
    spelled = [s for path, *_ in headers for s in _spellings(path, places, watched).items()]
    included = search.included(job.flags, [name for name, _ in spelled])
    for name, i in spelled:
        searched = [*itertools.compress(folders[:i], watched), *beside]
        if name in included:  # which the compiler looks for in the working folder first
            searched.append(os.getcwd())
        found |= dict.fromkeys(os.path.join(f, name) for f in searched)
    asked = dict.fromkeys(
        os.path.join(f, name) for name in filter(None, names) for f in (*beside, *folders)
    )
    there = [(p, os.stat(p)) for p in asked if os.path.isfile(p) and p not in known]
    absent = dict[str, None]()
    for path in (*found, *asked):
        while not exists(above := path[: path.rindex("/")] or "/"):  # nor anything below it
            path = above
        try:
            if path not in known and os.lstat(path).st_ctime_ns >= begin:
                return None
        except OSError:
            absent[path] = None
    return list(map(job.pack, absent)), library.describe(there)


def _spellings(path: str, places: list[tuple[str, int]], watched: list[bool]) -> dict[str, int]:
    """Return how an #include may have named a header, each with the number of the folder in which
    it was found, or how many there are if it was found beside the file that includes it."""
    paths = {path, os.path.normpath(path)}
    within = [(p, form, i) for form, i in places for p in paths if p.startswith(form)]
    longest = max((len(form) for _, form, _ in within), default=0)
    found = {p[len(f) :]: i for p, f, i in within if len(f) == longest or watched[i]}
    parts = path.split("/")
    found = found or {"/".join(parts[n:]): len(watched) for n in range(1, len(parts))}
    return {parts[-1]: max(found.values()), **found}


def _publish(job: LibraryJob, made: Path, digest: str, known: Known | None) -> Path:
    """Move a library to its place, then note it in the manifest."""
    target = job.library(digest)
    made.chmod(0o700)
    if made.stat().st_size > library.HASHED_LIBRARY:
        with open(made, "rb") as file:
            os.fsync(file.fileno())
    for left in (2, 1, 0):
        try:
            artefacts.make_folders(job.root, target.parent)
            if made.exists():
                os.replace(made, target)
            if known is not None:
                library.note(job, known)
            break
        except FileNotFoundError:  # the folder was removed meanwhile: it was empty
            if not left:
                raise
    return target


def fail(what: str, tool: str, ended: Ended, output: str, command: str, source: str) -> NoReturn:
    """Raise what a failed run of a tool means; `output` is what people read of its output."""
    failed = f"{what}: compilation failed:"
    if ended.limit:
        text = (
            f"{failed} {tool} {ended.limit}, or compile less at once: fewer templates and macros, "
            "fewer GPU architectures [KB4006]"
        )
        raise CompilationError(text, output, command, "timeout")
    if unsupported := re.search(_UNSUPPORTED_ARCH, output):
        text = (
            f"{what}: this nvcc does not compile for a requested GPU architecture "
            f"({unsupported[0].strip()}); choose others with compute_capability=, "
            "kernbridge.config.set_compute_capability or KERNBRIDGE_COMPUTE_CAPABILITIES, or "
            "install another CUDA toolkit [KB4009]"
        )
        raise errors.UnsupportedArchError(text, output, command)
    if re.search(_INCOMPATIBLE, output):
        text = (
            f"{failed} nvcc does not work with this C++ compiler; choose another one with CXX, "
            "install a newer CUDA toolkit, or try KERNBRIDGE_ALLOW_UNSUPPORTED_COMPILER=1 [KB4010]"
        )
        raise errors.HostCompilerIncompatibleError(text, output, command, "host compiler")
    status = ended.status
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    text = f"{failed} {tool} ({how}){compiler_text.hint(output)} [KB4006]"
    raise CompilationError(text, output, command, source=source)
