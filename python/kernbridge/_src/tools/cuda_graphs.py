"""Predicts which CUDA graphs XLA makes of a compiled program.

XLA makes graphs ("command buffers") of what it calls thunks, which the text of a program does not
show: a run of consecutive steps that can be part of a graph becomes a graph if it has at least
`xla_gpu_graph_min_graph_size` steps. The same rule is applied to the instructions here. Versions of
XLA before 2025 wrote graphs into the text, as calls of computations whose names begin with
`command_buffer`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernbridge._src.tools.hlo_text import Computation, Instruction, Program

_WRITTEN = "command_buffer"
_MIN_SIZE = "xla_gpu_graph_min_graph_size"
_COMMANDS = "xla_gpu_enable_command_buffer"
_BY_DEFAULT = frozenset({"FUSION", "CUBLAS", "CUBLASLT", "CUDNN", "CUSTOM_CALL", "CONDITIONAL"})

# Instructions of which nothing runs, and those that run outside of graphs.
_NOTHING = frozenset(
    (
        *("add-dependency", "after-all", "async-done", "async-update", "bitcast", "constant"),
        *("get-tuple-element", "opt-barrier", "parameter", "tuple"),
    )
)
_OUTSIDE = frozenset(
    (
        *("cholesky", "convolution", "copy-done", "copy-start", "fft", "infeed", "outfeed"),
        *("recv", "recv-done", "send", "send-done", "triangular-solve"),
    )
)
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-", "ragged-", "reduce-scatter")
_LIBRARIES = {
    "__cublas$gemm": "CUBLAS",
    "__cublas$lt$matmul": "CUBLASLT",
    "__cublas$lt$matmul$f8": "CUBLASLT",
    "__cudnn$fusion": "CUDNN",
    "__cudnn$norm": "CUDNN",
}


@dataclass(frozen=True)
class Settings:
    """What decides about graphs: the fewest steps of one, and the kinds of steps in them."""

    min_size: int = 5
    commands: frozenset[str] = _BY_DEFAULT

    @staticmethod
    def of(options: Mapping[str, Any]) -> Settings:
        """The settings of the process, replaced by those of a program's compiler options."""
        given: dict[str, str] = {}
        for flag in os.environ.get("XLA_FLAGS", "").split():
            name, _, value = flag.lstrip("-").partition("=")
            given[name] = value
        given.update({name: str(value) for name, value in options.items()})
        size = given.get(_MIN_SIZE, "")
        commands = _chosen(given[_COMMANDS]) if _COMMANDS in given else _BY_DEFAULT
        return Settings(int(size) if size.isdigit() else Settings.min_size, commands)


def _chosen(value: str) -> frozenset[str]:
    """The kinds that a value of the flag names: a list, or what it adds and takes away."""
    names = {name.strip() for name in re.split(r"[,\s]+", value) if name.strip()}
    if not any(name[0] in "+-" for name in names):
        return frozenset(name.upper() for name in names)
    added = {name[1:].upper() for name in names if name[0] == "+"}
    return (_BY_DEFAULT | added) - {n[1:].upper() for n in names if n[0] == "-"}


@dataclass(frozen=True)
class Run:
    """Consecutive steps that may be in one graph, and whether they are."""

    steps: tuple[Instruction, ...]
    is_graph: bool


class Graphs:
    """The graphs of a program. `ours` are the targets of kernbridge that may be in one."""

    def __init__(self, program: Program, settings: Settings, ours: frozenset[str]) -> None:
        self.program, self.settings, self._ours = program, settings, ours
        self._are_written = any(name.startswith(_WRITTEN) for name in program.computations)

    def runs(self, computation: Computation) -> Iterator[Run]:
        """The runs of a computation's steps, in their order; without those inside of loops."""
        steps: list[Instruction] = []
        for instruction in self.steps(computation):
            if self._may_be_in_graph(instruction):
                steps.append(instruction)
                continue
            if steps:
                yield self._run(steps)
            steps = []
            if self.is_written(instruction):
                inner = self.program.computations[instruction.called["to_apply"]]
                yield Run(tuple(self.steps(inner)), True)
        if steps:
            yield self._run(steps)

    def steps(self, computation: Computation) -> Iterator[Instruction]:
        """The instructions of which something runs."""
        return (i for i in computation if i.opcode not in _NOTHING)

    def outside(self, computation: Computation) -> list[Instruction]:
        """The steps of a computation that may not be in a graph, apart from loops."""
        return [
            i
            for i in self.steps(computation)
            if i.opcode != "while" and not self.is_written(i) and not self._may_be_in_graph(i)
        ]

    def is_written(self, instruction: Instruction) -> bool:
        """Whether an instruction is a graph that XLA wrote into the text."""
        return instruction.called.get("to_apply", "").startswith(_WRITTEN)

    def _run(self, steps: list[Instruction]) -> Run:
        size = sum(map(self._size, steps))
        return Run(tuple(steps), not self._are_written and size >= max(1, self.settings.min_size))

    def _inside(self, instruction: Instruction) -> Iterator[Instruction]:
        """What an instruction runs that is more than one step."""
        if instruction.opcode not in ("async-start", "call", "conditional", "while"):
            return
        for name in instruction.called.values():
            if name in self.program.computations:
                yield from self.steps(self.program.computations[name])

    def _size(self, instruction: Instruction) -> int:
        inside = [*self._inside(instruction)]
        own = instruction.opcode in ("conditional", "while")
        return own + sum(map(self._size, inside)) if inside else 1

    def _may_be_in_graph(self, instruction: Instruction) -> bool:
        opcode, commands = instruction.opcode, self.settings.commands
        if opcode in ("conditional", "while"):
            allowed = opcode.upper() in commands
            return allowed and all(map(self._may_be_in_graph, self._inside(instruction)))
        if opcode in ("async-start", "call"):
            if self.is_written(instruction):
                return False
            return all(map(self._may_be_in_graph, self._inside(instruction)))
        if opcode == "custom-call":
            if instruction.target in self._ours:
                return "CUSTOM_CALL" in commands
            return _LIBRARIES.get(instruction.target) in commands
        if opcode in _OUTSIDE:
            return False
        if opcode.startswith(COLLECTIVES):
            return "COLLECTIVES" in commands
        return "FUSION" in commands
