"""Generates the entry of a GPU kernel, a function of 8-byte words that builds the kernel's arrays.

The user's function is compiled as a device function and inlined into the entry. An array of rank d
takes 1 + d words (Numba's own entry takes 5 + 2 d): its address and its extents. If it is not
C-ordered, d strides in bytes follow. In a batched entry, each address is followed by the distance
between slices, and `blockIdx.z` selects the slice.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernbridge._src.numba_common import private_numba_cuda as numba_cuda
from kernbridge._src.numba_common.private_numba import types
from kernbridge._src.numba_common.private_numba_cuda import arrayobj, cgutils, cuda, intrinsic
from kernbridge._src.plan.program import DeviceParameter, Parameter, TupleParameter


def numba_type(dtype: np.dtype[Any]) -> Any:
    """Numba-CUDA's type of an element; ValueError if it has none."""
    if dtype.name == "bfloat16":
        import numba.cuda.bf16  # noqa: F401  # registers its operations

        return cuda.types.bfloat16
    try:
        return numba_cuda.numpy_support.from_dtype(dtype)
    except Exception as e:
        raise ValueError(f"Numba-CUDA has no type for {dtype.name}") from e


def parameter_type(parameter: Parameter) -> Any:
    if isinstance(parameter, TupleParameter):
        members = list(map(parameter_type, parameter.members))
        return types.BaseTuple.from_types(members, parameter.made_by or tuple)
    item = numba_type(parameter.dtype)
    if parameter.enumeration is not None:
        return numba_cuda.typeof(next(iter(parameter.enumeration)))
    if parameter.kind != "array":
        return item
    return types.Array(item, parameter.ndim, parameter.layout, parameter.read_only)


def _make_array(parameter: DeviceParameter, context: Any, builder: Any, given: Any) -> Any:
    array_type, n = parameter_type(parameter), parameter.ndim
    words = cgutils.unpack_tuple(builder, given)
    array = context.make_array(array_type)(context, builder)
    item_size = cgutils.intp_t(arrayobj.get_itemsize(context, array_type))
    extents = words[1 : 1 + n]
    strides = words[1 + n : 1 + 2 * n] if parameter.layout != "C" else ()
    count = cgutils.intp_t(1)
    compact: list[Any] = []
    for extent in reversed(extents):
        compact.insert(0, builder.mul(count, item_size, flags=["nsw"]))
        count = builder.mul(count, extent, flags=["nsw"])
    data = builder.inttoptr(words[0], array.data.type)
    arrayobj.populate_array(array, data, extents, strides or compact, item_size, meminfo=None)
    return array._getvalue()


def _make_scalar(parameter: DeviceParameter, context: Any, builder: Any, given: Any) -> Any:
    """The value of a scalar or a record, from its address or from words with its bits."""
    item = parameter_type(parameter)
    if parameter.kind == "record":
        return builder.inttoptr(given, context.get_value_type(item))
    pointer_type = context.get_data_type(item).as_pointer()
    if parameter.kind == "loaded":
        pointer = builder.inttoptr(given, pointer_type)
    else:
        pointer = builder.bitcast(cgutils.alloca_once_value(builder, given), pointer_type)
    return context.unpack_value(builder, item, pointer)


@functools.cache  # Numba never forgets an intrinsic
def _builder(made: Any) -> Any:
    """The intrinsic that makes an argument of words, or a named tuple of a tuple."""

    @intrinsic
    def build(typing_context: Any, given: Any) -> Any:
        if isinstance(made, type):
            result = types.BaseTuple.from_types(list(given), made)
        else:
            result = parameter_type(made)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if isinstance(made, type):
                return context.make_tuple(builder, result, cgutils.unpack_tuple(builder, args[0]))
            make = _make_array if made.kind == "array" else _make_scalar
            return make(made, context, builder, args[0])

        return result(given), codegen

    return build


def build_entry(
    device: Any, parameters: Sequence[Parameter], batched: bool
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """A function to be compiled as a kernel, and the types of its parameters."""
    space: dict[str, Any] = {"device": device, "cuda": cuda}
    names: list[str] = []
    numbers = itertools.count()

    def argument(parameter: Parameter) -> str:
        """The expression that builds an argument of the device function."""
        i = next(numbers)
        if isinstance(parameter, TupleParameter):
            members = [argument(member) for member in parameter.members]
            expression = f"({', '.join(members)}{',' * (len(members) == 1)})"
            if parameter.made_by is None:
                return expression
            space[f"build{i}"] = _builder(parameter.made_by)
            return f"build{i}({expression})"
        own = [f"p{i}_{k}" for k in range(parameter.n_words(batched))]
        names.extend(own)
        space[f"build{i}"] = _builder(parameter)
        if parameter.kind != "scalar" and batched:
            own = [f"{own[0]} + cuda.blockIdx.z * {own[1]}", *own[2:]]
        by_address = parameter.kind in ("loaded", "record")
        return f"build{i}({own[0] if by_address else '(' + ', '.join(own) + ',)'})"

    arguments = [f"{p.keyword}={argument(p)}" if p.keyword else argument(p) for p in parameters]
    exec(f"def entry({', '.join(names)}):\n    device({', '.join(arguments)})\n", space)
    return space["entry"], (types.int64,) * len(names)
