"""Runs the threads of a block in loops between the barriers of a kernel, without fibres.

A kernel whose barriers all threads of a block reach together is cut there. What lies between two
barriers is a phase, which becomes a function that runs it for all threads of a block and returns
the number of the next one. Its loops can be vectorised: threads do not depend on each other there
but for atomic operations, unless they race. A value of an earlier phase is

- computed again, if it depends on the thread's place and the kernel's parameters alone,
- kept once, if it is the same for all threads, such as the counter of a loop around barriers, or
- kept in an array with an element for each thread.

This works on text: after LLVM's pass `reg2mem` no value leaves a basic block except in variables,
so that any blocks of the kernel make a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any

from kernbridge._ext.emulator.compiler import atomics
from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once
from kernbridge._src.numba_common.private_llvmlite import binding as llvm
from kernbridge._src.numba_common.private_llvmlite import run_once

DIVISIONS = {"sdiv", "udiv", "srem", "urem"}

_WAITS = {"kb_warp_barrier", "kb_shuffle", "kb_vote", "kb_match", "kb_active_mask"}
_WAITS |= {"kb_barrier_reduce", "kb_grid_barrier", "kb_poll", "kb_recurse", "llvm.stacksave.p0"}
_PARTS = {"kb_thread", "kb_fibre", "kb_shared_size", "kb_stack_size"}
_PURE = {"add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "icmp", "select"}
_PURE |= {"trunc", "zext", "sext", "getelementptr", "bitcast", "ptrtoint", "inttoptr"}
_PURE_CALLS = ("llvm.smax.", "llvm.smin.", "llvm.umax.", "llvm.umin.", "llvm.abs.")
# What a kernel reads of its frame, by its offset there: of its thread, and of all threads.
_OF_THREAD = {0: "i32 %kb.x", 4: "i32 %kb.y", 8: "i32 %kb.z", 48: "ptr %kb.thread"}
_OF_ALL = {4 * i: f"i32 %kb.at{4 * i}" for i in range(3, 12)} | {56: "ptr %kb.shared"}
_VARYING = {place.split()[1] for place in _OF_THREAD.values()}
_PHASES_MAX = 64
_KEPT_MAX = 256  # values of a thread: its stack has room for them, besides variables
_THREAD_SIZE = 192  # of a kb_thread, see kb_layout.c
_NEXT = 2**62  # and the number of the next phase: more than the key of any thread
_NODE = 10**6  # the first number of metadata that no module has


def in_phases(module: Any, machine: Any) -> Any:
    """The module with a `kb_thread` that runs all threads of a block, if barriers allow that."""
    defined = {f.name for f in module.functions if not f.is_declaration}
    if defined != _PARTS or not _WAITS.isdisjoint(f.name for f in module.functions):
        return module
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    read = Module(str(module))
    _take_frame(read.functions["kb_thread"])
    placed = llvm.parse_assembly(str(read))
    passes = builder.getFunctionPassManager()
    passes.add_instruction_namer_pass()
    run_once(passes, placed.get_function("kb_thread"), builder)
    read = Module(str(placed))
    _cut(read.functions["kb_thread"])
    cut = llvm.parse_assembly(str(read))
    passes = llvm.create_new_function_pass_manager()
    passes.add_register_to_memory_pass()
    run_once(passes, cut.get_function("kb_thread"), builder)
    phases = _Phases(Module(str(cut)))
    return llvm.parse_assembly(phases.written()) if phases.are_regular else module


def _take_frame(kernel: Function) -> None:
    """Turn what is in a kernel's frame into parameters, from which LLVM reads it."""
    parameters, first = kernel.parameters[1:], kernel.blocks[0].instructions[0]
    lines = ["  %kb.frame = alloca [64 x i8], align 8"]
    for at, place in (_OF_THREAD | _OF_ALL).items():
        lines.append(f"  %kb.to{at} = getelementptr i8, ptr %kb.frame, i64 {at}")
        lines.append(f"  store {place}, ptr %kb.to{at}")
        parameters.append(place)
    first.text = "\n".join([*lines, first.text])
    kernel.head = f"define internal void @kb_thread({', '.join(parameters)}) {{"


def _cut(kernel: Function) -> None:
    """Begin a basic block after each barrier, and mark atomic operations on shared memory."""
    n_phases, last = 1, {}
    for i in kernel.instructions:
        if i.callee == "kb_barrier":
            last[f", {i.block.name} ]"] = f", %kb.wait.{n_phases} ]"
            i.text = f"  br label %kb.wait.{n_phases}\n\nkb.wait.{n_phases}:"
            n_phases += 1
        elif i.opcode in atomics.OPCODES and atomics.array_of(kernel, i) == "%kb.shared":
            i.text += f", !{atomics.OF_BLOCK} !{{}}"
    for i in kernel.instructions:
        for before, after in last.items() if i.opcode == "phi" else ():
            i.text = i.text.replace(before, after)


class _Phases:
    """A kernel after `reg2mem`: which values are the same in a block, and the text of its phases.

    Variables are slots of a value, or arrays, whose addresses are used.
    """

    def __init__(self, module: Module) -> None:
        self._module, self._kernel = module, module.functions["kb_thread"]
        self._blocks = {block.name: block for block in self._kernel.blocks}
        self._variables = {v.result: v for v in self._kernel.instructions if v.opcode == "alloca"}
        self._slots = {name for name in self._variables if ".reg2mem" in name}
        self._varying = {*_VARYING, *(self._variables.keys() - self._slots)}
        self._apart: set[str] = set()  # blocks that some threads may pass, and others not
        self._find_varying()
        entry = self._kernel.blocks[0].name
        waits = [name for name in self._blocks if re.fullmatch(r"%kb\.wait\.\d+", name)]
        self._starts = {name: n for n, name in enumerate([entry, *waits])}
        self._made: dict[Instruction, None] = {}
        unmade = self._find_made()
        live = self._found_live()
        crossing = unmade.intersection(set[str]().union(*(live[name] for name in waits)))
        kept = [n for n in self._variables if n in crossing or n not in self._slots]
        self._kept = {name: self._kind(name) for name in kept}
        self._own = [p for p in self._kernel.parameters if "%kb." not in p]
        given = [*self._own, *_OF_ALL.values(), "i32 %kb.rows", "ptr %kb.threads"]
        self._given = ", ".join([*given, *(f"ptr {derived(name, 'all')}" for name in self._kept)])
        self.are_regular = (
            len(self._starts) <= _PHASES_MAX
            and len(self._kept) <= _KEPT_MAX
            and self._apart.isdisjoint(waits)
            and not any(v.operands or v.block.name != entry for v in self._variables.values())
        )

    def _is_pure(self, i: Instruction) -> bool:
        return i.opcode in _PURE or i.callee.startswith(_PURE_CALLS) or _address(i) in self._slots

    def _find_varying(self) -> None:
        """Find the values that may differ in the threads of a block, and what depends on these."""
        every = {*self._blocks}

        def passed(name: str, after: dict[str, set[str]]) -> set[str]:
            last = self._blocks[name].instructions[-1]
            ways = [after[target] for target in last.targets]
            return {name} | set.intersection(*ways or [set() if last.opcode == "ret" else every])

        # The blocks that each thread passes after a block; all, where it cannot end.
        after = _settled(dict.fromkeys(reversed(self._blocks), every), passed)
        before = (0, 0)
        while before != (before := (len(self._varying), len(self._apart))):
            for i in self._kernel.instructions:
                if i.opcode == "store" and _address(i) in self._slots:
                    if i.block.name in self._apart or i.operands[0].value in self._varying:
                        self._varying.add(_address(i))
                elif i.result and i.opcode != "alloca":
                    computes = self._is_pure(i) or i.opcode in DIVISIONS
                    if not computes or not self._varying.isdisjoint(i.names):
                        self._varying.add(i.result)
                elif i.opcode in ("br", "switch") and i.operands[0].value in self._varying:
                    name = i.block.name
                    together = after[name] - {name} if after[name] != every else set()
                    self._apart |= {*self._reach(name, together)} - together

    def _found_live(self) -> dict[str, set[str]]:
        """The slots that are read in a block, or after it, before they are written."""
        read, written = dict[str, set[str]](), dict[str, set[str]]()
        for name, block in reversed(self._blocks.items()):
            read[name], written[name] = set(), set()
            for i in block.instructions:
                if i.opcode == "store":
                    written[name].add(_address(i))
                elif _address(i) in self._slots and _address(i) not in written[name]:
                    read[name].add(_address(i))

        def live_in(name: str, live: dict[str, set[str]]) -> set[str]:
            targets = self._blocks[name].targets
            return read[name] | (set[str]().union(*(live[t] for t in targets)) - written[name])

        return _settled(dict(read), live_in)

    def _find_made(self) -> set[str]:
        """Find what parameters alone determine, in an order to compute it again; returns the rest.

        A slot with one store has the value of an instruction, which is the same wherever it is
        computed from the same values.
        """
        left = {*self._kernel.defined} - (self._variables.keys() - self._slots)
        before = 0
        while before != (before := len(left)):
            for i in self._kernel.instructions:
                name, names = i.result, i.names
                if i.opcode == "store" and _address(i) in self._slots:
                    *names, name = i.names
                    is_made = [u.opcode for u in self._kernel.users[name]].count("store") == 1
                else:
                    is_made = self._is_pure(i)
                if is_made and name in left and left.isdisjoint(names):
                    left.remove(name)
                    self._made[i] = None
        return left

    def _reach(self, start: str, ends: Container[str]) -> list[str]:
        """The blocks that may follow one, up to those that end the way."""
        found, new = dict[str, None](), [*self._blocks[start].targets]
        while new:
            if (name := new.pop()) not in found:
                found[name] = None
                new += [] if name in ends else self._blocks[name].targets
        return [*found]

    def written(self) -> str:
        """The module with the phases, and a kernel that runs them for all threads of a block."""
        own = ", ".join(["ptr %kb.frame", *self._own])
        lines = [*map(self._phase, self._starts), _COMMON]
        lines.append(f"define internal void @kb_thread({own}) alwaysinline {{")
        for at, place in (_OF_ALL | {48: "ptr %kb.threads"}).items():
            kind, name = place.split()
            lines.append(f"  {name}.from = getelementptr i8, ptr %kb.frame, i64 {at}")
            lines.append(f"  {name} = load {kind}, ptr {name}.from")
        lines.append("  %kb.rows = mul nuw nsw i32 %kb.at16, %kb.at20")
        lines.append("  %kb.n = mul nuw nsw i32 %kb.rows, %kb.at12")
        for name, kind in self._kept.items():
            size = ", i32 %kb.n, align 64" if name in self._varying else ""
            lines.append(f"  {derived(name, 'all')} = alloca {kind}{size}")
        lines.append("  br label %kb.0")
        for start, n in self._starts.items():
            reached = self._reach(start, self._starts)
            after = [self._starts[name] for name in reached if name in self._starts]
            targets = " ".join(f"i64 {_NEXT + next_}, label %kb.{next_}" for next_ in after)
            lines.append(f"""\
kb.{n}:
  %kb.{n}.next = call i64 @kb.phase.{n}({self._given})
  switch i64 %kb.{n}.next, label %kb.done [ {targets} ]""")
        lines += ["kb.done:", "  ret void", "}"]
        self._module.lines[self._module.lines.index(self._kernel)] = "\n".join(lines)
        return declared_once(str(self._module))

    def _phase(self, start: str) -> str:
        """The function that runs a phase for all threads, and returns which one is next."""
        n = self._starts[start]
        arrays = self._kept.keys() & self._varying
        first = [str(v) for name, v in self._variables.items() if name not in arrays]
        lines, end = list[str](), list[str]()
        for name, kind in self._kept.items():
            all_, old, new = (derived(name, part) for part in ("all", "old", "new"))
            if name in arrays:
                lines.append(f"  {name} = getelementptr {kind}, ptr {all_}, i64 %kb.t")
            else:
                first.append(f"  {old} = load {kind}, ptr {all_}")
                lines.append(f"  store {kind} {old}, ptr {name}")
                end.append(f"  {new} = load {kind}, ptr {name}")
                end.append(f"  store {kind} {new}, ptr {all_}")
        lines += [*map(str, self._made), *map(self._instead, self._blocks[start].instructions)]
        for name in self._reach(start, self._starts):
            lines.append(f"{name[1:]}:")
            if name in self._starts:
                lines.append(f"  store i64 {_NEXT + self._starts[name]}, ptr %kb.result")
                lines.append("  br label %kb.last")
            else:
                lines += map(self._instead, self._blocks[name].instructions)
        before, body, after = map("\n".join, (first, lines, end))
        loop = _NODE + 2 + n
        return _PHASE.format(n=n, given=self._given, first=before, body=body, end=after, loop=loop)

    def _instead(self, i: Instruction) -> str:
        """What a phase has in the place of an instruction."""
        if i in self._made or i.opcode == "alloca" or i.callee.startswith("llvm.lifetime."):
            return ""
        if i.opcode in ("ret", "unreachable"):
            return "  br label %kb.last"
        if i.callee == "kb_write_outside":
            what, key = derived(i.block.name, "what"), derived(i.block.name, "key")
            return f"""\
  {what} = ptrtoint ptr {i.operands[1].value} to i64
  {key} = or i64 {what}, %kb.key
  store i64 {key}, ptr %kb.result"""
        return f"{i.text}, !llvm.access.group !{_NODE}" if _address(i) and not i.flags else i.text

    def _kind(self, name: str) -> str:
        """A type of the size of a variable that is a multiple of its alignment."""
        variable = self._variables[name]
        alignment = re.findall(r"align (\d+)", variable.text) or ["1"]
        kind = f"{{ {variable.type}, [0 x <{alignment[0]} x i8>] }}"
        return variable.type if name in self._slots else kind


# A thread's result is the number of the next phase, or, after a write outside of an array, its key
# with the address of what to say: the least is that of the first such thread.
_PHASE = f"""\
define internal i64 @kb.phase.{{n}}({{given}}) alwaysinline {{{{
kb.begin:
  %kb.result = alloca i64
  %kb.next = alloca i64
  store i64 {2**63 - 1}, ptr %kb.next
{{first}}
  br label %kb.row
kb.row:
  %kb.r = phi i32 [ 0, %kb.begin ], [ %kb.r.next, %kb.row.last ]
  %kb.y = urem i32 %kb.r, %kb.at16
  %kb.z = udiv i32 %kb.r, %kb.at16
  %kb.before = mul nuw nsw i32 %kb.r, %kb.at12
  br label %kb.column
kb.column:
  %kb.x = phi i32 [ 0, %kb.row ], [ %kb.x.next, %kb.last ]
  %kb.t32 = add nuw nsw i32 %kb.before, %kb.x
  %kb.t = zext i32 %kb.t32 to i64
  %kb.thread = getelementptr [{_THREAD_SIZE} x i8], ptr %kb.threads, i64 %kb.t
  %kb.key = shl i64 %kb.t, 48
  store i64 {_NEXT}, ptr %kb.result
{{body}}
kb.last:
  %kb.this = load i64, ptr %kb.result
  %kb.others = load i64, ptr %kb.next
  %kb.least = call i64 @llvm.smin.i64(i64 %kb.others, i64 %kb.this)
  store i64 %kb.least, ptr %kb.next
  %kb.x.next = add nuw nsw i32 %kb.x, 1
  %kb.x.more = icmp ult i32 %kb.x.next, %kb.at12
  br i1 %kb.x.more, label %kb.column, label %kb.row.last, !llvm.loop !{{loop}}
kb.row.last:
  %kb.r.next = add nuw nsw i32 %kb.r, 1
  %kb.r.more = icmp ult i32 %kb.r.next, %kb.rows
  br i1 %kb.r.more, label %kb.row, label %kb.end
kb.end:
{{end}}
  call void @kb_poll(ptr %kb.threads, i32 0, i32 0)
  %kb.found = load i64, ptr %kb.next
  %kb.failed = icmp slt i64 %kb.found, {_NEXT}
  br i1 %kb.failed, label %kb.outside, label %kb.return
kb.outside:
  %kb.what = and i64 %kb.found, {2**48 - 1}
  %kb.first = lshr i64 %kb.found, 48
  %kb.first.thread = getelementptr [{_THREAD_SIZE} x i8], ptr %kb.threads, i64 %kb.first
  %kb.text = inttoptr i64 %kb.what to ptr
  call void @kb_write_outside(ptr %kb.first.thread, ptr %kb.text)
  unreachable
kb.return:
  ret i64 %kb.found
}}}}
!{{loop}} = distinct !{{{{!{{loop}}, !{_NODE + 1}, !{{{{!"llvm.loop.unroll.disable"}}}},
  !{{{{!"llvm.loop.interleave.count", i32 1}}}}}}}}"""
_COMMON = f"""\
@kb_whole = constant i8 1
declare void @kb_poll(ptr, i32, i32)
declare void @kb_write_outside(ptr, ptr)
declare i64 @llvm.smin.i64(i64, i64)
!{_NODE} = distinct !{{}}
!{_NODE + 1} = !{{!"llvm.loop.parallel_accesses", !{_NODE}}}"""


def derived(name: str, part: str) -> str:
    """A name for a part of what is made of a value."""
    plain = name[1:].strip('"')
    return f'%"{plain}.kb.{part}"'


def _settled(
    found: dict[str, set[str]], step: Callable[[str, dict[str, set[str]]], set[str]]
) -> dict[str, set[str]]:
    """What a step makes of the sets of blocks when it changes none of them any more."""
    before: dict[str, set[str]] = {}
    while before != found:
        before = dict(found)
        for name in found:
            found[name] = step(name, found)
    return found


def _address(i: Instruction) -> str:
    """The address that a load or a store accesses."""
    return i.operands[-1].value if i.opcode in ("load", "store") else ""
