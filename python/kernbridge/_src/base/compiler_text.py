"""Shortens a compiler's output for messages: the first errors, each with the user's line.

The formats of gcc, clang, nvcc, NVRTC and of linkers are known. A compiler does not show the line
of an error where it cannot read the file, as with the text of an inline module: the line and the
caret below it are added here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_HINTS = (  # regular expressions
    (r'cannot open source file "(\w+)"', "NVRTC has no header {0} of the C++ library; use "
     "one of CUDA's, such as cuda/std/span, or build the source with load_cuda_inline"),
    (r"error: ([^\s:]+): No such file or directory|error: '([^']+)' file not found|"
     r'cannot open source file "([^"]+)"', "the header {0} was not found; give its folder with "
     "extra_include_paths=[...], or include_paths= of cuda_kernel"),
    (r"cannot find -l([^\s:]+)|unable to find library -l([^\s:]+)", "the library {0} was not found"
     "; install its package for development, or give its folder with -L in extra_ldflags="),
    (r"error: \W(\w+)\W is not a member of \Wstd\W|no member named '(\w+)' in namespace 'std'|"
     r'"std" has no member "(\w+)"', "std::{0} needs an #include, or a later standard of C++: pass "
     "-std=c++20 in extra_cflags=[...], extra_cuda_cflags=[...] or options=[...]"),
    (r"\W(BE|kernbridge)\W+(?:does not name|has not been declared|must be a class or namespace)"
     r"|undeclared identifier '(BE|kernbridge)'|unknown type name .(kb_\w+)", "a header for {0} is "
     'missing; #include "kernbridge/kernbridge.h" in C, "kernbridge/kernbridge.hpp" in C++, or '
     '"brainevent/common.h" for BE'),
)  # fmt: skip
MOST_COLUMNS = 300  # characters of a line; messages about templates have thousands
_MOST_DETAIL = 6  # lines below an error: the source, the caret, what was being instantiated

_PLACED = re.compile(
    r"^(?P<file>[^\s:(][^:(]*)(?::(?P<line>\d+)(?::(?P<column>\d+))?:|\((?P<edg>\d+)\)\s*:) +"
    r"(?P<kind>(?:fatal |catastrophic )?error|warning|note|remark)\b"
)
_REQUIRED = re.compile(
    r"^(?P<file>[^\s:(][^:(]*):(?P<line>\d+):(?P<column>\d+): +required from here$"
)
_UNPLACED = re.compile(r"\b(?:fatal|error) *:|undefined reference to|multiple definition of")
_DETAIL = re.compile(r"^\s+\S|^ *\d* +\|")  # the source and the caret, as all of them indent them
_INCLUDED = re.compile(r"^In file included from|^\s+from \S+:\d+")
# The code that kernbridge puts after a source, which an unclosed brace or comment reaches.
_GENERATED = re.compile(r"^(?:kernbridge(?::\w+)?|\S*/kernbridge/module\.h)[:(]\d")
_DIRECTIVE = re.compile(r'^#line (\d+) "((?:[^"\\]|\\.)*)"$')


_Error = list[str]  # its line, and the lines that are shown below it


def shorten(output: str, room: int, source: str = "") -> list[str]:
    """Return the lines of a compiler's output that a message shows: at most `room`, at least 2.

    `source` is the text that was compiled, with its `#line` directives.
    """
    written = output.strip("\n").splitlines()
    known = _lines_of(source)
    lines = list(_with_the_source(written, known))
    errors = _errors(lines, known)
    users = [error for error in errors if not _GENERATED.match(error[0])]
    more = 0
    whole = len(lines) <= room and len(users) in (0, len(errors))
    if not whole:
        lines, more = _first(users or errors, room - 1) if errors else (written[: room - 1], 0)
    cut = [s if len(s) <= MOST_COLUMNS else f"{s[:MOST_COLUMNS]} ..." for s in lines]
    if whole and cut == lines:
        return lines
    some = f"... and {more} more error{'s' if more > 1 else ''}. " if more else ""
    all_ = f"all {len(written)} lines" if len(written) > 1 else "all of it"
    printed = "they are" if len(written) > 1 else "it is"
    rest = (
        f"This exception's compiler_output contains {all_}; with KERNBRIDGE_DEBUG=full {printed} "
    )
    return [*cut[: room - 1], f"{some}{rest}printed."]


def hint(output: str) -> str:
    """Return what to do about a common mistake in a compiler's output; empty for all others."""
    for pattern, text in _HINTS:
        if (found := re.search(pattern, output)) is not None:
            return ": " + text.format(next(filter(None, found.groups())))
    return ""


def _first(errors: list[_Error], room: int) -> tuple[list[str], int]:
    lines: list[str] = []
    for i, wanted in enumerate(errors):
        if i and len(lines) + len(wanted) > room:
            return lines, len(errors) - i
        lines += wanted[:room]
    return lines, 0


def _errors(written: list[str], known: dict[tuple[str, int], str]) -> list[_Error]:
    found: dict[str, _Error] = {}
    required: list[str] = []
    current: _Error | None = None  # the one whose details follow
    for line in written:
        placed = _PLACED.match(line)
        if placed is None and current is not None and _DETAIL.match(line):
            if len(current) <= _MOST_DETAIL and not _INCLUDED.match(line):
                current.append(line)
            continue
        current = None
        if here := _REQUIRED.match(line):
            required = [line, *_excerpt(here, known)]
        if not (placed["kind"].endswith("error") if placed else _UNPLACED.search(line)):
            continue
        if line not in found:
            current = found[line] = [line, *required]
        required = []
    return list(found.values())


def _with_the_source(written: list[str], known: dict[tuple[str, int], str]) -> Iterator[str]:
    """Yield a compiler's output, with the line of the source below errors that lack it."""
    for line, following in zip(written, [*written[1:], ""], strict=True):
        yield line
        placed = _PLACED.match(line)
        if placed is not None and placed["kind"].endswith("error") and not _DETAIL.match(following):
            yield from _excerpt(placed, known)


def _excerpt(place: re.Match[str], known: dict[tuple[str, int], str]) -> list[str]:
    """Return the line that a place names, and a caret below its column; none if it is unknown."""
    about = place.groupdict()
    number = int(about["line"] or about["edg"])
    text = known.get((about["file"], number), "")
    if not text.strip():
        return []
    shown = [f"{number:5} | {text}"]
    if about["column"]:
        before = text.encode()[: int(about["column"]) - 1].decode(errors="ignore")
        shown.append("      | " + "".join("\t" if c == "\t" else " " for c in before) + "^")
    return shown


def _lines_of(source: str) -> dict[tuple[str, int], str]:
    """Return the lines of a source, by the file and the number that `#line` directives give them.

    A place that two lines have belongs to the first.
    """
    found: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for text in source.splitlines():
        if directive := _DIRECTIVE.match(text):
            number, file = int(directive[1]), re.sub(r"\\(.)", r"\1", directive[2])
        else:
            found.setdefault((file, number), text)
            number += 1
    return found
