"""The front end of `cuda_kernel`: from a kernel's parameters and a call to a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kernbridge import _core
from kernbridge._src.base.errors import KernelError
from kernbridge._src.base.jax_inside import Tracer
from kernbridge._src.base.kept import Kept
from kernbridge._src.cuda_kernel import nvrtc, signature
from kernbridge._src.gpu.frontend import Lowered, PlannedFrontend, plan, zeros
from kernbridge._src.gpu.launch import LaunchRule, find_dim
from kernbridge._src.gpu.program import Value, Word
from kernbridge._src.operation.spec import ArrayType, Call, call_with_shapes
from kernbridge._src.scan import attributes as scan_attributes
from kernbridge._src.scan.attributes import Attribute
from kernbridge._src.scan.signature import ScannedFunction, ScannedParameter, join_tokens
from kernbridge._src.toolchain.cuda import has_fake_driver

CALLS_KEPT = 256  # lowered calls remembered for one operation


@dataclass(frozen=True)
class Description:
    """A kernel's source, parameters and launch."""

    label: str
    name: str
    file: str
    parameters: tuple[ScannedParameter, ...]
    rule: LaunchRule
    zero_outputs: bool
    compile: Callable[[], nvrtc.NvrtcFunction]

    @staticmethod
    def of(
        label: str,
        source: tuple[str, str],
        name: str,
        params: str | Sequence[str] | None,
        rule: LaunchRule,
        zero_outputs: bool,
        compile: Callable[[], nvrtc.NvrtcFunction],
    ) -> Description:
        """Read the kernel's parameters off its source, a pair of file name and text."""
        file, text = source
        try:
            scanned = _core.scan_kernel(text, file, name, join_tokens(params))
        except ValueError as e:
            raise KernelError(f"{label}: {e}") from None
        function = ScannedFunction.of(scanned)
        return Description(
            label, function.name, file, function.parameters, rule, zero_outputs, compile
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the parameters that are outputs."""
        return tuple(p.name for p in self.parameters if p.role == "ret")

    @property
    def attributes(self) -> tuple[ScannedParameter, ...]:
        """Parameters that come by value."""
        return tuple(p for p in self.parameters if p.role == "attr")

    def attributes_of_rules(self, defaults: Mapping[str, Any]) -> list[str]:
        """Names of the attributes that derivative rules get: those which are no functions."""
        return [p.name for p in self.attributes if not callable(defaults.get(p.name))]

    def check_attributes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All attributes, each a number or a function of shapes; see `scan/attributes.py`."""
        known = tuple(Attribute(p.name, p.type) for p in self.attributes)
        numbers = {n: v for n, v in values.items() if not callable(v)}
        for attribute in scan_attributes.check_names(self.label, known, values):
            if attribute.name in numbers and attribute.type:
                scan_attributes.encode(self.label, attribute, numbers[attribute.name])
        return dict(values)


class CudaKernelFrontend(PlannedFrontend):
    """A kernel with the values of its attributes."""

    platforms: tuple[str, ...] = ("cuda", "cpu") if has_fake_driver() else ("cuda",)

    def __init__(self, description: Description, values: dict[str, Any]) -> None:
        self.label = description.label
        self.name = description.name
        self.description = description
        self.values = values
        self._lowered: Kept[Lowered] = Kept(CALLS_KEPT)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the kernel's outputs."""
        return self.description.output_names

    def check(self, operands: Sequence[ArrayType], call: Call) -> None:
        """Refuse what does not fit the kernel's parameters; compiles nothing."""
        parameters = self.description.parameters
        self._arrays(parameters, operands, call.outs)
        self.description.rule.resolve(operands, call)
        self._numbers(self.description.attributes, operands, call.outs)

    def _arrays(
        self,
        parameters: Sequence[ScannedParameter],
        inputs: Sequence[ArrayType],
        outs: Sequence[ArrayType],
    ) -> None:
        for what, role, arrays in (("input", "arg", inputs), ("output", "ret", outs)):
            pointers = [p for p in parameters if p.role == role]
            if len(pointers) != len(arrays):
                listed = ", ".join(f"{p.ctype} {p.name}".strip() for p in parameters)
                raise TypeError(
                    f"{self.label} takes {len(pointers)} {what}{'s'[: len(pointers) != 1]}, and "
                    f"the call has {len(arrays)}; its parameters are ({listed}): pointers to const "
                    "are inputs, unless params= says otherwise"
                )
            for i, (pointer, array) in enumerate(zip(pointers, arrays, strict=True)):
                if pointer.type and pointer.type != array.dtype.name:
                    raise TypeError(
                        f"{self.label}: {what} {i} is {array}, and the kernel's parameter "
                        f"{pointer.name!r} is {pointer.ctype}, expected {pointer.type}; convert "
                        "the array, or make the kernel a template"
                    )

    def _numbers(
        self,
        attributes: Sequence[ScannedParameter],
        inputs: Sequence[ArrayType],
        outs: Sequence[ArrayType],
    ) -> dict[str, Any]:
        """Values of the attributes: numbers, or where a symbolic one is read at run time."""
        numbers = {}
        for p in attributes:
            value = self.values[p.name]
            if callable(value):
                value = call_with_shapes(self.label, f"attrs[{p.name!r}]", value, inputs, {})
            if jax.export.is_symbolic_dim(value):
                value = self._symbolic(p, value, (*inputs, *outs))
            elif p.type and not isinstance(value, bytes):
                scan_attributes.encode(self.label, Attribute(p.name, p.type), value)
            numbers[p.name] = value
        return numbers

    def _symbolic(self, p: ScannedParameter, value: Any, arrays: Sequence[ArrayType]) -> Value:
        found = find_dim(value, arrays)
        if found is None or found.divisor != 1 or p.type not in ("", "int32", "int64", "uint64"):
            raise ValueError(
                f"{self.label}: attribute {p.name!r} ({p.ctype}) is the symbolic number {value}, "
                "and must be an extent or the size of an input or output, for an int or int64_t"
            )
        return found

    def _lower(self, operands: tuple[ArrayType, ...], call: Call, host: bool = False) -> Lowered:
        description = self.description
        function, rule = description.compile(), description.rule
        # Functions of shapes are called at every lowering: what they read may have changed.
        shape = rule.resolve(operands, call)
        words = self._words(function, operands, call.outs)

        def make() -> Lowered:
            arrays = (*operands, *call.outs)
            fills = zeros(arrays, call.fresh if description.zero_outputs else ())
            names = [p.name for role in ("arg", "ret") for p in self._of(role)]
            steps = (*fills, rule.step(shape, function, words, call.fresh))
            file = description.file
            return plan(self.label, file, operands, call, names, steps, in_order=rule.pdl)

        return self._lowered.find_or_make((operands, call, function, shape, words), make)

    def _of(self, role: str) -> list[ScannedParameter]:
        return [p for p in self.description.parameters if p.role == role]

    def _words(
        self, function: nvrtc.NvrtcFunction, inputs: Sequence[ArrayType], outs: Sequence[ArrayType]
    ) -> tuple[Word, ...]:
        parameters = signature.check(
            self.label, self.name, self.description.parameters, function.types
        )
        self._arrays(parameters, inputs, outs)
        attributes = [p for p in parameters if p.role == "attr"]
        numbers = self._numbers(attributes, inputs, outs)
        next_buffer = {"arg": 0, "ret": len(inputs)}
        words: list[Word] = []
        for p, size in zip(parameters, function.sizes, strict=True):
            if p.role == "attr":
                words += self._number(p, size, numbers[p.name])
                continue
            if size != 8:
                raise KernelError(
                    f"{self.label}: parameter {p.name!r} takes {size} bytes and is no pointer, as "
                    f"{p.role!r} says"
                )
            words.append(Word("address", buffer=next_buffer[p.role]))
            next_buffer[p.role] += 1
        return tuple(words)

    def _number(self, p: ScannedParameter, size: int, value: Any) -> list[Word]:
        if isinstance(value, Value):
            return [Word(value.kind, buffer=value.buffer, dim=value.dim)]
        if p.type and not isinstance(value, bytes):
            data = scan_attributes.encode(self.label, Attribute(p.name, p.type), value)
        else:
            data = _bytes_of(self.label, p, size, value)
        if len(data) != size:
            raise TypeError(
                f"{self.label}: attribute {p.name!r} is {p.type or value!r} of {len(data)} bytes, "
                f"and the kernel's parameter takes {size}"
            )
        data += bytes(-len(data) % 8)
        numbers = np.frombuffer(data, np.int64)
        return [Word("constant", value=int(n)) for n in numbers]


def _bytes_of(label: str, p: ScannedParameter, size: int, value: Any) -> bytes:
    """Return the bytes of a value for a parameter whose type only the compiler knows."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        value = np.asarray(value)[()]
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tobytes()
    raise TypeError(
        f"{label}: attribute {p.name!r} is {value!r}, and the type of the kernel's parameter "
        f"({p.ctype or 'unknown'}, {size} bytes) is not known here; pass a NumPy scalar of that "
        f"type, such as numpy.float32(...), or write attr.{p.name}:float32 in params="
    )
