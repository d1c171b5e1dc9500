"""What only this module imports: names of Numba-CUDA that Numba-CUDA does not promise to keep."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from typing import Any

from numba import cuda

from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernelToolchainError, UnsupportedArchError, coded

_REFUSED_ARCHITECTURE = re.compile(
    r"GPU compute capability \S+ is not supported[^\n]*|ERROR_UNRECOGNIZED_ARCH"
)


def explain(error: BaseException) -> str:
    """A remedy for failures of Numba-CUDA that are not the kernel's; empty if there is none."""
    import numpy as np

    text = str(error)
    if "row_stack" in text:
        from importlib import metadata

        return (
            f"numba-cuda {metadata.version('numba-cuda')} does not work with NumPy "
            f"{np.__version__}, which no longer has numpy.row_stack: pip install 'numpy<2.5', or "
            "a newer numba-cuda"
        )
    if "ptxas error" in text:  # which nvJitLink reports
        return ""
    missing = ("libnvvm", "nvJitLink", "nvjitlink", "libNVVM", "nvrtc")
    if any(name in text for name in missing) or type(error).__name__ == "NvvmSupportError":
        return (
            "a part of the CUDA toolkit that Numba-CUDA needs was not found: pip install "
            "'numba-cuda[cu13]' (or [cu12]), or set CUDA_HOME to a toolkit"
        )
    return ""


def refused_architecture(
    label: str, architectures: Iterable[tuple[int, int]], error: BaseException
) -> UnsupportedArchError | None:
    """Return the error for a GPU that Numba-CUDA or libNVVM does not compile for, or None."""
    refused = _REFUSED_ARCHITECTURE.search(str(error))
    if refused is None:
        return None
    wanted = ", ".join(f"{major}.{minor}" for major, minor in architectures)
    return UnsupportedArchError(
        f"{label}: Numba-CUDA does not compile for compute capability {wanted} "
        f"({refused[0]}). Choose others with kernbridge.config.set_cuda_architectures or "
        "KERNBRIDGE_CUDA_ARCHS, or install other versions of CUDA's packages [KB4009]"
    )


if importlib.util.find_spec("numba_cuda") is None:
    raise ImportError(
        "kernels of numba.cuda need the package numba-cuda, which is not installed: "
        f"{versions.install('cuda13')} (or [cu12]); {versions.install('cuda')} is enough to run "
        "them on the CPU [KB4016]"
    )
if "numba_cuda" not in (cuda.__file__ or ""):
    raise ImportError(
        f"numba.cuda was imported from {cuda.__file__} instead of from the package numba-cuda. "
        "That package is installed, but Python did not read its _numba_cuda_redirector.pth at "
        "startup; install numba-cuda into the environment's own site-packages [KB4016]"
    )
try:
    from numba.cuda import cache_hints, cgutils, codegen, dispatcher, lowering, target
    from numba.cuda.args import In, Out, wrap_arg
    from numba.cuda.core import config, typeinfer
    from numba.cuda.core.callconv import MinimalCallConv
    from numba.cuda.core.compiler_lock import global_compiler_lock
    from numba.cuda.core.errors import NumbaDebugInfoWarning, NumbaPerformanceWarning
    from numba.cuda.cuda_paths import get_cuda_paths
    from numba.cuda.cudadrv import devicearray, devices, driver, nvrtc, nvvm, runtime
    from numba.cuda.cudadrv.devicearray import DeviceNDArrayBase
    from numba.cuda.extending import intrinsic
    from numba.cuda.memory_management import nrt
    from numba.cuda.np import arrayobj, numpy_support
    from numba.cuda.typing.typeof import typeof
except (AttributeError, ImportError) as e:
    _remedy = explain(e)
    if not _remedy:
        raise
    raise KernelToolchainError(coded(_remedy, "KB4008")) from e
versions.warn_of_untested("Numba-CUDA")

LinkableCode = driver.LinkableCode
types = dispatcher.types
Omitted = types.Omitted
cudaimpl: Any


def __getattr__(name: str) -> Any:
    """Import `cudaimpl` when a kernel is compiled: it takes time, which a cached one need not."""
    if name != "cudaimpl":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("numba.cuda.cudaimpl")
