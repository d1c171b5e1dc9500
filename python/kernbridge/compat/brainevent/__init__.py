"""BrainEvent on kernbridge: its bridge to custom kernels, with kernbridge's core.

``install()`` before ``import brainevent`` puts kernbridge under BrainEvent's operators;
``python -m kernbridge.compat.brainevent script.py`` does so for a script, and ``-m module`` for a
module. This module has every public name of BrainEvent's bridge, also without BrainEvent.

Examples
--------
>>> from kernbridge.compat.brainevent import XLACustomKernel, config
>>> config.get_numba_parallel()
False
"""

from kernbridge import (
    CompiledModule,
    XLACustomKernel,
    load_cpp_file,
    load_cpp_inline,
    load_cuda_dir,
    load_cuda_file,
    load_cuda_inline,
    numba_cuda_callable,
    numba_cuda_kernel,
    numba_kernel,
    print_diagnostics,
)
from kernbridge._src.base.errors import (
    BrainEventError,
    CUDANotInstalledError,
    GpuArchDetectionError,
    KernelExecutionError,
    MathError,
    UnsupportedOperationError,
)
from kernbridge._src.custom.kernel import KernelEntry, jaxinfo_to_warpinfo, jaxtype_to_warptype
from kernbridge._src.custom.rules import defjvp, general_batching_rule
from kernbridge.benchmark import (
    BenchmarkConfig,
    BenchmarkRecord,
    BenchmarkResult,
    benchmark_function,
)
from kernbridge.cache import clear_cache, set_cache_dir
from kernbridge.compat.brainevent import config
from kernbridge.compat.brainevent.names import (
    CompilerBackend,
    CPPBackend,
    CUDABackend,
    HIPBackend,
    check_pallas_jax_version,
    check_warp_installed,
    dtype_suffix,
    get_cache_dir,
    normalize_tokens,
    register_primitive,
    so_ext,
    spike_suffix,
)
from kernbridge.compat.brainevent.replace import install
from kernbridge.errors import (
    BenchmarkDataFnNotProvidedError,
    CompilationError,
    HeaderNotFoundError,
    HostCompilerIncompatibleError,
    HostCompilerNotFoundError,
    KernelCompilationError,
    KernelError,
    KernelFallbackExhaustedError,
    KernelLoadError,
    KernelNotAvailableError,
    KernelRegistrationError,
    KernelToolchainError,
    NvccNotFoundError,
    UnsupportedArchError,
)
from kernbridge.registry import (
    get_all_primitive_names,
    get_primitives_by_tags,
    get_registry,
    list_registered_targets,
    register_ffi_target,
)

__all__ = [
    "BenchmarkConfig",
    "BenchmarkDataFnNotProvidedError",
    "BenchmarkRecord",
    "BenchmarkResult",
    "BrainEventError",
    "CPPBackend",
    "CUDABackend",
    "CUDANotInstalledError",
    "CompilationError",
    "CompiledModule",
    "CompilerBackend",
    "GpuArchDetectionError",
    "HIPBackend",
    "HeaderNotFoundError",
    "HostCompilerIncompatibleError",
    "HostCompilerNotFoundError",
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
    "UnsupportedArchError",
    "UnsupportedOperationError",
    "XLACustomKernel",
    "benchmark_function",
    "check_pallas_jax_version",
    "check_warp_installed",
    "clear_cache",
    "config",
    "defjvp",
    "dtype_suffix",
    "general_batching_rule",
    "get_all_primitive_names",
    "get_cache_dir",
    "get_primitives_by_tags",
    "get_registry",
    "install",
    "jaxinfo_to_warpinfo",
    "jaxtype_to_warptype",
    "list_registered_targets",
    "load_cpp_file",
    "load_cpp_inline",
    "load_cuda_dir",
    "load_cuda_file",
    "load_cuda_inline",
    "normalize_tokens",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
    "print_diagnostics",
    "register_ffi_target",
    "register_primitive",
    "set_cache_dir",
    "so_ext",
    "spike_suffix",
]
