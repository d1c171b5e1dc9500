"""Compiles Numba-CUDA kernels with the additions of a CPU mode.

Numba-CUDA keeps the machine code of a device function with its dispatcher. Code with additions must
not be found by a kernel that is compiled for a GPU or for another mode, and is therefore kept
separately. Everything here runs under Numba's lock. Imported only when a kernel is compiled, since
it imports Numba.
"""

from __future__ import annotations

import re
import traceback
import warnings
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from kernbridge._src.base.patched import patched
from kernbridge._src.cuda_on_cpu.library import called
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba_cuda import (
    MinimalCallConv,
    NumbaDebugInfoWarning,
    arrayobj,
    cgutils,
    cudaimpl,
    dispatcher,
    lowering,
    target,
    typeinfer,
)

_Kept = weakref.WeakKeyDictionary[Any, dict[Any, Any]]

_kept: dict[str, tuple[_Kept, _Kept]] = {}  # of each purpose: overloads, and internal functions
_around: list[tuple[str, dict[str, Any], Any]] = []  # the purposes of the present compilation

_NOT_OF_USERS = ("numba.", "kernbridge")  # how the names of modules begin


@contextmanager
def compiled_in_isolation(purpose: str, **options: Any) -> Iterator[None]:
    """Compile device functions for `purpose`, with more target options.

    In a nested context, the compiled code serves both purposes together.
    """
    template_of = dispatcher.CUDADispatcher.get_call_template
    if _around:
        other, others, template_of = _around[-1]
        purpose, options = f"{other} {purpose}", {**others, **options}
    overloads, internal = _kept.setdefault(purpose, (_Kept(), _Kept()))
    context = dispatcher.cuda_target.target_context
    found: set[int] = set()  # the identities of dispatchers, which `isolated` keeps alive

    def isolated_template(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in found:
            found.add(id(self))
            declared = () if self._can_compile else tuple(self.overloads.items())
            is_new = self not in overloads
            own = patched(
                (self, "overloads", overloads.setdefault(self, {})),
                (self, "targetoptions", {**self.targetoptions, **options}),
            )
            isolated.enter_context(own)
            if is_new:  # Numba's own finaliser releases only what Numba compiles
                weakref.finalize(self, self._make_finalizer())
            for types, compiled in declared:  # signatures of the decorator, compiled only here
                with typeinfer.register_dispatcher(self):
                    self.compile_device(types, compiled.signature.return_type)
        return template_of(self, *args, **kwargs)

    _around.append((purpose, options, template_of))
    try:
        with (
            ExitStack() as isolated,
            patched(
                (dispatcher.CUDADispatcher, "get_call_template", isolated_template),
                (context, "cached_internal_func", internal.setdefault(context, {})),
            ),
        ):
            yield
    finally:
        _around.pop()


@contextmanager
def compiling_checked() -> Iterator[None]:
    """Let Numba-CUDA check indices and keep line numbers, for the checked mode."""
    make_array, item_pointer = cudaimpl._generic_array, cgutils.get_item_pointer
    address = cgutils.get_item_pointer2  # which the former calls
    view = arrayobj.basic_indexing
    axes: list[tuple[Any, Any, int]] = []  # index, extent and axis, of the present address

    def named_array(context: Any, builder: Any, *, symbol_name: str, **how: Any) -> Any:
        dtype = str(how["dtype"]) if re.fullmatch(r"\w+", str(how["dtype"])) else "records"
        name = f"{symbol_name}.{dtype}.{'x'.join(map(str, how['shape']))}"
        return make_array(context, builder, symbol_name=name, **how)

    def checked_pointer(*args: Any, boundscheck: bool = True, **how: Any) -> Any:
        return item_pointer(*args, boundscheck=boundscheck, **how)

    def known_address(context: Any, builder: Any, *args: Any, **how: Any) -> Any:
        """An address that stands in for another one, and keeps the indices that it came from."""
        original = address(context, builder, *args, **how)
        pointer = ir.IntType(8).as_pointer()
        made = builder.bitcast(original, pointer)
        for index, extent, axis in axes:
            number = ir.Constant(ir.IntType(32), axis)
            made = called(builder, "kb.check.axis", [made, index, extent, number], pointer)
        known = builder.bitcast(made, original.type) if axes else original
        axes.clear()
        return known

    def known_view(*args: Any, **how: Any) -> Any:
        axes.clear()
        return view(*args, **how)

    def known_axis(context: Any, builder: Any, index: Any, extent: Any, axis: Any = None) -> None:
        axes.append((index, extent, axis if isinstance(axis, int) else 0))

    checking = patched(
        (cudaimpl, "_generic_array", named_array),
        (cgutils, "get_item_pointer", checked_pointer),
        (cgutils, "get_item_pointer2", known_address),
        (cgutils, "do_boundscheck", known_axis),
        (arrayobj, "basic_indexing", known_view),
        (target.CUDATargetContext, "enable_boundscheck", property(lambda self: True)),
    )
    with checking, compiled_in_isolation("check", lineinfo=True), warnings.catch_warnings():
        # The source of a renamed kernel is not at the place that its code object names.
        warnings.simplefilter("ignore", NumbaDebugInfoWarning)
        yield


@contextmanager
def compiling_raising() -> Iterator[None]:
    """Let exceptions of kernels with debug=True end the launch.

    Numba-CUDA returns the number of an exception, which is known only in the process that compiled
    the kernel. Here, the thread reports the type, the message and the line immediately.
    """
    return_exception, lower = MinimalCallConv.return_user_exc, lowering.CUDALower.lower_inst
    last: list[Any] = [None, ""]  # the block that was added to last, and the place there

    def report(context: Any, builder: Any, name: str, text: str) -> None:
        called(builder, name, [context.insert_string_const_addrspace(builder, text)])

    def reporting(
        self: Any, builder: Any, exc: Any, exc_args: Any = None, *more: Any, **how: Any
    ) -> Any:
        report(self.context, builder, "kb.raise", _described(exc, exc_args))
        return return_exception(self, builder, exc, exc_args, *more, **how)

    def placed(self: Any, instruction: Any) -> None:
        if not self.fndesc.modname.startswith(_NOT_OF_USERS):
            place = f"{self.loc.filename}:{self.loc.line} in {self.func_ir.func_id.func_name!r}"
            if last != [self.builder.block, place]:
                last[:] = self.builder.block, place
                report(self.context, self.builder, "kb.place", place)
        lower(self, instruction)

    patches = patched(
        (MinimalCallConv, "return_user_exc", reporting), (lowering.CUDALower, "lower_inst", placed)
    )
    with compiled_in_isolation("raising"), patches:
        yield


def _described(exc: Any, exc_args: Any) -> str:
    """An exception as Python prints it."""
    try:
        lines = traceback.format_exception_only(exc(*(exc_args or ())))
    except Exception:  # which the exception's class raises
        lines = [f"{exc.__name__}{exc_args or ''}"]
    text = "".join(lines).strip()
    qualified = f"{exc.__module__}.{exc.__qualname__}"
    return exc.__qualname__ + text.removeprefix(qualified) if text.startswith(qualified) else text
