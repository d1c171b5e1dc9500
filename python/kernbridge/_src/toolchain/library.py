"""A library and what it is built from: the compiler's command, the key, and the manifest.

A module's folder contains `manifest.json` and one library for each state of its headers and its
compiler. A library can be used if no file that it was built from has changed: by size and time of
the last change, or by content if the times differ. The work of a build is in `make.py`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernbridge._src.base import extensions, settings
from kernbridge._src.base.errors import CompilationError, HeaderNotFoundError
from kernbridge._src.base.struct import Struct
from kernbridge._src.forge import artefacts
from kernbridge._src.forge.obtain import locked
from kernbridge._src.keys import package_digest
from kernbridge._src.toolchain import compilers

if TYPE_CHECKING:
    from kernbridge._src.toolchain.nvcc import Nvcc

MANIFEST = "manifest.json"
HASHED_LIBRARY = 256 << 10
"""A library of up to so many bytes is read before it is loaded; larger ones reached the disk."""
RULES = tuple(
    f"{name}.py"
    for name in (
        *(f"toolchain/{name}" for name in ("library", "make", "search", "compilers", "nvcc")),
        *(f"scan/{name}" for name in ("scanner", "annotation", "plain", "functions")),
        *("base/dtypes", "signatures/array_types", "signatures/call_signature"),
        *("source/glue", "source/plain_glue", "source/load"),
    )
)
"""What decides how a request is built, with the `rules` of its language."""

HASHED = 256 << 20
"""Another file of up to so many bytes is known by its content, a larger one by size and time."""
File = tuple[str, int, int, str]
"""Path, size, time of the inode's last change (ns), and SHA-256, "" for a large one."""
Preprocess = Callable[[str | None], str]
"""Returns a source as it is with its macros, or another text as it becomes with them."""
Known = dict[str, Any]
"""One library and what it was built from, as the manifest has it. `digest` covers all inputs,
`size` and `sha` are the library's, `notes` the caller's. `files` has a `File` for each file that
was read and each program that was run: no program can set back the time when an inode changed.
`absent` has paths of files that must not exist. `cwd` is the working folder, "" if it does not
matter."""


class Finished(Struct):
    """What a library is built from, where working that out takes time."""

    source: str  # the whole translation unit
    flags: tuple[str, ...] = ()  # before the user's
    notes: Any = None  # what JSON can hold
    explain: Callable[[CompilationError], CompilationError] | None = None  # in the user's terms


class Request(Struct):
    name: str  # of the module
    language: str  # the name of one, see `LANGUAGES`
    source: str  # the text that decides what is built; without `finish`, the translation unit
    spec: str  # whatever else the library stands for: another text is another library
    cflags: tuple[str, ...] = ()  # the user's, which come last
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()  # the user's, in order
    architectures: tuple[tuple[int, int, str], ...] = ()  # of GPUs; empty: all that nvcc supports
    optimization_level: int | None = 3  # as in -O3; None leaves it to the compiler
    fast_math: bool = False  # whether arithmetic may be less exact
    checked: bool = False  # of `CUDA_ON_CPU`: whether every access to memory is checked
    build_directory: str | None = None  # a folder that gets a copy of the library
    verbose: bool = False  # whether to print the command and the compiler's output
    force_rebuild: bool = False  # whether to build even what is there
    finish: Callable[[], Finished] | None = None  # called unless the library is there


class Built(Struct):
    path: Path
    digest: str  # of all that it was built from, headers and compilers included, in hexadecimal
    sha: str  # of the library itself
    built: bool  # whether this call built it
    notes: Any = None


class Command(Struct):
    """How a compiler is called for a request. Words such as "@source" stand for files."""

    compiler: compilers.HostCompiler  # what is called, with the real paths of all that this runs
    start: Sequence[str]  # before the user's flags
    rest: Sequence[str]  # after them
    cflags: Sequence[str]  # the user's, as this compiler understands them
    label: str
    # Of a language that is translated after the preprocessor, which `start` then calls: what
    # compiles the result, libraries that come last, and folders of headers that are not the user's.
    translated: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    system: tuple[str, ...] = ()


class Language(Struct):
    """A language that libraries are built from."""

    suffix: str
    command: Callable[[Request], Command]
    own_headers: tuple[str, ...] = ()  # folders of ours that are searched first
    rules: tuple[str, ...] = ()  # more files like `RULES`
    # Of a language that becomes C++ after the preprocessor. The first refuses a file of the user's,
    # given a label, its name, its text, and a function that preprocesses a text. The second gets
    # the job, the flags of `finish`, and the whole text.
    check: Callable[[str, str, str, Preprocess], None] | None = None
    translate: Callable[[LibraryJob, Sequence[str], str], str] = lambda _, __, text: text


class LibraryJob:
    """A request on its way to a library: how it is built here, and where the library goes."""

    root: Path  # the cache that has the library, or gets it
    folder: Path  # where the libraries of this key are, and what is noted about them

    def __init__(self, request: Request) -> None:
        self.request = request
        # Of our own folders counts what is in them, not where they are.
        own = include_paths(request.language)
        self.own = tuple(os.path.join(os.path.abspath(p), "") for p in own)
        self.user = tuple(os.path.abspath(os.path.expanduser(p)) for p in request.include_paths)
        self.language = language(request.language)
        command = self.command = self.language.command(request)
        self.tools = command.compiler.tools
        folders = [f"-I{p}" for p in (*(p[:-1] for p in self.own), *self.user)]
        self.start = [*command.start, *folders]
        variables = self.variables = compilers.environment(self.tools)
        added = [word for n in compilers.NVCC_FLAGS for word in variables.get(n, "").split()]
        self.flags = (*command.compiler.arguments, *command.cflags, *request.ldflags, *added)
        is_native = "native" in " ".join((*self.flags, *variables.values()))
        places = {f"-I{p[:-1]}": f"-I@{i}" for i, p in enumerate(self.own)}
        # What decides the library, but for the source and the contents of files.
        self.options = [
            package_digest.digest_of(*RULES, *self.language.rules),
            request.language,
            request.name,
            [places.get(word, word) for word in (*self.start, *command.cflags, *command.rest)],
            *([command.translated] if command.translated else ()),
            self.tools,
            os.uname().machine,
            variables,
            _this_cpu() if is_native else "",
        ]
        self.key = digest_of_values([*self.options, request.source, request.spec])
        # The module's name as a part of file names, such as "my_kernels_v2" for "my/kernels v2".
        plain = (c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in request.name)
        self.stem = "".join(plain).strip(".-")[:80] or "module"

    def library(self, digest: str) -> Path:
        return self.folder / f"{self.stem}-{digest[:16]}.so"

    def pack(self, path: str) -> str:
        """Return a path as manifests hold it: where our own folders are does not count."""
        for i, folder in enumerate(self.own):
            if path.startswith(folder):
                return f"@{i}/{path[len(folder) :]}"
        return path

    def unpack(self, path: str) -> str:
        """Return a path of a manifest as a path of the file system."""
        return self.own[int(path[1])] + path[3:] if path[0] == "@" else path

    def commands(self, workspace: Path, flags: Iterable[str]) -> list[list[str]]:
        """Return the command lines that work in a folder; `flags` come before the user's.

        The first of two preprocesses, and its output is translated before the second.
        """
        base = str(workspace / self.stem)
        source = base + self.language.suffix
        places = {"@source": source, "@out": f"{base}.so", "@deps": f"{base}.d"}
        places |= {"@preprocessed": f"{base}.i", "@translated": f"{base}.ii"}
        command = self.command
        lines = [(*self.start, *flags, *command.cflags, *command.rest)]
        if command.translated:
            kept = [f for f in command.cflags if f.startswith(("-O", "-g", "-std=", "-f", "-m"))]
            rest = ("@translated", *self.request.ldflags, *command.libraries)
            lines.append((*command.translated, *kept, *rest))
        return [[places.get(word, word) for word in words] for words in lines]


# The manifest


def find(job: LibraryJob, root: Path) -> Built | None:
    """Find a library of a job that fits, in the cache in which it is built otherwise."""
    job.root, name = root, f"{job.stem}_{job.key[:16]}"
    job.folder = Path(root, artefacts.VERSION, "modules", name)
    if job.request.force_rebuild:
        return None
    for known in read(job.folder, job.key):
        fresh = _check(known, job)
        path = job.library(known["digest"])
        if fresh is None or not _is_whole(path, known):
            continue
        if fresh is not known:  # files were touched: not worth waiting for
            with contextlib.suppress(OSError), locked(job.root, job.key, 0) as (mine, _):
                if mine:
                    note(job, fresh)
        return Built(path, known["digest"], known["sha"], False, known["notes"])
    return None


def read(folder: Path, key: str) -> list[Known]:
    """Return the entries of a folder; none where there is nothing that can be trusted."""
    try:
        about = os.lstat(folder)
        if not stat.S_ISDIR(about.st_mode) or not artefacts.is_ours(about):
            return []
        found = json.loads(artefacts.read(folder / MANIFEST) or b"{}")
        entries = found["entries"] if found["key"] == key else []
        return [
            e for e in entries if e["digest"].isalnum() and {"sha", "notes", "size"} <= e.keys()
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def note(job: LibraryJob, known: Known) -> None:
    """Put what is known of a library in front of a manifest."""
    others = [e for e in read(job.folder, job.key) if e["digest"] != known["digest"]]
    data = {"key": job.key, "entries": [known, *others][:16]}
    artefacts.publish(job.folder / MANIFEST, json.dumps(data, separators=(",", ":")).encode())


def _check(known: Known, job: LibraryJob) -> Known | None:
    """Return what is known, with the times of now; None if something changed."""
    try:
        if known["cwd"] not in ("", os.getcwd()):
            return None
        touched: dict[int, File] = {}
        for i, (packed, size, time, sha) in enumerate(known["files"]):
            about = os.stat(path := job.unpack(packed))
            if about.st_size == size and about.st_ctime_ns == time:
                continue
            if about.st_size != size or not sha or digest_of(path) != sha:
                return None
            touched[i] = packed, size, about.st_ctime_ns, sha
        if any(os.access(job.unpack(packed), os.F_OK) for packed in known["absent"]):
            return None
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None
    files = [touched.get(i, file) for i, file in enumerate(known["files"])]
    return {**known, "files": files} if touched else known


def _is_whole(path: Path, known: Known) -> bool:
    """Whether a library is the one that was built, and no other user can have written it."""
    try:
        about = os.lstat(path)
        is_ours = stat.S_ISREG(about.st_mode) and artefacts.is_ours(about)
        if not is_ours or about.st_size != known["size"]:
            return False
        if about.st_size <= HASHED_LIBRARY and digest_of(path) != known["sha"]:
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


def digest_of_values(value: Any) -> str:
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()


def digest_of(path: str | os.PathLike[str]) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_of_inode = functools.lru_cache(1 << 14)(lambda path, *_: digest_of(path))


def remembered(path: str, about: os.stat_result) -> str:
    """Return the digest of a file, which is read once as long as its inode does not change."""
    if time.time_ns() - about.st_ctime_ns < 10**9:  # another change may not show in its times
        return digest_of(path)
    return _of_inode(path, about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns)


def describe(files: Iterable[tuple[str, os.stat_result]]) -> list[File]:
    """Describe files as they are now, each with what it was before it was used."""
    return [
        (path, a.st_size, a.st_ctime_ns, remembered(path, a) if a.st_size <= HASHED else "")
        for path, a in files
    ]


# Command lines


def include_paths(name: str = "c++") -> tuple[str, ...]:
    """Return the folders of our headers for a language."""
    root = folder_with("include", "kernbridge/kernbridge.h")
    own = os.path.join(root, "ext")
    first = (os.path.join(own, folder) for folder in language(name).own_headers)
    return *first, root, os.path.join(own, "compat")


def folder_with(folder: str, file: str) -> str:
    """Return the folder of kernbridge that has one of its own files."""
    places = list(sys.modules["kernbridge"].__path__)
    for place in places:
        if os.path.isfile(os.path.join(place, folder, file)):
            return os.path.join(place, folder)
    raise HeaderNotFoundError(
        f"{folder}/{file} is missing from {', '.join(places)}; install kernbridge again [KB4011]"
    )


def _host(request: Request) -> Command:
    is_c = request.language == "c"
    host = compilers.find_c() if is_c else compilers.find_cxx()
    start = [*host.command, "-std=c11" if is_c else "-std=c++17", *optimize(request)]
    start += ["-fPIC", "-shared", "-fvisibility=hidden", "-MD", "-MF", "@deps", "-o", "@out"]
    if request.fast_math:
        start.append("-ffast-math")
    rest = ["@source", *request.ldflags]
    return Command(host, start, rest, request.cflags, os.path.basename(host.path))


def _cuda(request: Request) -> Command:
    from kernbridge._src.toolchain import cuda
    from kernbridge._src.toolchain.nvcc import find_nvcc

    nvcc, host = find_nvcc(), compilers.find_cxx()
    start = [nvcc.path, "-std=c++17", *optimize(request), "-shared", "-no-compress"]
    start += ["-Xcompiler", "-fPIC,-fvisibility=hidden", "-ccbin", host.path]
    for argument in host.arguments:
        start += ["-Xcompiler", argument]
    start += [*cuda.flags(request.architectures), "-MD", "-MF", "@deps", "-o", "@out"]
    start += [f"-I{folder}" for folder in nvcc.include_dirs]
    if request.fast_math:
        start.append("--use_fast_math")
    if _allows_any_compiler():
        start.append("-allow-unsupported-compiler")
    rest = ["@source", *_runtime(nvcc)]
    after = ""
    for flag in request.ldflags:
        rest += [flag] if after == "-Xlinker" else _for_nvcc(flag)
        after = "" if after == "-Xlinker" else flag
    archs = ", ".join(map(cuda.name, request.architectures)) or "all GPUs"
    compiler = host._replace(path=nvcc.path, tools=(*nvcc.tools, *host.tools))
    return Command(compiler, start, rest, request.cflags, f"nvcc for {archs}")


LANGUAGES = {
    "c": Language(".c", _host),
    "c++": Language(".cpp", _host),
    "cuda": Language(".cu", _cuda),
}
CUDA_ON_CPU = "cuda_on_cpu"
"""The language of CUDA C++ that is compiled for the CPU, which an extension adds."""


def language(name: str) -> Language:
    """Return a language: one of `LANGUAGES`, or one of the extension that the table has for it."""
    if name in LANGUAGES:
        return LANGUAGES[name]
    return extensions.load(name, "CUDA C++ on the CPU").LANGUAGE


def optimize(request: Request) -> list[str]:
    return [] if request.optimization_level is None else [f"-O{request.optimization_level}"]


def _runtime(nvcc: Nvcc) -> list[str]:
    """A CUDA runtime of the module's own: a launch costs 0.1 us less than through a shared one, and
    errors that others leave behind stay with them. Where the toolkit has no static one, the shared
    one, found where it is now; one that JAX has loaded serves instead."""
    if any(os.path.isfile(os.path.join(d, "libcudart_static.a")) for d in nvcc.library_dirs):
        return ["-cudart", "static"]
    if not nvcc.cudart:
        return ["-cudart", "shared", "-DKB_SHARED_RUNTIME"]
    folder, name = os.path.split(nvcc.cudart)
    link = [f"-L{folder}", "-Xlinker", f"-rpath={folder}"]
    if name == "libcudart.so":
        return ["-cudart", "shared", "-DKB_SHARED_RUNTIME", *link]
    # A wheel has no name without a version, which -lcudart would need.
    return ["-cudart", "none", "-DKB_SHARED_RUNTIME", *link, "-Xlinker", f"-l:{name}"]


def _for_nvcc(flag: str) -> list[str]:
    if flag.startswith("-Wl,"):
        return [word for part in flag[4:].split(",") for word in ("-Xlinker", part)]
    if flag.startswith(("-l", "-L", "-Xlinker")) or flag.endswith((".o", ".a", ".so")):
        return [flag]  # nvcc refuses the name of a library that ends with a version
    if flag.startswith(("-f", "-m", "-pthread", "-static-lib")):  # the host compiler's
        return ["-Xcompiler", flag]
    return ["-Xlinker", flag]


def _allows_any_compiler() -> bool:
    chosen = settings.switch("KERNBRIDGE_ALLOW_UNSUPPORTED_COMPILER")
    if chosen is None:  # BrainEvent's own variable also has other values
        return os.environ.get("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "") not in ("", "0")
    return chosen


def _this_cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 16).split("\n\n", 1)[0]
    except OSError:
        return os.uname().nodename
    wanted = ("model name", "flags", "features", "cpu", "vendor_id", "stepping", "model")
    lines = [n for n in first.splitlines() if n.partition(":")[0].strip().lower() in wanted]
    return "\n".join(lines)
