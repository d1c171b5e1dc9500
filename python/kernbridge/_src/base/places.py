"""Finds lines of the user's code for messages: of an exception, a call or a definition."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

_OURS = str(Path(__file__).parents[2])
_LIBRARIES = ("/numba", "/numpy/", "<__array_function__")


def line_of(error: BaseException) -> str:
    """Return file and line of the innermost frame of a traceback that is the user's."""
    return _innermost(reversed([*traceback.walk_tb(error.__traceback__)]))


def current_line() -> str:
    """Return file and line of the innermost frame of this thread that is the user's."""
    return _innermost(traceback.walk_stack(sys._getframe(1)))


def _innermost(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Describe the first frame that is the user's; one of a library only if there is no other."""
    found = None
    for frame, line in frames:
        name = frame.f_code.co_filename
        if name.startswith(_OURS):
            continue
        is_library = any(part in name for part in _LIBRARIES)
        if found is None or not is_library:
            linecache.checkcache(name)
            found = f"{name}:{line} ({linecache.getline(name, line, frame.f_globals).strip()})"
        if not is_library:
            break
    return found or "an unknown line"


def beginning_of(function: Any) -> str:
    """Return file and line where the code of a function, a method or an object begins."""
    function = getattr(function, "func", function)
    for owner in (function, vars(type(function)).get("__call__")):
        code = getattr(owner, "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}"
    return repr(type(function))
