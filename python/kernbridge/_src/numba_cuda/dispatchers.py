"""Checks the dispatchers that are passed to `numba_cuda_kernel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbridge._src.mlir import compile as mlir
from kernbridge._src.numba_cuda.counterpart import declared as declared_for
from kernbridge._src.plan.parameters import Parameter


def check_dispatcher(label: str, kernel: Any) -> None:
    """Refuse what is not a kernel of `cuda.jit`, Numba-CUDA's or its successor's."""
    if mlir.is_mlir(kernel) and hasattr(kernel, "targetoptions"):
        mlir.check_kernel(label, kernel)
        return
    from kernbridge._src.numba_common import private_numba_cuda

    hint = "decorate it with @numba.cuda.jit"
    if isinstance(kernel, private_numba_cuda.dispatcher.CUDADispatcher):
        if not kernel.targetoptions.get("device"):
            return
        hint = "a device function can only be called by kernels; decorate it without device=True"
    elif "CPUDispatcher" in type(kernel).__name__:
        hint = "pass a numba.njit function to numba_kernel"
    elif "FakeCUDAKernel" in type(kernel).__name__:
        hint = "NUMBA_ENABLE_CUDASIM is set, which replaces numba.cuda with a simulator"
    raise TypeError(
        f"numba_cuda_kernel: `kernel` is {kernel!r} of type {type(kernel).__name__}, expected a "
        f"numba.cuda.jit kernel; {hint}"
        " [KB1001]"
    )


def check_declared(label: str, kernel: Any, parameters: Sequence[Parameter]) -> None:
    """Refuse arrays that no signature takes which `cuda.jit` was given."""
    from kernbridge._src.numba_cuda import entry as numba_cuda_entry

    parameter_type = (mlir if mlir.is_mlir(kernel) else numba_cuda_entry).parameter_type
    if getattr(kernel, "_can_compile", True):
        return

    def takes(declared: Any, given: Any) -> bool:
        if not hasattr(declared, "ndim") or not hasattr(given, "ndim"):
            return hasattr(declared, "ndim") == hasattr(given, "ndim")
        return bool(declared.dtype == given.dtype and declared.ndim == given.ndim)

    given = [parameter_type(p) for p in parameters]
    all_declared = declared_for(kernel)
    for declared in all_declared:
        if len(declared) == len(given) and all(map(takes, declared, given)):
            return
    raise TypeError(
        f"{label}: the kernel was declared for {', '.join(map(str, all_declared))}, but the call "
        f"has ({', '.join(p.describe() for p in parameters)}); convert the arrays, or decorate "
        "the kernel without a signature [KB4001]"
    )
