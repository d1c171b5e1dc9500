"""Supports device functions that call themselves and can therefore not be inlined.

Such a function gets the thread's frame as its first parameter, as `kb_thread` does. It first checks
whether enough of the stack is left, with a function of src/hostcuda/kb_block.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernbridge._src.cuda_on_cpu import variables

STACK = 256 * 1024  # bytes for a thread, beside what other variables take

_THREAD_AT = 48  # of the frame, see ll/frame.ll
_DECLARED = "declare void @kb_recurse(ptr, i64)\n"


def has_checked_array(text: str, names: Sequence[str]) -> bool:
    """Whether one of these functions has a local array that is checked.

    The checked mode knows one array of each place, and a recursion makes several.
    """
    return any("call ptr @kb_check_local_array(" in _body(text, name) for name in names)


def is_value(text: str, names: Sequence[str]) -> bool:
    """Whether one of these functions is used otherwise than in calls."""
    return any(re.search(_token(name) + r"(?![-\w$.(])", text) for name in names)


def _body(text: str, name: str) -> str:
    begin = _definition(text, name)
    return text[begin : text.index("\n}", begin)]


def _token(name: str) -> str:
    """A regular expression for the name of a function in text."""
    return re.escape(f"@{name}" if re.fullmatch(r"[-\w$.]+", name) else f'@"{name}"')


def _definition(text: str, name: str) -> int:
    """Where the definition of a function begins."""
    begin = re.search(rf"^define [^\n]*{_token(name)}\(", text, re.M)
    assert begin is not None
    return begin.start()


def bounded(text: str, names: Sequence[str]) -> str:
    """A module whose functions of these names have the frame, and ask about their stack."""
    for name in names:
        text = re.sub(_token(name) + r"\((\)?)", _with_frame, text)
        begin = _definition(text, name)
        lines, size = variables.size(text, begin, 0)
        asking = [
            f"  %kb.thread.at = getelementptr i8, ptr %kb.frame, i64 {_THREAD_AT}",
            "  %kb.thread = load ptr, ptr %kb.thread.at",
            *lines,
            f"  call void @kb_recurse(ptr %kb.thread, i64 {size})\n",
        ]
        # The first block may have a label.
        first = re.compile(r"[^\n]*\{\n(?:\S[^\n]*:[^\n]*\n)?").match(text, begin)
        assert first is not None
        text = text[: first.end()] + "\n".join(asking) + text[first.end() :]
    return text + _DECLARED


def _with_frame(found: re.Match[str]) -> str:
    """The beginning of a function's parameters, or of the arguments of a call, with the frame."""
    before = found[0].removesuffix(")")
    return f"{before}ptr %kb.frame{')' if found[1] else ', '}"
