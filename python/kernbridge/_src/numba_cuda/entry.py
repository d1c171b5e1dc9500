"""The entry of a GPU kernel: a generated function of 8-byte words that builds the kernel's arrays.

The user's function is compiled as a device function, inlined into the entry. An array takes one
word for its address and one per extent (Numba's own entry takes 5 + 2 d), a C-ordered array of
rank d thus 1 + d; one that is not C-ordered has d strides in bytes behind them. In a batched entry
an array's address is followed by the distance between slices, and `blockIdx.z` picks the slice.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbridge._src.numba_common.llvmlite_inside import ir
from kernbridge._src.numba_common.numba_cuda_inside import cgutils, cuda, intrinsic, numpy_support
from kernbridge._src.numba_common.numba_inside import types


@dataclass(frozen=True, slots=True)
class DeviceParameter:
    """One parameter of the kernel.

    `kind` is "array"; "loaded", a scalar that lies in a buffer of one element; or "scalar", whose
    value the words hold. `dtype` is a NumPy or ml_dtypes dtype.
    """

    kind: str
    dtype: np.dtype[Any]
    ndim: int = 0
    layout: str = "C"
    read_only: bool = False
    keyword: str = ""  # passed by name, behind a parameter that was left to its default

    def n_words(self, batched: bool) -> int:
        """Words that it takes."""
        if self.kind == "scalar":
            return 2 if self.dtype.itemsize > 8 else 1
        strides = 0 if self.layout == "C" else self.ndim
        return 1 + batched + self.ndim + strides

    def describe(self) -> str:
        """Its type, as messages name it."""
        return f"{self.dtype.name}[{self.ndim}d]" if self.kind == "array" else self.dtype.name


def numba_type(dtype: np.dtype[Any]) -> Any:
    """Numba-CUDA's type of an element; ValueError if it has none."""
    if dtype.name == "bfloat16":
        bfloat16 = getattr(cuda.types, "bfloat16", None)
        if bfloat16 is None:
            raise ValueError("this Numba-CUDA has no bfloat16")
        import numba.cuda.bf16  # noqa: F401  # registers its operations

        return bfloat16
    try:
        return numpy_support.from_dtype(dtype)
    except Exception as e:
        raise ValueError(f"Numba-CUDA has no type for {dtype.name}") from e


def parameter_type(parameter: DeviceParameter) -> Any:
    """What the kernel sees."""
    item = numba_type(parameter.dtype)
    if parameter.kind != "array":
        return item
    return types.Array(item, parameter.ndim, parameter.layout, readonly=parameter.read_only)


@functools.cache
def _array_builder(parameter: DeviceParameter) -> Any:
    """An intrinsic: (address, *extents, *strides) -> array."""
    array_type, n = parameter_type(parameter), parameter.ndim
    words = (types.int64,) * (1 + n + (0 if parameter.layout == "C" else n))

    @intrinsic
    def build(typing_context: Any, words_given: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = cgutils.unpack_tuple(builder, args[0])
            array = context.make_array(array_type)(context, builder)
            item_size = ir.Constant(
                ir.IntType(64), context.get_abi_sizeof(context.get_data_type(array_type.dtype))
            )
            extents = given[1 : 1 + n]
            strides = given[1 + n :]
            count = ir.Constant(ir.IntType(64), 1)
            compact: list[Any] = []
            for extent in reversed(extents):
                compact.insert(0, builder.mul(count, item_size, flags=["nsw"]))
                count = builder.mul(count, extent, flags=["nsw"])
            array.data = builder.inttoptr(given[0], array.data.type)
            array.itemsize = item_size
            array.nitems = count
            array.shape = cgutils.pack_array(builder, extents, ty=ir.IntType(64))
            array.strides = cgutils.pack_array(builder, strides or compact, ty=ir.IntType(64))
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()

        return array_type(types.UniTuple(types.int64, len(words))), codegen

    return build


@functools.cache
def _scalar_builder(dtype: np.dtype[Any], loaded: bool) -> Any:
    """An intrinsic: the address of a scalar, or words with its bits -> the scalar."""
    item = numba_type(dtype)
    words = types.int64
    if not loaded:
        words = types.UniTuple(types.int64, 2 if dtype.itemsize > 8 else 1)

    @intrinsic
    def build(typing_context: Any, words_given: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = context.get_data_type(item).as_pointer()
            if loaded:
                pointer = builder.inttoptr(args[0], kind)
            else:
                pointer = builder.bitcast(cgutils.alloca_once_value(builder, args[0]), kind)
            return context.unpack_value(builder, item, pointer)

        return item(words), codegen

    return build


def build_entry(
    device: Any, parameters: Sequence[DeviceParameter], batched: bool
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """A function to be compiled as a kernel, and the types of its parameters."""
    space: dict[str, Any] = {"device": device, "cuda": cuda}
    names: list[str] = []
    arguments: list[str] = []
    for i, parameter in enumerate(parameters):
        own = [f"p{i}_{k}" for k in range(parameter.n_words(batched))]
        names += own
        loaded, is_array = parameter.kind == "loaded", parameter.kind == "array"
        space[f"build{i}"] = (
            _array_builder(parameter) if is_array else _scalar_builder(parameter.dtype, loaded)
        )
        given = own
        if parameter.kind != "scalar" and batched:
            given = [f"{own[0]} + cuda.blockIdx.z * {own[1]}", *own[2:]]
        words = given[0] if loaded else f"({', '.join(given)},)"
        keyword = f"{parameter.keyword}=" if parameter.keyword else ""
        arguments.append(f"{keyword}build{i}({words})")
    source = f"def entry({', '.join(names)}):\n    device({', '.join(arguments)})\n"
    exec(source, space)
    return space["entry"], (types.int64,) * len(names)
