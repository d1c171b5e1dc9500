"""Replaces atomic additions to cotangents on GPUs by plain ones, or by fewer atomic ones.

Enzyme adds atomically wherever several threads might add to one number. This module reads the LLVM
IR of a derivative's entry, into which everything is inlined, and finds

- arrays of which each thread accesses only one element, whose index is the number of the thread in
  a launch along one axis. No other thread adds to this element. If its cotangent is read once, it
  need not be set to zero afterwards, so the launch needs no copy of the array;
- elements of constant index, to which all threads add. The threads of a warp add their numbers
  first, and one of them adds the sum to the element;
- arrays in shared memory to which each thread adds at fixed distances from its own element. Only
  elements near the edge of a warp's part are added to by two warps.

Everything else stays atomic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernbridge._ext.enzyme.function import Buffer
from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once

_PURE = {"zext", "sext", "add", "mul"}
_REGISTER = "llvm.nvvm.read.ptx.sreg."
_NUMBER = "add(ctaid.x*ntid.x,tid.x)"  # of a thread, if the launch has one axis
_SIZES = {"i8": 1, "float": 4, "double": 8}


class _Array(NamedTuple):
    """A parameter of an entry, or an array in shared memory that begins at some byte."""

    is_shared: bool
    number: int


class _Element(NamedTuple):
    """An element of an array: its index as an expression of registers, and bytes from it."""

    array: _Array
    place: str
    distance: int


@dataclass
class _Accesses:
    """The accesses of an entry to one array, and the element of each."""

    adds: list[Instruction] = field(default_factory=list)
    loads: list[Instruction] = field(default_factory=list)
    stores: list[Instruction] = field(default_factory=list)
    elements: dict[Instruction, tuple[str, int]] = field(default_factory=dict)
    is_known: bool = True  # its address has no other uses


def with_fewer_atomics(
    text: str, entry: str, buffers: Sequence[Buffer], has_one_axis: bool
) -> tuple[str, tuple[Buffer, ...]]:
    """Make accesses of an entry plain that need not be atomic, and remove those without effect.

    Also returns the arrays; fewer of them have to be copied or filled. A launch `has_one_axis` if
    blocks and threads are numbered along x alone, except for a batch.
    """
    module = Module(text)
    function = module.defined[entry]
    numbers = {i: n for n, i in enumerate(function.instructions)}
    changed = list(buffers)
    for place, a in _accesses(function).items():
        if not a.is_known or place.is_shared:
            continue
        array = place.number
        buffer = buffers[array]
        if buffer.kind == "scratch" and not a.loads:
            for at in (*a.adds, *a.stores):
                at.text = ""
            changed[array] = buffer._replace(begins_as_zeros=False)
            continue
        is_own = has_one_axis and set(a.elements.values()) == {(_NUMBER, 0)}
        is_zeroed = all(s.operands[0].value in ("0.000000e+00", "0") for s in a.stores)
        if buffer.kind == "work":  # its content does not matter afterwards
            is_once = len(a.loads) == 1 and not (a.adds or _repeats(function, a.loads[0]))
            if is_own and is_zeroed and is_once:
                for at in a.stores:  # after the only load
                    at.text = ""
                a.stores.clear()
            if not (a.adds or a.stores):
                changed[array] = buffer._replace(kind="in")
        if is_own or not (a.adds or a.stores):
            for at in a.loads:
                at.text = at.text.replace("load atomic ", "load ").replace(" monotonic,", ",")
        if buffer.kind == "in" and not (a.adds or a.stores):
            for at in a.loads:  # so that atomic operations do not delay it
                at.text += ", !invariant.load !{}"
        if not is_own:
            continue
        is_first = len(a.adds) == 1 and not (a.loads or a.stores or _repeats(function, a.adds[0]))
        is_first &= buffer.begins_as_zeros
        for at in a.adds:
            (_, address), (kind, value) = at.operands
            at.text = f"  store {kind} {value}, ptr {address}"
            if not is_first:
                before, sum_ = f"%kb.before{numbers[at]}", f"%kb.sum{numbers[at]}"
                at.text = (
                    f"  {before} = load {kind}, ptr {address}\n"
                    f"  {sum_} = fadd {kind} {before}, {value}\n"
                    f"  store {kind} {sum_}, ptr {address}"
                )
    return str(module), tuple(changed)


def _address(i: Instruction) -> str:
    """The address at which an instruction adds, loads or stores a number; empty for others."""
    if i.opcode == "atomicrmw" and i.flags == ["fadd"] and i.operands[1].type in _SIZES:
        return i.operands[0].value
    if i.opcode == "load" and i.flags in ([], ["atomic"]):
        return i.operands[0].value
    return i.operands[1].value if i.opcode == "store" and not i.flags else ""


def _accesses(function: Function) -> dict[_Array, _Accesses]:
    elements = _elements(function)
    result = {element.array: _Accesses() for element in elements.values()}
    for i in function.instructions:
        for value in elements.keys() & set(i.names):
            array, index, distance = elements[value]
            accesses = result[array]
            if value == _address(i) and not (i.opcode == "store" and i.operands[0].value == value):
                accesses.elements[i] = index, distance
                kinds = {"load": accesses.loads, "store": accesses.stores}
                kinds.get(i.opcode, accesses.adds).append(i)
            elif i.result not in elements:
                accesses.is_known = False
    return result


def _elements(function: Function) -> dict[str, _Element]:
    """The element that each address is of."""
    found: dict[str, _Element] = {}
    makes = [i for i in function.instructions if i.opcode in ("inttoptr", "call", "getelementptr")]
    while more := {
        i.result: element
        for i in makes
        if i.result not in found and (element := _element(function, i, found))
    }:
        found |= more
    return found


def _element(function: Function, i: Instruction, known: Mapping[str, _Element]) -> _Element | None:
    first = i.operands[0].value if i.operands else ""
    if i.opcode == "inttoptr" and first[:2] in ("%w", "%t") and first[2:].isdigit():
        return _Element(_Array(False, int(first[2:])), "", 0)
    if i.callee == "kb.shared":
        return _Element(_Array(True, int(first)), "", 0)
    if i.opcode != "getelementptr" or first not in known or "%" in i.type:
        return None
    array, index, distance = known[first]
    size, at = _SIZES.get(i.type, 0), i.operands[1].value
    if not size or len(i.operands) > 2:
        index = "?"
    elif at.lstrip("-").isdigit():
        distance += size * int(at)
    else:
        index = "?" if index or size == 1 else _expression(function, at)
    return _Element(array, index, distance)


def _expression(function: Function, value: str) -> str:
    """A value as a function of registers, in a form that equal values have in common."""
    i = function.defined.get(value)
    if i is not None and i.callee.startswith(_REGISTER):
        return i.callee.removeprefix(_REGISTER)
    if i is None or i.opcode not in _PURE:
        return value
    values = sorted(_expression(function, operand.value) for operand in i.operands)
    if i.opcode in ("add", "mul"):
        return f"add({','.join(values)})" if i.opcode == "add" else "*".join(values)
    return values[0]


def _repeats(function: Function, instruction: Instruction) -> bool:
    """Whether an instruction may run more than once."""
    after = {block.name: block.targets for block in function.blocks}
    own = instruction.block.name
    seen: set[str] = set()
    ahead = [*after[own]]
    while ahead and own not in seen:
        if (following := ahead.pop()) not in seen:
            seen.add(following)
            ahead += after[following]
    return own in seen


def with_sums_of_warps(text: str, entry: str, has_one_axis: bool) -> str:
    """Let a warp add where Enzyme lets each of its threads add atomically.

    If all threads add to the same element, which has a constant index, the warp adds the sum of its
    numbers once. If each thread adds to elements of shared memory at fixed distances from its own
    element, the threads of a warp add without atomic operations to the elements to which no other
    warp adds, one distance after the other.
    """
    module = Module(text)
    for array, a in _accesses(module.defined[entry]).items():
        if not array.is_shared:
            for at in a.adds:
                if not a.elements[at][0]:
                    (_, address), (kind, value) = at.operands
                    at.text = f"  call void @kb_add.{kind}(ptr {address}, {kind} {value})"
            continue
        if not (has_one_axis and a.is_known and len({at.block for at in a.adds}) == 1):
            continue
        size = _SIZES[a.adds[0].operands[1].type]
        distances = [distance for _, distance in map(a.elements.__getitem__, a.adds)]
        first, span = min(distances), (max(distances) - min(distances)) // size
        if {a.elements[at][0] for at in a.adds} != {"tid.x"} or span > 8:
            continue
        for at, distance in zip(a.adds, distances, strict=True):
            (_, address), (kind, value) = at.operands
            at.text = (
                f"  call void @kb_add_near.{kind}(ptr {address}, {kind} {value},"
                f" i32 {(distance - first) // size}, i32 {span})"
            )
    if "@kb_add" not in (text := str(module)):
        return text
    sums = (_SUM.replace("KIND", kind) for kind in ("float", "double"))
    return declared_once("".join((text, _DOWN, *sums)))


# The number of the thread so many threads further in the warp.
_DOWN = """
declare float @llvm.nvvm.shfl.sync.down.f32(i32, float, i32, i32)
declare i32 @llvm.nvvm.read.ptx.sreg.laneid()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.bar.warp.sync(i32)
define internal float @kb_down.float(float %x, i32 %n) alwaysinline convergent {
  %y = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %x, i32 %n, i32 31)
  ret float %y
}
define internal double @kb_down.double(double %x, i32 %n) alwaysinline convergent {
  %w = bitcast double %x to <2 x float>
  %w0 = extractelement <2 x float> %w, i32 0
  %w1 = extractelement <2 x float> %w, i32 1
  %y0 = call float @kb_down.float(float %w0, i32 %n)
  %y1 = call float @kb_down.float(float %w1, i32 %n)
  %v = insertelement <2 x float> undef, float %y0, i32 0
  %u = insertelement <2 x float> %v, float %y1, i32 1
  %y = bitcast <2 x float> %u to double
  ret double %y
}
"""
_SUM = """
define internal void @kb_add.KIND(ptr %at, KIND %x0) convergent {
entry:
  %mask = call i32 asm sideeffect "activemask.b32 $0;", "=r"() convergent
  %whole = icmp eq i32 %mask, -1
  br i1 %whole, label %sum, label %alone
sum:
  %y0 = call KIND @kb_down.KIND(KIND %x0, i32 16)
  %x1 = fadd KIND %x0, %y0
  %y1 = call KIND @kb_down.KIND(KIND %x1, i32 8)
  %x2 = fadd KIND %x1, %y1
  %y2 = call KIND @kb_down.KIND(KIND %x2, i32 4)
  %x3 = fadd KIND %x2, %y2
  %y3 = call KIND @kb_down.KIND(KIND %x3, i32 2)
  %x4 = fadd KIND %x3, %y3
  %y4 = call KIND @kb_down.KIND(KIND %x4, i32 1)
  %x5 = fadd KIND %x4, %y4
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %once, label %end
once:
  %old = atomicrmw fadd ptr %at, KIND %x5 monotonic
  br label %end
alone:
  %other = atomicrmw fadd ptr %at, KIND %x0 monotonic
  br label %end
end:
  ret void
}
define internal void @kb_add_near.KIND(ptr %at, KIND %x, i32 %from, i32 %span) convergent {
entry:
  %mask = call i32 asm sideeffect "activemask.b32 $0;", "=r"() convergent
  %whole = icmp eq i32 %mask, -1
  br i1 %whole, label %warp, label %apart
warp:
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %lane = and i32 %thread, 31
  %place = add i32 %lane, %from
  %below = icmp ult i32 %place, 32
  %above = icmp uge i32 %place, %span
  %alone = and i1 %below, %above
  br i1 %alone, label %plain, label %edge
plain:
  %before = load KIND, ptr %at
  %sum = fadd KIND %before, %x
  store KIND %sum, ptr %at
  br label %end
edge:
  %old = atomicrmw fadd ptr %at, KIND %x monotonic
  br label %end
end:
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  ret void
apart:
  %other = atomicrmw fadd ptr %at, KIND %x monotonic
  ret void
}
"""
