"""What `Operation.inspect` and `Operation.plan` return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Plan(Protocol):
    """What C runs for one call: launches, fills and copies. Prints as one line a step."""

    @property
    def steps(self) -> Sequence[Any]:
        """The steps, in their order."""


@dataclass(frozen=True)
class Inspection:
    """Code and resources of one compiled kernel.

    Attributes
    ----------
    name : str
        Of the kernel.
    platform : str
        "cpu" or "cuda".
    llvm_ir : str
        LLVM IR: optimised for CPUs; as handed to NVVM for GPUs.
    assembly : str
        Assembly of the host, or PTX.
    sass : str or None
        Machine code of the GPU, disassembled; None where no `nvdisasm` is found.
    architecture : str
        "sm_90", or the host's.
    registers : int or None
        Of a GPU thread.
    shared_memory : int or None
        Bytes of a block: static, and dynamic of the launch.
    local_memory : int or None
        Bytes of a GPU thread outside registers: local arrays and spilled registers.
    block : tuple of int or None
        Threads of a block of the launch.
    occupancy : float or None
        Share of a multiprocessor's threads that the launch keeps busy; None without a GPU.
    export : str
        What an exported program holds of a Numba kernel for the CPU: its machine code, or its name,
        with the reason.
    tuning : str
        How the block of `threads_per_block="tune"` was chosen; empty for others.
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
    tuning: str = ""

    def __str__(self) -> str:
        lines = [f"{self.name} on {self.platform} {self.architecture}".rstrip()]
        if self.registers is not None:
            lines.append(f"  {self.registers} registers and {self.local_memory} B local a thread")
            lines.append(f"  {self.shared_memory} B shared, block {self.block}")
        if self.occupancy is not None:
            lines.append(f"  occupancy {self.occupancy:.0%}")
        if self.tuning:
            lines.append(f"  {self.tuning}")
        if self.export:
            lines.append(f"  exported {self.export}")
        codes = {"llvm_ir": self.llvm_ir, "assembly": self.assembly, "sass": self.sass}
        lines += [f"  .{k}: {len(v.splitlines())} lines" for k, v in codes.items() if v is not None]
        return "\n".join(lines)

    __repr__ = __str__


def inspect_host(name: str, library: Any, export: str) -> Inspection:
    """Return the code of a Numba library for the CPU."""
    from kernbridge._src.numba_common.llvmlite_inside import binding

    llvm_ir, assembly = library.get_llvm_str(), library.get_asm_str()
    architecture = binding.get_host_cpu_name()
    return Inspection(name, "cpu", llvm_ir, assembly, architecture=architecture, export=export)
