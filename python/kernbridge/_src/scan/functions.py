"""Functions of sources as the scanner finds them: roles, names and types of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.batch_axes import Arrays
from kernbridge._src.calls.call import ArrayType
from kernbridge._src.signatures.array_types import ANY, DeclaredType, Extents

Sources = Sequence[tuple[str, str]]
"""Names of files, and their texts."""
Named = tuple[tuple[str, str | None], ...] | None
"""Names of functions, each with its tokens as one text; None for the functions in annotations."""
WRITTEN_OUT = "if a macro generates the name or the parameters of a function, write them out"


class ScannedParameter(Struct):
    role: str  # "arg", "ret", "attr", "stream"
    name: str = ""
    type: str = ""  # of an attribute: "float32"; "" until the compiler has reported it
    ctype: str = ""  # as spelled in the source; "" if the scanner did not find the function
    array: DeclaredType | None = None  # of an array, if its type is declared

    @property
    def token(self) -> str:
        if self.role != "attr":
            return f"{self.role}:{self.array}" if self.array else self.role
        return f"attr.{self.name}:{self.type}" if self.type else f"attr.{self.name}"


class ScannedFunction(Struct):
    name: str
    qualified: str
    whole_call: bool
    parameters: tuple[ScannedParameter, ...]
    place: str  # of the function or of its annotation in a source, "file:line" in messages
    signature: str = ""  # its arrays and numbers, if the annotation is a signature
    passed: tuple[Any, ...] = ()  # what each parameter of C receives: see scan/plain.py

    @staticmethod
    def of(parts: Any) -> ScannedFunction:
        """Return a function of its parts, as JSON has them."""
        name, qualified, whole_call, parameters, *others = parts
        read = [
            ScannedParameter(*known)._replace(
                array=array and DeclaredType(array[0], tuple(array[1]))
            )
            for *known, array in parameters
        ]
        return ScannedFunction(name, qualified, whole_call, tuple(read), *others)

    def check_arrays(self, label: str, inputs: Arrays, call: Any) -> None:
        """Raise TypeError unless the arrays of a call are of the types that are declared.

        Those of each part must be too, where a sharding rule splits the call.
        """
        arrays, terms, n = (*inputs, *call.outs), call.terms, len(inputs)
        declared = [(p.name, p.array) for p in self.arrays]
        Extents(f"{label}: ", n, declared, arrays)
        if not terms.suggested:  # there is a rule
            parts = []
            for array, term in zip(arrays, (*terms.ins, *terms.outs), strict=True):
                shape = (
                    name if terms.can_split(name.partition("+")[0]) else d  # or rows+1
                    for name, d in zip(term, array.shape, strict=True)
                )
                parts.append(ArrayType(tuple(shape), array.dtype))
            about = f"{label}: in each part that the sharding rule makes, "
            Extents(about, n, declared, parts)

    @property
    def takes_any(self) -> bool:
        """Whether the function takes the whole call, with any number of arrays."""
        return self.whole_call and not self.parameters

    def having(self, role: str) -> tuple[ScannedParameter, ...]:
        return tuple(p for p in self.parameters if p.role == role)

    @property
    def arrays(self) -> tuple[ScannedParameter, ...]:
        return (*self.having("arg"), *self.having("ret"))

    @property
    def declared(self) -> tuple[DeclaredType | None, ...]:
        return tuple(p.array for p in self.arrays)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.arrays)

    def buffer_names(self, n_operands: int) -> tuple[str, ...]:
        """The names of the operands of a call, empty where there is none, and of its outputs."""
        inputs = [p.name for p in self.having("arg")][:n_operands]
        outputs = [p.name for p in self.having("ret")]
        return (*inputs, *[""] * (n_operands - len(inputs)), *outputs)

    def names_of(self, n_inputs: int, n_outputs: int) -> list[str]:
        """Return what messages call the inputs and outputs of a call."""
        if self.takes_any:
            return ["arg"] * n_inputs + ["ret"] * n_outputs
        return [p.name or p.role for p in self.arrays]

    @property
    def attributes(self) -> tuple[ScannedParameter, ...]:
        return self.having("attr")

    @property
    def tokens(self) -> str:
        declared = self.signature or " ".join(p.token for p in self.parameters)
        return ANY if self.takes_any else declared


def join_tokens(tokens: str | Sequence[str] | None) -> str | None:
    """Return tokens that a caller passes as one text for the scanner."""
    return tokens if tokens is None or isinstance(tokens, str) else " ".join(map(str, tokens))
