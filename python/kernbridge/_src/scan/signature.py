"""What the scanner finds of an annotated function: its parameters and their roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kernbridge._src.scan.attributes import Attribute


class ScannedParameter(NamedTuple):
    """One parameter of a function, as the scanner describes it."""

    role: str  # "arg", "ret", "attr", "stream"
    name: str
    type: str  # of an attribute: "float32"; "" until the compiler has said it
    ctype: str  # as spelled in the source; "" if the scanner did not find the function


class ScannedFunction(NamedTuple):
    """One annotated function, as the scanner describes it."""

    name: str
    qualified: str
    line: int
    whole_call: bool
    parameters: tuple[ScannedParameter, ...]
    place: str = ""  # "file:line" of the function or of its annotation, for messages

    @staticmethod
    def of(scanned: Any) -> ScannedFunction:
        """From what `_core.scan_source` and `_core.scan_kernel` return."""
        *head, parameters = scanned
        return ScannedFunction._make((*head, tuple(ScannedParameter(*p) for p in parameters), ""))

    @property
    def takes_any(self) -> bool:
        """Whether the function takes the whole call, with any number of tensors."""
        return self.whole_call and not self.parameters

    def count(self, role: str) -> int:
        """Parameters of a role."""
        return sum(p.role == role for p in self.parameters)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its parameters for outputs, as far as it has any and they are named."""
        return tuple(p.name for p in self.parameters if p.role == "ret")

    def names_of(self, n_inputs: int, n_outputs: int) -> list[str]:
        """What messages call the inputs and outputs of a call."""
        if self.takes_any:
            return ["arg"] * n_inputs + ["ret"] * n_outputs
        inputs = [p.name or "arg" for p in self.parameters if p.role == "arg"]
        return [*inputs, *(name or "ret" for name in self.output_names)]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Its attributes, in its order."""
        return tuple(Attribute(p.name, p.type) for p in self.parameters if p.role == "attr")

    @property
    def tokens(self) -> str:
        """The annotation with every type that is known."""
        return " ".join(map(token_of, self.parameters))


def join_tokens(tokens: str | Sequence[str] | None) -> str | None:
    """Tokens that a caller passes, as one text for the scanner."""
    return tokens if tokens is None or isinstance(tokens, str) else " ".join(map(str, tokens))


def token_of(p: ScannedParameter) -> str:
    """The token of an annotation that describes a parameter."""
    if p.role != "attr":
        return p.role
    return f"attr.{p.name}:{p.type}" if p.type else f"attr.{p.name}"
