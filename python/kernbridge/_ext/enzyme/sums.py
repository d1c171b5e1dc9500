"""Replaces atomic additions to cotangents on GPUs by plain ones, or by fewer atomic ones.

Enzyme adds atomically wherever several threads might add to one number. This module reads the LLVM
IR of a derivative's entry, into which everything is inlined, and finds

- arrays of which each thread accesses only one element, whose index is the number of the thread in
  a launch along one axis. No other thread adds to this element. If its cotangent is read once, it
  need not be set to zero afterwards, so the launch needs no copy of the array. If it is only added
  to, the thread keeps the sum and stores it when it ends, so the launch need not fill the array;
- arrays to which threads only add, to elements next to their own. The threads of a block add to an
  array in shared memory, and each of them stores the sum of its own element. Only where two blocks
  meet do threads add to the array itself, so that a first launch fills these elements with zeros;
- arrays that nothing changes. If threads wait for each other, a thread reads the elements next to
  its own that it may need when the launch begins, and not after it has waited;
- elements of constant index, to which all threads add. The threads of a warp add their numbers
  first, and one of them adds the sum to the element.

Everything else stays atomic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kernbridge._ext.enzyme.function import Buffer
from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once

_PURE = {"zext", "sext", "add", "mul"}
_REGISTER = "llvm.nvvm.read.ptx.sreg."
_NUMBER = "add(ctaid.x*ntid.x,tid.x)"  # of a thread, if the launch has one axis
_NEAR = 8  # elements; what several threads read comes from memory once
SHARED_MAX = 48 * 1024  # bytes that a kernel may have without asking for more
_SIZES = {"i8": 1, "float": 4, "double": 8}


class _Element(NamedTuple):
    """An element of an array: its index as an expression of registers, and bytes from it.

    The array is a parameter of the entry; `~n` is the array at byte n of the shared memory.
    """

    array: int
    place: str
    distance: int


_Accesses = dict[Instruction, tuple[str, int]]  # to one array, and the element of each


def with_fewer_atomics(
    text: str,
    entry: str,
    buffers: Sequence[Buffer],
    shared_size: int,
    threads: int | None,
    has_warps: bool,
) -> tuple[str, tuple[Buffer, ...], int]:
    """Make accesses of an entry plain that need not be atomic, and remove those without effect.

    Also returns the arrays, of which fewer have to be copied or filled, and the bytes of shared
    memory. The `threads` of a block, 0 if their number is not known, and the blocks are numbered
    along x alone, except for a batch; None if they are not. If a launch `has_warps`, these add
    together, and the module calls functions of warps.with_reads.
    """
    module = Module(text)
    function = module.defined[entry]
    changed, clears = list(buffers), list[str]()
    known, begin = list[str](), list[str]()  # what the entry computes, and then does
    waits = any(i.callee == "llvm.nvvm.barrier0" for i in function.instructions)
    arrays, others = _accesses(function)
    for array, elements in arrays.items():
        opcodes = "atomicrmw", "load", "store"
        adds, loads, stores = ([i for i in elements if i.opcode == name] for name in opcodes)
        for at in adds if has_warps and array >= 0 else ():
            if not elements[at][0]:
                (_, address), (kind, value) = at.operands
                at.text = f"  call void @kb_add.{kind}(ptr {address}, {kind} {value})"
        if array in others or array < 0:
            continue
        buffer = buffers[array]
        if buffer.kind == "scratch" and not loads:
            for at in (*adds, *stores):
                at.text = ""
            changed[array] = buffer._replace(begins_as_zeros=False)
            continue
        is_own = threads is not None and set(elements.values()) == {(_NUMBER, 0)}
        is_zeroed = all(s.operands[0].value in ("0.000000e+00", "0") for s in stores)
        if buffer.kind == "work":  # its content does not matter afterwards
            is_once = len(loads) == 1 and not (adds or _repeats(function, loads[0]))
            if is_own and is_zeroed and is_once:
                for at in stores:  # after the only load
                    at.text = ""
                stores.clear()
            if not (adds or stores):
                changed[array] = buffer._replace(kind="in")
        if is_own or not (adds or stores):
            for at in loads:
                at.text = at.text.replace("load atomic ", "load ").replace(" monotonic,", ",")
        near, size = dict[Instruction, int](), buffer.item_size
        if changed[array].kind == "in" and not (adds or stores):
            for at in loads:  # so that atomic operations do not delay it
                at.text += ", !invariant.load !{}"
            is_near = threads is not None and waits and buffer.is_inexact
            near = _near(elements, loads, size) if is_near else near
        is_kept = threads is not None and buffer.kind == "out" and buffer.begins_as_zeros
        is_kept &= not (loads or stores)
        places = _near(elements, adds, size) if is_kept else {}
        edges = max(map(abs, places.values()), default=0)
        more = -(-(threads or 0) * size // 16) * 16
        is_edged = has_warps and shared_size + more <= SHARED_MAX
        is_edged &= 0 < 2 * edges <= (threads or 0) and len(places) == len(adds)
        is_kept &= is_edged or (is_own and len(places) == len(adds))
        if not (is_own or near or is_edged):
            continue
        kept, kind = f"%kb.kept{array}", "double" if size == 8 else "float"
        n, block = "1", f"%kb.block{array}"
        for e in buffer.extents:
            known.append(f"  {kept}.{e} = mul i64 {n}, %e{e}")
            n = f"{kept}.{e}"
        stride = f"%s{array}" if f"i64 %s{array}" in function.parameters else "0"
        own = f"i64 %w{array}, i64 {stride}, i64 {n}"
        begin[:0] = [  # before the threads wait
            f"  {kept}.near{k} = call {kind} @kb_load.{kind}({own}, i64 {k})"
            for k in {*near.values()}
        ]
        for at, k in near.items():
            at.text = f"  {at.result} = bitcast {kind} {kept}.near{k} to {kind}"
        if is_edged:
            clears.append(f"  call void @kb_clear.{kind}({own}, i64 {edges})")
            begin.append(f"  {block} = call ptr @kb.shared(i64 {shared_size})")
            begin.append(f"  call void @kb_begin.{kind}(ptr {block})")
            shared_size += more
        if is_kept:
            changed[array] = buffer._replace(begins_as_zeros=False, edges=edges)
            known += [f"  {kept} = alloca {kind}", f"  store {kind} 0.0, ptr {kept}"]
            ends = f"  call void @kb_end.{kind}(ptr {block}, ptr {kept})\n" * is_edged
            ends += f"  call void @kb_store.{kind}({own}, ptr {kept}, i64 {edges})\n"
            for i in (i for i in function.instructions if i.opcode == "ret"):
                i.text = ends + i.text
        for k, at in enumerate(adds if is_own or is_edged else ()):
            (_, address), (kind, value) = at.operands
            if places.get(at):
                given = f"ptr {block}, ptr {address}, {kind} {value}, {own}"
                at.text = f"  call void @kb_near.{kind}({given})"
                continue
            sum_, to = f"%kb.sum{array}.{k}", kept if is_kept else address
            at.text = (
                f"  {at.result} = load {kind}, ptr {to}\n"
                f"  {sum_} = fadd nsz {kind} {at.result}, {value}\n"
                f"  store {kind} {sum_}, ptr {to}"
            )
    if clears:
        known += [_CLEARS, *clears, "  ret void", "kb.run:"]
        *_, last = function.parameters
        function.head = function.head.replace(f"{last})", f"{last}, i64 %kb.is_first)", 1)
        for i in (i for i in function.instructions if i.opcode == "phi"):
            i.text = i.text.replace(f", {function.blocks[0].name} ]", ", %kb.run ]")
    first = next(function.instructions)
    first.text = "\n".join([*known, *begin, first.text])
    if "@kb_" not in (text := str(module)):
        return text, tuple(changed), shared_size
    functions = _OWN + _EDGES * bool(clears) + _SUM * has_warps
    kinds = ("float", "4"), ("double", "8")
    used = [functions.replace("KIND", kind).replace("SIZE", size) for kind, size in kinds]
    return declared_once("".join((text, _THREAD, *used))), tuple(changed), shared_size


def _address(i: Instruction) -> str:
    """The address at which an instruction adds, loads or stores a number; empty for others."""
    if i.opcode == "atomicrmw" and i.flags == ["fadd"] and i.operands[1].type in _SIZES:
        return i.operands[0].value
    if i.opcode == "load" and i.flags in ([], ["atomic"]):
        return i.operands[0].value
    return i.operands[1].value if i.opcode == "store" and not i.flags else ""


def _accesses(function: Function) -> tuple[dict[int, _Accesses], set[int]]:
    """The accesses to each array, and the arrays whose addresses have other uses."""
    elements = {x: known for x in function.defined if (known := element(function, x)) is not None}
    arrays: dict[int, _Accesses] = {known.array: {} for known in elements.values()}
    others = set[int]()
    for i in function.instructions:
        for value in elements.keys() & set(i.names):
            array, index, distance = elements[value]
            if value == _address(i) and not (i.opcode == "store" and i.operands[0].value == value):
                arrays[array][i] = index, distance
            elif i.result not in elements:
                others.add(array)
    return arrays, others


def element(function: Function, address: str) -> _Element | None:
    """The element that an address is of."""
    if (i := function.defined.get(address)) is None or not i.operands:
        return None
    first = i.operands[0].value
    if i.opcode == "inttoptr" and first[:2] in ("%w", "%t") and first[2:].isdigit():
        return _Element(int(first[2:]), "", 0)
    if i.callee == "kb.shared":
        return _Element(~int(first), "", 0)
    is_known = i.opcode == "getelementptr" and "%" not in i.type
    if not is_known or (begin := element(function, first)) is None:
        return None
    array, index, distance = begin
    size, at = _SIZES.get(i.type, 0), i.operands[1].value
    if not size or len(i.operands) > 2:
        index = "?"
    elif steps := _constants(function, at):
        distance += size * max(steps, key=abs)
        index += "~" * (len(steps) > 1)  # at most so far from it
    else:
        index = "?" if index or size == 1 else _expression(function, at)
    return _Element(array, index, distance)


def _constants(function: Function, value: str) -> list[int]:
    """The constants that a value may be; none if it may be something else."""
    i = function.defined.get(value)
    values = [value]
    if i is not None and i.opcode in ("phi", "select"):
        values = [operand.value for operand in i.operands[i.opcode == "select" :]]
    return [int(v) for v in values] if all(v.lstrip("-").isdigit() for v in values) else []


def _expression(function: Function, value: str, inside: Collection[str] = ()) -> str:
    """A value as a function of registers, in a form that equal values have in common."""
    i = function.defined.get(value)
    if i is not None and i.opcode == "phi" and value not in inside:
        inside = {value, *inside}
        found = {_expression(function, operand.value, inside) for operand in i.operands}
        return found.pop() if len(found) == 1 else value
    if i is not None and i.callee.startswith(_REGISTER):
        return i.callee.removeprefix(_REGISTER)
    if i is None or i.opcode not in _PURE:
        return value
    values = sorted(_expression(function, operand.value, inside) for operand in i.operands)
    # A cast is known by its only operand.
    return f"add({','.join(values)})" if i.opcode == "add" else "*".join(values)


def _near(elements: _Accesses, of: Sequence[Instruction], size: int) -> dict[Instruction, int]:
    """The accesses to elements next to a thread's own, and how many elements further they are.

    An addition may be to one of several elements, of which this is the farthest.
    """
    own = (i for i in of if elements[i][0].rstrip("~" * (i.opcode == "atomicrmw")) == _NUMBER)
    kinds = ((i, i.type if i.opcode == "load" else i.operands[1].type) for i in own)
    near = ((i, *divmod(elements[i][1], size)) for i, kind in kinds if _SIZES.get(kind) == size)
    return {i: n for i, n, rest in near if rest == 0 and abs(n) <= _NEAR}


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
_ARRAY = "i64 %to, i64 %stride, i64 %n"  # its word, the stride of a batch, and its elements
_PLACE = "entry:\n" + "".join(
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
define internal KIND @kb_load.KIND({_ARRAY}, i64 %further) alwaysinline {{
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
define internal void @kb_store.KIND({_ARRAY}, ptr %kept, i64 %edge) alwaysinline {{
{_PLACE}  %x = load KIND, ptr %kept
  %after = add i64 %t, %edge
  %ends = icmp uge i64 %after, %size
  %begins = icmp ult i64 %t, %edge
  br label %next
next:
  %k = phi i64 [ %number, %entry ], [ %following, %done ]
  %value = phi KIND [ %x, %entry ], [ 0.0, %done ]
  %inside = icmp ult i64 %k, %n
  br i1 %inside, label %more, label %end
more:
  %at = getelementptr KIND, ptr %array, i64 %k
  %later = icmp uge i64 %k, %size
  %meets = and i1 %later, %begins
  %is_edge = or i1 %ends, %meets
  br i1 %is_edge, label %add, label %set
add:
  %old = atomicrmw fadd ptr %at, KIND %value monotonic
  br label %done
set:
  store KIND %value, ptr %at
  br label %done
done:
  %following = add i64 %k, %threads
  br label %next
end:
  ret void
}}
"""
# A launch fills what begins as zeros where two blocks meet before the launch that adds to it.
_CLEARS = """\
  %kb.clears = icmp ne i64 %kb.is_first, 0
  br i1 %kb.clears, label %kb.clear, label %kb.run
kb.clear:"""
# Threads add to elements near their own in shared memory, if these are of the same block.
_EDGES = f"""
declare void @llvm.nvvm.barrier0() convergent
declare ptr @kb.shared(i64)
define internal void @kb_begin.KIND(ptr %block) convergent alwaysinline {{
  %t = call i32 @{_REGISTER}tid.x()
  %slot = getelementptr KIND, ptr %block, i32 %t
  store KIND 0.0, ptr %slot
  call void @llvm.nvvm.barrier0()
  ret void
}}
define internal void @kb_near.KIND(ptr %block, ptr %at, KIND %x, {_ARRAY}) alwaysinline {{
{_PLACE}  %first = getelementptr KIND, ptr %array, i64 %before
  %here = ptrtoint ptr %first to i64
  %there = ptrtoint ptr %at to i64
  %bytes = sub i64 %there, %here
  %k = sdiv exact i64 %bytes, SIZE
  %is_near = icmp ult i64 %k, %size
  br i1 %is_near, label %near, label %far
near:
  %slot = getelementptr KIND, ptr %block, i64 %k
  %inside = atomicrmw fadd ptr %slot, KIND %x monotonic
  ret void
far:
  %outside = atomicrmw fadd ptr %at, KIND %x monotonic
  ret void
}}
define internal void @kb_end.KIND(ptr %block, ptr %kept) convergent alwaysinline {{
  call void @llvm.nvvm.barrier0()
  %t = call i32 @{_REGISTER}tid.x()
  %slot = getelementptr KIND, ptr %block, i32 %t
  %x = load KIND, ptr %slot
  %y = load KIND, ptr %kept
  %sum = fadd KIND %x, %y
  store KIND %sum, ptr %kept
  ret void
}}
define internal void @kb_clear.KIND({_ARRAY}, i64 %edge) alwaysinline {{
{_PLACE}  %width = shl i64 %edge, 1
  %meeting = udiv i64 %number, %width
  %k = urem i64 %number, %width
  %next = add i64 %meeting, 1
  %begin = mul i64 %next, %size
  %place = add i64 %begin, %k
  %e = sub i64 %place, %edge
  %inside = icmp ult i64 %e, %n
  br i1 %inside, label %set, label %end
set:
  %at = getelementptr KIND, ptr %array, i64 %e
  store KIND 0.0, ptr %at
  br label %end
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
