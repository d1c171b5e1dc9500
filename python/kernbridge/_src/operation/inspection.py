"""The return types of `Operation.inspect` and `Operation.plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Plan(Protocol):
    """The launches, fills and copies of one call. It prints as one line for each step."""

    @property
    def steps(self) -> Sequence[Any]:
        """The steps in order of execution."""


@dataclass(frozen=True)
class Inspection:
    """Code and resources of one compiled kernel.

    Attributes
    ----------
    name : str
        The name of the kernel.
    platform : str
        "cpu" or "cuda".
    llvm_ir : str
        LLVM IR: for CPUs after optimisation, for GPUs as passed to NVVM.
    assembly : str
        Assembly of CPU code, or PTX of GPU code.
    sass : str or None
        The disassembled machine code of a GPU kernel; None if `nvdisasm` is not found.
    architecture : str
        The architecture of the GPU, such as "sm_90", or of the CPU.
    registers : int or None
        The number of registers of a GPU thread.
    shared_memory : int or None
        Shared memory of a block in bytes: static memory, and dynamic memory of the launch.
    local_memory : int or None
        Local memory of a GPU thread in bytes: local arrays and spilled registers.
    block : tuple of int or None
        The number of threads of a block along each axis.
    occupancy : float or None
        The fraction of a multiprocessor's threads that the launch can keep active; None without a
        GPU.
    export : str
        Whether an exported program contains the machine code of a Numba kernel for the CPU, or its
        name only, with the reason.
    """

    __module__ = "kernbridge"

    name: str
    platform: str
    llvm_ir: str
    assembly: str
    sass: str | None = None
    architecture: str = ""
    registers: int | None = None
    shared_memory: int | None = None
    local_memory: int | None = None
    block: tuple[int, ...] | None = None
    occupancy: float | None = None
    export: str = ""

    def __str__(self) -> str:
        lines = [f"{self.name} on {self.platform} {self.architecture}".rstrip()]
        if self.registers is not None:
            lines.append(f"  {self.registers} registers and {self.local_memory} B local a thread")
        if self.shared_memory is not None:
            lines.append(f"  {self.shared_memory} B shared, block {self.block}")
        if self.occupancy is not None:
            lines.append(f"  occupancy {self.occupancy:.0%}")
        if self.export:
            lines.append(f"  exported {self.export}")
        codes = {"llvm_ir": self.llvm_ir, "assembly": self.assembly, "sass": self.sass}
        lines += [f"  .{k}: {len(v.splitlines())} lines" for k, v in codes.items() if v is not None]
        return "\n".join(lines)

    __repr__ = __str__
