"""Finds the loops of a kernel in which a thread may wait for others by reading memory.

Such a loop gets a call of `kb_poll`, see src/ext/emulator/kb_block.c, so that the other threads of
the block run meanwhile. It has an exit that depends on memory: on the value of an atomic operation,
or on a load in a loop with a fence. Operations that always change the memory do not count, such as
the additions of a histogram or a queue, nor does a compare-and-swap that expects a value that the
loop has read, which fails only if another thread has changed it.

Loops are found in the text of LLVM IR after variables have become values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernbridge._src.llvm.text import Function, Instruction, Module, locals_in

# A module with such a loop has one of these.
NEEDED = ("atomicrmw ", "cmpxchg ", "load atomic ", "load volatile ", " fence ")
_READS = {"atomicrmw", "cmpxchg", "load"}
_ADDITIONS = {"add", "sub", "fadd", "fsub", "uinc_wrap", "udec_wrap"}
_CASTS = {"sext", "zext", "trunc", "sitofp", "uitofp", "fpext", "fptrunc", "bitcast"}
_ZEROS = {"0", "0.000000e+00", "-0.000000e+00"}


def with_polls(text: str) -> str:
    """The module in which such loops poll; the same text if there are none."""
    module = Module(text)
    found = [_Loops(function).add_polls() for function in module.defined.values()]
    return f"{module}declare void @kb_poll(ptr, i32, i32)\n" if any(found) else text


class _Loops:
    """The loops of a function."""

    def __init__(self, function: Function) -> None:
        self._instructions, self._defined = list(function.instructions), function.defined
        self._blocks = {block.name: block for block in function.blocks}
        self._preceding: dict[str, list[str]] = {name: [] for name in self._blocks}
        for name, block in self._blocks.items():
            for target in block.targets:
                self._preceding[target].append(name)

    def add_polls(self) -> bool:
        found = ((h, loop, self._awaited(h, loop)) for h, loop in self._loops().items())
        waiting = [(h, loop, read) for h, loop, read in found if read is not None]
        for header, loop, read in waiting:
            self._add_poll(header, loop, read)
        return bool(waiting)

    def _add_poll(self, header: str, loop: set[str], read: int) -> None:
        """Let a loop poll where it begins."""
        block = self._blocks[header]
        name = f"%kb.poll.{list(self._blocks).index(header)}"
        before = reversed(self._instructions[: read + 1])
        site = next((i.text for i in before if i.callee == "kb.check.at"), "")
        edges = ", ".join(f"[ {int(p in loop)}, {p} ]" for p in self._preceding[header])
        call = f"""
{site}
  {name}.frame = call ptr @kb.frame()
  {name}.at = getelementptr i8, ptr {name}.frame, i64 48
  {name}.thread = load ptr, ptr {name}.at
  {name}.site = call i32 @kb.site()
  call void @kb_poll(ptr {name}.thread, i32 {name}.again, i32 {name}.site)"""
        phis = [i for i in block.instructions if i.opcode == "phi"]
        block.label = f"{block.label}\n  {name}.again = phi i32 {edges}"
        if phis:
            phis[-1].text += call
        else:
            block.label += call

    def _loops(self) -> dict[str, set[str]]:
        """The blocks of each loop, by the one with which it begins, to which an edge goes back."""
        loops: dict[str, set[str]] = {}
        begin = next(iter(self._blocks))
        path, seen = {begin: iter(self._blocks[begin].targets)}, {begin}
        while path:
            name = next(reversed(path))
            target = next(path[name], "")
            if not target:
                del path[name]
            elif target in path:
                self._add_ways(name, loops.setdefault(target, {target}))
            elif target not in seen:
                seen.add(target)
                path[target] = iter(self._blocks[target].targets)
        return loops

    def _add_ways(self, to: str, found: set[str]) -> set[str]:
        """Add the blocks from which a block is reached without passing a block of `found`."""
        new = [to]
        while new:
            if (block := new.pop()) not in found:
                found.add(block)
                new += self._preceding[block]
        return found

    def _awaited(self, header: str, loop: set[str]) -> int | None:
        """The number of the read on which an exit depends, or of the loop's fence; or None."""
        ending = {n for n, b in self._blocks.items() if b.instructions[-1].opcode == "unreachable"}
        exits = [name for name in loop if {*self._blocks[name].targets} - loop - ending]
        fences = [i for i in self._inside(loop) if i.opcode == "fence"]
        found = []
        for i in self._made_of(map(self._condition, exits), header, loop):
            if self._is_awaited(i, header, loop):
                found.append(i)
            elif fences and i.opcode == "load" and not self._is_own(i.operands[0].value):
                found.append(fences[0])
        return min(map(self._instructions.index, found), default=None)

    def _inside(self, loop: set[str]) -> list[Instruction]:
        """The instructions of a loop, in their order."""
        return [i for i in self._instructions if i.block.name in loop]

    def _condition(self, block: str) -> str:
        """What decides where a block goes on."""
        operands = self._blocks[block].instructions[-1].operands
        return operands[0].value if len(operands) > 1 else ""

    def _made_of(self, names: Iterable[str], header: str, loop: set[str]) -> Iterator[Instruction]:
        """The instructions of a loop that values depend on."""
        seen: set[str] = set()
        new = list(names)
        while new:
            name = new.pop()
            made = self._defined.get(name)
            if made is None or name in seen or made.block.name not in loop:
                continue
            seen.add(name)
            yield made
            if made.opcode == "load" and self._is_own(made.operands[0].value):
                stores = (i for i in self._inside(loop) if i.opcode == "store")
                new += (v for s in stores for v in locals_in(s.operands[0].value))
            if made.opcode != "phi":
                new += made.names
                continue
            values = {value for value, before in made.incoming if before in loop}
            new += values
            if len(values) > 1:
                new += self._deciding(made.block.name, header, loop)

    def _deciding(self, block: str, header: str, loop: set[str]) -> Iterator[str]:
        """The conditions that decide from which block a block is reached in one round."""
        before = [name for name in self._preceding[block] if name in loop]
        ways = {name: self._add_ways(name, {header, block}) for name in before}

        def by(name: str, target: str) -> set[str]:
            if target == block:
                return {name}
            inside = target in loop and target != header
            return {last for last in before if inside and target in ways[last]}

        for name in loop:
            reached = [by(name, target) for target in self._blocks[name].targets]
            if any(r != reached[0] for r in reached):
                yield self._condition(name)

    def _is_awaited(self, i: Instruction, header: str, loop: set[str]) -> bool:
        if i.opcode == "atomicrmw" and i.flags[-1] in _ADDITIONS:
            return self._is_zero(i.operands[1].value)
        if i.opcode == "cmpxchg":
            made_of = self._made_of([i.operands[1].value], header, loop)
            return not any(made.opcode in _READS for made in made_of)
        return i.opcode == "atomicrmw" or (i.opcode == "load" and bool(i.flags))

    def _is_zero(self, value: str) -> bool:
        made = self._defined.get(value)
        if made is None:
            return value in _ZEROS
        return made.opcode in _CASTS and self._is_zero(made.operands[0].value)

    def _is_own(self, address: str) -> bool:
        """Whether an address points to a variable of the thread, or into its frame."""
        made = self._defined.get(address)
        if made is not None and made.opcode == "getelementptr":
            return self._is_own(made.operands[0].value)
        return made is not None and (made.opcode == "alloca" or made.callee == "kb.frame")
