"""Compiles Numba-CUDA kernels with the additions of a CPU mode.

Numba-CUDA keeps the machine code of a device function with its dispatcher. Code with additions must
not be found by a kernel that is compiled for a GPU or for another mode, and is therefore kept
separately. Everything here runs under Numba's lock. Imported only when a kernel is compiled, since
it imports Numba.

Writes out of bounds are skipped and reported. Numba-CUDA computes the address of an element and
writes there. Without the checked mode, the indices of each write are compared with the array's
extents, and a call of `kb.outside.NAME` reports the result; `to_host` numbers it, and loops.ll and
fibres.ll define the function. If a kernel makes the same comparison itself, LLVM removes
this one, so that loops are vectorised as before. A write is a store by index, an atomic update, an
access with a cache hint, or the use of a record, whose fields are written by its address. A view
that begins outside of its array has no elements.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kernbridge._ext.emulator.compiler.library import called
from kernbridge._ext.emulator.compiler.to_host import OUTSIDE
from kernbridge._src.base.errors import typed
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common import private_numba_cuda as numba_cuda
from kernbridge._src.numba_common.private_llvmlite import ir
from kernbridge._src.numba_common.private_numba_cuda import arrayobj, cgutils, lowering, target
from kernbridge._src.numba_cpu.errors import message

_Kept = weakref.WeakKeyDictionary[Any, dict[Any, Any]]

_kept: dict[str, tuple[_Kept, _Kept]] = {}  # of each purpose: overloads, and internal functions
_template_of = numba_cuda.dispatcher.CUDADispatcher.get_call_template

_NOT_OF_USERS = ("numba.", "kernbridge")  # how the names of modules begin


@contextmanager
def compiled_in_isolation(purpose: str, **options: Any) -> Iterator[None]:
    """Compile device functions for `purpose`, with more target options."""
    overloads, internal = _kept.setdefault(purpose, (_Kept(), _Kept()))
    context = numba_cuda.dispatcher.cuda_target.target_context
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
                with numba_cuda.typeinfer.register_dispatcher(self):
                    self.compile_device(types, compiled.signature.return_type)
        return _template_of(self, *args, **kwargs)

    with (
        ExitStack() as isolated,
        patched(
            (numba_cuda.dispatcher.CUDADispatcher, "get_call_template", isolated_template),
            (context, "cached_internal_func", internal.setdefault(context, {})),
        ),
    ):
        yield


@contextmanager
def compiling(checked: bool, raises: bool = False) -> Iterator[None]:
    """Compile for the checked mode, or with checks of the indices of writes.

    With `raises`, exceptions of kernels with debug=True end the launch. Under Numba's lock.
    """
    purpose = ("check" if checked else "bounds") + " raising" * raises
    options = {"lineinfo": True} if checked else {}
    with (
        compiled_in_isolation(purpose, **options),
        _checked() if checked else _bounded(),
        _raising() if raises else nullcontext(),
    ):
        yield


@dataclass
class _Element:
    """What an address was made of: at least one index, with extents and numbers of axes."""

    address: Any
    data: Any
    shape: Sequence[Any]
    layout: str
    axes: Sequence[tuple[Any, Any, int]]


@contextmanager
def _checking_indices(known: Callable[[Any, _Element], Any]) -> Iterator[None]:
    """Let Numba-CUDA ask for checks of indices; `known` returns what stands for an address."""
    address_of = cgutils.get_item_pointer2
    checked_pointer = functools.partial(cgutils.get_item_pointer, boundscheck=True)
    parameters = inspect.signature(address_of)
    axes: list[tuple[Any, Any, int]] = []  # of the address that is computed next

    def known_address(*args: Any, **how: Any) -> Any:
        given = parameters.bind(*args, **how).arguments
        made = address_of(*args, **how)
        if not axes:
            return made
        element = _Element(made, given["data"], given["shape"], given["layout"], tuple(axes))
        axes.clear()
        return known(given["builder"], element)

    def known_axis(context: Any, builder: Any, index: Any, extent: Any, axis: Any = None) -> None:
        axes.append((index, extent, axis if isinstance(axis, int) else 0))

    with patched(
        (cgutils, "get_item_pointer", checked_pointer),
        (cgutils, "get_item_pointer2", known_address),
        (cgutils, "do_boundscheck", known_axis),
        (target.CUDATargetContext, "enable_boundscheck", property(lambda self: True)),
    ):
        yield


@contextmanager
def _checked() -> Iterator[None]:
    """Let Numba-CUDA check indices and keep line numbers, for the checked mode."""
    make_array = numba_cuda.cudaimpl._generic_array

    def named_array(context: Any, builder: Any, *, symbol_name: str, **how: Any) -> Any:
        dtype = str(how["dtype"]) if re.fullmatch(r"\w+", str(how["dtype"])) else "records"
        name = f"{symbol_name}.{dtype}.{'x'.join(map(str, how['shape']))}"
        return make_array(context, builder, symbol_name=name, **how)

    def known(builder: Any, element: _Element) -> Any:
        """An address that stands in for another one, and keeps the indices that it came from."""
        pointer = ir.IntType(8).as_pointer()
        made = builder.bitcast(element.address, pointer)
        for index, extent, axis in element.axes:
            number = ir.Constant(ir.IntType(32), axis)
            made = called(builder, "kb.check.axis", [made, index, extent, number], pointer)
        return builder.bitcast(made, element.address.type)

    naming = patched((numba_cuda.cudaimpl, "_generic_array", named_array))
    with naming, _checking_indices(known), warnings.catch_warnings():
        # The source of a renamed kernel is not at the place that its code object names.
        warnings.simplefilter("ignore", numba_cuda.NumbaDebugInfoWarning)
        yield


def _raising() -> AbstractContextManager[None]:
    """Let exceptions of kernels with debug=True end the launch.

    Numba-CUDA returns the number of an exception, which is known only in the process that compiled
    the kernel. Here, the thread reports the type, the message and the line immediately.
    """
    return_exception = numba_cuda.MinimalCallConv.return_user_exc
    lower = lowering.CUDALower.lower_inst
    last: list[Any] = [None, ""]  # the block that was added to last, and the place there

    def report(context: Any, builder: Any, name: str, text: str) -> None:
        called(builder, name, [context.insert_string_const_addrspace(builder, text)])

    def reporting(
        self: Any, builder: Any, exc: Any, exc_args: Any = None, *more: Any, **how: Any
    ) -> Any:
        report(self.context, builder, "kb.raise", message(exc, exc_args))
        return return_exception(self, builder, exc, exc_args, *more, **how)

    def placed(self: Any, instruction: Any) -> None:
        if not self.fndesc.modname.startswith(_NOT_OF_USERS):
            place = f"{self.loc.filename}:{self.loc.line} in {self.func_ir.func_id.func_name!r}"
            if last != [self.builder.block, place]:
                last[:] = self.builder.block, place
                report(self.context, self.builder, "kb.place", place)
        lower(self, instruction)

    return patched(
        (numba_cuda.MinimalCallConv, "return_user_exc", reporting),
        (lowering.CUDALower, "lower_inst", placed),
    )


@contextmanager
def _bounded() -> Iterator[None]:
    """Let Numba-CUDA check the indices of writes."""
    view, store, load = arrayobj.basic_indexing, arrayobj.store_item, arrayobj.load_item
    flat_class, lower = arrayobj.make_array_flat_cls, lowering.CUDALower.lower_inst
    elements: dict[int, _Element] = {}  # by the identity of the address
    names: dict[str, str] = {}  # of variables: what they are copies of
    written = ""  # the name of the array that the present instruction writes to

    def known(builder: Any, element: _Element) -> Any:
        elements[id(element.address)] = element
        return element.address

    def bounded_view(context: Any, builder: Any, *args: Any, **how: Any) -> Any:
        made, shape, strides = view(context, builder, *args, **how)
        if shape and (element := elements.get(id(made))):
            bad = _beyond(builder, element.axes)
            shape = [builder.select(bad, extent.type(0), extent) for extent in shape]
        return made, shape, strides

    def bounded_store(context: Any, builder: Any, array_type: Any, value: Any, address: Any) -> Any:
        element = elements.get(id(address))
        if element is None:
            return store(context, builder, array_type, value, address)
        with _unless(builder, _reported(builder, element, array_type, written)):
            store(context, builder, array_type, value, address)
        return None

    def bounded_load(context: Any, builder: Any, array_type: Any, address: Any) -> Any:
        element = elements.get(id(address))
        if element and isinstance(context.get_value_type(array_type.dtype), ir.PointerType):
            address = _instead(builder, element, array_type, written)
        return load(context, builder, array_type, address)

    def bounded_flat(flat_type: Any) -> Any:
        made = flat_class(flat_type)
        write = made.setitem

        def setitem(
            self: Any, context: Any, builder: Any, kind: Any, array: Any, index: Any, value: Any
        ) -> None:
            element = _Element(None, None, (), "A", [(index, array.nitems, 0)])
            with _unless(builder, _reported(builder, element, kind, written)):
                write(self, context, builder, kind, array, index, value)

        made.setitem = setitem
        return made

    def named_instruction(self: Any, instruction: Any) -> None:
        nonlocal written
        kept, written = written, _written_by(instruction, names)
        if self.fndesc.modname.startswith("numba."):  # names that are internal to Numba
            written = ""
        try:
            lower(self, instruction)
        finally:
            written = kept

    def safe_pointer(context: Any, builder: Any, array_type: Any, *args: Any, **how: Any) -> Any:
        """For atomic updates and cache hints: a wrong index leads to other memory."""
        made = cgutils.get_item_pointer(context, builder, array_type, *args, **how)
        element = elements.get(id(made))
        return _instead(builder, element, array_type, written) if element else made

    safe = SimpleNamespace(**{**vars(cgutils), "get_item_pointer": safe_pointer})
    reporting = patched(
        (arrayobj, "basic_indexing", bounded_view),
        (arrayobj, "store_item", bounded_store),
        (arrayobj, "load_item", bounded_load),
        (arrayobj, "make_array_flat_cls", bounded_flat),
        (lowering.CUDALower, "lower_inst", named_instruction),
        (numba_cuda.cudaimpl, "cgutils", safe),
        (numba_cuda.cache_hints, "cgutils", safe),
    )
    with _checking_indices(known), reporting:
        yield


@contextmanager
def _unless(builder: Any, bad: Any) -> Iterator[None]:
    """Instructions that run if `bad` is false, in blocks that follow the present one."""
    function = builder.function
    at = function.blocks.index(builder.block) + 1
    inside = function.insert_basic_block(at, "kb.inside")
    rest = function.insert_basic_block(at + 1, "kb.rest")
    builder.cbranch(bad, rest, inside)
    builder.position_at_end(inside)
    yield
    builder.branch(rest)
    builder.position_at_end(rest)


def _written_by(instruction: Any, names: dict[str, str]) -> str:
    """The name in the source of the array that an instruction may write to; or ""."""
    target: Any = getattr(instruction, "target", None)
    if type(instruction).__name__ == "Assign":
        value = instruction.value
        if type(value).__name__ == "Var":
            names[instruction.target.name] = names.get(value.name, value.name)
        operation = getattr(value, "op", "")
        target = None
        if operation == "call" and value.args:
            target = value.args[0]
        elif operation in ("getitem", "static_getitem"):
            target = value.value
    found = getattr(target, "name", "")
    found = names.get(found, found) if isinstance(found, str) else ""
    return "" if found.startswith("$") else found.split(".")[0]


def _beyond(builder: Any, axes: Sequence[tuple[Any, Any, int]]) -> Any:
    """Whether an index leaves its axis, by the same comparisons that kernels make."""
    answers = []
    for index, extent, _ in axes:
        answers.append(builder.icmp_signed("<", index, index.type(0)))
        answers.append(builder.icmp_signed(">=", index, extent))
    return functools.reduce(builder.or_, answers)


def _reported(builder: Any, element: _Element, array_type: Any, name: str) -> Any:
    """Whether the element lies outside of its array; appends the call that reports it.

    An index may leave its axis and still reach an element of an array without gaps.
    """
    bad = _beyond(builder, element.axes)
    if element.layout in "CF" and len(element.shape) > 1:
        end = builder.gep(element.data, [functools.reduce(builder.mul, element.shape)])
        before = builder.icmp_unsigned("<", element.address, element.data)
        after = builder.icmp_unsigned(">=", element.address, end)
        bad = builder.and_(bad, builder.or_(before, after))
    described = f"{name!r} " if name else "an array "
    described += f"({typed(array_type.dtype, [f'{array_type.ndim}d'])})"
    called(builder, OUTSIDE + described.encode().hex(), [bad])
    return bad


def _instead(builder: Any, element: _Element, array_type: Any, name: str) -> Any:
    """The element's address, or the address of other memory if it lies outside its array."""
    other = cgutils.alloca_once(builder, element.address.type.pointee, zfill=True)
    return builder.select(_reported(builder, element, array_type, name), other, element.address)
