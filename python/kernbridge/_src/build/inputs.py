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

from kernbridge._src.build import options

INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_LIBRARY_FOLDERS = (
    "/usr/local/lib",
    "/usr/lib",
    "/lib",
    f"/usr/lib/{os.uname().machine}-linux-gnu",
)
_UNKNOWN_VARIABLES = (
    *("COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "NVVMIR_LIBRARY_DIR"),
)
_NVCC_FLAGS = (
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "INCLUDES", "SYSTEM_INCLUDES", "LIBRARIES"),
)
_VARIABLES = (
    *(*INCLUDE_VARIABLES, *_UNKNOWN_VARIABLES, *_NVCC_FLAGS),
    *("LIBRARY_PATH", "LD_RUN_PATH", "GNUTARGET", "LDEMULATION", "NVCC_CCBIN"),
)
"""Those that change what any compiler makes."""
_STATIC = {"-static", "--static", "-Bstatic", "-dn", "-non_shared", "-static-pie"}
_LINKED = (b"\x7fELF", b"!<arch>\n", b"BC\xc0\xde")
"""How objects and libraries begin. A text may name others, as a thin archive does."""
_PREFIXED = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_", "NIX_", "SPACK_", "CRAY_", "PE_", "OMPI_")


class Inputs(NamedTuple):
    """What the flags and the environment of a build name."""

    files: tuple[str, ...]  # that no compiler reports: libraries, objects, option files
    absent: tuple[str, ...]  # libraries that would be linked in place of others
    folders: tuple[str, ...]  # where headers are looked for, beside those of the system
    relative: bool  # whether the working folder decides what they mean
    native: bool  # whether the processor decides what they mean
    unknown: tuple[str, ...]  # what reads files that cannot be known: nothing may be kept


def of(flags: Sequence[str], includes: Sequence[str]) -> Inputs:
    """Read the flags of a build, and the variables that add to them."""
    files: dict[str, None] = {}
    absent: dict[str, None] = {}
    named: list[str] = []
    variables = [word for n in _NVCC_FLAGS for word in _split(os.environ.get(n, ""))]
    words = list(_expand([*flags, *variables], named, 0))
    found: dict[str, list[str]] = {}
    for option, value in options.read(words):
        # nvcc takes lists.
        found.setdefault(option, []).extend(dict.fromkeys((value, *value.split(","))))
    unknown = [name for name in _UNKNOWN_VARIABLES if name in os.environ] + found.get("?", [])
    folders = [f for option in options.FOLDERS for f in found.get(option, ())]
    listed = [os.environ[n].split(os.pathsep) for n in INCLUDE_VARIABLES if os.environ.get(n)]
    folders += [folder or "." for folder_list in listed for folder in folder_list]
    libraries = found.get("-L", [])
    libraries += [f for f in os.environ.get("LIBRARY_PATH", "").split(os.pathsep) if f]
    linked = list(filter(os.path.isfile, found.get("", ())))
    archives = not _STATIC.isdisjoint(words)
    for name in found.get("-l", ()):
        linked += _find_library(name, libraries, archives, files, absent)
    unknown += [path for path in linked if not _is_known(path)]
    named += [part for word in words for part in (word, *re.split("[,=]", word)) if part]
    named = list(filter(os.path.exists, named))
    files.update((os.path.abspath(path), None) for path in named if os.path.isfile(path))
    named += [*folders, *libraries, *found.get("-include", ()), *found.get("-imacros", ())]
    folders = [*includes, *folders]
    return Inputs(
        tuple(files),
        tuple(absent),
        tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(f)) for f in folders)),
        not all(map(os.path.isabs, named)),
        any("native" in word for word in words),
        tuple(unknown),
    )


def _split(text: str) -> list[str]:
    """Split a text as a shell does; one whose quotation is not closed is an unknown option."""
    if not text:
        return []
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return [f"-? {text}"]


def _expand(flags: Iterable[str], named: list[str], depth: int) -> Iterator[str]:
    """Yield the flags as the compiler's parts see them: -Wl, and option files are taken apart."""
    was = False
    for flag in flags:
        passed_on, was = was, flag in options.PASS_ON
        name, _, value = flag.partition("=")
        if flag.startswith("@") and os.path.isfile(flag[1:]) and depth < 8:
            named.append(flag[1:])
            with open(flag[1:], encoding="utf-8", errors="surrogateescape") as file:
                yield from _expand(_split(file.read()), named, depth + 1)
        elif flag.startswith(("-Wl,", "-Wa,", "-Wp,")):
            yield from _expand(flag[4:].split(","), named, depth)
        elif passed_on or (value and name in options.PASS_ON):
            inside = (flag if passed_on else value).split(",")
            inside += [part for word in inside if " " in word for part in word.split()]  # by nvcc
            yield from _expand(inside, named, depth)
        elif not was:
            yield flag


def _find_library(
    name: str,
    folders: Sequence[str],
    archives: bool,
    files: dict[str, None],
    absent: dict[str, None],
) -> list[str]:
    """Note what stands for a library; return the files of the user's folders that do."""
    names = (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")
    for folder in (*folders, *_LIBRARY_FOLDERS):
        paths = [os.path.abspath(os.path.join(folder, n)) for n in names]
        there = [path for path in paths if os.path.isfile(path)]
        files.update(dict.fromkeys(there))
        absent.update(dict.fromkeys(path for path in paths if path not in there))
        if there and (not archives or paths[-1] in there):
            return there if folder in folders else []
    return []


def _is_known(path: str) -> bool:
    """Whether a file that is linked names no others."""
    with open(path, "rb") as file:
        return file.read(8).startswith(_LINKED)


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
