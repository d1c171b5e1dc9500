"""Machine code of a Numba-CUDA kernel, as launches use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernbridge._src.numba_cuda.entry import DeviceParameter


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NumbaCudaFunction:
    """Machine code of one kernel for one list of parameters. Compared by object: one per identity.

    `opened` are the parameters that the kernel may write to though they were to be read-only.
    """

    identity: bytes  # of its meaning
    name: str
    entry: str
    n_words: int
    images: tuple[tuple[int, bytes], ...]  # (10 major + minor, cubin)
    opened: tuple[int, ...]
    uses_z: bool
    cooperative: bool
    why_not_portable: str
    parameters: tuple[DeviceParameter, ...]
    batched: bool
    kernel: Any  # a weak reference: the dispatcher
    show: Callable[[NumbaCudaFunction], tuple[str, str]]  # compiles again for LLVM IR and PTX
    sizes: tuple[int, ...] = ()  # of the parameters; none where each is a word
    auto_shared: int = 0  # dynamic shared memory to reckon with when a block size is chosen

    def code(self) -> tuple[str, str]:
        """LLVM IR and PTX. Neither is kept, so the kernel is compiled again."""
        return self.show(self)
