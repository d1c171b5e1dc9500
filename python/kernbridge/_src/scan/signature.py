"""The parameters of an annotated function and their roles, as the scanner reports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kernbridge._src.scan.array_types import ANY, DeclaredType, Extents

WRITTEN_OUT = "if a macro generates the name or the parameters of a function, write them out"


class ScannedParameter(NamedTuple):
    """One parameter of a function, as the scanner describes it."""

    role: str  # "arg", "ret", "attr", "stream"
    name: str
    type: str  # of an attribute: "float32"; "" until the compiler has reported it
    ctype: str  # as spelled in the source; "" if the scanner did not find the function
    array: DeclaredType | None = None  # of an array, if its type is declared


class ScannedFunction(NamedTuple):
    """One annotated function, as the scanner describes it."""

    name: str
    qualified: str
    line: int
    whole_call: bool
    parameters: tuple[ScannedParameter, ...]
    place: str = ""  # "file:line" of the function or of its annotation, for messages

    @staticmethod
    def of(parts: Any) -> ScannedFunction:
        """Return a function of its parts, as JSON has them."""
        name, qualified, line, whole_call, parameters, place = parts
        read = [
            ScannedParameter(
                role, n, type, ctype, DeclaredType(array[0], tuple(array[1])) if array else None
            )
            for role, n, type, ctype, array in parameters
        ]
        return ScannedFunction(name, qualified, line, whole_call, tuple(read), place)

    def check_arrays(self, label: str, inputs: Sequence[Any], call: Any) -> None:
        """Raise TypeError unless the arrays of a call are of the types that are declared.

        Those of each part must be too, where a sharding rule splits the call.
        """
        arrays, terms = (*inputs, *call.outs), call.terms
        shapes = [array.shape for array in arrays]
        self._check_shapes(f"{label}: ", len(inputs), arrays, shapes)
        if terms.declared:
            parts = [
                tuple(name if terms.can_split(name) else d for name, d in zip(*both, strict=True))
                for both in zip((*terms.ins, *terms.outs), shapes, strict=True)
            ]
            about = f"{label}: in each part that the sharding rule makes, "
            self._check_shapes(about, len(inputs), arrays, parts)

    def _check_shapes(self, about: str, n_inputs: int, arrays: Any, shapes: Any) -> None:
        extents = Extents(about)
        for i, (p, array, shape) in enumerate(
            zip((*self.having("arg"), *self.having("ret")), arrays, shapes, strict=True)
        ):
            if p.array is not None:
                what = f"input {i}" if i < n_inputs else f"output {i - n_inputs}"
                named = f"{what} {p.name!r}" if p.name else what
                extents.take(named, p.array, shape, array.dtype_name)

    @property
    def takes_any(self) -> bool:
        """Whether the function takes the whole call, with any number of arrays."""
        return self.whole_call and not self.parameters

    def having(self, role: str) -> tuple[ScannedParameter, ...]:
        """Return the parameters of a role."""
        return tuple(p for p in self.parameters if p.role == role)

    @property
    def declared(self) -> tuple[DeclaredType | None, ...]:
        """The declared types of its inputs and outputs."""
        return tuple(p.array for p in (*self.having("arg"), *self.having("ret")))

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its parameters for outputs, as far as it has any and they are named."""
        return tuple(p.name for p in self.having("ret"))

    def names_of(self, n_inputs: int, n_outputs: int) -> list[str]:
        """Return what messages call the inputs and outputs of a call."""
        if self.takes_any:
            return ["arg"] * n_inputs + ["ret"] * n_outputs
        return [p.name or p.role for p in (*self.having("arg"), *self.having("ret"))]

    @property
    def attributes(self) -> tuple[ScannedParameter, ...]:
        """Its attributes, in its order."""
        return self.having("attr")

    @property
    def tokens(self) -> str:
        """The annotation with every type that is known."""
        return ANY if self.takes_any else " ".join(map(token_of, self.parameters))


class NamedByScanner:
    """A front end whose outputs have the names of the parameters that the scanner found."""

    function: ScannedFunction

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the function's outputs."""
        return self.function.output_names

    def output_names(
        self, n_inputs: int, scalars: Sequence[str], n_outputs: int
    ) -> tuple[str, ...]:
        """Return the names of the parameters that the outputs of a call fill."""
        return self.function.output_names


def join_tokens(tokens: str | Sequence[str] | None) -> str | None:
    """Return tokens that a caller passes as one text for the scanner."""
    return tokens if tokens is None or isinstance(tokens, str) else " ".join(map(str, tokens))


def token_of(p: ScannedParameter) -> str:
    """Return the token of an annotation that describes a parameter."""
    if p.role != "attr":
        return f"{p.role}:{p.array}" if p.array else p.role
    return f"attr.{p.name}:{p.type}" if p.type else f"attr.{p.name}"
