"""Makes exceptions of Numba kernels name the user's line, and formats them.

The core calls `describe` after a kernel failed, on the thread that ran it, with the GIL held.

Numba gives a line to a `raise` of the user's alone. Its own exceptions (an index out of bounds, a
division by zero) have none, and exceptions of its library have a line in Numba's files. A compiled
function returns a status, and every positive one means an exception: while kernels are compiled, a
function of the user's returns the number of its line instead of Numba's 1. What it calls keeps its
own number. Nothing is added to code that does not fail, and nothing that Numba would not store in
its cache on disk: a number that this process did not give out has no place.

Numba sets an exception that is raised in the body of a `prange` in the worker's thread, which
drops it: the loop ends early, and the caller goes on with the results as they are. A loop
that is compiled here records the first exception at the pointer `data`, which Numba hands to loop
bodies and does not use, and the function that runs the loop returns it.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge import _core
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common import private_numba
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba import callconv, cgutils, lowering, numba

_STATUS = ir.IntType(32)
_RAISED = 1  # Numba's status for every exception of the user's
NUMBA = str(Path(numba.__file__).parent)

FIRST = 2  # of the numbers of lines: Numba's own status is 1
_COUNT = 2**31 - FIRST

lowerings: list[Any] = []  # functions that are being lowered, the innermost last


class Place(NamedTuple):
    function: str  # empty if it is not known
    file: str
    line: int


_places: dict[int, Place] = {}


class OutOfBounds(IndexError):
    """An index out of bounds that the checked mode found: array, axis, index and shape."""

    def __str__(self) -> str:
        array, axis, index, *shape = self.args
        if axis < 0:
            return f"index {index} is out of bounds for {shape[0]} elements"
        named = f"array {array!r}" if array else "an array"
        return (
            f"index {index} is out of bounds for axis {axis} of {named}, whose shape is "
            f"{tuple(shape)}"
        )


def describe(
    source: str,
    exception: BaseException | None,
    address: int,
    pickle: bytes | None,
    digest: bytes | None,
    arguments: tuple[Any, ...] | None,
    status: int,
) -> str:
    """Return the text of one exception.

    Either `exception` is a Python exception (from an object-mode block), or `pickle` is Numba's
    record at `address`, whose `arguments` were computed at run time if they are not None. `source`
    is where the kernel is defined, for an exception that has no place of its own. `status` is what
    the kernel returned: the number of a line, where it was compiled so.
    """
    if exception is not None:
        return f"{type(exception).__name__}: {exception} (in the kernel at {source})"
    if arguments is not None:
        kind, args, place = private_numba.serialize.runtime_build_excinfo_struct(pickle, arguments)
    else:
        kind, args, place = private_numba.serialize._numba_unpickle(address, pickle, digest)
    place = _places.get(status) or place
    where = f"in the kernel at {source}" if place is None else place_text(place)
    return f"{message(kind, args)} ({where})"


def message(kind: Any, args: Any) -> str:
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    name = IndexError.__name__ if kind is OutOfBounds else name
    try:
        text = str(kind(*(args or ())))
    except Exception:  # the exception's own constructor failed; its arguments are shown instead
        text = ", ".join(map(str, args or ()))
    return f"{name}: {text}" if text else name


def place_text(place: tuple[str, str, int]) -> str:
    """Where an exception happened, given function, file and line; the function may be empty."""
    function, file, line = place
    return f"{f'in {function} ' if function else ''}at {file}:{line}"


def is_lasting(kind: Any) -> bool:
    """Whether `message` follows from type and arguments alone, and from no code of the user's."""
    libraries = ("builtins", "numba", "numpy", "kernbridge")
    return isinstance(kind, type) and all(
        cls.__module__.partition(".")[0] in libraries
        for cls in kind.__mro__
        if vars(cls).keys() & {"__init__", "__new__", "__repr__", "__str__"}
    )


def note(place: Place) -> int:
    """The number of a place: the same in every process, but for the rare collision."""
    digest = hashlib.sha256(repr(tuple(place)).encode("utf-8", "backslashreplace")).digest()
    number = int.from_bytes(digest[:8], "little") % _COUNT
    while _places.setdefault(number + FIRST, place) != place:
        number = (number + 1) % _COUNT
    return number + FIRST


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
    place = _place_of(lowering_into(builder))
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


def lowering_into(builder: Any) -> Any:
    """Return what lowers the user's function into which a builder writes; None for another's."""
    current = lowerings[-1] if lowerings else None
    if current is None or current.builder.function is not builder.function:
        return None
    return current


def _place_of(current: Any) -> Place | None:
    """Return the user's line that is being lowered; None inside Numba's library."""
    loc: Any = getattr(current, "loc", None)
    file = getattr(loc, "filename", None)
    if not file or file.startswith(NUMBA):
        return None
    return Place(_function_of(file, loc.line), file, loc.line)


def _function_of(file: str, line: int) -> str:
    """The function that holds a line: not one into which it was inlined, nor a parallel loop."""
    for identity in (each.func_ir.func_id for each in reversed(lowerings)):
        code = identity.code
        if code.co_filename == file and code.co_firstlineno <= line <= max(
            (own for *_, own in code.co_lines() if own is not None), default=0
        ):
            return str(identity.func_name)
    return ""


_RECORD = ir.LiteralStructType([_STATUS, callconv.excinfo_ptr_t])
loops: list[Any] = []  # compile results of the loop bodies that were lowered last
_numba_call_loop = private_numba.parfor_lowering.call_parallel_gufunc
_numba_loop_body = private_numba.wrappers._GufuncWrapper.gen_loop_body


def _call_loop(lowerer: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a parallel loop, and return what it recorded."""
    loops.append(body)
    builder, call_conv = lowerer.builder, lowerer.context.call_conv
    record = cgutils.alloca_once(builder, _RECORD)
    builder.store(ir.Constant(_RECORD, None), record)
    call = builder.call

    def call_with_record(function: Any, arguments: Any, *rest: Any, **how: Any) -> Any:
        data = arguments[3] if len(arguments) == 4 else None
        if isinstance(data, ir.Constant) and data.constant in (None, "null"):
            arguments = [*arguments[:3], builder.bitcast(record, data.type)]
        return call(function, arguments, *rest, **how)

    with patched((builder, "call", call_with_record)):
        result = _numba_call_loop(lowerer, body, *args, **kwargs)
    code, exception = (builder.load(cgutils.gep_inbounds(builder, record, 0, i)) for i in range(2))
    status = call_conv._get_return_status(builder, code, exception)
    with cgutils.if_unlikely(builder, status.is_error):
        call_conv.return_status_propagate(builder, status)
    return result


def _loop_body(self: Any, builder: Any, pyapi: Any, func: Any, args: Any) -> Any:
    """Run a part of a parallel loop; the first one that fails is recorded."""
    if not self.is_parfors:
        return _numba_loop_body(self, builder, pyapi, func, args)
    status, _ = self.call_conv.call_function(
        builder, func, self.signature.return_type, self.signature.args, args
    )
    with cgutils.if_unlikely(builder, status.is_error):
        record = builder.bitcast(builder.function.args[3], _RECORD.as_pointer())
        code, exception = (cgutils.gep_inbounds(builder, record, 0, i) for i in range(2))
        swapped = builder.cmpxchg(code, _STATUS(0), status.code, "monotonic", "monotonic")
        with builder.if_then(builder.extract_value(swapped, 1)):
            builder.store(status.excinfoptr, exception)
    return status.code, status.is_error


CHANGES = (
    (lowering.BaseLower, "lower_block", _lower_block),
    (callconv.CPUCallConv, "_return_errcode_raw", _return_status),
    (callconv.CPUCallConv, "build_excinfo_struct", _describe_exception),
    (private_numba.parfor_lowering, "call_parallel_gufunc", _call_loop),
    (private_numba.wrappers._GufuncWrapper, "gen_loop_body", _loop_body),
)
"""What is replaced in Numba while it compiles, under its lock."""

_core.set_decoder(describe, private_numba.runtime.c_helpers["Free"])
