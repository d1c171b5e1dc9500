"""The description of one compilation of a Numba-CUDA kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kernbridge._src.numba_cuda.options import is_fast
from kernbridge._src.plan.parameters import Parameter, with_open

HOST = ((100, 0),)  # the architecture that stands for the CPU
CHECKED = ((100, 1),)  # and for its checked mode

Architectures = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel, and what machine code is made of it for."""

    label: str
    kernel: Any
    parameters: tuple[Parameter, ...]
    batched: bool
    architectures: Architectures
    identity: bytes = b""
    vector_math: bool | None = None  # on the CPU; None: as the kernel's `fastmath` says

    @property
    def for_host(self) -> bool:
        return self.architectures in (HOST, CHECKED)

    @property
    def has_vector_math(self) -> bool:
        """Whether the kernel's loops on the CPU may call libmvec."""
        return is_fast(self.kernel) if self.vector_math is None else self.vector_math

    @property
    def symbol(self) -> str:
        """A name for the entry that no other kernel has: Numba numbers its own in each process."""
        return f"{self.kernel.py_func.__name__}_{self.identity[:6].hex()}"

    def with_open(self, opened: Iterable[int]) -> Job:
        """This job, where the kernel may write to the leaves of its parameters of these numbers."""
        return replace(self, parameters=with_open(self.parameters, set(opened)))
