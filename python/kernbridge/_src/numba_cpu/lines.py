"""Makes exceptions of Numba kernels name the user's line, and those of parallel loops reach it.

Numba gives a line to a `raise` of the user's alone. Its own exceptions (an index out of bounds, a
division by zero) have none, and those of its library have a line in Numba's files. A compiled
function returns a status, and every positive one means an exception: while kernels are compiled, a
function of the user's returns the number of its line instead of Numba's 1. What it calls keeps its
own number. Nothing is added to code that does not fail, and nothing that Numba would not store in
its cache on disk: a number that this process did not give out is unknown to `place_of`.

Numba sets an exception that is raised in the body of a `prange` in the worker's thread, where
nobody sees it: the loop ends early, and the caller goes on with the results as they are. A loop
that is compiled here records the first exception at the pointer `data`, which Numba hands to loop
bodies and does not use, and the function that runs the loop returns it.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba import (
    callconv,
    cgutils,
    lowering,
    numba,
    parfor_lowering,
    wrappers,
)

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


def note(place: Place) -> int:
    """The number of a place: the same in every process, but for the rare collision."""
    digest = hashlib.sha256(repr(tuple(place)).encode("utf-8", "backslashreplace")).digest()
    number = int.from_bytes(digest[:8], "little") % _COUNT
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


_RECORD = ir.LiteralStructType([_STATUS, callconv.excinfo_ptr_t])
loops: list[Any] = []  # compile results of the loop bodies that were lowered last


def set_environments(codegen: Any, compiled: Sequence[Any], context: Any) -> None:
    """Set the environment of loop bodies, which exceptions with values need and Numba omits."""
    for body in compiled:
        name = context.get_env_name(body.fndesc)
        if codegen._engine.get_global_value_address(name):
            codegen.set_env(name, body.environment)


_numba_call_loop = parfor_lowering.call_parallel_gufunc
_numba_loop_body = wrappers._GufuncWrapper.gen_loop_body


def _call_loop(lowerer: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a parallel loop, and return what it recorded."""
    loops.append(body)
    builder, call_conv = lowerer.builder, lowerer.context.call_conv
    record = cgutils.alloca_once(builder, _RECORD)
    builder.store(ir.Constant(_RECORD, None), record)
    call = builder.call

    def call_with_record(function: Any, arguments: Any, *rest: Any, **how: Any) -> Any:
        if len(arguments) == 4 and _is_null(arguments[3]):
            arguments = [*arguments[:3], builder.bitcast(record, arguments[3].type)]
        return call(function, arguments, *rest, **how)

    builder.call = call_with_record
    try:
        result = _numba_call_loop(lowerer, body, *args, **kwargs)
    finally:
        del builder.call
    code, exception = (builder.load(_member(builder, record, i)) for i in range(2))
    status = call_conv._get_return_status(builder, code, exception)
    with cgutils.if_unlikely(builder, status.is_error):
        call_conv.return_status_propagate(builder, status)
    return result


def _is_null(value: Any) -> bool:
    return isinstance(value, ir.Constant) and value.constant in (None, "null")


def _loop_body(self: Any, builder: Any, pyapi: Any, func: Any, args: Any) -> Any:
    """Run a part of a parallel loop; the first one that fails is recorded."""
    if not self.is_parfors:
        return _numba_loop_body(self, builder, pyapi, func, args)
    status, _ = self.call_conv.call_function(
        builder, func, self.signature.return_type, self.signature.args, args
    )
    with cgutils.if_unlikely(builder, status.is_error):
        record = builder.bitcast(builder.function.args[3], _RECORD.as_pointer())
        swapped = builder.cmpxchg(
            _member(builder, record, 0), _STATUS(0), status.code, "monotonic", "monotonic"
        )
        with builder.if_then(builder.extract_value(swapped, 1)):
            builder.store(status.excinfoptr, _member(builder, record, 1))
    return status.code, status.is_error


def _member(builder: Any, record: Any, index: int) -> Any:
    return builder.gep(record, [_STATUS(0), _STATUS(index)], inbounds=True)


CHANGES = (
    (lowering.BaseLower, "lower_block", _lower_block),
    (callconv.CPUCallConv, "_return_errcode_raw", _return_status),
    (callconv.CPUCallConv, "build_excinfo_struct", _describe_exception),
    (parfor_lowering, "call_parallel_gufunc", _call_loop),
    (wrappers._GufuncWrapper, "gen_loop_body", _loop_body),
)
"""What is replaced in Numba while it compiles, under its lock."""
