"""kernbridge: kernels that you wrote, as JAX operations.

The kernel works on XLA's buffers in place. Nothing is copied, and no Python runs when the operation
runs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kernbridge._errors import (
    BrainEventError,
    CompilationError,
    CUDANotInstalledError,
    GpuArchDetectionError,
    HeaderNotFoundError,
    HostCompilerIncompatibleError,
    HostCompilerNotFoundError,
    KernbridgeError,
    KernbridgeWarning,
    KernelCompilationError,
    KernelError,
    KernelExecutionError,
    KernelLoadError,
    KernelNotAvailableError,
    KernelRegistrationError,
    KernelToolchainError,
    NvccNotFoundError,
    UnsupportedArchError,
)
from kernbridge._load_cpp import load_c_file, load_c_inline, load_cpp_file, load_cpp_inline
from kernbridge._load_cuda import load_cuda_dir, load_cuda_file, load_cuda_inline
from kernbridge._numba_cpu import numba_kernel
from kernbridge._operation import Operation
from kernbridge._source_module import CompiledModule, SourceFunction
from kernbridge._source_targets import list_registered_targets, register_ffi_target

if TYPE_CHECKING:
    from kernbridge._cache import get_cache_dir, set_cache_dir
    from kernbridge._cache_limit import cache_stats, clear_cache
    from kernbridge._cuda_kernel import CudaKernel, cuda_kernel
    from kernbridge._diagnostics import print_diagnostics
    from kernbridge._load_binary import CudaBinary, load_binary
    from kernbridge._numba_cuda import numba_cuda_kernel
    from kernbridge._numba_cuda_callable import numba_cuda_callable

__version__ = "0.1.0.dev0"

__all__ = [
    "BrainEventError",
    "CUDANotInstalledError",
    "CompilationError",
    "CompiledModule",
    "CudaBinary",
    "CudaKernel",
    "GpuArchDetectionError",
    "HeaderNotFoundError",
    "HostCompilerIncompatibleError",
    "HostCompilerNotFoundError",
    "KernbridgeError",
    "KernbridgeWarning",
    "KernelCompilationError",
    "KernelError",
    "KernelExecutionError",
    "KernelLoadError",
    "KernelNotAvailableError",
    "KernelRegistrationError",
    "KernelToolchainError",
    "NvccNotFoundError",
    "Operation",
    "SourceFunction",
    "UnsupportedArchError",
    "__version__",
    "cache_stats",
    "clear_cache",
    "cuda_kernel",
    "get_cache_dir",
    "list_registered_targets",
    "load_binary",
    "load_c_file",
    "load_c_inline",
    "load_cpp_file",
    "load_cpp_inline",
    "load_cuda_dir",
    "load_cuda_file",
    "load_cuda_inline",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
    "print_diagnostics",
    "register_ffi_target",
    "set_cache_dir",
]

_LATER = {  # imported when they are asked for, which most programs do not
    "CudaBinary": "_load_binary",
    "CudaKernel": "_cuda_kernel",
    "cache_stats": "_cache_limit",
    "clear_cache": "_cache_limit",
    "cuda_kernel": "_cuda_kernel",
    "get_cache_dir": "_cache",
    "load_binary": "_load_binary",
    "numba_cuda_callable": "_numba_cuda_callable",
    "numba_cuda_kernel": "_numba_cuda",
    "print_diagnostics": "_diagnostics",
    "set_cache_dir": "_cache",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'kernbridge' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"kernbridge.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
