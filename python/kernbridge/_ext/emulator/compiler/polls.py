"""Finds the loops of a kernel in which a thread may wait for others by reading memory.

Such a loop gets a call of `kb_poll`, see src/ext/emulator/kb_block.c, so that the other threads of
the block run meanwhile. It has an exit that depends on memory: on the value of an atomic operation,
or on a load in a loop with a fence. Two kinds of operations do not count: those that always change
the memory, such as the additions of a histogram or a queue, and a compare-and-swap that expects a
value that the loop has read, which fails only if another thread has changed it.

Loops are found in the text of LLVM IR after variables have become values.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_NAME = r'%(?:"[^"]*"|[\w.$-]+)'
_ORDERS = r"(?:syncscope\(\S+\) )?\w+(?: \w+)?(?:, align \d+)?$"

MAY_POLL = re.compile(r"\b(?:atomicrmw|cmpxchg|load atomic|load volatile|fence) ")
_LABEL = re.compile(r'("[^"]*"|[\w.$-]+):')
_DEFINED = re.compile(rf"  ({_NAME}) = ")
_TARGET = re.compile(rf"\blabel ({_NAME})")
_CONDITION = re.compile(rf"  (?:br i1|switch \S+) ({_NAME}),")
_INCOMING = re.compile(rf"\[ (.+?), ({_NAME}) \]")
_POINTER = re.compile(rf"\bptr ({_NAME})")
_FENCE = re.compile(r"  fence ")
_LOAD = re.compile(r"= load .*?, ptr ([^\s,]+)")
_ATOMIC = re.compile(r"= (?:atomicrmw|cmpxchg|load atomic|load volatile) ")
_READ = re.compile(r"= (?:atomicrmw|cmpxchg|load) ")
_ADDED = re.compile(rf"= atomicrmw (?:volatile )?(?:f?add|f?sub|u\w+_wrap) .*, \S+ (\S+) {_ORDERS}")
_EXPECTED = re.compile(rf"= cmpxchg .*, \S+ (\S+), \S+ \S+ {_ORDERS}")
_CAST = re.compile(r"= (?:[sz]ext|trunc|[su]itofp|fpext|fptrunc|bitcast) \S+ (\S+) to ")
_SITE = re.compile(r"  call void @kb\.check\.at\(i32 \d+\)")
_ZEROS = {"0", "0.000000e+00", "-0.000000e+00"}


def with_polls(text: str) -> str:
    """The module in which such loops poll; the same text if there are none."""
    lines = text.splitlines()
    found = False
    for begin, line in enumerate(lines):
        if line.startswith("define "):
            found |= _Function(lines, begin).add_polls()
    return "\n".join([*lines, "declare void @kb_poll(ptr, i32, i32)\n"]) if found else text


@dataclass(slots=True)
class _Block:
    begin: int
    lines: list[int] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    preceding: list[str] = field(default_factory=list)
    condition: str = ""
    is_dead: bool = False


class _Function:
    def __init__(self, lines: list[str], begin: int) -> None:
        self._lines = lines
        self._blocks: dict[str, _Block] = {}
        self._defined: dict[str, tuple[str, int]] = {}  # a value's block and line
        name = "%0"
        for i in range(begin + 1, lines.index("}", begin)):
            line = lines[i]
            if found := _LABEL.match(line):
                name = "%" + found[1]
                self._blocks[name] = _Block(i)
                continue
            block = self._blocks.setdefault(name, _Block(i - 1))
            block.lines.append(i)
            block.targets += _TARGET.findall(line)
            block.is_dead |= line == "  unreachable"
            if found := _CONDITION.match(line):
                block.condition = found[1]
            if found := _DEFINED.match(line):
                self._defined[found[1]] = name, i
        for name, block in self._blocks.items():
            for target in block.targets:
                self._blocks[target].preceding.append(name)

    def add_polls(self) -> bool:
        found = ((h, loop, self._awaited(h, loop)) for h, loop in self._loops().items())
        calls = [self._call(h, loop, read) for h, loop, read in found if read is not None]
        for i, more in itertools.chain.from_iterable(calls):
            self._lines[i] += more
        return bool(calls)

    def _call(self, header: str, loop: set[str], read: int) -> list[tuple[int, str]]:
        """Text to append to two lines, so that a loop polls where it begins."""
        lines, block = self._lines, self._blocks[header]
        name = f"%kb.poll.{block.begin}"
        site = next((s[0] for i in range(read, 0, -1) if (s := _SITE.match(lines[i]))), "")
        phi = max((i for i in block.lines if " = phi " in lines[i]), default=block.begin)
        edges = ", ".join(f"[ {int(p in loop)}, {p} ]" for p in block.preceding)
        call = f"""
{site}
  {name}.frame = call ptr @kb.frame()
  {name}.at = getelementptr i8, ptr {name}.frame, i64 48
  {name}.thread = load ptr, ptr {name}.at
  {name}.site = call i32 @kb.site()
  call void @kb_poll(ptr {name}.thread, i32 {name}.again, i32 {name}.site)"""
        return [(block.begin, f"\n  {name}.again = phi i32 {edges}"), (phi, call)]

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
                loop = loops.setdefault(target, {target})
                new = [name]
                while new:
                    if (block := new.pop()) not in loop:
                        loop.add(block)
                        new += self._blocks[block].preceding
            elif target not in seen:
                seen.add(target)
                path[target] = iter(self._blocks[target].targets)
        return loops

    def _awaited(self, header: str, loop: set[str]) -> int | None:
        """The line of the read on which an exit of the loop depends, or of its fence; or None."""
        inside = [self._blocks[name] for name in loop]
        fences = [i for block in inside for i in block.lines if _FENCE.match(self._lines[i])]
        exits = [
            block.condition
            for block in inside
            if any(t not in loop and not self._blocks[t].is_dead for t in block.targets)
        ]
        found = []
        for i in self._made_of(exits, header, loop):
            if self._is_awaited(i, header, loop):
                found.append(i)
            elif fences and (load := _LOAD.search(self._lines[i])) and not self._is_own(load[1]):
                found.append(min(fences))
        return min(found, default=None)

    def _made_of(self, names: Iterable[str], header: str, loop: set[str]) -> Iterator[int]:
        """The lines of a loop that values depend on."""
        seen: set[str] = set()
        new = list(names)
        while new:
            name = new.pop()
            block, i = self._defined.get(name, ("", 0))
            if name in seen or block not in loop:
                continue
            seen.add(name)
            yield i
            line = self._lines[i]
            if (load := _LOAD.search(line)) and self._is_own(load[1]):
                new += self._stored(loop)
            if " = phi " not in line:
                new += re.findall(_NAME, line)
                continue
            values = {v for v, before in _INCOMING.findall(line) if before in loop}
            new += values
            if len(values) > 1:
                new += self._deciding(block, header, loop)

    def _stored(self, loop: set[str]) -> list[str]:
        """The values that a loop stores, any of which a remaining variable may have."""
        in_loop = (self._lines[i] for name in loop for i in self._blocks[name].lines)
        stores = (line for line in in_loop if line.startswith("  store "))
        return [v for line in stores for v in re.findall(_NAME, line.split(", ptr ")[0])]

    def _deciding(self, block: str, header: str, loop: set[str]) -> Iterator[str]:
        """The conditions that decide from which block a block is reached in one round."""
        ways: dict[str, set[str]] = {name: set() for name in loop}

        def by(name: str, target: str) -> set[str]:
            if target == block:
                return {name}
            return ways[target] if target in loop and target != header else set()

        changes = True
        while changes:
            changes = False
            for name, found in ways.items():
                more = set().union(*(by(name, t) for t in self._blocks[name].targets))
                changes |= not more <= found
                found |= more
        for name in loop:
            reached = [by(name, target) for target in self._blocks[name].targets]
            if any(r != reached[0] for r in reached):
                yield self._blocks[name].condition

    def _is_awaited(self, i: int, header: str, loop: set[str]) -> bool:
        line = self._lines[i]
        if found := _ADDED.search(line):
            return self._is_zero(found[1])
        if found := _EXPECTED.search(line):
            made_of = self._made_of([found[1]], header, loop)
            return not any(_READ.search(self._lines[j]) for j in made_of)
        return _ATOMIC.search(line) is not None

    def _is_zero(self, value: str) -> bool:
        if value not in self._defined:
            return value in _ZEROS
        cast = _CAST.search(self._lines[self._defined[value][1]])
        return cast is not None and self._is_zero(cast[1])

    def _is_own(self, value: str) -> bool:
        line = self._lines[self._defined[value][1]] if value in self._defined else ""
        found = _POINTER.findall(line) if " = getelementptr " in line else []
        return " = alloca " in line or "@kb.frame()" in line or any(map(self._is_own, found))
