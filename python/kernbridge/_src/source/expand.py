"""Finds functions that a source's own macros generate, with the compiler's preprocessor."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Sequence

from kernbridge._src.base.errors import CompilationError, KernelToolchainError
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain import compilers, programs

CACHE_KIND = "expanded"

_INCLUDE = re.compile(
    r"^([ \t]*#[ \t]*(?:include|include_next|import)\b)(?:\\\n|.)*$", re.MULTILINE
)
_LANGUAGES = {
    "c": ("-x", "c", "-std=c11"),
    "c++": ("-x", "c++", "-std=c++17"),
    "cuda": ("-x", "c++", "-std=c++17", "-D__CUDACC__", "-D__NVCC__"),
}


def expand(label: str, language: str, source: str, cflags: Sequence[str]) -> str | None:
    """Return a source with its own macros expanded, or None where the preprocessor fails.

    Comments stay, since annotations are comments. What the source includes is left out: that takes
    milliseconds, and what headers define seldom makes a function. The result is cached on disk, by
    the text, the flags and the compiler.

    Parameters
    ----------
    label : str
        What messages call the module.
    language : str
        "c", "c++" or "cuda".
    source : str
        The text.
    cflags : sequence of str
        Flags of the user; those that define or undefine macros are passed on.
    """
    try:
        host = compilers.find_c() if language == "c" else compilers.find_cxx()
    except KernelToolchainError:
        return None
    command = [*host.command, "-E", "-P", "-C", "-w", *_LANGUAGES[language], *_defines(cflags), "-"]
    alone = _INCLUDE.sub(lambda m: "\n" * m[0].count("\n"), source).encode(errors="surrogatepass")
    try:
        key = _key(command, host.tools, alone)
        found = artefacts.load(CACHE_KIND, key)
        if found is not None:
            return found.blobs[0].decode()
        done = programs.run(command, input=alone)
    except OSError:
        return None
    if done.limit:
        raise CompilationError(
            f"{label}: compilation failed: the preprocessor {done.limit}; the macros of the "
            "source expand to too much [KB4006]",
            command=shlex.join(command),
            stage="timeout",
        )
    if done.status:
        return None
    expanded = done.text
    artefacts.store(CACHE_KIND, key, artefacts.Artefact({}, (expanded.encode(),)))
    return expanded


def _key(command: Sequence[str], tools: Sequence[str], source: bytes) -> bytes:
    """Return the digest of all that decides what the preprocessor writes."""
    about = [(tool, (found := os.stat(tool)).st_size, found.st_ctime_ns) for tool in tools]
    return hashlib.sha256(repr((command, about)).encode() + b"\0" + source).digest()


def _defines(cflags: Sequence[str]) -> list[str]:
    """Return the flags that define or undefine a macro, with their values."""
    kept = []
    flags = iter(cflags)
    for flag in flags:
        if flag in ("-D", "-U", "--define-macro", "--undefine-macro"):
            kept.append(f"{'-U' if 'U' in flag or 'un' in flag else '-D'}{next(flags, '')}")
        elif flag.startswith(("-D", "-U")):
            kept.append(flag)
    return kept
