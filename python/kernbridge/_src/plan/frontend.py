"""What the front ends of GPU kernels share: plans, their registration, and their inspection."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterable, Sequence

import jax

from kernbridge import _core
from kernbridge._ext.emulator.cuda_source import CPP_ON_CPU
from kernbridge._src.base import debug
from kernbridge._src.calls.call import ArrayType, Call
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.primitive import Frontend, NativeCall
from kernbridge._src.plan import cubin, launch, targets
from kernbridge._src.plan.program import Buffer, Callback, Fill, Launch, Program, Step, Value
from kernbridge._src.plan.targets import Target
from kernbridge._src.toolchain import architectures, cuda, programs

Lowered = tuple[NativeCall, Program]


class PlannedFrontend(Frontend):
    checked = False
    vector_math: bool | None = None

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        """Compile for these operands, or find it compiled, and plan the launches."""
        target = self._target(platform)
        if target.emulates:
            cuda.tell_of_cpu(self.label)
        return self._lower(tuple(operands), call, target)[0]

    def program(self, operands: Sequence[ArrayType], call: Call) -> Program:
        return self._lower(tuple(operands), call, self._target("cuda"))[1]

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        """Return code and resources of every launch, on the CPU if JAX would run it there.

        A choice of GPUs to compile for takes precedence.
        """
        _, program = self._lower(tuple(operands), call, self._target_here())
        return tuple(_inspect(step) for step in program.steps if isinstance(step, Launch))

    def _target_here(self) -> Target:
        on_cpu = "cpu" in self.platforms and jax.default_backend() == "cpu"
        return self._target("cpu" if on_cpu and not architectures.chosen() else "cuda")

    def _target(self, platform: str) -> Target:
        return targets.of_platform(platform, self.checked, self.vector_math)

    @abstractmethod
    def _lower(self, operands: tuple[ArrayType, ...], call: Call, target: Target) -> Lowered:
        """Machine code and plan."""


def zeros(arrays: Sequence[ArrayType], buffers: Iterable[int]) -> list[Step]:
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
    """Make a program of steps and register it; `names` are of operands and outputs.

    `copied` inputs and `temporaries` are buffers after the outputs. A program whose steps must run
    `in_order` of the stream enters no graph.
    """
    from kernbridge._src.keys.fingerprint import key_of

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
            launch.check_registers(label, step)
    digest = program.digest()
    callbacks = any(isinstance(step, Callback) for step in program.steps)
    written = program.write(digest)
    if _core.kernel_name(digest) is None:
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


def _inspect(step: Launch) -> Inspection:
    function = step.function
    block = None if step.auto_block else step.block
    cc, image = function.images[0]
    if cc == _core.HOST_CC:
        llvm_ir, assembly, static_shared, processor = "", "", 0, os.uname().machine
        if CPP_ON_CPU.encode() not in image:
            from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile

            llvm_ir, assembly, static_shared, processor = cuda_on_cpu_compile.code(image)
        return Inspection(
            name=function.name,
            platform="cpu",
            llvm_ir=llvm_ir,
            assembly=assembly,
            architecture=processor,
            shared_memory=static_shared + step.shared,
            block=block,
        )
    info = cubin.read(image, function.entry)
    llvm_ir, ptx = function.code()
    occupancy = None
    if _core.device_count()[0]:
        threads = 0 if block is None else math.prod(block)
        with contextlib.suppress(RuntimeError):  # compiled for another GPU than the first
            occupancy = _core.occupancy(image, function.entry, threads, step.shared)
    return Inspection(
        name=function.name,
        platform="cuda",
        llvm_ir=llvm_ir,
        assembly=ptx,
        sass=_disassemble(image),
        architecture=f"sm_{cc}",
        registers=info.registers,
        shared_memory=info.static_shared + step.shared,
        local_memory=info.local,
        block=block,
        occupancy=occupancy,
    )


def _disassemble(image: bytes) -> str | None:
    """Run nvdisasm of PATH, CUDA_HOME or NVIDIA's wheel, if there is one."""
    folders = [os.environ.get("PATH", os.defpath)]
    folders.append(f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin")
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders += [f"{place}/cu13/bin", f"{place}/cuda_nvdisasm/bin"]
    tool = shutil.which("nvdisasm", path=os.pathsep.join(folders))
    if tool is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = programs.run([tool, "-c", file.name], written=1 << 28)
    return None if done.status else re.sub(r"\s*/\* 0x[0-9a-f]+ \*/", "", done.text)
