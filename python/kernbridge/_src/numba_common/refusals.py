"""Formats the message for a kernel that Numba or Numba-CUDA cannot compile: cause, line and remedy.

Numba's own text has up to 250 lines, and repeats the cause for each function that it tried. The
message contains the first cause, the line of the kernel, and a remedy for common causes. With
KERNBRIDGE_DEBUG=full, the complete text is printed.
"""

from __future__ import annotations

import inspect
import linecache
import re
from typing import Any

import jax

from kernbridge._src.base.errors import without_code

_MOST_LINES = 12  # of the cause
_NOISE = re.compile(
    r"^\s*(Failed in \w+ mode pipeline.*|During: .*|- Resolution failure for .*|"
    r"<source missing.*|Enable logging at debug level.*|This error may have been caused.*|"
    r"Rejected as the implementation raised a specific error:|raised from \S+:\d+|"
    r"\w*Error: Failed in \w+ mode pipeline.*|\* \(op\|func\).*|\^*)$"
)
_CANDIDATES = re.compile(r"^There are \d+ candidate implementations:")
_SPECIFIC = "Rejected as the implementation raised a specific error:"
_RECURSION = "insert_unresolved_ref"  # which Numba-CUDA calls, and does not have
_REMEDIES = (
    (_RECURSION, "Convert the arguments, as in f(int32(5)) for f(5), so that every call of the "
     "function has the same types"),
    ("of type Module(<module 'jax", "A kernel can call functions of NumPy, math and Numba, but not "
     "of JAX"),
    ("NRT required but not enabled", "A CUDA kernel cannot create lists or arrays: use "
     "cuda.local.array, or set NUMBA_CUDA_ENABLE_NRT=1"),
    ("re-entrant to the same function", "A CUDA kernel cannot call itself; a device function can"),
    ("function shared.array", "The shape of a shared array must be a constant; for a size that "
     "depends on the call, write cuda.shared.array(0, dtype) and pass the number of bytes as "
     "shared_mem="),
    ("function local.array", "The shape of a local array must be a constant"),
    ("Cannot unify", "A variable can have only one type in a kernel; use two names"),
    ("Use of unsupported NumPy function", "Write a loop, or compute it with JAX outside of the "
     "kernel"),
)  # fmt: skip


def report(error: BaseException, function: Any) -> str:
    """Return the lines about an error of Numba in a kernel, whose Python function is given."""
    array = _jax_array(function)
    cause = _cause(error) if array is None else f"Numba cannot use {array!r}, which is a JAX array."
    place = _place(error, function, cause)
    remedy = _remedy(str(error), cause, function)
    rest = ["Set KERNBRIDGE_DEBUG=full to see Numba's complete message."] if place or remedy else []
    return without_code("\n".join([cause, *place, *([remedy] if remedy else []), *rest]))


def _cause(error: BaseException) -> str:
    """The first cause that Numba names, without the functions that it tried."""
    text = str(error)
    if _RECURSION in text:
        return "A device function calls itself with types that differ from those of its first call."
    inner = text.rfind(_SPECIFIC)
    if inner >= 0 and len(text) - inner > len(_SPECIFIC) + 8:
        text = text[inner + len(_SPECIFIC) :]
    kept: list[str] = []
    in_source = False
    for line in text.splitlines():
        if _CANDIDATES.match(line.strip()):
            break
        if line.lstrip().startswith('File "'):
            in_source = True
        elif not line.strip():
            in_source = False
        if not in_source and not _NOISE.match(line) and line.strip() not in kept:
            kept.append(line.strip())
    if len(kept) > _MOST_LINES:
        kept = [*kept[:_MOST_LINES], "..."]
    return "\n".join(kept) or type(error).__name__


def _place(error: BaseException, function: Any, cause: str) -> list[str]:
    """The line of the kernel, with a caret below what the cause is about."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return []
    file = function.__code__.co_filename
    names = re.findall(r"'(?:[\w.]*\.)?(\w+)'|function (\w+)[ >]", cause)
    words = [a or b for a, b in names]
    found = _numba_place(error)
    if found is None:
        number = _line_with(words, lines)
        if number is None:
            return []
        found = file, first + number
    file, number = found
    text = linecache.getline(file, number).rstrip("\n")
    if not text.strip():
        return [f"  at {file}:{number}"]
    shown = text.strip()
    at = next((m.start() for w in words for m in [re.search(rf"\b{w}\b", shown)] if m), 0)
    return [f'  File "{file}", line {number}', f"    {shown}", f"    {' ' * at}^"]


def _numba_place(error: BaseException) -> tuple[str, int] | None:
    """The place that Numba names: the innermost one is the first of its text."""
    found = re.search(r'^File "([^"<]+)", line (\d+):', str(error), re.M)
    found = found or re.search(r"\bat ([^\s(<]+) \((\d+)\)", str(error))
    if found is not None and linecache.getline(found[1], int(found[2])):
        return found[1], int(found[2])
    place = getattr(error, "loc", None)
    if place is not None and linecache.getline(str(place.filename), int(place.line)):
        return str(place.filename), int(place.line)
    return None


def _line_with(words: list[str], lines: list[str]) -> int | None:
    for word in words:
        for i, line in enumerate(lines):
            if not line.lstrip().startswith(("@", "def ")) and re.search(rf"\b{word}\b", line):
                return i
    return None


def _remedy(text: str, cause: str, function: Any) -> str:
    """What to do, where that is known."""
    if "which is a JAX array" in cause:
        return "Pass it as an input, or convert it to a NumPy array, which becomes a constant."
    untyped = re.search(r"Untyped global name '(\w+)'", cause)
    if untyped is not None:
        return _remedy_for_untyped(untyped[1], function)
    return next((remedy + "." for sign, remedy in _REMEDIES if sign in text), "")


def _remedy_for_untyped(name: str, function: Any) -> str:
    value = _values(function).get(name)
    if type(value).__module__ == "kernbridge":
        return f"{name!r} is a JAX operation: call it outside of kernels, and its kernel inside"
    if inspect.isclass(value):
        return f"{name!r} is a Python class: pass its fields as arrays and scalars"
    if value is None:  # a name of Numba's own sources
        return ""
    if callable(value):
        return f"{name!r} is a Python function: decorate it with @numba.njit"
    return (
        f"{name!r} is of type {type(value).__name__}, which Numba does not support: pass an array"
    )


def _jax_array(function: Any) -> str | None:
    values = _values(function).items()
    return next((name for name, value in values if isinstance(value, jax.Array)), None)


def _values(function: Any) -> dict[str, Any]:
    """What a function reads from outside, by name."""
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return {}
    return {**found.globals, **found.nonlocals}
