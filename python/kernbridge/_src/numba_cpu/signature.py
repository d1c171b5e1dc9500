"""What machine code of a Numba kernel is made for."""

from __future__ import annotations

from dataclasses import dataclass

from kernbridge._src.calls.call import Call, Types

ArraySignature = tuple[str, int]  # dtype name, rank


@dataclass(frozen=True, slots=True)
class Signature:
    """What machine code is made for: everything about a call but its shapes."""

    inputs: tuple[ArraySignature, ...]
    scalars: tuple[tuple[str, str], ...]  # (name, dtype name), sorted
    outputs: tuple[ArraySignature, ...]
    aliased: tuple[int, ...]  # inputs that share memory with an output, hence are writable

    @staticmethod
    def of(operands: Types, call: Call) -> Signature:
        kinds = tuple((t.dtype.name, len(t.shape)) for t in (*operands, *call.outs))
        first = call.n_inputs + len(call.scalars)
        scalars = zip(call.scalars, kinds[call.n_inputs : first], strict=True)
        return Signature(
            inputs=kinds[: call.n_inputs],
            scalars=tuple((name, dtype) for name, (dtype, _) in scalars),
            outputs=kinds[first:],
            aliased=tuple(i for i, _ in call.aliases),
        )


@dataclass(frozen=True, slots=True)
class CompileOptions:
    checked: bool = False  # every index is checked
    zero_outputs: bool = False  # outputs that are not aliased are filled before the kernel runs
    vector_math: bool | None = None  # None: if the kernel's `fastmath` allows it
