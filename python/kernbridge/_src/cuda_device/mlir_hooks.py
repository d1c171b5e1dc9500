"""Replaces functions of numba-cuda-mlir when a thread launches on the CPU for the first time.

The package's compiler generates code only for GPUs. On the CPU, kernels are compiled like
operations when they are launched, and the package's own compilation is left unchanged.
"""

from __future__ import annotations

import functools
from typing import Any

from kernbridge._src.cuda_device import code, mlir_launch, mode
from kernbridge._src.cuda_device.replacing import choose, install_host_api
from kernbridge._src.mlir import mlir_device_inside as inside
from kernbridge._src.numba_cuda import intercept

_OF_GPUS = {
    "inspect_asm": "the PTX of a kernel",
    "inspect_llvm": "the LLVM IR of a kernel",
    "inspect_lto_ptx": "the LTO-IR of a kernel",
    "inspect_mlir": "the MLIR of a kernel",
    "inspect_mlir_optimized": "the MLIR of a kernel",
    "inspect_ptx": "the PTX of a kernel",
    "inspect_sass": "the SASS of a kernel",
    "get_const_mem_size": "the constant memory of a kernel",
    "get_local_mem_per_thread": "the local memory of a kernel",
    "get_max_threads_per_block": "the largest block of a kernel",
    "get_regs_per_thread": "the number of registers of a kernel",
    "get_shared_mem_per_block": "the shared memory of a kernel",
}


def install() -> None:
    """Replace the functions of the package, once."""
    install_host_api(inside)
    kernels, configured = inside.descriptor.MLIRDispatcher, inside.descriptor._ArgMarshaller
    run = configured.__call__

    @functools.wraps(run)
    def launched(self: Any, *args: Any) -> Any:
        if mode.current() is not None and intercept.target() is None:
            return mlir_launch.launch_configured(self, args)
        mlir_launch.compile_declared(self._dispatcher)
        return run(self, *args)

    configured.__call__ = launched
    choose(kernels, "_compile_public", mlir_launch.declare)
    choose(kernels, "disable_compile", mlir_launch.disable_compile)
    for name, what in _OF_GPUS.items():
        choose(kernels, name, functools.partial(_refuse, what))


def _refuse(what: str, *_: Any, **__: Any) -> None:
    raise code.not_there(what)
