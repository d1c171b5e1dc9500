"""Supports device functions that call themselves and can therefore not be inlined.

Such a function gets the thread's frame as its first parameter, as `kb_thread` does. It first checks
whether enough of the stack is left, with a function of src/hostcuda/kb_block.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

STACK = 256 * 1024  # bytes for a thread, in addition to the variables of other functions

_ALLOCA = re.compile(r"= alloca (.*?)(?:, i(?:32|64) (\d+))?(?:, align \d+)?$", re.M)
_THREAD_AT = 48  # of the frame, see ll/frame.ll


def size_of_variables(text: str, begin: int, more: int) -> tuple[list[str], str]:
    """Instructions that compute the bytes of a function's variables plus `more`, and their value.

    The function's definition begins at `begin`. The types are read from the text, since llvmlite
    does not return the type of a variable in a parsed module.
    """
    lines, total = [], str(more)
    for i, (kind, count) in enumerate(_ALLOCA.findall(text, begin, text.index("\n}", begin))):
        lines.append(f"  %kb.p{i} = getelementptr {kind}, ptr null, i64 {count or 1}")
        lines.append(f"  %kb.n{i} = ptrtoint ptr %kb.p{i} to i64")
        lines.append(f"  %kb.s{i} = add i64 {total}, %kb.n{i}")
        total = f"%kb.s{i}"
    return lines, total


def has_checked_array(text: str, names: Sequence[str]) -> bool:
    """Whether one of these functions has a local array that is checked.

    The checked mode knows one array for each place, and a recursion creates several.
    """
    begins = [_definition(text, name) for name in names]
    bodies = [text[begin : text.index("\n}", begin)] for begin in begins]
    return any("call ptr @kb_check_local_array(" in body for body in bodies)


def is_value(text: str, names: Sequence[str]) -> bool:
    """Whether one of these functions is used otherwise than in calls."""
    return any(re.search(_token(name) + r"(?![-\w$.(])", text) for name in names)


def _token(name: str) -> str:
    """A regular expression for the name of a function in text."""
    return re.escape(f"@{name}" if re.fullmatch(r"[-\w$.]+", name) else f'@"{name}"')


def _definition(text: str, name: str) -> int:
    """Where the definition of a function begins."""
    begin = re.search(rf"^define [^\n]*{_token(name)}\(", text, re.M)
    assert begin is not None
    return begin.start()


def bounded(text: str, names: Sequence[str]) -> str:
    """The module in which these functions have the frame and check their stack."""
    for name in names:
        text = re.sub(_token(name) + r"\((\)?)", _with_frame, text)
        begin = _definition(text, name)
        lines, size = size_of_variables(text, begin, 0)
        check = [
            f"  %kb.thread.at = getelementptr i8, ptr %kb.frame, i64 {_THREAD_AT}",
            "  %kb.thread = load ptr, ptr %kb.thread.at",
            *lines,
            f"  call void @kb_recurse(ptr %kb.thread, i64 {size})\n",
        ]
        # The first block may have a label.
        first = re.compile(r"[^\n]*\{\n(?:\S[^\n]*:[^\n]*\n)?").match(text, begin)
        assert first is not None
        text = text[: first.end()] + "\n".join(check) + text[first.end() :]
    return text + "declare void @kb_recurse(ptr, i64)\n"


def _with_frame(found: re.Match[str]) -> str:
    """The beginning of a function's parameters, or of the arguments of a call, with the frame."""
    before = found[0].removesuffix(")")
    return f"{before}ptr %kb.frame{')' if found[1] else ', '}"
