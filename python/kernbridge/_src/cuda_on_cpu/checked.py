"""Compiles Numba-CUDA kernels for the checked mode, with checks of indices and line numbers.

Device functions that are compiled in this way are kept separate from those that run unchecked.
Imported only when a kernel is compiled.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.cuda_on_cpu.objects import called
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba_cuda import (
    NumbaDebugInfoWarning,
    arrayobj,
    cgutils,
    cudaimpl,
    target,
)

_Axis = tuple[Any, Any, int]  # an index, the extent of its axis, and the axis


@contextmanager
def compiling_checked() -> Iterator[None]:
    """Let Numba-CUDA ask about indices and keep lines. Under Numba's lock."""
    make_array, item_pointer = cudaimpl._generic_array, cgutils.get_item_pointer
    address = cgutils.get_item_pointer2  # which the former calls
    view = arrayobj.basic_indexing
    axes: list[_Axis] = []  # of the address in the making

    def named_array(context: Any, builder: Any, *, symbol_name: str, **how: Any) -> Any:
        name = f"{symbol_name}.{_name_of(how['dtype'])}.{'x'.join(map(str, how['shape']))}"
        return make_array(context, builder, symbol_name=name, **how)

    def checked_pointer(*args: Any, boundscheck: bool = True, **how: Any) -> Any:
        return item_pointer(*args, boundscheck=boundscheck, **how)

    def known_address(context: Any, builder: Any, *args: Any, **how: Any) -> Any:
        made = address(context, builder, *args, **how)
        made = _known(builder, made, axes)
        axes.clear()
        return made

    def known_view(*args: Any, **how: Any) -> Any:
        axes.clear()
        return view(*args, **how)

    def known_axis(context: Any, builder: Any, index: Any, extent: Any, axis: Any = None) -> None:
        axes.append((index, extent, axis if isinstance(axis, int) else 0))

    asking = patched(
        (cudaimpl, "_generic_array", named_array),
        (cgutils, "get_item_pointer", checked_pointer),
        (cgutils, "get_item_pointer2", known_address),
        (cgutils, "do_boundscheck", known_axis),
        (arrayobj, "basic_indexing", known_view),
        (target.CUDATargetContext, "enable_boundscheck", property(lambda self: True)),
    )
    with asking, compiled_apart("check", lineinfo=True), warnings.catch_warnings():
        # The source of a renamed kernel is not at the place that its code object names.
        warnings.simplefilter("ignore", NumbaDebugInfoWarning)
        yield


def _name_of(dtype: Any) -> str:
    """The name of a dtype as part of a symbol."""
    return str(dtype) if re.fullmatch(r"\w+", str(dtype)) else "records"


def _known(builder: Any, address: Any, axes: Sequence[_Axis]) -> Any:
    """An address that stands in for another one, and keeps the wrong index that it came from."""
    pointer = ir.IntType(8).as_pointer()
    made = builder.bitcast(address, pointer)
    for index, extent, axis in axes:
        number = ir.Constant(ir.IntType(32), axis)
        made = called(builder, "kb.check.axis", [made, index, extent, number], pointer)
    return builder.bitcast(made, address.type) if axes else address
