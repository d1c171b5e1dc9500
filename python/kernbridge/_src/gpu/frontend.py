"""What the front ends of GPU kernels share: checks, buffers and words, and registration."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from kernbridge import _core
from kernbridge._src.base.errors import KernbridgeWarning
from kernbridge._src.gpu import program as gpu_program
from kernbridge._src.gpu.inspection import inspect_launches
from kernbridge._src.gpu.program import Buffer, Fill, Launch, Program, Value
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.operation.primitive import NativeCall
from kernbridge._src.operation.spec import ArrayType, Call
from kernbridge._src.toolchain import cuda
from kernbridge._src.toolchain.cuda import has_fake_driver

DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    + [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
)


class PlannedFrontend:
    """What front ends share whose calls are plans that C runs."""

    def lower(self, platform: str, operands: Sequence[ArrayType], call: Call) -> NativeCall:
        """Compile for these operands, or find it compiled, and plan the launches."""
        host = platform == "cpu" and not has_fake_driver()
        if host:
            cuda.tell_of_cpu(getattr(self, "label", "a CUDA kernel"))
        return self._lower(tuple(operands), call, host)[0]

    def program(self, operands: Sequence[ArrayType], call: Call) -> Program:
        """The plan of a call."""
        return self._lower(tuple(operands), call)[1]

    def inspect(self, operands: Sequence[ArrayType], call: Call) -> tuple[Inspection, ...]:
        """Code and resources of every launch."""
        return inspect_launches(self.program(operands, call).steps)

    def _lower(
        self, operands: tuple[ArrayType, ...], call: Call, host: bool = False
    ) -> tuple[NativeCall, Program]:
        """Machine code and plan, for a GPU or for the CPU."""
        raise NotImplementedError


def check_dtype(label: str, place: str, dtype: str) -> None:
    """Refuse element types that no kernel can take."""
    if dtype in DTYPES:
        return
    raise ValueError(
        f"{label}: {place} is {dtype}, which Numba-CUDA has no type for; convert it before the "
        f"call, or pass its bits as an integer array. Supported: {', '.join(sorted(DTYPES))}"
    )


def name_buffers(arrays: Sequence[ArrayType], names: Sequence[str]) -> list[Buffer]:
    """Buffers of a program."""
    return [Buffer(t.dtype.name, len(t.shape), n) for t, n in zip(arrays, names, strict=False)]


def plan(
    label: str,
    source: str,
    operands: Sequence[ArrayType],
    call: Call,
    names: Sequence[str],
    launches: Sequence[Launch],
    zero_outputs: bool,
    copied: Sequence[int] = (),
) -> Program:
    """Return the program of a kernel's launches, before which outputs may be filled with zeros."""
    arrays = (*operands, *call.outs)
    aliased = {len(operands) + o for _, o in call.aliases}
    outputs = tuple(b for b in range(len(operands), len(arrays)) if b not in aliased)
    fills = [
        Fill(b, 0, arrays[b].dtype.itemsize, Value("count", buffer=b), 0)
        for b in outputs
        if zero_outputs
    ]
    hidden = name_buffers([arrays[b] for b in copied], [names[b] for b in copied])
    return Program(
        name=label,
        source=source,
        n_inputs=len(operands),
        n_outputs=len(call.outs),
        buffers=(*name_buffers(arrays, names), *hidden),
        steps=(*fills, *(replace(launch, zeroed=outputs) for launch in launches)),
    )


def warn_of_copies(label: str, copied: Sequence[tuple[int, str]]) -> None:
    """Say which inputs are copied at every call."""
    names = ", ".join(f"input {i} ({name})" for i, name in copied)
    warnings.warn(
        f"{label}: the kernel may write to {names}, which JAX does not allow; it gets a copy each "
        "time. To save the copy, write to an output instead, or alias the input to an output with "
        "input_output_aliases.",
        KernbridgeWarning,
        stacklevel=2,
    )


def native_call(
    program: Program,
    copied: Sequence[int],
    why_not_portable: str,
    in_order: bool = False,
    temporaries: Sequence[ArrayType] = (),
    host: bool = False,
) -> NativeCall:
    """Register a program; what the lowering needs of it."""
    from kernbridge._src.base import debug
    from kernbridge._src.keys.fingerprint import key_of

    digest = program.digest()
    callbacks = any(isinstance(step, gpu_program.Callback) for step in program.steps)
    if not _core.is_registered(digest):
        _core.register_program(digest, program.write(), callbacks)
    graph = not (callbacks or in_order or debug.waits())
    on_gpu = "kernbridge.cuda.graph" if graph else "kernbridge.cuda"
    return NativeCall(
        target="kernbridge.cuda.host" if host else on_gpu,
        digest=digest,
        key=key_of(digest),
        origin="",
        copied=tuple(copied),
        why_not_portable=why_not_portable,
        temporaries=tuple(temporaries),
        program=b"" if callbacks else program.write(),
    )
