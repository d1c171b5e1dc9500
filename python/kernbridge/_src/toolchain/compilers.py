"""Finds the compilers of C and C++, and which variables decide what they make.

No process is started, and nothing is remembered.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator

from kernbridge._src.base.errors import HostCompilerNotFoundError, KernelToolchainError, coded
from kernbridge._src.base.struct import Struct

LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
"""Programs that run the compiler named after them."""
UNREPORTED_VARIABLES = frozenset(
    ("COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "NVVMIR_LIBRARY_DIR")
)
"""Variables that name files which no compiler reports."""
NVCC_FLAGS = (
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "INCLUDES", "SYSTEM_INCLUDES", "LIBRARIES"),
)
"""Variables whose words count as flags do."""
_VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", *UNREPORTED_VARIABLES, *NVCC_FLAGS),
    *("LIBRARY_PATH", "LD_RUN_PATH", "GNUTARGET", "LDEMULATION", "NVCC_CCBIN"),
)
"""Variables that change what any compiler makes."""
_PREFIXED = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_", "NIX_", "SPACK_", "CRAY_", "PE_", "OMPI_")


class HostCompiler(Struct):
    path: str
    command: tuple[str, ...]  # launchers such as ccache, the compiler, arguments of the user
    arguments: tuple[str, ...]  # of the user
    tools: tuple[str, ...]  # real paths of the programs that decide what comes out


def find_c() -> HostCompiler:
    """Find the C compiler, or raise HostCompilerNotFoundError with all that was tried."""
    return _find("C", "CC", "gcc", "cc", "clang")


def find_cxx() -> HostCompiler:
    return _find("C++", "CXX", "g++", "c++", "clang++")


def find_clang() -> HostCompiler:
    return _find("C++", "CLANG", "clang++", "clang")


def _find(language: str, variable: str, *names: str) -> HostCompiler:
    chosen, conda = os.environ.get(variable, ""), os.environ.get("CONDA_PREFIX")
    tried: list[tuple[str, list[str]]] = []  # what a message calls a command, and its words
    probes = []
    if chosen.strip():  # what the user named is not passed over
        import shlex

        try:
            tried.append((f"{variable}={chosen}", shlex.split(chosen)))
        except ValueError as e:
            raise ValueError(
                f'{variable} is "{chosen}", expected a command as in a shell: {str(e).lower()} '
                "[KB8002]"
            ) from None
    else:
        probes = [f"{variable}: not set", *([] if conda else ["CONDA_PREFIX: not set"])]
        for name in (f"{os.uname().machine}-conda-linux-gnu-{names[0]}", names[0]):
            program = os.path.join(conda or "", "bin", name)
            tried += [(program, [program])] if conda else []
        tried += [(f"{name} on PATH", [name]) for name in names]
    for what, words in tried:
        if found := _from_command(words):
            return found
        probes.append(f"{what}: no such program")
    raise missing(
        HostCompilerNotFoundError,
        f"no {language} compiler was found",
        probes,
        "install one: apt-get install g++, dnf install gcc-c++, or conda install -c "
        "conda-forge cxx-compiler",
        f"set its path: {variable}=/path/to/it",
    )


def _from_command(words: list[str]) -> HostCompiler | None:
    """Return the compiler that a command line names; None if one of its programs is missing."""
    command: list[str] = []
    tools: list[str] = []
    for i, word in enumerate(words):
        program = which(word)
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
            found = map(os.path.realpath, _programs(name))
            tools += [program for program in found if program != real][:1]
        arguments = words[i + 1 :]
        return HostCompiler(
            program, (*command, *arguments), tuple(arguments), tuple(dict.fromkeys(tools))
        )
    return None


def which(word: str) -> str | None:
    return next(_programs(word), None)


def _programs(word: str) -> Iterator[str]:
    """Yield the programs on PATH of a name, or the one at a path."""
    folders = [""] if "/" in word else os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, word) for folder in folders)
    return (os.path.abspath(path) for path in paths if is_program(path))


def is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)


def missing(
    error: type[KernelToolchainError], what: str, probes: list[str], *remedies: str
) -> KernelToolchainError:
    lines = [f"{what}. Looked for, in this order:", *(f"  - {probe}" for probe in probes)]
    lines += ["What to do, one of:", *(f"  {i}. {text}" for i, text in enumerate(remedies, 1))]
    return error(coded("\n".join(lines), "KB4008"))


def environment(tools: Iterable[str]) -> dict[str, str]:
    """Return the variables that decide what these programs make.

    A compiler that is a script may read any variable: each that its text names counts.
    """
    wanted = set(_VARIABLES)
    for tool in tools:
        with contextlib.suppress(OSError), open(tool, "rb") as file:
            if file.read(2) == b"#!":
                wanted.update(
                    re.findall(r"[A-Za-z_]\w*", file.read(1 << 20).decode(errors="replace"))
                )
    wanted -= {"PWD", "OLDPWD", "SHLVL", "_"}
    names = sorted(n for n in os.environ if n in wanted or n.startswith(_PREFIXED))
    return {name: os.environ[name] for name in names}
