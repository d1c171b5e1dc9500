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

# isort: off
from kernbridge import (
    BenchmarkConfig as BenchmarkConfig,
    BenchmarkRecord as BenchmarkRecord,
    BenchmarkResult as BenchmarkResult,
    BrainEventError as BrainEventError,
    CUDANotInstalledError as CUDANotInstalledError,
    CompiledModule as CompiledModule,
    GpuArchDetectionError as GpuArchDetectionError,
    KernelEntry as KernelEntry,
    KernelExecutionError as KernelExecutionError,
    MathError as MathError,
    UnsupportedOperationError as UnsupportedOperationError,
    XLACustomKernel as XLACustomKernel,
    benchmark_function as benchmark_function,
    clear_cache as clear_cache,
    defjvp as defjvp,
    general_batching_rule as general_batching_rule,
    jaxinfo_to_warpinfo as jaxinfo_to_warpinfo,
    jaxtype_to_warptype as jaxtype_to_warptype,
    load_cpp_file as load_cpp_file,
    load_cpp_inline as load_cpp_inline,
    load_cuda_dir as load_cuda_dir,
    load_cuda_file as load_cuda_file,
    load_cuda_inline as load_cuda_inline,
    numba_cuda_callable as numba_cuda_callable,
    numba_cuda_kernel as numba_cuda_kernel,
    numba_kernel as numba_kernel,
    print_diagnostics as print_diagnostics,
    set_cache_dir as set_cache_dir,
)
from kernbridge.compat.brainevent import config as config
from kernbridge.compat.brainevent.names import *  # noqa: F403
from kernbridge.compat.brainevent.replace import install as install
from kernbridge.errors import *  # noqa: F403
from kernbridge.registry import *  # noqa: F403
# isort: on

__all__ = [name for name in dir() if name[0] != "_" and name not in ("names", "replace")]
