"""The front end of `cuda_kernel`: converts a kernel's parameters and a call to a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.errors import KernelError, coded
from kernbridge._src.base.lru import LRUCache
from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.cuda_kernel import nvrtc, signature
from kernbridge._src.operation.parallel_compile import Work
from kernbridge._src.operation.spec import ArrayType, Call, Functions, call_with_shapes
from kernbridge._src.plan.frontend import Lowered, PlannedFrontend, plan, zeros
from kernbridge._src.plan.launch import LaunchRule, find_dim
from kernbridge._src.plan.program import Value, Word
from kernbridge._src.plan.targets import Target, gpu_platforms
from kernbridge._src.scan import attributes as scan_attributes
from kernbridge._src.scan import scanner
from kernbridge._src.scan.signature import (
    NamedByScanner,
    ScannedFunction,
    ScannedParameter,
    join_tokens,
)

CALLS_KEPT = 256  # lowered calls remembered for one operation


@dataclass(frozen=True)
class Description:
    """A kernel: its source, parameters and launch, and what compiles it."""

    label: str
    file: str
    function: ScannedFunction
    rule: LaunchRule
    zero_outputs: bool
    compile: Callable[[], nvrtc.NvrtcFunction]
    request: nvrtc.Compilation | None = None  # what `compile` has NVRTC compile


def scan(
    label: str,
    file: str,
    text: str,
    name: str,
    params: str | Sequence[str] | None,
    machine_code: bool = False,
) -> ScannedFunction:
    """Read a kernel's parameters off its source, or off `params` where that describes them.

    Those of machine code have no types, so `params` must declare its arrays.
    """
    tokens = join_tokens(params)
    try:
        return scanner.scan_kernel(text, file, name, tokens, machine_code)
    except ValueError as e:
        raise KernelError(coded(f"{label}: {e}", "KB4007")) from None


def names_for_rules(function: ScannedFunction, defaults: Mapping[str, Any]) -> list[str]:
    """Return the names of the attributes that derivative rules get: those that are no functions."""
    return [p.name for p in function.attributes if not callable(defaults.get(p.name))]


class CudaKernelFrontend(NamedByScanner, PlannedFrontend):
    """A kernel with the values of its attributes."""

    def __init__(self, description: Description, values: Mapping[str, Any]) -> None:
        self.label = description.label
        self.name = description.function.name
        self.function = description.function
        self.platforms = gpu_platforms()
        self.description = description
        self.values = values
        self._lowered: LRUCache[Lowered] = LRUCache(CALLS_KEPT)
        self._is_compiled = False

    def compilation(self) -> Work | None:
        """The kernel, by NVRTC, which needs no lock."""
        request = self.description.request
        return None if request is None or self._is_compiled else (nvrtc.compile_kernel, request)

    def functions(self) -> Functions:
        """The functions that determine a launch or an attribute."""
        attributes = [(name, value) for name, value in self.values.items() if callable(value)]
        return [*self.description.rule.functions, *attributes]

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Refuse what does not fit the kernel's parameters; compiles nothing."""
        self._check_arrays(self.function, operands, call.outs)
        self.function.check_arrays(self.label, operands, call)
        self.description.rule.resolve(operands, call)
        self._numbers(self.function, operands, call.outs)

    def _check_arrays(
        self, function: ScannedFunction, inputs: Sequence[ArrayType], outs: Sequence[ArrayType]
    ) -> None:
        for what, role, arrays in (("input", "arg", inputs), ("output", "ret", outs)):
            pointers = function.having(role)
            if len(pointers) != len(arrays):
                listed = ", ".join(f"{p.ctype} {p.name}".strip() for p in function.parameters)
                raise TypeError(
                    f"{self.label} takes {len(pointers)} {what}{'s'[: len(pointers) != 1]}, and "
                    f"the call has {len(arrays)}; its parameters are ({listed}): pointers to const "
                    "are inputs, unless params= says otherwise"
                    " [KB2001]"
                )
            for i, (pointer, array) in enumerate(zip(pointers, arrays, strict=True)):
                if pointer.type and pointer.type != array.dtype.name:
                    raise TypeError(
                        f"{self.label}: {what} {i} is {array}, and the kernel's parameter "
                        f"{pointer.name!r} is {pointer.ctype}, expected {pointer.type}; convert "
                        "the array, or make the kernel a template"
                        " [KB2007]"
                    )

    def _numbers(
        self, function: ScannedFunction, inputs: Sequence[ArrayType], outs: Sequence[ArrayType]
    ) -> dict[str, Any]:
        """Return each attribute: bytes, a value of unknown type, or where C reads a symbol."""
        numbers = {}
        for p in function.attributes:
            value = self.values[p.name]
            if callable(value):
                value = call_with_shapes(self.label, f"attrs[{p.name!r}]", value, inputs, {})
            if jax.export.is_symbolic_dim(value):
                value = self._symbolic(p, value, (*inputs, *outs))
            elif p.type and not isinstance(value, bytes):
                value = scan_attributes.encode(self.label, p, value)
            numbers[p.name] = value
        return numbers

    def _symbolic(self, p: ScannedParameter, value: Any, arrays: Sequence[ArrayType]) -> Value:
        found = find_dim(value, arrays)
        if found is None or found.divisor != 1 or p.type not in ("", "int32", "int64", "uint64"):
            raise ValueError(
                f"{self.label}: attribute {p.name!r} ({p.ctype}) is the symbolic number {value}, "
                "and must be an extent or the size of an input or output, for an int or int64_t"
                " [KB2006]"
            )
        return found

    def _lower(self, operands: tuple[ArrayType, ...], call: Call, target: Target) -> Lowered:
        description = self.description
        compiled, rule = description.compile(), description.rule
        self._is_compiled = True
        # Functions of shapes are called at every lowering: what they read may have changed.
        shape = rule.resolve(operands, call)
        words = self._words(compiled, operands, call.outs)

        def make() -> Lowered:
            arrays = (*operands, *call.outs)
            fills = zeros(arrays, call.fresh if description.zero_outputs else ())
            names = [p.name for role in ("arg", "ret") for p in self.function.having(role)]
            steps = (*fills, rule.step(shape, compiled, words, call.fresh))
            file = description.file
            return plan(
                self.label, file, operands, call, names, steps, in_order=rule.pdl, target=target
            )

        return self._lowered.find_or_make((operands, call, compiled, shape, words), make)

    def _words(
        self, compiled: nvrtc.NvrtcFunction, inputs: Sequence[ArrayType], outs: Sequence[ArrayType]
    ) -> tuple[Word, ...]:
        function = signature.check(self.label, self.function, compiled.types)
        self._check_arrays(function, inputs, outs)
        numbers = self._numbers(function, inputs, outs)
        next_buffer = {"arg": 0, "ret": len(inputs)}
        words: list[Word] = []
        for p, size in zip(function.parameters, compiled.sizes, strict=True):
            if p.role == "attr":
                words += self._number(p, size, numbers[p.name])
                continue
            if size != 8:
                raise KernelError(
                    f"{self.label}: parameter {p.name!r} takes {size} bytes and is not a pointer, "
                    f"as required by {p.role!r} says [KB4007]"
                )
            words.append(Word("address", buffer=next_buffer[p.role]))
            next_buffer[p.role] += 1
        return tuple(words)

    def _number(self, p: ScannedParameter, size: int, value: Any) -> list[Word]:
        if isinstance(value, Value):
            return [Word(value.kind, buffer=value.buffer, dim=value.dim)]
        data = _bytes_of(self.label, p, size, value)
        if len(data) != size:
            raise TypeError(
                f"{self.label}: attribute {p.name!r} is {p.type or value!r} of {len(data)} bytes, "
                f"and the kernel's parameter takes {size}"
                " [KB2006]"
            )
        data += bytes(-len(data) % 8)
        numbers = np.frombuffer(data, np.int64)
        return [Word("constant", value=int(n)) for n in numbers]


def _bytes_of(label: str, p: ScannedParameter, size: int, value: Any) -> bytes:
    """Return the bytes of a value for a parameter whose type the compiler did not report."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        value = np.asarray(value)[()]
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tobytes()
    raise TypeError(
        f"{label}: attribute {p.name!r} is {value!r}, and the type of the kernel's parameter "
        f"({p.ctype or 'unknown'}, {size} bytes) is not known; pass a NumPy scalar of that type, "
        f"such as numpy.float32(...), or write attr.{p.name}:float32 in params= [KB2006]"
    )
