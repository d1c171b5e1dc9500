"""What the front ends of GPU kernels share: plans, their registration, and their inspection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

import jax

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.calls.call import Call, Operands, Types
from kernbridge._src.keys.fingerprint import key_of
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.plan import launch, targets
from kernbridge._src.plan.program import Callback, Fill, Launch, Program, Step, Value
from kernbridge._src.toolchain import cuda

Lowered = tuple[NativeCall, Program]


class PlannedFrontend(Frontend):
    checked = False
    vector_math: bool | None = None

    def lower(self, platform: str, operands: Types, call: Call) -> NativeCall:
        """Compile for these operands, or find it compiled, and plan the launches."""
        target = self._target(platform)
        target.announce(self.label)
        return self._lower(tuple(operands), call, target)[0]

    def program(self, operands: Types, call: Call) -> Program:
        return self._lower(tuple(operands), call, self._target("cuda"))[1]

    def inspect(self, operands: Types, call: Call) -> tuple[Inspection, ...]:
        """Return code and resources of every launch, on the CPU if JAX would run it there.

        A choice of GPUs to compile for takes precedence.
        """
        target = self._target_here()
        _, program = self._lower(tuple(operands), call, target)
        return tuple(target.inspect(step) for step in program.steps if isinstance(step, Launch))

    def _target_here(self) -> targets.Target:
        here = jax.default_backend()
        is_known = here in self.platforms and not cuda.chosen()
        return self._target(here if is_known else "cuda")

    def _target(self, platform: str) -> targets.Target:
        return targets.of_platform(platform, self.checked, self.vector_math, self.label)

    @abstractmethod
    def _lower(self, operands: Operands, call: Call, target: targets.Target) -> Lowered:
        """Machine code and plan."""


def zeros(arrays: Types, buffers: Iterable[int]) -> list[Step]:
    return [Fill(b, 0, arrays[b].dtype.itemsize, Value("count", buffer=b), 0) for b in buffers]


def plan(
    label: str,
    source: str,
    operands: Types,
    call: Call,
    names: Sequence[str],
    steps: Iterable[Step],
    *,
    copied: Sequence[int] = (),
    temporaries: Types = (),
    is_tested: bool = False,
    target: targets.Target,
) -> Lowered:
    """Make a program of steps and register it; `names` are of operands and outputs.

    `copied` inputs and `temporaries` are buffers after the outputs. A program that `is_tested`
    (enzyme/adjoint.py) calls Python first in this process, by its key.
    """
    named = [*zip((*operands, *call.outs), names, strict=False)]
    named += [named[i] for i in copied]
    named += [(t, f"temporary {i}") for i, t in enumerate(temporaries)]

    program = Program(
        name=label,
        source=source,
        n_inputs=len(operands),
        n_outputs=len(call.outs),
        buffers=tuple((t.dtype.name, len(t.shape), name) for t, name in named),
        steps=tuple(steps),
    )
    in_order = False  # of the stream, so that the program enters no graph
    for step in program.steps:
        if isinstance(step, Launch):
            launch.check_registers(label, step)
            in_order |= step.pdl
    digest = program.digest()
    key = key_of(digest)
    callbacks = any(isinstance(step, Callback) for step in program.steps)
    why_not_portable = [f.why_not_portable for f in program.functions]
    why_not_portable += ["it runs as Python, which a program cannot contain"] * callbacks
    written = program.write(digest)
    if _core.kernel_name(digest) is None:
        here = written
        if is_tested:
            here = replace(program, steps=(Callback(key), *program.steps)).write(digest)
        _core.register_program(digest, here, callbacks or is_tested)
    native = NativeCall(
        target=target.handler(in_graph=not (callbacks or in_order or debug.waits())),
        digest=digest,
        key=key,
        origin="",
        copied=tuple(copied),
        why_not_portable=next(filter(None, why_not_portable), ""),
        temporaries=tuple(temporaries),
        program=b"" if callbacks else written,
        for_extents=True,
    )
    return native, program
