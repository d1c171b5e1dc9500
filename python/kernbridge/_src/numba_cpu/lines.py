"""Makes exceptions of Numba kernels report the line of the user's file in which they were raised.

Numba gives a line to a `raise` of the user's alone. Its own exceptions (an index out of bounds, a
division by zero) have none, and those of its library have a line in Numba's files. A compiled
function returns a status, and every positive one means an exception: while kernels are compiled, a
function of the user's returns the number of its line instead of Numba's 1. What it calls keeps its
own number. Nothing is added to code that does not fail, and nothing that Numba would not store in
its cache on disk: a number that this process did not give out is unknown to `place_of`.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba import callconv, lowering, numba

_STATUS = ir.IntType(32)
_RAISED = 1  # Numba's status for every exception of the user's
_NUMBA = str(Path(numba.__file__).parent)

FIRST = 2  # of the numbers of lines: Numba's own status is 1
_COUNT = 2**31 - FIRST

lowerings: list[Any] = []  # functions that are being lowered, the innermost last


class Place(NamedTuple):
    """A line of a user's file."""

    function: str  # empty if it is not known
    file: str
    line: int


_places: dict[int, Place] = {}
_lock = threading.Lock()


def note(place: Place) -> int:
    """The number of a place: the same in every process, but for the rare collision."""
    digest = hashlib.sha256(repr(tuple(place)).encode("utf-8", "backslashreplace")).digest()
    number = int.from_bytes(digest[:8], "little") % _COUNT
    with _lock:
        while _places.setdefault(number + FIRST, place) != place:
            number = (number + 1) % _COUNT
    return number + FIRST


def place_of(number: int) -> Place | None:
    """The place of a number; None if this process did not note it."""
    return _places.get(number)


def places_in(text: str) -> dict[int, Place]:
    """The places whose numbers stand in the LLVM IR of a function."""
    numbers = set(map(int, re.findall(r"(?<![\w.])\d{1,10}(?![\w.])", text)))
    return {n: _places[n] for n in numbers if n in _places}


@contextmanager
def noting_lines() -> Iterator[None]:
    """Compile so that exceptions carry their lines. Runs under Numba's lock."""
    with patched(
        (lowering.BaseLower, "lower_block", _lower_block),
        (callconv.CPUCallConv, "_return_errcode_raw", _return_status),
        (callconv.CPUCallConv, "build_excinfo_struct", _describe_exception),
    ):
        yield


_numba_lower_block = lowering.BaseLower.lower_block
_numba_return_status = callconv.CPUCallConv._return_errcode_raw
_numba_describe_exception = callconv.CPUCallConv.build_excinfo_struct


def _lower_block(self: Any, block: Any) -> None:
    lowerings.append(self)
    try:
        _numba_lower_block(self, block)
    finally:
        lowerings.pop()


def _return_status(self: Any, builder: Any, code: Any) -> None:
    place = _place_in(builder)
    if place is not None and isinstance(code, ir.Constant):
        code = _STATUS(note(place)) if code.constant == _RAISED else code
    elif place is not None and isinstance(code, ir.Value) and code.type == _STATUS:
        unknown = builder.icmp_signed("==", code, _STATUS(_RAISED))
        code = builder.select(unknown, _STATUS(note(place)), code)
    _numba_return_status(self, builder, code)


def _describe_exception(self: Any, exc: Any, exc_args: Any, loc: Any, func_name: Any) -> Any:
    """Add a place where Numba has none, since code from its cache on disk has no number."""
    described = _numba_describe_exception(self, exc, exc_args, loc, func_name)
    place = _place_of(lowerings[-1]) if loc is None and lowerings else None
    return described if place is None else (*described[:2], tuple(place))


def _place_in(builder: Any) -> Place | None:
    """The user's line that a builder's instructions belong to; None inside Numba's library."""
    current = lowerings[-1] if lowerings else None
    if current is None or current.builder.function is not builder.function:
        return None
    return _place_of(current)


def _place_of(current: Any) -> Place | None:
    loc = current.loc
    file = getattr(loc, "filename", None)
    if not file or file.startswith(_NUMBA):
        return None
    return Place(_function_of(file, loc.line), file, loc.line)


def _function_of(file: str, line: int) -> str:
    """The function that holds a line: not one into which it was inlined, nor a parallel loop."""
    for identity in (lowered.func_ir.func_id for lowered in reversed(lowerings)):
        if identity.code.co_filename == file and line in _lines_of(identity.code):
            return str(identity.func_name)
    return ""


@functools.lru_cache(maxsize=64)
def _lines_of(code: Any) -> range:
    last = max((line for *_, line in code.co_lines() if line is not None), default=0)
    return range(code.co_firstlineno, last + 1)
