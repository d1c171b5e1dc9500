"""Compiles kernels of `deterministic=`, in which additions of floats become additions of integers.

An array that receives additions has a Numba type of its own, which its views have, too. The field
`parent` of an array, which Numba-CUDA hands on from array to view and does not use, holds the
distance to the array's sums: the sum of an element is at `scale * address + parent`, where `scale`
is how many times an element fits into the 16 bytes of a sum. These are an integer of 64 bits, a
counter of 32 bits of the times that it went round, and 32 marks.

Which arrays receive additions is seen by compiling the kernel, where every array of floats that it
may write to has that type: the code names those that it adds to. Then it is compiled again, where
these alone have the type, and `sum_uses` refuses what would depend on the order of the additions. A
kernel that adds to all of them is compiled once.
Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.base.patched import patched
from kernbridge._src.cuda_on_cpu.apart import compiled_apart
from kernbridge._src.cuda_on_cpu.objects import called
from kernbridge._src.numba_common.llvmlite_inside import ir
from kernbridge._src.numba_common.numba_cuda_impl_inside import cudaimpl
from kernbridge._src.numba_common.numba_cuda_inside import (
    array_model,
    global_compiler_lock,
    lowering,
    register_model,
    stubs,
)
from kernbridge._src.numba_common.numba_inside import types
from kernbridge._src.numba_cuda import patches
from kernbridge._src.numba_cuda.deterministic import (
    MINUS_INFINITY,
    NOT_A_NUMBER,
    PLUS_INFINITY,
    TOO_LARGE,
)
from kernbridge._src.numba_cuda.parameters import BYTES_OF_SUM, leaves
from kernbridge._src.numba_cuda.sum_uses import Uses

FLOATS = ("float32", "float64")

_NAME = "kb.sum."
_ADDED = re.compile(r'%"?kb\.sum\.(\d+)\.')
_IN_ORDER = re.compile(
    r"call [^\n]*@\"?llvm\.nvvm\.atomic\.load\.add\.f"
    r"|call [^\n]*@\"?___numba_atomic_(?:float|double)_(?:add|sub)"
    r"|atomicrmw fadd|atomicrmw fsub"
)
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_SUM = ir.LiteralStructType([_I64, _I32, _I32])


class SummedArray(types.Array):
    """An array that receives additions: parameter `number` of the kernel, or a view of it.

    It is `strict` unless it is not yet known which arrays receive additions; then it is mixed with
    no other array.
    """

    def __init__(
        self,
        dtype: Any,
        ndim: int,
        layout: str,
        readonly: bool = False,
        aligned: bool = True,
        *,
        number: int,
        exponent: int,
        strict: bool,
    ) -> None:
        self.number, self.exponent, self.strict = number, exponent, strict
        name = f"summed array {number} ({dtype}, {ndim}d, {layout}, 2**{exponent}, {strict})"
        super().__init__(dtype, ndim, layout, readonly, name, aligned)

    @property
    def key(self) -> Any:
        return (*super().key, self.number, self.exponent, self.strict)

    @property
    def mangling_args(self) -> Any:
        name, given = super().mangling_args
        return name, [*given, self.number, str(self.exponent), "strict" if self.strict else "any"]

    def _like(self, dtype: Any, ndim: int, layout: str, readonly: bool) -> SummedArray:
        return SummedArray(
            dtype,
            ndim,
            layout,
            readonly,
            self.aligned,
            number=self.number,
            exponent=self.exponent,
            strict=self.strict,
        )

    def copy(
        self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None
    ) -> Any:
        """The type of a view; one of another dtype is a plain array."""
        if dtype not in (None, self.dtype):
            return super().copy(dtype, ndim, layout, readonly)
        return self._like(
            self.dtype,
            self.ndim if ndim is None else ndim,
            layout or self.layout,
            not self.mutable if readonly is None else readonly,
        )

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Views of one array have a common type; others do not, when it is `strict`."""
        found = super().unify(typingctx, other)
        if found is None or not isinstance(other, SummedArray) or other.number != self.number:
            return None if self.strict else found
        return self._like(found.dtype, found.ndim, found.layout, not found.mutable)

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """The same as `unify`."""
        mixed = not isinstance(other, SummedArray) or other.number != self.number
        if mixed and (self.strict or isinstance(other, SummedArray)):
            return None
        return super().can_convert_to(typingctx, other)


register_model(SummedArray)(array_model)


def scale_of(dtype: Any) -> Any:
    """How many elements of this Numba type are as long as a sum."""
    return _I64(BYTES_OF_SUM * 8 // dtype.bitwidth)


def parent_of(builder: Any, array_type: Any, address: Any, sums: Any) -> Any:
    """The field `parent` of an array at this address, whose sums are there."""
    distance = builder.sub(sums, builder.mul(address, scale_of(array_type.dtype)))
    return builder.inttoptr(distance, ir.IntType(8).as_pointer())


class _Sums:
    """The sums of an array, as `cgutils.get_item_pointer` takes an array."""

    def __init__(self, builder: Any, array_type: Any, array: Any) -> None:
        scale = scale_of(array_type.dtype)
        address = builder.mul(builder.ptrtoint(array.data, _I64), scale)
        address = builder.add(address, builder.ptrtoint(array.parent, _I64))
        self.data = builder.inttoptr(address, _SUM.as_pointer())
        self.shape = array.shape
        strides = array.strides
        for i in range(array_type.ndim):
            stride = builder.mul(builder.extract_value(array.strides, i), scale)
            strides = builder.insert_value(strides, stride, i)
        self.strides = strides


def _lower_add(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _lower(context, builder, signature, args, args[2])


def _lower_sub(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    minus_zero = args[2].type(-0.0)  # NVVM's LLVM has no fneg
    return _lower(context, builder, signature, args, builder.fsub(minus_zero, args[2]))


def _lower(context: Any, builder: Any, signature: Any, args: Any, value: Any) -> Any:
    array_type, index_type, value_type = signature.args
    _, indices = cudaimpl.normalize_indices(
        context, builder, index_type, args[1], array_type, value_type
    )
    array = context.make_array(array_type)(context, builder, args[0])
    at = cudaimpl.cgutils.get_item_pointer(
        context,
        builder,
        array_type,
        _Sums(builder, array_type, array),
        indices,
        wraparound=True,
    )
    _add(builder, array_type, at, value)
    return value


def _add(builder: Any, array_type: Any, at: Any, value: Any) -> None:
    """Add to the sum at this address the multiple of the resolution that is nearest to a number."""

    def field(i: int) -> Any:
        return builder.gep(at, [_I32(0), _I32(i)])

    zero, kind = _I64(0), value.type
    scaled = builder.fmul(value, kind(2.0**-array_type.exponent))
    below = builder.fcmp_ordered("<", scaled, kind(2.0**63))
    fits = builder.and_(below, builder.fcmp_ordered(">=", scaled, kind(-(2.0**63))))
    rounded = called(builder, _ROUNDING[str(array_type.dtype)], [scaled], _I64)
    whole = builder.select(fits, rounded, zero)
    name = f"{_NAME}{array_type.number}."
    before = builder.atomic_rmw("add", field(0), whole, "monotonic", name=name)
    after = builder.add(before, whole)
    signs = builder.and_(builder.xor(before, after), builder.xor(whole, after))
    went_round = builder.icmp_signed("<", signs, zero)
    with builder.if_then(builder.or_(went_round, builder.not_(fits)), likely=False):
        down = builder.icmp_signed("<", whole, zero)
        once = builder.select(down, _I32(-1), _I32(1))
        once = builder.select(went_round, once, _I32(0))
        builder.atomic_rmw("add", field(1), once, "monotonic")
        infinity = kind(float("inf"))
        mark = builder.select(fits, _I32(0), _I32(TOO_LARGE))
        for is_so, other in (
            (builder.fcmp_ordered("==", value, infinity), PLUS_INFINITY),
            (builder.fcmp_ordered("==", value, kind(float("-inf"))), MINUS_INFINITY),
            (builder.fcmp_unordered("uno", value, value), NOT_A_NUMBER),
        ):
            mark = builder.select(is_so, _I32(other), mark)
        builder.atomic_rmw("or", field(2), mark, "monotonic")


_ROUNDING = {"float32": "__nv_float2ll_rn", "float64": "__nv_double2ll_rn"}

for _stub, _made in ((stubs.atomic.add, _lower_add), (stubs.atomic.sub, _lower_sub)):
    for _indices in (types.intp, types.UniTuple, types.Tuple):
        cudaimpl.lower(_stub, SummedArray, _indices, types.Any)(_made)


@cudaimpl.registry.lower_cast(SummedArray, types.Array)
def _as_it_is(context: Any, builder: Any, given: Any, wanted: Any, value: Any) -> Any:
    return value


Compiled = tuple[Any, tuple[int, ...]]


def compile_sums(job: Any, compile_entry: Callable[[Any], Any]) -> Compiled:
    """Compile a kernel; also return the leaves of its parameters that it adds to."""

    def compile_with(numbers: tuple[int, ...], strict: bool) -> Compiled:
        with _compiling_sums(job.label, strict):
            compiled = compile_entry(job.with_sums(numbers, strict))
        return compiled, _added_to(job.label, compiled._codelibrary)

    writable = tuple(
        i
        for i, p in enumerate(leaves(job.parameters))
        if p.kind == "array" and not p.read_only and p.dtype.name in FLOATS
    )
    with global_compiler_lock:
        with suppress(Exception):  # which comes again below, unless it is about other arrays
            compiled, numbers = compile_with(writable, strict=True)
            if numbers == writable:
                return compiled, numbers
        with patches.without_nvvm():
            _, numbers = compile_with(writable, strict=False)
        compiled, found = compile_with(numbers, strict=True)
    if found != numbers:
        raise KernelCompilationError(
            f"{job.label}: deterministic= cannot find the arrays to which the kernel adds [KB4017]"
        )
    return compiled, numbers


@contextmanager
def _compiling_sums(label: str, strict: bool) -> Iterator[None]:
    """Let Numba-CUDA compile additions to arrays of type `SummedArray`. Under Numba's lock."""
    lower = lowering.CUDALower.lower_inst
    uses = Uses(label, SummedArray, strict)

    def lower_watched(self: Any, instruction: Any) -> None:
        uses.check(self, instruction)
        lower(self, instruction)

    purpose = "sums" if strict else "sums, to find where they are"
    watched = patched((lowering.CUDALower, "lower_inst", lower_watched))
    try:
        with compiled_apart(purpose), watched:
            yield
    except Exception:
        if uses.refusal is not None:
            raise uses.refusal from None
        raise


def _added_to(label: str, library: Any) -> tuple[int, ...]:
    """The numbers of the arrays that a compiled kernel adds to; refuses additions of floats."""
    text = library.get_llvm_str()
    if _IN_ORDER.search(text):
        raise KernelCompilationError(
            f"{label}: deterministic= does not support one of the additions of floats in the "
            "kernel; use cuda.atomic.add on an output [KB4017]"
        )
    return tuple(sorted({int(number) for number in _ADDED.findall(text)}))
