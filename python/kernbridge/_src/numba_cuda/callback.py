"""Calls Python for functions and kernels on GPUs that cannot be launched from C.

The core calls `call` on XLA's thread, with the GIL, and passes the addresses of one slice. An
exception that the function raises becomes an XLA error. Such a call cannot be part of a CUDA graph
or of an exported program.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import secrets
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.reports import line_of
from kernbridge._src.numba_cuda import intercept
from kernbridge._src.operation.parameters import HALF_DTYPES, NATIVE_DTYPES, PythonFrontend
from kernbridge._src.operation.spec import ArrayType, Call
from kernbridge._src.plan.frontend import Lowered, PlannedFrontend, plan
from kernbridge._src.plan.program import DTYPE_CODES, Callback
from kernbridge._src.plan.targets import Target

DTYPES = NATIVE_DTYPES | HALF_DTYPES
LACKING = "Numba-CUDA has no type for"  # of other dtypes
REMEDY = "write to an output instead"  # of copies
_NAMES = {code: name for name, code in DTYPE_CODES.items()}

# From operands and a stream to the positional and named arguments of a function.
Order = Callable[[Sequence[Any], Any], tuple[Sequence[Any], dict[str, Any]]]

# Runs a function on the CPU: the function, the order, and arrays of NumPy and scalars.
OnHost = Callable[[Callable[..., Any], Order, Sequence[Any]], None]


@dataclass(frozen=True, eq=False)
class Callee:
    """A Python function, its arguments, and the number by which the core names it."""

    function: Callable[..., Any]
    order: Order
    scalars: range  # buffers whose value the function gets
    on_host: OnHost | None = None  # runs it on the CPU; None if it is lowered for a GPU
    handle: int = field(default_factory=lambda: secrets.randbits(63))


# A callee lives as long as its front end, to which operations and their traces in JAX refer, or as
# long as a compiled program, to which JAX ties it. JAX may drop the Python side of a program that
# still runs, so the callees that were used last are kept in any case.
_callees: weakref.WeakValueDictionary[int, Callee] = weakref.WeakValueDictionary()
_used_last: LRUCache[Callee] = LRUCache(64)


class CallingFrontend(PlannedFrontend, PythonFrontend):
    """A front end that can call through Python if there is no plan."""

    @functools.cached_property
    def _own_callees(self) -> LRUCache[Callee]:
        return LRUCache(256)

    def lower_as_python(
        self,
        key: Hashable,
        source: str,
        function: Callable[..., Any],
        order: Order,
        operands: Sequence[ArrayType],
        call: Call,
        target: Target,
        on_host: OnHost | None = None,
    ) -> Lowered:
        """Lower a call of a Python function, which is made once for each key.

        Inputs that are not aliased are copied, since Numba would let them be written. `on_host`
        runs the function on the CPU.
        """
        names = self.assign(call).names
        for t, name in zip((*operands, *call.outs), names, strict=False):
            if t.dtype.name in HALF_DTYPES and not target.emulates:
                raise ValueError(
                    f"{self.label}: {name!r} is {t.dtype.name}, which Numba-CUDA's own arrays do "
                    "not support; pass float32 to functions that cannot be recorded [KB2003]"
                )
        scalars = range(call.n_inputs, call.n_operands)
        callee = self._own_callees.find_or_make(
            (key, scalars, target.emulates), lambda: Callee(function, order, scalars, on_host)
        )
        _callees[callee.handle] = callee
        _used_last.put(callee.handle, callee)
        native, program = plan(
            *(self.label, source, operands, call, names, [Callback(callee.handle)]),
            copied=call.read_only,
            why_not_portable="it runs as Python, which a program cannot contain",
            target=target,
        )
        return native._replace(keep=callee), program


def call(
    handle: int, buffers: tuple[tuple[int, tuple[int, ...], int], ...], stream: int, device: int
) -> None:
    """Run the function of a handle on XLA's stream. Called by the core."""
    callee = _callees.get(handle)
    if callee is None:
        raise RuntimeError(
            "the Python function of this call no longer exists: the operation and the compiled "
            "program that calls it were released while it ran; keep the program until its "
            "results are ready"
        )
    try:
        if callee.on_host is None:
            _call_on_gpu(callee, buffers, stream, device)
        else:
            arrays = [_host_array(*b) for b in buffers]
            for i in callee.scalars:
                arrays[i] = arrays[i][()]
            callee.on_host(callee.function, callee.order, arrays)
    except Exception as e:
        where = line_of(e)
        raise RuntimeError(f"{type(e).__name__}: {e} at {where}") from None


def _call_on_gpu(callee: Callee, buffers: Sequence[Any], stream: int, device: int) -> None:
    api = intercept.used_by(callee.function)
    with contextlib.ExitStack() as devices:
        for loaded in intercept.loaded():
            devices.enter_context(loaded.cuda.gpus[device])
        on = api.cuda.external_stream(stream)
        arrays = [_array(api.cuda, *b).bind(on) for b in buffers]
        for i in callee.scalars:
            arrays[i] = _value(arrays[i], on)
        positional, named = callee.order(arrays, on)
        with intercept.on_stream(on):
            intercept.replace_aliases(callee.function)
            callee.function(*positional, **named)


def _host_array(address: int, shape: tuple[int, ...], code: int) -> Any:
    dtype = np.dtype(_NAMES[code])
    if 0 in shape:
        return np.empty(shape, dtype)
    size = math.prod(shape) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def _array(cuda: Any, address: int, shape: tuple[int, ...], code: int) -> Any:
    dtype = np.dtype(_NAMES[code])
    if 0 in shape:
        return cuda.device_array(shape, dtype)
    interface = {"shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3}
    memory = SimpleNamespace(__cuda_array_interface__=interface)
    return cuda.as_cuda_array(memory, sync=False)


def _value(array: Any, stream: Any) -> Any:
    """The value of an array of rank 0; waits for it."""
    host = array.reshape(1).copy_to_host(stream=stream)
    stream.synchronize()
    return host[0]
