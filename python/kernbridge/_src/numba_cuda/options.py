"""What `numba_cuda_kernel` refuses: what is no kernel, and options that do not fit it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbridge._src.base import versions
from kernbridge._src.numba_cuda import mlir


def check_dispatcher(label: str, kernel: Any) -> None:
    """Refuse what is not a kernel of `cuda.jit`, Numba-CUDA's or its successor's."""
    if mlir.is_mlir(kernel) and hasattr(kernel, "targetoptions"):
        mlir.check_kernel(label, kernel)
        return
    from kernbridge._src.numba_common import numba_cuda_inside

    hint = "decorate it with @numba.cuda.jit"
    if isinstance(kernel, numba_cuda_inside.dispatcher.CUDADispatcher):
        versions.look_up_attributes("Numba-CUDA", kernel, numba_cuda_inside.OF_DISPATCHERS)
        if not kernel.targetoptions.get("device"):
            return
        hint = "a device function is called by kernels; decorate it without device=True"
    elif "CPUDispatcher" in type(kernel).__name__:
        hint = "a numba.njit function belongs to numba_kernel"
    elif "FakeCUDAKernel" in type(kernel).__name__:
        hint = "NUMBA_ENABLE_CUDASIM is set, which puts a simulator in place of numba.cuda"
    raise TypeError(
        f"numba_cuda_kernel: `kernel` is {kernel!r} of type {type(kernel).__name__}, expected a "
        f"numba.cuda.jit kernel; {hint}"
        " [KB1001]"
    )


def read_vector_math(label: str, kernel: Any, given: Any, is_checked: bool) -> bool | None:
    """The option as kernels are compiled with it: None where it says what holds anyway."""
    if given is None:
        return None
    if not isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{label}: vector_math is {given!r}, expected True, False or None [KB1005]")
    if given and is_checked:
        raise ValueError(
            f"{label}: vector_math=True and check=True exclude each other: the checked mode runs "
            "the threads of a block one by one; leave one of them out"
            " [KB1005]"
        )
    return None if given == is_fast(kernel) else bool(given)


def is_fast(kernel: Any) -> bool:
    """Whether a kernel's `fastmath` lets functions be approximated."""
    return bool(kernel.targetoptions.get("fastmath"))
