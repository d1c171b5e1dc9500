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

from kernbridge import BenchmarkConfig as BenchmarkConfig
from kernbridge import BenchmarkRecord as BenchmarkRecord
from kernbridge import BenchmarkResult as BenchmarkResult
from kernbridge import BrainEventError as BrainEventError
from kernbridge import CompiledModule as CompiledModule
from kernbridge import CUDANotInstalledError as CUDANotInstalledError
from kernbridge import GpuArchDetectionError as GpuArchDetectionError
from kernbridge import KernelEntry as KernelEntry
from kernbridge import KernelExecutionError as KernelExecutionError
from kernbridge import MathError as MathError
from kernbridge import UnsupportedOperationError as UnsupportedOperationError
from kernbridge import XLACustomKernel as XLACustomKernel
from kernbridge import benchmark_function as benchmark_function
from kernbridge import clear_cache as clear_cache
from kernbridge import defjvp as defjvp
from kernbridge import general_batching_rule as general_batching_rule
from kernbridge import jaxinfo_to_warpinfo as jaxinfo_to_warpinfo
from kernbridge import jaxtype_to_warptype as jaxtype_to_warptype
from kernbridge import load_cpp_file as load_cpp_file
from kernbridge import load_cpp_inline as load_cpp_inline
from kernbridge import load_cuda_dir as load_cuda_dir
from kernbridge import load_cuda_file as load_cuda_file
from kernbridge import load_cuda_inline as load_cuda_inline
from kernbridge import numba_cuda_callable as numba_cuda_callable
from kernbridge import numba_cuda_kernel as numba_cuda_kernel
from kernbridge import numba_kernel as numba_kernel
from kernbridge import print_diagnostics as print_diagnostics
from kernbridge import set_cache_dir as set_cache_dir
from kernbridge.compat.brainevent import config as config
from kernbridge.compat.brainevent.names import *  # noqa: F403
from kernbridge.compat.brainevent.replace import install as install
from kernbridge.errors import *  # noqa: F403
from kernbridge.registry import *  # noqa: F403

__all__ = [name for name in dir() if name[0] != "_" and name not in ("names", "replace")]
