"""Determines the inputs of a compiler that it does not report, such as libraries and option files.

A compiler reports the headers that it read, but neither libraries nor the headers that it searched
for and did not find. Nothing reports what an assembler or an unknown option reads. Files that
would be read if they existed are therefore recorded as absent, and files that flags name are
recorded with their contents. If neither is possible, the library is not cached.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_FOLDER_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter", "--include-path", "-cxx-isystem")
_LIBRARY_FOLDERS = (
    "/usr/local/lib",
    "/usr/lib",
    "/lib",
    f"/usr/lib/{os.uname().machine}-linux-gnu",
)
_UNKNOWN_OPTION = (
    r"-{1,2}(B(?!static|dynamic|symbolic|group)|T|specs|sysroot|isysroot|config|script|wrapper|"
    r"options-file|optf|iprefix|iwithprefix|include-pch|fplugin|fprofile-use|fauto-profile|fmodule)"
)
_UNKNOWN_VARIABLES = ("COMPILER_PATH", "GCC_EXEC_PREFIX")
_NVCC_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_VARIABLES = (
    *(*INCLUDE_VARIABLES, *_UNKNOWN_VARIABLES, *_NVCC_FLAGS),
    *("LIBRARY_PATH", "LD_RUN_PATH", "CCC_OVERRIDE_OPTIONS", "NVCC_CCBIN"),
)
"""Those that change what any compiler makes."""
_PASSES_ON = (
    *("-Xlinker", "-Xcompiler", "-Xpreprocessor", "-Xassembler", "-Xclang"),
    *("--compiler-options", "--linker-options"),
)
_PREFIXED = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_", "NIX_", "SPACK_", "CRAY_", "PE_", "OMPI_")


class Inputs(NamedTuple):
    """What the flags and the environment of a build name."""

    files: tuple[str, ...]  # that no compiler reports: libraries, objects, option files
    absent: tuple[str, ...]  # libraries that would be linked in place of others
    folders: tuple[str, ...]  # where headers are looked for, beside those of the system
    relative: bool  # whether the working folder decides what they mean
    unknown: tuple[str, ...]  # what reads files that cannot be known: nothing may be kept


def of(flags: Sequence[str], includes: Sequence[str]) -> Inputs:
    """Read the flags of a build, and the variables that add to them."""
    files: dict[str, None] = {}
    words = list(_expand(flags, files, 0))
    for name in _NVCC_FLAGS:
        words += _expand(_split(os.environ.get(name, "")), files, 0)
    unknown = [name for name in _UNKNOWN_VARIABLES if name in os.environ]
    unknown += [word for word in words if re.match(_UNKNOWN_OPTION, word)]
    folders = [*includes, *valued(words, _FOLDER_OPTIONS)]
    listed = [os.environ[n].split(os.pathsep) for n in INCLUDE_VARIABLES if os.environ.get(n)]
    folders += [folder or "." for folder_list in listed for folder in folder_list]
    libraries = [*valued(words, ("-L", "--library-path"))]
    libraries += [f for f in os.environ.get("LIBRARY_PATH", "").split(os.pathsep) if f]
    absent: dict[str, None] = {}
    for name in valued(words, ("-l", "--library")):
        _find_library(name, (*libraries, *_LIBRARY_FOLDERS), files, absent)
    for word in words:
        for part in re.split("[,=]", word):
            if part and os.path.isfile(part):
                files[os.path.abspath(part)] = None
    named = [*folders[len(includes) :], *libraries, *valued(words, ("-include", "-imacros"))]
    named += [p for word in (*flags, *words) if os.path.exists(p := word.removeprefix("@"))]
    return Inputs(
        tuple(files),
        tuple(absent),
        tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(f)) for f in folders)),
        not all(map(os.path.isabs, named)),
        tuple(unknown),
    )


def _split(text: str) -> list[str]:
    if not text:
        return []
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _expand(flags: Iterable[str], files: dict[str, None], depth: int) -> Iterator[str]:
    """Yield the flags as the compiler's parts see them: -Wl, and option files are taken apart."""
    passed_on = False
    for flag in flags:
        path = os.path.abspath(flag[1:])
        passed_on, was = flag in _PASSES_ON, passed_on
        through = flag.partition("=")
        if flag.startswith("@") and os.path.isfile(path) and depth < 8:
            files[path] = None
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                yield from _expand(_split(file.read()), files, depth + 1)
        elif flag.startswith(("-Wl,", "-Wa,", "-Wp,")):
            yield from flag[4:].split(",")
        elif was or through[0] in _PASSES_ON:
            yield from (flag if was else through[2]).split(",")
        else:
            yield flag


def valued(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the values of options, which stand in the same word or in the next one."""
    for i, word in enumerate(words):
        for option in options:
            if word == option and i + 1 < len(words):
                yield words[i + 1]
            elif word.startswith(option) and word != option:
                yield word[len(option) :].lstrip("=")
                break


def _find_library(
    name: str, folders: Sequence[str], files: dict[str, None], absent: dict[str, None]
) -> None:
    names = (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")
    for folder in folders:
        paths = [os.path.abspath(os.path.join(folder, n)) for n in names]
        there = [path for path in paths if os.path.isfile(path)]
        files.update(dict.fromkeys(there))
        absent.update(dict.fromkeys(path for path in paths if path not in there))
        if there:
            return


def environment(tools: Sequence[str]) -> dict[str, str]:
    """Return the variables that decide what these programs make.

    A compiler that is a script may read any variable: each that its text names counts.
    """
    wanted = set(_VARIABLES)
    for tool in tools:
        try:
            about = os.stat(tool)
            wanted |= _words(tool, about.st_size, about.st_ctime_ns)
        except OSError:
            continue
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if value and (name in wanted or name.startswith(_PREFIXED))
    }


@functools.lru_cache(maxsize=64)
def _words(tool: str, size: int, changed: int) -> frozenset[str]:
    """Return the words of a script; none for another program."""
    with open(tool, "rb") as file:
        if file.read(2) != b"#!":
            return frozenset()
        text = file.read(1 << 20).decode(errors="replace")
    return frozenset(re.findall(r"[A-Za-z_]\w*", text)) - {"PWD", "OLDPWD", "SHLVL", "_"}
