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

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kernbridge._ext.enzyme.function import Buffer, with_declared

_NAME = r'(?:"[^"]+"|[-\w.$]+)'
_VALUE = rf"(%{_NAME})"
_DEFINED = re.compile(rf"^  {_VALUE} = (.*)$")
_WORD = re.compile(r"inttoptr i64 %[wt](\d+) to ptr")
_SHARED = re.compile(r'(?:tail )?call ptr @"?kb\.shared"?\(i64 (\d+)\)')
_ELEMENT = re.compile(rf"getelementptr (?:inbounds )?([^%]+), ptr {_VALUE}((?:, i\d+ \S+)+)")
_PURE = re.compile(r"(add|mul|shl|zext|sext)(?: nuw| nsw| nneg)* (i\d+) (.*)")
_REGISTER = re.compile(r"(?:tail )?call .*@llvm\.nvvm\.read\.ptx\.sreg\.(\w+\.\w)\(\)")
_ADDED = re.compile(rf"  {_VALUE} = atomicrmw fadd ptr {_VALUE}, (double|float) (\S+) .*")
_LOADED = re.compile(rf"  {_VALUE} = load (?:atomic )?(\w+), ptr {_VALUE}(?: monotonic)?(,.*)?$")
_STORED = re.compile(rf"  store (\w+) (\S+), ptr {_VALUE}(,.*)?$")
_ADDRESS = re.compile(rf"^  {_VALUE} = inttoptr i64 ", re.M)
_FIXED = re.compile(rf"^  {_VALUE} = getelementptr [^%\n]*ptr {_VALUE}(?:, i\d+ -?\d+)+$", re.M)
_ANY_ADDED = re.compile(rf"^{_ADDED.pattern}", re.M)
_BRANCH = re.compile(rf"label %({_NAME})")
_LABEL = re.compile(rf"({_NAME}):")
_NUMBER = "add(ctaid.x*ntid.x,tid.x)"  # of a thread, if the launch has one axis
_SIZES = {"i8": 1, "float": 4, "double": 8}


@dataclass
class _Accesses:
    """The accesses of an entry to one array: the lines of each kind, and the element of each line.

    An element is an index, as an expression of registers, and a distance from it in bytes.
    """

    adds: list[int] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    elements: dict[int, tuple[str, int]] = field(default_factory=dict)  # by line
    is_known: bool = True  # its address has no other uses


def with_fewer_atomics(
    text: str, entry: str, buffers: Sequence[Buffer], has_one_axis: bool
) -> tuple[str, tuple[Buffer, ...]]:
    """Make accesses of an entry plain that need not be atomic, and remove those without effect.

    Also returns the arrays; fewer of them have to be copied or filled. A launch `has_one_axis` if
    blocks and threads are numbered along x alone, except for a batch.
    """
    head, lines, tail = _body(text, entry)
    blocks = _Blocks(lines)
    changed = list(buffers)
    for place, a in _accesses(lines).items():
        if not a.is_known or place.is_shared:
            continue
        array = place.number
        buffer = buffers[array]
        if buffer.kind == "scratch" and not a.loads:
            for at in (*a.adds, *a.stores):
                lines[at] = ""
            changed[array] = buffer._replace(begins_as_zeros=False)
            continue
        is_own = has_one_axis and set(a.elements.values()) == {(_NUMBER, 0)}
        is_zeroed = all((m := _STORED.match(lines[s])) and _is_zero(m[2]) for s in a.stores)
        if buffer.kind == "work":  # its content does not matter afterwards
            is_once = len(a.loads) == 1 and not (a.adds or blocks.repeats(a.loads[0]))
            if is_own and is_zeroed and is_once:
                for at in a.stores:  # after the only load
                    lines[at] = ""
                a.stores.clear()
            if not (a.adds or a.stores):
                changed[array] = buffer._replace(kind="in")
        if is_own or not (a.adds or a.stores):
            for at in a.loads:
                lines[at] = lines[at].replace("load atomic ", "load ").replace(" monotonic,", ",")
        if buffer.kind == "in" and not (a.adds or a.stores):
            for at in a.loads:  # so that atomic operations do not delay it
                lines[at] += ", !invariant.load !{}"
        if not is_own:
            continue
        is_first = len(a.adds) == 1 and not (a.loads or a.stores or blocks.repeats(a.adds[0]))
        is_first &= buffer.begins_as_zeros
        for at in a.adds:
            add = _ADDED.match(lines[at])
            assert add is not None
            _, address, kind, value = add.groups()
            lines[at] = f"  store {kind} {value}, ptr {address}"
            if not is_first:
                before, sum_ = f"%kb.before{at}", f"%kb.sum{at}"
                lines[at] = (
                    f"  {before} = load {kind}, ptr {address}\n"
                    f"  {sum_} = fadd {kind} {before}, {value}\n"
                    f"  store {kind} {sum_}, ptr {address}"
                )
    return head + "\n".join(lines) + tail, tuple(changed)


def _body(text: str, entry: str) -> tuple[str, list[str], str]:
    """The text before an entry's lines, the lines, and the text after them."""
    begin = re.search(rf"^define [^\n]*@{re.escape(entry)}\([^\n]*\{{\n", text, re.M)
    assert begin is not None
    end = text.index("\n}", begin.end())
    return text[: begin.end()], text[begin.end() : end].split("\n"), text[end:]


def _is_zero(value: str) -> bool:
    return value in ("0.000000e+00", "0")


class _Array(NamedTuple):
    """A parameter of an entry, or an array in shared memory that begins at some byte."""

    is_shared: bool
    number: int


def _accesses(lines: Sequence[str]) -> dict[_Array, _Accesses]:
    defined = {m[1]: m[2] for line in lines if (m := _DEFINED.match(line))}
    expressions: dict[str, str] = {}

    def expression(value: str) -> str:
        """A value as a function of registers, in a form that equal values have in common."""
        if value not in expressions:
            expressions[value] = value
            rhs = defined.get(value, "")
            if found := _REGISTER.match(rhs):
                expressions[value] = found[1]
            elif (found := _PURE.match(rhs)) and found[1] in ("zext", "sext"):
                expressions[value] = expression(found[3].split(" to ")[0])
            elif found and found[1] in ("add", "mul"):
                a, b = sorted(map(expression, found[3].split(", ")[:2]))
                expressions[value] = f"add({a},{b})" if found[1] == "add" else f"{a}*{b}"
        return expressions[value]

    places: dict[str, tuple[_Array, str, int]] = {}  # of an address: the array, and the element

    def place(value: str) -> tuple[_Array, str, int] | None:
        if value not in places:
            rhs = defined.get(value, "")
            if found := _WORD.match(rhs) or _SHARED.match(rhs):
                places[value] = _Array(found.re is _SHARED, int(found[1])), "", 0
            elif (found := _ELEMENT.match(rhs)) and (before := place(found[2])):
                array, index, distance = before
                size, indices = _SIZES.get(found[1], 0), found[3].split(", ")[1:]
                at = indices[0].split()[-1]
                if not size or len(indices) > 1:
                    index = "?"
                elif at.lstrip("-").isdigit():
                    distance += size * int(at)
                else:
                    index = "?" if index or size == 1 else expression(at)
                places[value] = array, index, distance
            else:
                return None
        return places[value]

    for value in defined:
        place(value)
    result = {array: _Accesses() for array, *_ in places.values()}
    for at, line in enumerate(lines):
        add, load, store = _ADDED.match(line), _LOADED.match(line), _STORED.match(line)
        address = add[2] if add else load[3] if load else store[3] if store else ""
        rhs = m[2] if (m := _DEFINED.match(line)) else line
        for value in set(re.findall(_VALUE, rhs)):
            if value not in places:
                continue
            array, *_ = places[value]
            accesses = result[array]
            if value == address and not (store and store[2] == value):
                accesses.elements[at] = places[value][1:]
                kind = accesses.adds if add else accesses.loads if load else accesses.stores
                kind.append(at)
            elif not _ELEMENT.match(rhs):
                accesses.is_known = False
    return result


class _Blocks:
    """The basic blocks of an entry, and which of them may run more than once."""

    def __init__(self, lines: Sequence[str]):
        self._of_line: list[int] = []
        labels: dict[str, int] = {}
        branches: list[list[str]] = [[]]
        for line in lines:
            if found := _LABEL.match(line):
                labels[found[1]] = len(branches)
                branches.append([])
            branches[-1] += _BRANCH.findall(line)
            self._of_line.append(len(branches) - 1)
        self._after = [[labels[name] for name in names] for names in branches]

    def of(self, lines: Sequence[int]) -> set[int]:
        return {self._of_line[at] for at in lines}

    def repeats(self, line: int) -> bool:
        block = self._of_line[line]
        seen: set[int] = set()
        ahead = [*self._after[block]]
        while ahead and block not in seen:
            if (following := ahead.pop()) not in seen:
                seen.add(following)
                ahead += self._after[following]
        return block in seen


def with_sums_of_warps(text: str, entry: str, has_one_axis: bool) -> str:
    """Let a warp add where Enzyme lets each of its threads add atomically.

    If all threads add to the same element, which has a constant index, the warp adds the sum of its
    numbers once. If each thread adds to elements of shared memory at fixed distances from its own
    element, the threads of a warp add without atomic operations to the elements to which no other
    warp adds, one distance after the other.
    """
    if has_one_axis:
        head, lines, tail = _body(text, entry)
        blocks = _Blocks(lines)
        for array, a in _accesses(lines).items():
            if not (array.is_shared and a.is_known and len(blocks.of(a.adds)) == 1):
                continue
            added = [(_ADDED.match(lines[at]), *a.elements[at]) for at in a.adds]
            size = _SIZES[next(m[3] for m, *_ in added if m)]
            first = min(distance for *_, distance in added)
            span = (max(distance for *_, distance in added) - first) // size
            if {index for _, index, _ in added} != {"tid.x"} or span > 8:
                continue
            for at, (m, _, distance) in zip(a.adds, added, strict=True):
                assert m is not None
                lines[at] = (
                    f"  call void @kb_add_near.{m[3]}(ptr {m[2]}, {m[3]} {m[4]},"
                    f" i32 {(distance - first) // size}, i32 {span})"
                )
        text = head + "\n".join(lines) + tail
    places = {found[1] for found in _ADDRESS.finditer(text)}
    while more := {f[1] for f in _FIXED.finditer(text) if f[2] in places} - places:
        places |= more
    added_once = _ANY_ADDED.sub(
        lambda f: (
            f"  call void @kb_add.{f[3]}(ptr {f[2]}, {f[3]} {f[4]})" if f[2] in places else f[0]
        ),
        text,
    )
    if "@kb_add" not in added_once:
        return text
    return with_declared(added_once, _DECLARED) + _sums()


_DECLARED = (
    "i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)",
    "i32 @llvm.nvvm.read.ptx.sreg.laneid()",
    "i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
    "void @llvm.nvvm.bar.warp.sync(i32)",
)
_SUM = """
define internal void @kb_add.KIND(ptr %at, KIND %x) convergent {
entry:
  %mask = call i32 asm sideeffect "activemask.b32 $0;", "=r"() convergent
  %whole = icmp eq i32 %mask, -1
  br i1 %whole, label %sum, label %alone
sum:
STEPS
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %once, label %end
once:
  %old = atomicrmw fadd ptr %at, KIND %x5 monotonic
  br label %end
alone:
  %other = atomicrmw fadd ptr %at, KIND %x monotonic
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


def _sums() -> str:
    text = ""
    for kind in ("float", "double"):
        steps, before = [], "%x"
        for k, distance in enumerate((16, 8, 4, 2, 1), 1):
            parts = 1 if kind == "float" else 2
            words = "i32" if kind == "float" else "<2 x i32>"
            steps.append(f"  %w{k} = bitcast {kind} {before} to {words}")
            moved = []
            for part in range(parts):
                word = f"%w{k}"
                if parts == 2:
                    word = f"%w{k}.{part}"
                    steps.append(f"  {word} = extractelement {words} %w{k}, i32 {part}")
                steps.append(
                    f"  %m{k}.{part} = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 {word},"
                    f" i32 {distance}, i32 31)"
                )
                moved.append(f"%m{k}.{part}")
            whole = moved[0]
            if parts == 2:
                steps.append(f"  %a{k} = insertelement {words} undef, i32 {moved[0]}, i32 0")
                steps.append(f"  %b{k} = insertelement {words} %a{k}, i32 {moved[1]}, i32 1")
                whole = f"%b{k}"
            steps.append(f"  %y{k} = bitcast {words} {whole} to {kind}")
            steps.append(f"  %x{k} = fadd {kind} {before}, %y{k}")
            before = f"%x{k}"
        text += _SUM.replace("KIND", kind).replace("STEPS", "\n".join(steps))
    return text
