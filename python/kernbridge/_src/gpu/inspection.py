"""What `Operation.inspect` tells of compiled code."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    """

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

    def __str__(self) -> str:
        lines = [f"{self.name} on {self.platform} {self.architecture}".rstrip()]
        if self.registers is not None:
            lines.append(f"  {self.registers} registers and {self.local_memory} B local a thread")
            lines.append(f"  {self.shared_memory} B shared, block {self.block}")
        if self.occupancy is not None:
            lines.append(f"  occupancy {self.occupancy:.0%}")
        codes = {"llvm_ir": self.llvm_ir, "assembly": self.assembly, "sass": self.sass}
        lines += [f"  .{k}: {len(v.splitlines())} lines" for k, v in codes.items() if v is not None]
        return "\n".join(lines)

    __repr__ = __str__


def inspect_host(name: str, library: Any) -> Inspection:
    """Of a Numba library for the CPU."""
    from kernbridge._src.numba_common.llvmlite_inside import binding

    llvm_ir, assembly = library.get_llvm_str(), library.get_asm_str()
    return Inspection(name, "cpu", llvm_ir, assembly, architecture=binding.get_host_cpu_name())


def inspect_launches(steps: Sequence[Any]) -> tuple[Inspection, ...]:
    """Of every launch of a GPU plan."""
    return tuple(_inspect_launch(step) for step in steps if hasattr(step, "function"))


def _inspect_launch(step: Any) -> Inspection:
    from kernbridge._src.gpu import cubin as gpu_cubin
    from kernbridge._src.numba_cuda import compile as numba_cuda_compile

    function = step.function
    cc, cubin = function.images[0]
    info = gpu_cubin.read(cubin, function.entry)
    llvm_ir, ptx = (
        function.code()
        if hasattr(function, "code")
        else numba_cuda_compile.intermediate_code(function)
    )
    shared = info.static_shared + step.shared
    return Inspection(
        name=function.name,
        platform="cuda",
        llvm_ir=llvm_ir,
        assembly=ptx,
        sass=_disassemble(cubin),
        architecture=f"sm_{cc}",
        registers=info.registers,
        shared_memory=shared,
        local_memory=info.local,
        block=None if step.auto_block else step.block,
        occupancy=_occupancy(function, step),
    )


def _occupancy(function: Any, step: Any) -> float | None:
    """As the driver reckons it, for the first GPU."""
    from kernbridge import _core

    if _core.device_count()[0] == 0:
        return None
    threads = 0 if step.auto_block else step.block[0] * step.block[1] * step.block[2]
    try:
        return _core.occupancy(function.images[0][1], function.entry, threads, step.shared)
    except RuntimeError:  # compiled for another GPU
        return None


def _disassemble(cubin: bytes) -> str | None:
    tool = _find_nvdisasm()
    if tool is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, check=False)
    if done.returncode:
        return None
    return re.sub(r"\s*/\* 0x[0-9a-f]+ \*/", "", done.stdout.decode(errors="backslashreplace"))


def _find_nvdisasm() -> str | None:
    """On PATH, in CUDA_HOME, or in NVIDIA's wheel."""
    import importlib.util
    import os

    found = shutil.which("nvdisasm")
    folders = [Path(os.environ.get(v, "/usr/local/cuda")) / "bin" for v in ("CUDA_HOME",)]
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders += [Path(place) / "cu13" / "bin", Path(place) / "cuda_nvdisasm" / "bin"]
    for folder in folders:
        tool = folder / "nvdisasm"
        if found is None and tool.is_file() and os.access(tool, os.X_OK):
            found = str(tool)
    return found
