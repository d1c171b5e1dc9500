"""kernbridge: kernels that you wrote, as JAX operations.

The kernel works on XLA's buffers in place. Nothing is copied, and no Python runs when the operation
runs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kernbridge import _start  # noqa: F401  # registers handlers with JAX
from kernbridge._errors import (
    BenchmarkDataFnNotProvidedError,
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
    KernelFallbackExhaustedError,
    KernelLoadError,
    KernelNotAvailableError,
    KernelRegistrationError,
    KernelToolchainError,
    MathError,
    NvccNotFoundError,
    UnknownVersionError,
    UnsupportedArchError,
    UnsupportedOperationError,
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
    from kernbridge._check_rules import RuleCheck, RuleCheckError, check_rules
    from kernbridge._cuda_kernel import CudaKernel, cuda_kernel
    from kernbridge._custom_kernel import (
        XLACustomKernel,
        get_all_primitive_names,
        get_primitives_by_tags,
        get_registry,
    )
    from kernbridge._diagnostics import print_diagnostics
    from kernbridge._kernel_choice import KernelEntry
    from kernbridge._kernel_rules import defjvp, general_batching_rule
    from kernbridge._load_binary import CudaBinary, load_binary
    from kernbridge._numba_cuda import numba_cuda_kernel
    from kernbridge._numba_cuda_callable import numba_cuda_callable
    from kernbridge._warp import jaxinfo_to_warpinfo, jaxtype_to_warptype
    from kernbridge.benchmark import (
        BenchmarkConfig,
        BenchmarkRecord,
        BenchmarkResult,
        benchmark_function,
    )

__version__ = "0.1.0.dev0"

__all__ = [
    "BenchmarkConfig",
    "BenchmarkDataFnNotProvidedError",
    "BenchmarkRecord",
    "BenchmarkResult",
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
    "KernelEntry",
    "KernelError",
    "KernelExecutionError",
    "KernelFallbackExhaustedError",
    "KernelLoadError",
    "KernelNotAvailableError",
    "KernelRegistrationError",
    "KernelToolchainError",
    "MathError",
    "NvccNotFoundError",
    "Operation",
    "RuleCheck",
    "RuleCheckError",
    "SourceFunction",
    "UnknownVersionError",
    "UnsupportedArchError",
    "UnsupportedOperationError",
    "XLACustomKernel",
    "__version__",
    "benchmark_function",
    "cache_stats",
    "check_rules",
    "clear_cache",
    "cuda_kernel",
    "defjvp",
    "general_batching_rule",
    "get_all_primitive_names",
    "get_cache_dir",
    "get_primitives_by_tags",
    "get_registry",
    "jaxinfo_to_warpinfo",
    "jaxtype_to_warptype",
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

_MODULES = ("benchmark", "cache", "config")
_LATER = {  # imported when they are asked for, which most programs do not
    "CudaBinary": "_load_binary",
    "CudaKernel": "_cuda_kernel",
    "KernelEntry": "_kernel_choice",
    "BenchmarkConfig": "benchmark",
    "BenchmarkRecord": "benchmark",
    "BenchmarkResult": "benchmark",
    "RuleCheck": "_check_rules",
    "RuleCheckError": "_check_rules",
    "XLACustomKernel": "_custom_kernel",
    "benchmark_function": "benchmark",
    "cache_stats": "_cache_limit",
    "check_rules": "_check_rules",
    "clear_cache": "_cache_limit",
    "cuda_kernel": "_cuda_kernel",
    "defjvp": "_kernel_rules",
    "general_batching_rule": "_kernel_rules",
    "get_all_primitive_names": "_custom_kernel",
    "get_cache_dir": "_cache",
    "get_primitives_by_tags": "_custom_kernel",
    "get_registry": "_custom_kernel",
    "jaxinfo_to_warpinfo": "_warp",
    "jaxtype_to_warptype": "_warp",
    "load_binary": "_load_binary",
    "numba_cuda_callable": "_numba_cuda_callable",
    "numba_cuda_kernel": "_numba_cuda",
    "print_diagnostics": "_diagnostics",
    "set_cache_dir": "_cache",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kernbridge.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'kernbridge' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"kernbridge.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
