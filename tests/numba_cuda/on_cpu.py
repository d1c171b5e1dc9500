"""Numba-CUDA with kernbridge beneath it, and what is for its tests alone.

Tests that read what a compiler of GPUs makes are none of kernels on CPUs: they end there.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import kernbridge
from kernbridge import _core
from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
from stand_ins import reads

LEVEL = "NUMBA_CUDA_TESTS_LEVEL"  # environment variable: see _optimise_less


def install() -> None:
    """For the life of the process."""
    _core.set_debug(64)  # count launches on the CPU
    kernbridge.cuda_on_cpu().install()
    _only_kernels()
    _optimise_less(int(os.environ.get(LEVEL, "1")))


def launches() -> int:
    """How many kernels were launched until now."""
    return sum(n for n, _ in _core.launches().values())


def refusals() -> list[str]:
    """What kernbridge said of kernels that it does not run on CPUs, since it was last asked."""
    found = list(cuda_on_cpu_compile.refusals.values())
    cuda_on_cpu_compile.refusals.clear()
    return found


def _only_kernels() -> None:
    from numba.cuda import codegen
    from numba.cuda.cudadrv import driver, nvvm

    def assembly(library: Any, cc: Any = None) -> str:
        del cc
        if sys._getframe(1).f_code.co_name == "__init__":  # of _Kernel, which looks for NRT in it
            return ""
        return reads("PTX")(library)

    library = codegen.CUDACodeLibrary
    library.get_asm_str = assembly
    library.get_asm_strs = library.get_ltoir = library.get_lto_ptx = reads("PTX")
    library.get_sass = library.get_sass_cfg = reads("SASS")
    library.get_linkerinfo = reads("linker output")
    nvvm.CompilationUnit.__init__ = reads("PTX")
    get_cufunc = library.get_cufunc

    def without_registers(self: Any) -> Any:
        function = get_cufunc(self)
        type(function).regs = property(reads("registers"))
        type(function).const = property(reads("constant memory"))
        return function

    library.get_cufunc = without_registers
    driver._Linker = _NoLinker


class _NoLinker:
    """In the place of the linker of CUDA C++ and PTX."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        del arguments, options
        raise kernbridge.KernelCompilationError("CUDA C++ and PTX do not run on CPUs")


def _optimise_less(level: int) -> None:
    """Let LLVM optimise up to this level: at 3, as kernbridge asks for it, it takes most time."""
    import llvmlite.binding as llvm

    options, machine = llvm.create_pipeline_tuning_options, llvm.Target.create_target_machine

    def fewer(speed_level: int = 2) -> Any:
        return options(min(level, speed_level))

    def create_target_machine(target: Any, **given: Any) -> Any:
        return machine(target, **{**given, "opt": min(level, given.get("opt", 2))})

    llvm.create_pipeline_tuning_options = fewer
    llvm.Target.create_target_machine = create_target_machine
