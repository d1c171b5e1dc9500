"""Asks compilers and linkers which files they read, and where they look for them.

Both answer in the run that makes a library: a preprocessor with `-v` lists the folders that it
searches, and GNU ld with `--verbose` each file that it tries to open. What no answer covers is not
known, and nothing that depends on it is kept.
"""

import os
import re
from collections.abc import Iterable, Sequence

from kernbridge._src.base.struct import Struct

OF_COMPILER = ("-Xpreprocessor", "-v")
OF_NVCC = ("-Xcompiler", "-Xpreprocessor,-v")
OF_LINKER = ("-Xlinker", "--verbose")

# An option that may read a file that neither is named in full nor appears in an answer.
_UNREPORTED = re.compile(
    r"@|['\"\\]|-B(?!static|dynamic|symbolic|group)|-(?:Xclang|mllvm|remap)\b|-[^/]*(?:specs|plugin"
    r"|profil|probabil|modul|pch|prebuilt|sysroot|config|wrapper|options-file|optf|ldir|libdevice"
    r"|ccbin|bindir|target-dir|working-dir|apinotes|save-temps)"
)
# What may contain a path without searching there, and libraries' folders: the linker says which it
# searched.
_TEXT = re.compile(
    r"(?<![^\0,=])-(?:[DUL]\0?|f\w+-prefix-map=|-library[\w-]*[=\0])(?:(?!,-)[^\0])*"
    r"|rpath[\w-]*[=,\0](?:-Xlinker\0|-Wl,)?[^\0,]*"
)
_TRIED = re.compile(r"(?:attempt to open (.*) (succeeded|failed)|opened script file (.*))$")
_MISSING = re.compile(r'ignoring nonexistent directory "(.*)"$')
_OTHER = re.compile(
    r"clang -cc1 version |ignoring duplicate directory |  as it is a non-system directory "
    r"|#include <\.\.\.> search starts here:|\(.*\.a\)\S+$|\S+: mode \w+$|ld\.lld: \S+$"
    r"|\S*ld\.gold: (?:Opened new|Reopen|Attempt to open|Unlocking|Locking|Released|Closing) "
)
"""Other lines of answers."""


class Answer(Struct):
    """What a compiler and a linker say of one run."""

    # Of headers, in the order of the search; before these, those that do not exist, for which no
    # compiler says when it would search them.
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # that the linker read
    absent: tuple[str, ...] = ()  # that it would have read in place of others
    linked: bool = False  # whether the linker answered


def read(texts: Iterable[str]) -> tuple[Answer, str]:
    """Take the outputs of compilers apart: the answers, and what the last one says to people."""
    folders: dict[str, None] = {}
    missing: dict[str, None] = {}
    tried: dict[str, bool] = {}
    left: list[str] = []
    inside, bars, listed, linked = "", 0, False, False
    for text in texts:
        left.clear()
        for line in text.split("\n"):
            if line.startswith('#include "..." search starts here'):
                inside = "list"
            elif line.startswith("End of search list"):
                inside, listed = "", True
            elif line.startswith("GNU ld ("):
                inside, bars, linked = "script", 0, True
            elif inside == "script":  # which is between two lines of equals signs
                bars += line.startswith("=====")
                inside = inside if bars < 2 else ""
            elif found := _MISSING.match(line):
                missing[found[1]] = None
            elif found := _TRIED.match(line):
                tried[found[1] or found[3]] = found[2] != "failed"
            elif inside == "list" and line.startswith(" "):
                if not listed:  # nvcc's last run of a compiler is for a file of its own
                    folders[line[1:]] = None
            elif line not in tried and not _OTHER.match(line):
                left.append(line)
    answer = Answer(
        folders=(*missing, *folders),
        files=tuple(path for path, was_read in tried.items() if was_read),
        # A script of the C library's names files that need not have a folder.
        absent=tuple(path for path, was_read in tried.items() if not was_read and "/" in path),
        linked=linked,
    )
    return answer, "\n".join(left)


def links(flags: Sequence[str], ldflags: Sequence[str]) -> bool:
    """Whether flags of a compiler, or variables that hold such flags, concern its linker."""
    found = any(re.match(r"[^-]|-[lLT]|-Wl|-Xl|--lib|--for-l", flag) for flag in flags)
    return found or bool(ldflags)


def included(flags: Sequence[str], names: Iterable[str]) -> set[str]:
    """Return the names under which flags include a header, as -include does."""
    option = r"(?:-[\w,-]*(?:include|macros)[=,]?)?"
    ends = [(f, name) for name in names for f in flags if f.endswith(name)]
    return {name for f, name in ends if re.fullmatch(option, f[: -len(name)])}


def named_files(flags: Sequence[str]) -> list[str]:
    """Return the files that flags name, such as objects and version scripts."""
    parts = dict.fromkeys(part for flag in flags for part in (flag, *re.split("[,=]", flag)))
    return [part for part in parts if part and os.path.isfile(part)]


def is_known(flags: Sequence[str], answer: Answer) -> bool:
    """Whether flags read nothing but files that they name, and files that an answer covers."""
    searched = [*answer.folders, *map(os.path.dirname, (*answer.files, *answer.absent))]
    searched = [folder.rstrip("/") for folder in dict.fromkeys(searched) if folder.strip("/")]

    def covers(part: str) -> bool:
        path = part.rstrip("/")
        options = [path.removesuffix(f) for f in searched if path.endswith(f)]
        is_searched = any(re.fullmatch(r"(?:-[A-Za-z-]+=?)?", option) for option in options)
        return is_searched or "/" not in part or os.path.isfile(part)

    words = [word for word in _TEXT.sub("", "\0".join(flags)).split("\0") if word]
    parts = [(word, part) for word in words for part in re.split(r"[,=\s]", word)]
    return not any(_UNREPORTED.match(p) or not (covers(w) or covers(p)) for w, p in parts)


def is_thin(path: str) -> bool:
    """Whether a file is a thin archive, whose objects no linker reports."""
    with open(path, "rb") as file:
        return file.read(7) == b"!<thin>"


def asks(text: str) -> list[str | None]:
    """Return the names that a text asks for with __has_include; None for one that a macro makes."""
    if "__has_" not in text:
        return []
    text = re.sub(r"(?:\bdefined\s*\(?\s*|#\s*ifn?def\s+)__has_\w+", "", text)
    asked = r'\b__has_(?:include|include_next|embed)\b(?:\s*\(\s*[<"]([^>"\n]+)[>"])?'
    return [match[1] for match in re.finditer(asked, text)]
