"""Replaces atomic additions to cotangents on GPUs by plain ones, or by fewer atomic ones.

Enzyme adds atomically wherever several threads might add to one number. This module reads the LLVM
IR of a derivative's entry, into which everything is inlined, and finds

- arrays of which each thread accesses only one element, whose index is the number of the thread in
  a launch along one axis. No other thread adds to this element. If its cotangent is read once, it
  need not be set to zero afterwards, so the launch needs no copy of the array. If it is only added
  to, the thread keeps the sum and stores it when it ends, so the launch need not fill the array;
- arrays that nothing changes. If threads wait for each other, a thread reads the elements next to
  its own that it may need when the launch begins, and not after it has waited;
- elements of constant index, to which all threads add. The threads of a warp add their numbers
  first, and one of them adds the sum to the element.

Everything else stays atomic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernbridge._ext.enzyme.function import Buffer
from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once

_PURE = {"zext", "sext", "add", "mul"}
_REGISTER = "llvm.nvvm.read.ptx.sreg."
_NUMBER = "add(ctaid.x*ntid.x,tid.x)"  # of a thread, if the launch has one axis
_NEAR = 8  # elements; what several threads read comes from memory once
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
    text: str, entry: str, buffers: Sequence[Buffer], has_one_axis: bool, has_warps: bool
) -> tuple[str, tuple[Buffer, ...]]:
    """Make accesses of an entry plain that need not be atomic, and remove those without effect.

    Also returns the arrays; fewer of them have to be copied or filled. A launch `has_one_axis` if
    blocks and threads are numbered along x alone, except for a batch. If it `has_warps`, these add
    together, and the module calls functions of warps.with_reads.
    """
    module = Module(text)
    function = module.defined[entry]
    changed, first = list(buffers), next(function.instructions)
    waits = any(i.callee == "llvm.nvvm.barrier0" for i in function.instructions)
    for place, a in _accesses(function).items():
        for at in a.adds if has_warps and not place.is_shared else ():
            if not a.elements[at][0]:
                (_, address), (kind, value) = at.operands
                at.text = f"  call void @kb_add.{kind}(ptr {address}, {kind} {value})"
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
        near, size = dict[Instruction, int](), buffer.item_size
        if changed[array].kind == "in" and not (a.adds or a.stores):
            for at in a.loads:  # so that atomic operations do not delay it
                at.text += ", !invariant.load !{}"
            near = _near(a, size) if has_one_axis and waits and buffer.is_inexact else near
        is_kept = is_own and buffer.kind == "out" and buffer.begins_as_zeros
        is_kept &= not (a.loads or a.stores)
        is_kept &= all(_SIZES[at.operands[1].type] == size for at in a.adds)
        if not (is_own or near):
            continue
        kept, kind = f"%kb.kept{array}", "double" if size == 8 else "float"
        lines, n = list[str](), "1"
        for e in buffer.extents:
            lines.append(f"  {kept}.{e} = mul i64 {n}, %e{e}")
            n = f"{kept}.{e}"
        stride = f"%s{array}" if f"i64 %s{array}" in function.parameters else "0"
        own = f"i64 %w{array}, i64 {stride}, i64 {n}"
        for k in {*near.values()}:
            lines.append(f"  {kept}.near{k} = call {kind} @kb_load.{kind}({own}, i64 {k})")
        for at, k in near.items():
            at.text = f"  {at.result} = bitcast {kind} {kept}.near{k} to {kind}"
        if is_kept:
            changed[array] = buffer._replace(begins_as_zeros=False)
            lines += [f"  {kept} = alloca {kind}", f"  store {kind} 0.0, ptr {kept}"]
            for i in (i for i in function.instructions if i.opcode == "ret"):
                i.text = f"  call void @kb_store.{kind}({own}, ptr {kept})\n{i.text}"
        if near or is_kept:
            first.text = "\n".join([*lines, first.text])
        for k, at in enumerate(a.adds if is_own else ()):
            (_, address), (kind, value) = at.operands
            sum_, to = f"%kb.sum{array}.{k}", kept if is_kept else address
            at.text = (
                f"  {at.result} = load {kind}, ptr {to}\n"
                f"  {sum_} = fadd nsz {kind} {at.result}, {value}\n"
                f"  store {kind} {sum_}, ptr {to}"
            )
    if "@kb_" not in (text := str(module)):
        return text, tuple(changed)
    more = _OWN + _SUM * has_warps
    used = (more.replace("KIND", kind) for kind in ("float", "double"))
    return declared_once("".join((text, _THREAD, *used))), tuple(changed)


def _address(i: Instruction) -> str:
    """The address at which an instruction adds, loads or stores a number; empty for others."""
    if i.opcode == "atomicrmw" and i.flags == ["fadd"] and i.operands[1].type in _SIZES:
        return i.operands[0].value
    if i.opcode == "load" and i.flags in ([], ["atomic"]):
        return i.operands[0].value
    return i.operands[1].value if i.opcode == "store" and not i.flags else ""


def _accesses(function: Function) -> dict[_Array, _Accesses]:
    elements = {x: known for x in function.defined if (known := element(function, x)) is not None}
    result = {known.array: _Accesses() for known in elements.values()}
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


def element(function: Function, address: str) -> _Element | None:
    """The element that an address is of."""
    if (i := function.defined.get(address)) is None or not i.operands:
        return None
    first = i.operands[0].value
    if i.opcode == "inttoptr" and first[:2] in ("%w", "%t") and first[2:].isdigit():
        return _Element(_Array(False, int(first[2:])), "", 0)
    if i.callee == "kb.shared":
        return _Element(_Array(True, int(first)), "", 0)
    is_known = i.opcode == "getelementptr" and "%" not in i.type
    if not is_known or (begin := element(function, first)) is None:
        return None
    array, index, distance = begin
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


def _near(a: _Accesses, size: int) -> dict[Instruction, int]:
    """The loads of elements next to a thread's own, and by how many elements they are further."""
    near = ((i, *divmod(a.elements[i][1], size)) for i in a.loads if a.elements[i][0] == _NUMBER)
    return {i: n for i, n, r in near if _SIZES.get(i.type) == size and not r and abs(n) <= _NEAR}


def _repeats(function: Function, instruction: Instruction) -> bool:
    """Whether an instruction may run more than once."""
    after = {block.name: block.targets for block in function.blocks}
    own = instruction.block.name
    seen = {*after[own]}
    while more := {name for block in seen for name in after[block]} - seen:
        seen |= more
    return own in seen


# A thread loads the element of its own number, if there is one; or it stores the number that it has
# kept to that, and the launch stores zeros to elements of no thread.
_READ = {"t": "tid.x", "b": "ctaid.x", "z": "ctaid.z", "size": "ntid.x", "blocks": "nctaid.x"}
_THREAD = "".join(f"declare i32 @{_REGISTER}{register}()\n" for register in _READ.values())
_PLACE = "".join(
    f"  %{name}32 = call i32 @{_REGISTER}{register}()\n  %{name} = zext i32 %{name}32 to i64\n"
    for name, register in _READ.items()
)
_PLACE += """\
  %before = mul nuw nsw i64 %size, %b
  %number = add nuw nsw i64 %before, %t
  %threads = mul nuw nsw i64 %size, %blocks
  %slice = mul i64 %z, %stride
  %word = add i64 %to, %slice
  %array = inttoptr i64 %word to ptr
"""
_OWN = f"""
define internal KIND @kb_load.KIND(i64 %to, i64 %stride, i64 %n, i64 %further) alwaysinline {{
entry:
{_PLACE}  %k = add i64 %number, %further
  %inside = icmp ult i64 %k, %n
  br i1 %inside, label %read, label %end
read:
  %at = getelementptr KIND, ptr %array, i64 %k
  %x = load KIND, ptr %at, !invariant.load !{{}}
  br label %end
end:
  %y = phi KIND [ %x, %read ], [ 0.0, %entry ]
  ret KIND %y
}}
define internal void @kb_store.KIND(i64 %to, i64 %stride, i64 %n, ptr %kept) alwaysinline {{
entry:
{_PLACE}  %x = load KIND, ptr %kept
  br label %next
next:
  %k = phi i64 [ %number, %entry ], [ %following, %more ]
  %value = phi KIND [ %x, %entry ], [ 0.0, %more ]
  %inside = icmp ult i64 %k, %n
  br i1 %inside, label %more, label %end
more:
  %at = getelementptr KIND, ptr %array, i64 %k
  store KIND %value, ptr %at
  %following = add i64 %k, %threads
  br label %next
end:
  ret void
}}
"""
_SUM = """
define internal void @kb_add.KIND(ptr %at, KIND %x) convergent {
entry:
  %mask = call i32 @kb.active_mask()
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %whole = icmp eq i32 %mask, -1
  br i1 %whole, label %sum, label %alone
sum:
  %n = phi i32 [ 16, %entry ], [ %half, %sum ]
  %before = phi KIND [ %x, %entry ], [ %after, %sum ]
  %other = xor i32 %lane, %n
  %y = call KIND @kb.read.KIND(i32 -1, KIND %before, i32 %other)
  %after = fadd KIND %before, %y
  %half = lshr i32 %n, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %sum, label %end
end:
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %alone, label %leave
alone:
  %added = phi KIND [ %x, %entry ], [ %after, %end ]
  %old = atomicrmw fadd ptr %at, KIND %added monotonic
  br label %leave
leave:
  ret void
}
"""
