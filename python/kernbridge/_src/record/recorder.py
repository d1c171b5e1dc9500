"""The recorder, as stand-ins for arrays and the comparison of recordings see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kernbridge._src.gpu.program import Step
    from kernbridge._src.operation.spec import ArrayType


class Recorder(Protocol):
    """Steps and temporaries, as they come."""

    steps: list[Step]
    temporaries: list[ArrayType]
    places: list[str]  # of each step: the line of the user
    details: list[dict[str, str]]  # of each step: its arguments

    def copy(self, target: Any, source: Any) -> None:
        """Add a copy from array to array."""
        ...

    def fill(self, target: Any, value: Any) -> None:
        """Add a fill of an array with a scalar."""
        ...

    def transposed(self, array: Any) -> Any:
        """An array with its axes reversed."""
        ...
