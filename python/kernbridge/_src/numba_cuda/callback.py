"""GPU functions that only Python can run: the slow path.

The core calls `_call` on XLA's thread, with the GIL, and hands over the addresses of one slice.
What the function raises becomes an XLA error. Such a call is in no CUDA graph, and is not exported.
"""

from __future__ import annotations

import functools
import secrets
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base.kept import Kept
from kernbridge._src.base.places import line_of
from kernbridge._src.gpu.frontend import PlannedFrontend, name_buffers, native_call
from kernbridge._src.gpu.program import DTYPE_CODES, Buffer, Callback, Program
from kernbridge._src.numba_cuda import intercept

if TYPE_CHECKING:
    from kernbridge._src.operation.primitive import NativeCall
    from kernbridge._src.operation.spec import ArrayType, Call

CALLEES_KEPT = 256  # lowered calls of one operation that run as Python
_NAMES = {code: name for name, code in DTYPE_CODES.items()}


@dataclass(frozen=True, eq=False)
class Callee:
    """A Python function, how it takes its arguments, and the number by which the core names it."""

    function: Callable[..., Any]
    order: Callable[[Sequence[Any], Any], tuple[Sequence[Any], dict[str, Any]]]
    scalars: range  # buffers whose value the function gets
    handle: int = field(default_factory=lambda: secrets.randbits(63))


# A callee lives as long as its front end, which operations and what JAX traced of them refer to, or
# as a compiled program, to which JAX ties it. JAX may drop the Python side of a program that still
# runs, so the callees that were used last stay in any case.
_callees: weakref.WeakValueDictionary[int, Callee] = weakref.WeakValueDictionary()
_used_last: Kept[Callee] = Kept(64)


class Callees:
    """The callees of one front end."""

    def __init__(self) -> None:
        self._kept: Kept[Callee] = Kept(CALLEES_KEPT)

    def find(self, key: Any, make: Callable[[], Callee]) -> Callee:
        """The callee of this key, made by `make` when it is first asked for."""
        callee = self._kept.find_or_make(key, make)
        _callees[callee.handle] = callee
        _used_last.put(callee.handle, callee)
        return callee


class CallingFrontend(PlannedFrontend):
    """A front end that can call through Python, for want of a plan."""

    @functools.cached_property
    def callees(self) -> Callees:
        """What it calls so."""
        return Callees()


def _call(
    handle: int,
    buffers: tuple[tuple[int, tuple[int, ...], int], ...],
    stream: int,
    device: int,
) -> None:
    from numba import cuda

    callee = _callees.get(handle)
    if callee is None:
        raise RuntimeError(
            "the Python function of this call is gone: the operation and the compiled program that "
            "calls it were released while it ran; keep the program until its results are there"
        )
    with cuda.gpus[device]:
        on = cuda.external_stream(stream)
        arrays = [_array(*b).bind(on) for b in buffers]
        for i in callee.scalars:
            arrays[i] = _value(arrays[i], on)
        positional, named = callee.order(arrays, on)
        try:
            with intercept.on_stream(on):
                intercept.replace_aliases(callee.function)
                callee.function(*positional, **named)
        except Exception as e:
            where = line_of(e)
            raise RuntimeError(f"{type(e).__name__}: {e} at {where}") from None


class _Memory:
    """XLA's memory, as Numba takes it."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (address, False),
            "version": 3,
        }


def _array(address: int, shape: tuple[int, ...], code: int) -> Any:
    from numba import cuda

    dtype = np.dtype(_NAMES[code])
    if 0 in shape:
        return cuda.device_array(shape, dtype)
    return cuda.as_cuda_array(_Memory(address, shape, dtype), sync=False)


def _value(array: Any, stream: Any) -> Any:
    """The scalar in an array of rank 0; waits for it."""
    host = array.reshape(1).copy_to_host(stream=stream)
    stream.synchronize()
    return host[0]


_core.set_caller(_call)


def lower(
    label: str,
    source: str,
    callee: Callee,
    names: Sequence[str],
    operands: Sequence[ArrayType],
    call: Call,
) -> tuple[NativeCall, Program]:
    """A call of Python. Inputs that are not aliased are copied: Numba would let them be written."""
    for i, t in enumerate((*operands, *call.outs)):
        if t.dtype.name in ("bfloat16", "float16"):
            raise ValueError(
                f"{label}: {names[i]!r} is {t.dtype.name}, which Numba-CUDA's own arrays cannot "
                "hold; functions that cannot be recorded take float32 instead"
            )
    n_inputs = len(operands) - len(call.scalars)
    aliased = {i for i, _ in call.aliases}
    copied = [i for i in range(n_inputs) if i not in aliased]
    arrays = (*operands, *call.outs)
    buffers = name_buffers(arrays, names)
    program = Program(
        name=label,
        source=source,
        n_inputs=len(operands),
        n_outputs=len(call.outs),
        buffers=(*buffers, *(Buffer(buffers[i].dtype, buffers[i].rank, names[i]) for i in copied)),
        steps=(Callback(callee.handle),),
    )
    why = "it runs as Python, which no program can carry"
    return native_call(program, copied, why)._replace(keep=callee), program


def scalars_of(operands: Sequence[ArrayType], call: Call) -> range:
    """Which operands are keyword scalars."""
    return range(len(operands) - len(call.scalars), len(operands))
