"""How errors and warnings are presented: their tracebacks and the lines of the user they point to.

The frames of kernbridge are hidden in tracebacks if JAX hides its own. JAX does this within its
functions, since kernbridge's folder is registered with it; this module does it if kernbridge was
called directly. JAX_TRACEBACK_FILTERING=off shows all frames.
"""

from __future__ import annotations

import functools
import linecache
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

import jax

from kernbridge._src.base import debug, versions
from kernbridge._src.base.errors import KernbridgeWarning, add_notes, show_way, way_to
from kernbridge._src.base.options import Options

OURS = str(Path(__file__).parents[2])
_NOT_USERS = (OURS, str(Path(jax.__file__).parent))

_LIBRARIES = ("/numba", "/numpy/", "<__array_function__", _NOT_USERS[1])

AnError = TypeVar("AnError", bound=BaseException)
AFunction = TypeVar("AFunction", bound=Callable[..., Any])


def hide_frames(error: BaseException) -> None:
    """Leave frames of kernbridge out of a traceback. A bare `raise` must follow.

    It ends with the way to what explains the error's code. Raises UnknownVersionError if another
    package lacks a name that kernbridge uses. What JAX puts in front of an error of a compilation,
    the line of the call, goes, too: the traceback has it.
    """
    if missing := versions.missing_name(error):
        raise missing from error
    show_way(error)
    add_notes(error, *cells_in(str(error)))
    between = error.__cause__
    if between is not None and type(between).__name__ == "JaxStackTraceBeforeTransformation":
        error.__cause__, error.__context__ = between.__cause__, between.__context__
        error.__suppress_context__ = between.__suppress_context__
    if jax.config.jax_traceback_filtering == "off":
        return
    shown: BaseException | None = error
    for _ in range(8):  # the error and what it was raised for
        if shown is None:
            break
        shown.__traceback__ = _without_ours(shown.__traceback__)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def _without_ours(at: TracebackType | None) -> TracebackType | None:
    kept = []
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(OURS):
            kept.append(at)
        at = at.tb_next
    shown = None
    for at in reversed(kept):
        shown = TracebackType(shown, at.tb_frame, at.tb_lasti, at.tb_lineno)
    return shown


def hides_frames(function: AFunction) -> AFunction:
    """Check the options of a public function, and let its errors point at its caller."""
    options: Options | None = None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal options
        try:
            options = options or Options(function)
            options.check(args, kwargs)
            return function(*args, **kwargs)
        except Exception as e:
            has_begun = e.__traceback__ is not None and e.__traceback__.tb_next is not None
            if isinstance(e, TypeError) and options is not None and not has_begun:
                e.args = (options.misfit(args, kwargs) or str(e),)
            hide_frames(e)
            raise

    return call  # type: ignore[return-value]


def warn(message: str) -> None:
    """Warn, and point at the innermost line that is neither kernbridge's nor JAX's.

    Where XLA has called kernbridge on a thread of its own, that is a line of the main thread.
    """
    message = "\n".join(filter(None, (message, *cells_in(message), way_to(message))))
    main = sys._current_frames().get(threading.main_thread().ident or 0)
    caller = sys._getframe(1)
    frame = _of_user(caller) or _of_user(main) or caller
    warnings.warn_explicit(
        message,
        KernbridgeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<unknown>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def cells_in(text: str) -> list[str]:
    """The lines of a notebook that a text names by files of IPython, as IPython names them."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cells: dict[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", {})
    found = dict[str, None]()
    for file, cell in cells.items():
        for at in re.finditer(rf'{re.escape(os.path.basename(file))}(?:", line |:)(\d+)', text):
            source = linecache.getline(file, int(at[1])).strip()
            found[f"Cell In[{cell}], line {at[1]}: {source}"] = None
    return [*found]


def _of_user(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_USERS):
        frame = frame.f_back
    return frame


def instead_of(cause: BaseException, error: AnError) -> AnError:
    """Return an error that is raised for another one, whose text it holds the essence of.

    The other one is `error.__context__`, and is printed with KERNBRIDGE_DEBUG=full only. A function
    that returns `cause` itself as the error may be used, too: an error that is its own cause would
    let JAX search its causes forever.
    """
    if error is not cause:
        error.__context__ = cause
        error.__cause__ = cause if debug.is_full() else None
    return error


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
        if name.startswith(OURS):
            continue
        is_library = any(part in name for part in _LIBRARIES)
        if found is None or not is_library:
            linecache.checkcache(name)
            found = f"{name}:{line} ({linecache.getline(name, line, frame.f_globals).strip()})"
        if not is_library:
            break
    return found or "an unknown line"


def beginning_of(function: Any) -> str:
    """Return file and line where the code of a callable begins."""
    found = python_function(function)
    if found is None:
        return repr(type(function))
    return f"{found.__code__.co_filename}:{found.__code__.co_firstlineno}"


def python_function(function: Any) -> FunctionType | None:
    """The Python function of a callable, such as a partial, a method or an object."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        function = getattr(type(function).__call__, "__func__", type(function).__call__)
    return function if isinstance(function, FunctionType) else None
