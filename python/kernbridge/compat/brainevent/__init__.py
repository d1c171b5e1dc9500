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
    CompiledModule as CompiledModule,
    XLACustomKernel as XLACustomKernel,
    load_cpp_file as load_cpp_file,
    load_cpp_inline as load_cpp_inline,
    load_cuda_dir as load_cuda_dir,
    load_cuda_file as load_cuda_file,
    load_cuda_inline as load_cuda_inline,
    numba_cuda_callable as numba_cuda_callable,
    numba_cuda_kernel as numba_cuda_kernel,
    numba_kernel as numba_kernel,
    print_diagnostics as print_diagnostics,
)
from kernbridge._src.base.errors import (
    BrainEventError as BrainEventError,
    CUDANotInstalledError as CUDANotInstalledError,
    GpuArchDetectionError as GpuArchDetectionError,
    KernelExecutionError as KernelExecutionError,
    MathError as MathError,
    UnsupportedOperationError as UnsupportedOperationError,
)
from kernbridge._src.custom.kernel import KernelEntry as KernelEntry
from kernbridge._src.custom.warp import (
    jaxinfo_to_warpinfo as jaxinfo_to_warpinfo,
    jaxtype_to_warptype as jaxtype_to_warptype,
)
from kernbridge._src.custom.rules import (
    defjvp as defjvp,
    general_batching_rule as general_batching_rule,
)
from kernbridge.benchmark import (
    BenchmarkConfig as BenchmarkConfig,
    BenchmarkRecord as BenchmarkRecord,
    BenchmarkResult as BenchmarkResult,
    benchmark_function as benchmark_function,
)
from kernbridge.cache import clear_cache as clear_cache, set_cache_dir as set_cache_dir
from kernbridge.compat.brainevent import config as config
from kernbridge.compat.brainevent.names import (
    CompilerBackend as CompilerBackend,
    CPPBackend as CPPBackend,
    CUDABackend as CUDABackend,
    HIPBackend as HIPBackend,
    check_pallas_jax_version as check_pallas_jax_version,
    check_warp_installed as check_warp_installed,
    dtype_suffix as dtype_suffix,
    get_cache_dir as get_cache_dir,
    normalize_tokens as normalize_tokens,
    register_primitive as register_primitive,
    so_ext as so_ext,
    spike_suffix as spike_suffix,
)
from kernbridge.compat.brainevent.replace import install as install
from kernbridge.errors import *  # noqa: F403
from kernbridge.registry import *  # noqa: F403
# isort: on

__all__ = [name for name in dir() if name[0] != "_" and name not in ("names", "replace")]
