"""Assembles the command lines of compilers, and the cache keys of their results."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernbridge._src.base import settings
from kernbridge._src.build import inputs as build_inputs
from kernbridge._src.build.inputs import Inputs
from kernbridge._src.forge import artefacts
from kernbridge._src.keys import package_digest
from kernbridge._src.toolchain import architectures, compilers
from kernbridge._src.toolchain.compilers import HostCompiler, Nvcc

if TYPE_CHECKING:
    from kernbridge._src.build.request import Request

_RULES = ("command", "headers", "inputs", "manifest", "options", "work")
"""The files that decide how a request is built, and when what was built is used again."""
SUFFIXES = {"c": ".c", "c++": ".cpp", "cuda": ".cu"}


class Job(NamedTuple):
    """A request on its way to a library: how it is built here, and where the library goes."""

    request: Request
    command: tuple[str, ...]
    tool: str  # the compiler's path
    label: str  # what people call it, as in "nvcc for sm_90"
    tools: tuple[str, ...]  # programs that decide the result
    own: tuple[str, ...]  # our include folders, each with a separator behind it
    inputs: Inputs  # what the user's flags and the environment name
    key: str  # of all but the contents of files, 64 hexadecimal digits
    root: Path  # the cache that gets the library

    @property
    def stem(self) -> str:
        """The module's name as a part of file names."""
        return safe_name(self.request.name)

    @property
    def folder(self) -> Path:
        """Where the libraries of this key are, and what is noted about them."""
        return artefacts.modules(self.root) / f"{self.stem}_{self.key[:16]}"

    def library(self, digest: str) -> Path:
        """Return where the library of a digest is."""
        return self.folder / f"{self.stem}-{digest[:16]}.so"

    def pack(self, paths: Iterable[str]) -> list[str]:
        """Return paths as manifests hold them: where our own folders are does not count."""
        found = list(paths)
        for i, folder in enumerate(self.own):
            found = [f"@{i}/{p[len(folder) :]}" if p.startswith(folder) else p for p in found]
        return found

    def unpack(self, paths: Iterable[str]) -> list[str]:
        """Return paths of a manifest as paths of the file system."""
        found = list(paths)
        for i, folder in enumerate(self.own):
            mark = f"@{i}/"
            found = [folder + p[len(mark) :] if p.startswith(mark) else p for p in found]
        return found

    @property
    def shown(self) -> tuple[str, ...]:
        """The command line as people read it, with the names of files for their paths."""
        return tuple(self.fill(Path()))

    def fill(self, workspace: Path) -> list[str]:
        """Return the command line that works in a folder."""
        base = str(workspace / self.stem)
        places = {
            "@source": base + SUFFIXES[self.request.language],
            "@out": f"{base}.so",
            "@deps": f"{base}.d",
        }
        return [places.get(word, word) for word in self.command]


def plan(request: Request, root: Path = Path()) -> Job:
    """Find the compilers and work out what to run."""
    own = tuple(os.path.abspath(p) for p in request.own_include_paths)
    user = tuple(os.path.abspath(os.path.expanduser(p)) for p in request.include_paths)
    if request.language == "cuda":
        nvcc, host = compilers.find_nvcc(), compilers.find_cxx()
        start, rest = _cuda(request, nvcc, host)
        tool, tools = nvcc.path, (*nvcc.tools, *host.tools)
        archs = ", ".join(map(architectures.name, request.architectures)) or "all GPUs"
        label = f"nvcc for {archs}"
    else:
        host = compilers.find_c() if request.language == "c" else compilers.find_cxx()
        start, rest = _host(request, host)
        tool, tools, label = host.path, host.tools, os.path.basename(host.path)
    includes = (*own, *user)
    command = (*start, *(f"-I{p}" for p in includes), *rest)
    # Where our own headers are does not count, only what is in them.
    places = {f"-I{p}": f"-I@{i}" for i, p in enumerate(own)}
    parts: list[Any] = [
        package_digest.digest_of(*(f"build/{name}.py" for name in _RULES)),
        request.language,
        request.name,
        request.source,
        request.spec,
        [places.get(word, word) for word in command],
        tools,
        os.uname().machine,
        build_inputs.environment(tools),
    ]
    inputs = build_inputs.of((*host.arguments, *request.cflags, *request.ldflags), user)
    if inputs.relative:
        parts.append(os.getcwd())
    if inputs.native:
        parts.append(_this_cpu())
    key = hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()
    folders = tuple(folder.rstrip(os.sep) + os.sep for folder in own)
    return Job(request, command, tool, label, tools, folders, inputs, key, root)


def _host(request: Request, compiler: HostCompiler) -> tuple[list[str], list[str]]:
    standard = "-std=c11" if request.language == "c" else "-std=c++17"
    start = [*compiler.command, standard, *_optimize(request), "-fPIC", "-shared"]
    start += ["-fvisibility=hidden", "-MD", "-MF", "@deps", "-o", "@out"]
    if request.fast_math:
        start.append("-ffast-math")
    return start, [*request.cflags, "@source", *request.ldflags]


def _cuda(request: Request, nvcc: Nvcc, host: HostCompiler) -> tuple[list[str], list[str]]:
    start = [nvcc.path, "-std=c++17", *_optimize(request), "-shared"]
    start += ["-Xcompiler", "-fPIC,-fvisibility=hidden", "-ccbin", host.path]
    for argument in host.arguments:
        start += ["-Xcompiler", argument]
    start += architectures.flags(request.architectures)
    start += ["-MD", "-MF", "@deps", "-o", "@out"]
    start += [f"-I{folder}" for folder in nvcc.include_dirs]
    if request.fast_math:
        start.append("--use_fast_math")
    if _allows_any_compiler():
        start.append("-allow-unsupported-compiler")
    rest = [*request.cflags, "@source", *_runtime(nvcc)]
    after = ""
    for flag in request.ldflags:
        rest += [flag] if after == "-Xlinker" else _for_nvcc(flag)
        after = "" if after == "-Xlinker" else flag
    return start, rest


def _optimize(request: Request) -> list[str]:
    level = request.optimization_level
    return [] if level is None else [f"-O{level}"]


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
    """Return a flag of the linker as nvcc takes it."""
    if flag.startswith("-Wl,"):
        return [word for part in flag[4:].split(",") for word in ("-Xlinker", part)]
    if flag.startswith(("-l", "-L", "-Xlinker")) or flag.endswith((".o", ".a", ".so")):
        return [flag]  # nvcc refuses the name of a library with a version behind it
    if flag.startswith(("-f", "-m", "-pthread", "-static-lib")):  # the host compiler's
        return ["-Xcompiler", flag]
    return ["-Xlinker", flag]


def _allows_any_compiler() -> bool:
    chosen = settings.switch("KERNBRIDGE_ALLOW_UNSUPPORTED_COMPILER")
    if chosen is None:  # BrainEvent's own variable also has other values
        return os.environ.get("BRAINEVENT_ALLOW_UNSUPPORTED_COMPILER", "") not in ("", "0")
    return chosen


def _this_cpu() -> str:
    """Return what `-march=native` looks at."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(1 << 16).split("\n\n", 1)[0]
    except OSError:
        return os.uname().nodename
    wanted = ("model name", "flags", "features", "cpu", "vendor_id", "stepping", "model")
    lines = [n for n in first.splitlines() if n.partition(":")[0].strip().lower() in wanted]
    return "\n".join(lines)


def environment(workspace: Path) -> dict[str, str]:
    """Return the environment of a compiler, with messages in English and a TMPDIR of its own."""
    found = {k: v for k, v in os.environ.items() if k not in ("LANGUAGE", "LC_MESSAGES")}
    found |= {"TMPDIR": str(workspace), "LC_ALL": "C.UTF-8"}
    for name in ("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "SOURCE_DATE_EPOCH"):
        found.pop(name, None)
    return found


def safe_name(name: str) -> str:
    """A module's name as a part of file names.

    Examples
    --------
    >>> from kernbridge._src.build.command import safe_name
    >>> safe_name("my/kernels v2")
    'my_kernels_v2'
    """
    found = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in name)
    return found.strip(".-")[:80] or "module"
