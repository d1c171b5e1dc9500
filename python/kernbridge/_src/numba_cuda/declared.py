"""What is declared about a Numba-CUDA kernel: its signatures and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kernbridge._src.numba_cuda.entry import DeviceParameter


def check_dispatcher(entry_point: str, kernel: Any) -> None:
    """Refuse what is not a kernel of `numba.cuda.jit`."""
    from kernbridge._src.numba_common import numba_cuda_inside

    hint = "decorate it with @numba.cuda.jit"
    if isinstance(kernel, numba_cuda_inside.dispatcher.CUDADispatcher):
        numba_cuda_inside.check_dispatcher(kernel)
        if not kernel.targetoptions.get("device"):
            return
        hint = "a device function is called by kernels; decorate it without device=True"
    elif "CPUDispatcher" in type(kernel).__name__:
        hint = "a numba.njit function belongs to numba_kernel"
    elif "FakeCUDAKernel" in type(kernel).__name__:
        hint = "NUMBA_ENABLE_CUDASIM is set, which puts a simulator in place of numba.cuda"
    raise TypeError(
        f"{entry_point}: `kernel` is {kernel!r} of type {type(kernel).__name__}, expected a "
        f"numba.cuda.jit kernel; {hint}"
    )


def check_declared(label: str, kernel: Any, parameters: Sequence[DeviceParameter]) -> None:
    """Refuse arrays that no signature takes which `cuda.jit` was given."""
    from kernbridge._src.numba_cuda.entry import parameter_type

    if getattr(kernel, "_can_compile", True):
        return

    def takes(declared: Any, given: Any) -> bool:
        if not hasattr(declared, "ndim") or not hasattr(given, "ndim"):
            return hasattr(declared, "ndim") == hasattr(given, "ndim")
        return bool(declared.dtype == given.dtype and declared.ndim == given.ndim)

    given = [parameter_type(p) for p in parameters]
    for declared in kernel.overloads:
        if len(declared) == len(given) and all(map(takes, declared, given)):
            return
    raise TypeError(
        f"{label}: the kernel was declared for {', '.join(map(str, kernel.overloads))}, and the "
        f"call has ({', '.join(p.describe() for p in parameters)}); convert the arrays, or "
        "decorate the kernel without a signature"
    )


def read_views(label: str, view: Mapping[str | int, Any]) -> tuple[tuple[str | int, Any], ...]:
    """The argument `view` of an operation, as pairs of place and NumPy dtype."""
    views = []
    for place, dtype in view.items():
        try:
            views.append((place, np.dtype(dtype)))
        except TypeError:
            raise TypeError(
                f"{label}: view holds {dtype!r} for {place!r}, expected a NumPy dtype"
            ) from None
    return tuple(views)
