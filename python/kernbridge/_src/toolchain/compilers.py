"""Finds the compilers of C and C++, and nvcc.

No process is started to find them. A result is kept in the process for the environment variables
that determine it; a compiler that was not found is searched for again the next time.
"""

import functools
import os
import shutil
import sys
from collections.abc import Iterator

from kernbridge._src.base import settings
from kernbridge._src.base.errors import (
    HostCompilerNotFoundError,
    NvccNotFoundError,
    coded,
)
from kernbridge._src.base.struct import Struct

_NVCC_VARIABLES = ("KERNBRIDGE_NVCC_PATH", "BRAINEVENT_NVCC_PATH", "CUDA_HOME", "CUDA_PATH")
LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
"""Programs that run the compiler named after them."""


class HostCompiler(Struct):
    """A C or C++ compiler."""

    command: tuple[str, ...]  # launchers such as ccache, the compiler, arguments of the user
    compiler: int  # its place in the command
    tools: tuple[str, ...]  # real paths of the programs that decide what comes out
    origin: str  # what led to it, as in "CXX" or "PATH"

    @property
    def path(self) -> str:
        """The path of the compiler itself."""
        return self.command[self.compiler]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments that the user named with the compiler."""
        return self.command[self.compiler + 1 :]

    def __str__(self) -> str:
        import shlex

        return shlex.join(self.command)


class Nvcc(Struct):
    """A CUDA compiler and the parts of its toolkit."""

    path: str
    root: str  # of its toolkit
    tools: tuple[str, ...]  # real paths of nvcc and of the programs that it runs
    include_dirs: tuple[str, ...]  # folders of headers that nvcc does not find by itself
    library_dirs: tuple[str, ...]  # folders that hold libcudart
    cudart: str  # path of the shared libcudart; empty where there is none
    origin: str  # what led to it, as in "CUDA_HOME" or "PATH"


def find_c() -> HostCompiler:
    """Find the C compiler, or raise HostCompilerNotFoundError with all that was tried."""
    return _find("C", "CC", "gcc", "cc", "clang")


def find_cxx() -> HostCompiler:
    """Find the C++ compiler, or raise HostCompilerNotFoundError with all that was tried."""
    return _find("C++", "CXX", "g++", "c++", "clang++")


def find_clang() -> HostCompiler:
    """Find clang, or raise HostCompilerNotFoundError with all that was tried."""
    return _find("C++", "CLANG", "clang++", "clang")


def _find(language: str, variable: str, *names: str) -> HostCompiler:
    env = os.environ.get
    return _find_host(language, variable, names, env(variable), env("CONDA_PREFIX"), _path())


def find_nvcc() -> Nvcc:
    """Find the CUDA compiler, or raise NvccNotFoundError with all that was tried."""
    named = tuple((name, os.environ.get(name, "")) for name in _NVCC_VARIABLES)
    return _find_nvcc(named, _prefers_system(), tuple(sys.path), _path())


def forget() -> None:
    """Search again for every compiler, since one that was found is gone."""
    _find_host.cache_clear()
    _find_nvcc.cache_clear()


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def _prefers_system() -> bool:
    if settings.prefer_system_nvcc is not None:
        return settings.prefer_system_nvcc
    for name in ("KERNBRIDGE_NVCC_PREFER", "BRAINEVENT_NVCC_PREFER"):
        value = os.environ.get(name, "").strip().lower()
        if value not in ("", "pip", "system"):
            raise ValueError(f"{name} is {value!r}, expected 'pip' or 'system' [KB8002]")
        if value:
            return value == "system"
    return False


@functools.lru_cache(maxsize=16)
def _find_host(
    language: str,
    variable: str,
    names: tuple[str, ...],
    chosen: str | None,
    conda: str | None,
    path: str,
) -> HostCompiler:
    tried: list[tuple[str, list[str], str]] = []  # for a message, the command, its origin
    unset = []
    if chosen and chosen.strip():  # what the user named is not passed over
        import shlex

        try:
            words = shlex.split(chosen)
        except ValueError as e:
            why = str(e).lower()
            raise ValueError(
                f'{variable} is "{chosen}", expected a command as in a shell: {why} [KB8002]'
            ) from None
        tried.append((f"{variable}={chosen}", words, variable))
    else:
        unset = [f"{variable}: not set", *([] if conda else ["CONDA_PREFIX: not set"])]
        for name in (f"{os.uname().machine}-conda-linux-gnu-{names[0]}", names[0]):
            program = os.path.join(conda or "", "bin", name)
            tried += [(program, [program], "CONDA_PREFIX")] if conda else []
        tried += [(f"{name} on PATH", [name], "PATH") for name in names]
    for _, words, origin in tried:
        found = _from_command(words, path, origin)
        if found is not None:
            return found
    remedies = (
        "install one: apt-get install g++, dnf install gcc-c++, or conda install -c "
        "conda-forge cxx-compiler",
        f"set its path: {variable}=/path/to/it",
    )
    probes = [*unset, *(f"{what}: no such program" for what, _, _ in tried)]
    what = f"no {language} compiler was found"
    raise HostCompilerNotFoundError(coded(_missing(what, probes, remedies), "KB4008"))


def _from_command(words: list[str], path: str, origin: str) -> HostCompiler | None:
    """Return the compiler that a command line names; None if one of its programs is missing."""
    command: list[str] = []
    tools: list[str] = []
    for i, word in enumerate(words):
        program = _which(word, path)
        if program is None:
            return None
        command.append(program)
        real = os.path.realpath(program)
        tools.append(real)
        name = os.path.basename(word)
        if name in LAUNCHERS and i + 1 < len(words):
            continue
        if os.path.basename(real) in LAUNCHERS:  # a link named g++ that leads to ccache
            # A launcher runs the first program of its name that is not itself.
            places = [os.path.join(folder, name) for folder in path.split(os.pathsep) if folder]
            found = [os.path.realpath(p) for place in places if (p := _which(place, path))]
            tools += [program for program in found if program != real][:1]
        return HostCompiler((*command, *words[i + 1 :]), i, tuple(dict.fromkeys(tools)), origin)
    return None


def _which(word: str, path: str) -> str | None:
    found = shutil.which(word, path=path)
    return os.path.abspath(found) if found else None


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def _missing(what: str, probes: list[str], remedies: tuple[str, ...]) -> str:
    lines = [f"{what}. Looked for, in this order:"]
    lines += [f"  - {probe}" for probe in probes]
    lines.append("What to do, one of:")
    lines += [f"  {i}. {remedy}" for i, remedy in enumerate(remedies, 1)]
    return "\n".join(lines)


@functools.lru_cache(maxsize=16)
def _find_nvcc(
    named: tuple[tuple[str, str], ...], system_first: bool, places: tuple[str, ...], path: str
) -> Nvcc:
    probes: list[str] = []
    for name, value in named:
        if not value:
            probes.append(f"{name}: not set")
            continue
        place = os.path.expanduser(value)
        program = place if name.endswith("NVCC_PATH") else os.path.join(place, "bin", "nvcc")
        if not _is_program(program):
            probes.append(f"{name}={place}: {program} is not a program")
            raise NvccNotFoundError(coded(_nvcc_missing(probes), "KB4008"))
        return _describe(os.path.abspath(program), name, None)
    installed = "/usr/local/cuda/bin/nvcc"
    of_system = (
        (_which("nvcc", path) or "", "PATH", None, "nvcc on PATH: no such program"),
        (installed, "/usr/local/cuda", None, f"{installed}: no such program"),
    )
    of_wheels = _of_wheels(places)
    candidates = (*of_system, *of_wheels) if system_first else (*of_wheels, *of_system)
    for program, origin, wheels, missing in candidates:
        if _is_program(program):
            return _describe(program, origin, wheels)
        probes.append(missing)
    raise NvccNotFoundError(coded(_nvcc_missing(probes), "KB4008"))


# Of a program that may be nvcc: its path, its origin, the folder of wheels, and what to say if it
# is none.
_Candidate = tuple[str, str, str | None, str]


def _of_wheels(places: tuple[str, ...]) -> Iterator[_Candidate]:
    """NVIDIA's wheels put a whole toolkit into nvidia/cu13, or its parts beside each other."""
    for place in places:
        base = os.path.join(place or ".", "nvidia")
        numbered = [n for n in _list(base) if n.startswith("cu") and n[2:].isdigit()]
        for name in (*sorted(numbered, key=lambda n: -int(n[2:])), "cuda_nvcc"):
            if os.path.isdir(os.path.join(base, name)):
                program = os.path.join(base, name, "bin", "nvcc")
                yield program, f"pip: nvidia/{name}", base, f"{program}: no such program"
    yield "", "", None, "wheels of NVIDIA: none with nvcc"


def _describe(program: str, origin: str, wheels: str | None) -> Nvcc:
    real = os.path.realpath(program)
    # A link that leads to ccache does not show where the toolkit is.
    home = real if os.path.basename(real).startswith("nvcc") else program
    root = os.path.dirname(os.path.dirname(home))
    parts = ("bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc")
    tools = [real, *(p for part in parts if _is_program(p := os.path.join(root, part)))]
    targets = os.path.join(root, "targets")
    target = [os.path.join(targets, t) for t in _list(targets) if t.startswith(os.uname().machine)]
    include: list[str] = []
    library = [os.path.join(t, "lib") for t in target]
    library += [os.path.join(root, name) for name in ("lib64", "lib", "lib/x86_64-linux-gnu")]
    if wheels is not None and os.path.basename(root) == "cuda_nvcc":
        for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl"):
            folder = os.path.join(wheels, part, "include")
            include += [folder] if os.path.isdir(folder) else []
        library.insert(0, os.path.join(wheels, "cuda_runtime", "lib"))
    holding = [(folder, found) for folder in library if (found := _cudart_in(folder))]
    return Nvcc(
        path=program,
        root=root,
        tools=tuple(dict.fromkeys(tools)),
        include_dirs=tuple(include),
        library_dirs=tuple(dict.fromkeys(folder for folder, _ in holding)),
        cudart=holding[0][1] if holding else "",
        origin=origin,
    )


def _list(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _cudart_in(folder: str) -> str:
    """Return the shared libcudart of a folder: the name that a linker finds, else the newest."""
    plain = os.path.join(folder, "libcudart.so")
    if os.path.exists(plain):
        return plain
    names = [n for n in _list(folder) if n.startswith("libcudart.so.")]
    return os.path.join(folder, max(names, key=len)) if names else ""


def _nvcc_missing(probes: list[str]) -> str:
    return _missing(
        "no CUDA compiler (nvcc) was found",
        probes,
        (
            "pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime "
            "nvidia-cuda-cccl (CUDA 13; the wheels of CUDA 12 have no nvcc)",
            "conda install -c conda-forge cuda-nvcc cuda-cudart-dev",
            "install NVIDIA's CUDA toolkit, and set CUDA_HOME to its folder",
            "set its path: KERNBRIDGE_NVCC_PATH=/path/to/nvcc",
        ),
    )
