"""Passes exceptions of parallel loops to the function that runs the loop.

Numba sets an exception that is raised in the body of a `prange` in the worker's thread, where
nobody sees it: the loop ends early, and the caller goes on with the results as they are. A loop
that is compiled here records the first exception behind the pointer `data`, which Numba hands to
loop bodies and does not use, and the function that runs the loop returns it.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba import (
    callconv,
    cgutils,
    parfor_lowering,
    wrappers,
)

_STATUS = ir.IntType(32)
_RECORD = ir.LiteralStructType([_STATUS, callconv.excinfo_ptr_t])


@contextmanager
def reporting_exceptions() -> Iterator[None]:
    """Compile so that parallel loops report exceptions. Under Numba's lock."""
    with patched(
        (parfor_lowering, "call_parallel_gufunc", _call_loop),
        (wrappers._GufuncWrapper, "gen_loop_body", _loop_body),
    ):
        yield


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
