"""Code that the front ends of GPU kernels share: plans and their registration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import jax

from kernbridge import _core
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.operation.spec import ArrayType, Call
from kernbridge._src.plan import registers, targets
from kernbridge._src.plan.inspection import inspect_launches
from kernbridge._src.plan.program import Buffer, Callback, Fill, Launch, Program, Step, Value
from kernbridge._src.plan.targets import Target
from kernbridge._src.toolchain import architectures, cuda

Lowered = tuple[NativeCall, Program]


class PlannedFrontend(Frontend):
    """What front ends share whose calls are plans that C runs."""

    checked = False
    vector_math: bool | None = None

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        """Compile for these operands, or find it compiled, and plan the launches."""
        target = self._target(platform)
        if target.emulates:
            cuda.tell_of_cpu(self.label)
        return self._lower(tuple(operands), call, target)[0]

    def program(self, operands: Sequence[ArrayType], call: Call) -> Program:
        """The plan of a call."""
        return self._lower(tuple(operands), call, self._target("cuda"))[1]

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        """Code and resources of every launch: for the CPU where JAX would run it there.

        A choice of GPUs to compile for takes precedence.
        """
        on_cpu = "cpu" in self.platforms and jax.default_backend() == "cpu"
        target = self._target("cpu" if on_cpu and not architectures.chosen() else "cuda")
        return inspect_launches(self._lower(tuple(operands), call, target)[1].steps)

    def _target(self, platform: str) -> Target:
        return targets.of_platform(platform, self.checked, self.vector_math)

    @abstractmethod
    def _lower(self, operands: tuple[ArrayType, ...], call: Call, target: Target) -> Lowered:
        """Machine code and plan."""


def zeros(arrays: Sequence[ArrayType], buffers: Iterable[int]) -> list[Step]:
    """Steps that fill these buffers of a call with zeros."""
    return [Fill(b, 0, arrays[b].dtype.itemsize, Value("count", buffer=b), 0) for b in buffers]


def plan(
    label: str,
    source: str,
    operands: Sequence[ArrayType],
    call: Call,
    names: Sequence[str],
    steps: Iterable[Step],
    *,
    copied: Sequence[int] = (),
    temporaries: Sequence[ArrayType] = (),
    why_not_portable: str = "",
    in_order: bool = False,
    target: Target,
) -> Lowered:
    """Make a program of steps and register it; `names` are those of operands and outputs.

    `copied` inputs and `temporaries` are buffers behind the outputs. A program with steps that have
    to run `in_order` of the stream enters no graph.
    """
    from kernbridge._src.base import debug
    from kernbridge._src.keys.encode import key_of

    named = [*zip((*operands, *call.outs), names, strict=False)]
    named += [named[i] for i in copied]
    named += [(t, f"temporary {i}") for i, t in enumerate(temporaries)]

    program = Program(
        name=label,
        source=source,
        n_inputs=len(operands),
        n_outputs=len(call.outs),
        buffers=tuple(Buffer(t.dtype.name, len(t.shape), name) for t, name in named),
        steps=tuple(steps),
    )
    for step in program.steps:
        if isinstance(step, Launch):
            registers.check(label, step)
    digest = program.digest()
    callbacks = any(isinstance(step, Callback) for step in program.steps)
    written = program.write(digest)
    if not _core.is_registered(digest):
        _core.register_program(digest, written, callbacks)
    native = NativeCall(
        target=target.handler(in_graph=not (callbacks or in_order or debug.waits())),
        digest=digest,
        key=key_of(digest),
        origin="",
        copied=tuple(copied),
        why_not_portable=why_not_portable,
        temporaries=tuple(temporaries),
        program=b"" if callbacks else written,
        for_extents=True,
    )
    return native, program
