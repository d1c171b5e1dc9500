"""Collects what `Operation.inspect` reports about compiled GPU code."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

from kernbridge import _core
from kernbridge._src.operation.inspection import Inspection
from kernbridge._src.toolchain import programs


def inspect_launches(steps: Sequence[Any]) -> tuple[Inspection, ...]:
    """Return code and resources of every launch of a GPU plan."""
    return tuple(_inspect_launch(step) for step in steps if hasattr(step, "function"))


def _inspect_launch(step: Any) -> Inspection:
    from kernbridge._src.plan import cubin as gpu_cubin

    function = step.function
    cc, cubin = function.images[0]
    if cc == _core.HOST_CC:
        return _inspect_on_cpu(function.name, cubin, step)
    info = gpu_cubin.read(cubin, function.entry)
    llvm_ir, ptx = function.code()
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


def _inspect_on_cpu(name: str, image: bytes, step: Any) -> Inspection:
    from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile

    llvm_ir, assembly, static_shared, processor = cuda_on_cpu_compile.code(image)
    return Inspection(
        name=name,
        platform="cpu",
        llvm_ir=llvm_ir,
        assembly=assembly,
        architecture=processor,
        shared_memory=static_shared + step.shared,
        block=None if step.auto_block else step.block,
    )


def _occupancy(function: Any, step: Any) -> float | None:
    """Return the occupancy that the driver computes for the first GPU."""
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
        done = programs.run([tool, "-c", file.name], written=1 << 28)
    if done.status:
        return None
    return re.sub(r"\s*/\* 0x[0-9a-f]+ \*/", "", done.text)


def _find_nvdisasm() -> str | None:
    """Look for nvdisasm on PATH, in CUDA_HOME, and in NVIDIA's wheel."""
    folders = [os.environ.get("PATH", os.defpath)]
    folders.append(f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin")
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folders += [f"{place}/cu13/bin", f"{place}/cuda_nvdisasm/bin"]
    return shutil.which("nvdisasm", path=os.pathsep.join(folders))
