"""The compile options of kernels, and the interpretation of `vector_math`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How kernels are compiled, whichever they are, and for whatever."""

    checked: bool = False  # on the CPU: for the checked mode
    vector_math: bool | None = None  # on the CPU; None: as the kernel's `fastmath` says


DEFAULT = CompileOptions()


def read_vector_math(label: str, given: Any, is_checked: bool) -> bool | None:
    """Check the option."""
    if given is None:
        return None
    if given and is_checked:
        raise ValueError(
            f"{label}: vector_math=True and check=True cannot be combined: the checked mode runs "
            "the threads of a block one by one; remove one of the two [KB1005]"
        )
    return bool(given)


def unless_default(kernel: Any, vector_math: bool | None) -> bool | None:
    """Return the option, or None where it says what holds for this kernel anyway."""
    return None if vector_math == is_fast(kernel) else vector_math


def is_fast(kernel: Any) -> bool:
    """Whether a kernel's `fastmath` lets functions be approximated."""
    return bool(kernel.targetoptions.get("fastmath"))
