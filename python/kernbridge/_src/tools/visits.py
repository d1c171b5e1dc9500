"""Determines which computations of a compiled program run, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernbridge._src.tools.hlo_text import Computation, Instruction, Program


@dataclass(frozen=True, eq=False)
class Visit:
    """A computation that runs, each time for another instruction.

    `executions` counts all conditional branches, and is None where a loop has an unknown number of
    turns. `caller` is the instruction of the computation of `parent` that runs this one, and `turn`
    the body of the innermost loop that it is part of; None outside of loops.
    """

    computation: Computation
    executions: int | None = 1
    parent: Visit | None = None
    caller: Instruction | None = None
    is_body: bool = False

    @property
    def turn(self) -> Visit | None:
        """The innermost body of a loop that this is part of, or is."""
        if self.is_body or self.parent is None:
            return self if self.is_body else None
        return self.parent.turn


def visits(program: Program) -> Iterator[Visit]:
    """Everything that runs when the program runs once, the entry first."""
    return _visits(program, Visit(program.entry))


def _visits(program: Program, visit: Visit) -> Iterator[Visit]:
    yield visit
    for instruction in visit.computation:
        for role, name in instruction.called.items():
            called = program.computations.get(name)
            if called is None or not _runs(instruction):
                continue
            executions = visit.executions
            if instruction.opcode == "while":
                turns = instruction.turns
                executions = None if executions is None or turns is None else executions * turns
            inner = Visit(called, executions, visit, instruction, role == "body")
            yield from _visits(program, inner)


def _runs(instruction: Instruction) -> bool:
    """Whether what an instruction calls runs as a program of its own, and not for each element."""
    if instruction.opcode == "fusion":
        return "kind=kCustom" in instruction.attributes
    return instruction.opcode in ("async-start", "call", "conditional", "while")
