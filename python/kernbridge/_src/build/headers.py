"""Determines the headers that a build read, and the files that would change the result."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernbridge._src.build.manifest import Absent

LOCAL = "/usr/local/include"
"""Compilers search it before the folders of the system's packages."""

# What reads the clock, and what includes or embeds a file that no compiler reports.
_UNSEEN = re.compile(
    r"\b__(?:DATE|TIME|TIMESTAMP)__\b|\.incbin\b|\.include\s*\\*\"|#\s*embed\b|\b__has_embed\b"
)
_ASKS = re.compile(r'\b__has_(?:include|include_next|embed)\b(?:\s*\(\s*[<"]([^>"\n]+)[>"])?')
_DEFINED = re.compile(r"(?:\bdefined\s*\(?\s*|#\s*ifn?def\s+)__has_\w+")
_PARTS = ("lib", "include")
_SYSTEM = ("/usr/", "/lib/", "/nix/store/", "/gnu/store/")
# A word of a makefile; a backslash or a dollar may stand before a character that means itself.
_WORD = re.compile(r"(?:\\[ #:]|[^ \t])+")
_ESCAPED = re.compile(r"\\([ #:])|\$(\$)")


def read_make(text: str) -> list[str]:
    """Return the prerequisites in what a compiler's -MD writes, each once."""
    found: dict[str, None] = {}
    for rule in re.sub(r"\\\r?\n", " ", text).splitlines():
        words = [_ESCAPED.sub(r"\1\2", word) for word in _WORD.findall(rule)]
        # The target ends in a colon of its own or with a blank before.
        ends = [i for i, word in enumerate(words) if word.endswith(":")]
        found |= dict.fromkeys(words[ends[0] + 1 :] if ends else ())
    return list(found)


def group(absent: Iterable[str]) -> list[Absent]:
    """Return files that are absent by their folders; those with the same names stand together."""
    names: dict[str, dict[str, None]] = {}
    for path in absent:
        folder, name = os.path.split(path)
        names.setdefault(folder, {})[name] = None
    folders: dict[tuple[str, ...], list[str]] = {}
    for folder, found in names.items():
        folders.setdefault(tuple(sorted(found)), []).append(folder)
    return [(found, list(same)) for same, found in folders.items()]


def unseen(text: str) -> bool:
    """Whether a library of this text may not be kept: what the compiler reads is not known.

    That is so, too, if the text asks for a header whose name a macro makes.
    """
    return _UNSEEN.search(text) is not None or None in asks(text)


def asks(text: str) -> list[str | None]:
    """Return the names that a text asks for with __has_include; None for one that a macro makes."""
    return [match[1] for match in _ASKS.finditer(_DEFINED.sub("", text))]


def packages(tools: Sequence[str]) -> tuple[str, ...]:
    """Return folders of the system's, the compilers' and Python's packages: nobody edits there."""
    homes = [os.path.dirname(tool) for tool in tools]
    found = [os.path.dirname(home) + os.sep for home in homes if os.path.basename(home) == "bin"]
    found += [os.path.join(p, part, "") for p in (sys.prefix, sys.base_prefix) for part in _PARTS]
    return (*_SYSTEM, *(folder for folder in dict.fromkeys(found) if folder != "//"))


def is_packaged(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a header is in one of `packages`."""
    return path.startswith(folders) and not path.startswith(LOCAL)


def shadows(path: str, folders: Sequence[str]) -> Iterator[str]:
    """Yield files that might be found before a header, in folders that may be searched first."""
    for name in _spellings(path, folders):
        for folder in folders:
            yield os.path.join(folder, name)


def _spellings(path: str, folders: Sequence[str]) -> Iterator[str]:
    """Yield how a header may have been named by who includes it."""
    for folder in folders:
        inside = folder.rstrip(os.sep) + os.sep
        if path.startswith(inside):
            yield path[len(inside) :]
    _, include, rest = path.rpartition("/include/")
    if include:
        yield re.sub(r"^(?:[\w.]+-[\w.-]+/)?(?:c\+\+/[\w.]+/)?(?:[\w.]+-[\w.-]+/)?", "", rest)
    yield os.path.basename(path)
