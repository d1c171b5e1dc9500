"""kernbridge: kernels that you wrote, as JAX operations.

The kernel works on XLA's buffers in place. Nothing is copied, and no Python runs when the operation
runs.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kernbridge._src import start  # noqa: F401  # registers handlers with JAX
from kernbridge._src.base.errors import (
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
from kernbridge._src.numba_cpu.kernel import numba_kernel
from kernbridge._src.operation.operation import Operation
from kernbridge._src.source.load_cpp import (
    load_c_file,
    load_c_inline,
    load_cpp_file,
    load_cpp_inline,
)
from kernbridge._src.source.load_cuda import load_cuda_dir, load_cuda_file, load_cuda_inline
from kernbridge._src.source.module import CompiledModule, SourceFunction
from kernbridge._src.source.targets import list_registered_targets, register_ffi_target

if TYPE_CHECKING:
    from kernbridge._src.cuda_kernel.kernel import CudaKernel, cuda_kernel
    from kernbridge._src.custom.choice import KernelEntry
    from kernbridge._src.custom.kernel import (
        XLACustomKernel,
        get_all_primitive_names,
        get_primitives_by_tags,
        get_registry,
    )
    from kernbridge._src.custom.rule_forms import defjvp, general_batching_rule
    from kernbridge._src.custom.warp import jaxinfo_to_warpinfo, jaxtype_to_warptype
    from kernbridge._src.numba_cuda.kernel import numba_cuda_kernel
    from kernbridge._src.record.callable import numba_cuda_callable
    from kernbridge._src.source.load_binary import CudaBinary, load_binary
    from kernbridge._src.store.artefacts import get_cache_dir, set_cache_dir
    from kernbridge._src.store.limit import cache_stats, clear_cache
    from kernbridge._src.tools.check_rules import RuleCheck, RuleCheckError, check_rules
    from kernbridge._src.tools.doctor import print_diagnostics
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
    "CudaBinary": "_src.source.load_binary",
    "CudaKernel": "_src.cuda_kernel.kernel",
    "KernelEntry": "_src.custom.choice",
    "BenchmarkConfig": "benchmark",
    "BenchmarkRecord": "benchmark",
    "BenchmarkResult": "benchmark",
    "RuleCheck": "_src.tools.check_rules",
    "RuleCheckError": "_src.tools.check_rules",
    "XLACustomKernel": "_src.custom.kernel",
    "benchmark_function": "benchmark",
    "cache_stats": "_src.store.limit",
    "check_rules": "_src.tools.check_rules",
    "clear_cache": "_src.store.limit",
    "cuda_kernel": "_src.cuda_kernel.kernel",
    "defjvp": "_src.custom.rule_forms",
    "general_batching_rule": "_src.custom.rule_forms",
    "get_all_primitive_names": "_src.custom.kernel",
    "get_cache_dir": "_src.store.artefacts",
    "get_primitives_by_tags": "_src.custom.kernel",
    "get_registry": "_src.custom.kernel",
    "jaxinfo_to_warpinfo": "_src.custom.warp",
    "jaxtype_to_warptype": "_src.custom.warp",
    "load_binary": "_src.source.load_binary",
    "numba_cuda_callable": "_src.record.callable",
    "numba_cuda_kernel": "_src.numba_cuda.kernel",
    "print_diagnostics": "_src.tools.doctor",
    "set_cache_dir": "_src.store.artefacts",
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
