"""Lines of users, for messages: of an exception, of a call that is under way, of a definition."""

from __future__ import annotations

import linecache
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parents[2])
_LIBRARIES = ("/numba", "/numpy/", "<__array_function__")


def line_of(error: BaseException) -> str:
    """File and line of the innermost frame of a traceback that is the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not f.filename.startswith(_OURS)]
    best = [f for f in users if not _is_library(f.filename)] or users
    if not best:
        return "an unknown line"
    return f"{best[-1].filename}:{best[-1].lineno} ({(best[-1].line or '').strip()})"


def current_line() -> str:
    """File and line of the innermost frame of this thread that is the user's."""
    frame: FrameType | None = sys._getframe(1)
    users = []
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OURS):
            users.append((name, frame.f_lineno))
            if not _is_library(name):
                break
        frame = frame.f_back
    if not users:
        return "an unknown line"
    name, line = users[-1] if frame is not None else users[0]
    return f"{name}:{line} ({linecache.getline(name, line).strip()})"


def beginning_of(function: Any) -> str:
    """File and line where the code of a function, a method, a partial or an object begins."""
    function = getattr(function, "func", function)
    for owner in (function, vars(type(function)).get("__call__")):
        code = getattr(owner, "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}"
    return repr(type(function))


def _is_library(filename: str) -> bool:
    return any(part in filename for part in _LIBRARIES)
