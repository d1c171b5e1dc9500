"""kernbridge turns Numba, CUDA, C and C++ kernels into JAX operations.

The operations work under jit, vmap, grad, shard_map and export. A kernel works on XLA's buffers in
place: nothing is copied, and no Python code is executed at run time.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from kernbridge import _core as _core  # first the core, which refuses where JAX crashes
from kernbridge import errors
from kernbridge._src.base import extensions as _extensions
from kernbridge._src.base import versions as _versions

with _versions.explained():
    from kernbridge._src import start  # noqa: F401  # registers handlers with JAX
from kernbridge._src.base.errors import BrainEventError as BrainEventError
from kernbridge._src.base.errors import CUDANotInstalledError as CUDANotInstalledError
from kernbridge._src.base.errors import GpuArchDetectionError as GpuArchDetectionError
from kernbridge._src.base.errors import KernbridgeError, KernbridgeWarning
from kernbridge._src.base.errors import KernelExecutionError as KernelExecutionError
from kernbridge._src.base.errors import MathError as MathError
from kernbridge._src.base.errors import UnsupportedOperationError as UnsupportedOperationError
from kernbridge._src.numba_cpu.kernel import numba_kernel
from kernbridge._src.operation.inspection import Inspection as Inspection
from kernbridge._src.operation.operation import Operation
from kernbridge._src.sharding.rule import ShardingRule
from kernbridge._src.source.load import (
    load_c_file,
    load_c_inline,
    load_cpp_file,
    load_cpp_inline,
    load_cuda_dir,
    load_cuda_file,
    load_cuda_inline,
)
from kernbridge.errors import *  # noqa: F403  # programs may import them from here

if TYPE_CHECKING:
    from kernbridge import benchmark, cache, config, registry
    from kernbridge._ext.embed.export import export_bundle
    from kernbridge._ext.emulator.device.switch import cuda_on_cpu
    from kernbridge._ext.inline.function import InlinedFunction as InlinedFunction
    from kernbridge._ext.inline.function import inline
    from kernbridge._ext.nvrtc.kernel import CudaKernel as CudaKernel
    from kernbridge._ext.nvrtc.kernel import cuda_kernel
    from kernbridge._ext.nvrtc.load_binary import CudaBinary as CudaBinary
    from kernbridge._ext.nvrtc.load_binary import load_binary
    from kernbridge._ext.tools.check_rules import RuleCheck as RuleCheck
    from kernbridge._ext.tools.check_rules import RuleCheckError as RuleCheckError
    from kernbridge._ext.tools.check_rules import check_rules
    from kernbridge._ext.tools.doctor import print_diagnostics
    from kernbridge._ext.tools.explain import Explanation as Explanation
    from kernbridge._ext.tools.explain import explain
    from kernbridge._src.custom.kernel import KernelEntry as KernelEntry
    from kernbridge._src.custom.kernel import XLACustomKernel
    from kernbridge._src.custom.rules import defjvp as defjvp
    from kernbridge._src.custom.rules import general_batching_rule as general_batching_rule
    from kernbridge._src.custom.warp import jaxinfo_to_warpinfo as jaxinfo_to_warpinfo
    from kernbridge._src.custom.warp import jaxtype_to_warptype as jaxtype_to_warptype
    from kernbridge._src.decorator import kernel
    from kernbridge._src.numba_cpu.returning import elementwise
    from kernbridge._src.numba_cuda.kernel import numba_cuda_kernel
    from kernbridge._src.record.callable import numba_cuda_callable
    from kernbridge._src.source.module import CompiledModule as CompiledModule
    from kernbridge._src.source.module import SourceFunction as SourceFunction
    from kernbridge.benchmark import BenchmarkConfig as BenchmarkConfig
    from kernbridge.benchmark import BenchmarkRecord as BenchmarkRecord
    from kernbridge.benchmark import BenchmarkResult as BenchmarkResult
    from kernbridge.benchmark import benchmark_function as benchmark_function
    from kernbridge.cache import clear_cache as clear_cache
    from kernbridge.cache import get_cache_dir as get_cache_dir
    from kernbridge.cache import set_cache_dir as set_cache_dir
    from kernbridge.registry import *  # noqa: F403

__version__ = "0.1.0.dev0"

__all__ = [
    "KernbridgeError",
    "KernbridgeWarning",
    "Operation",
    "ShardingRule",
    "XLACustomKernel",
    "__version__",
    "benchmark",
    "cache",
    "check_rules",
    "config",
    "cuda_kernel",
    "cuda_on_cpu",
    "elementwise",
    "errors",
    "explain",
    "export_bundle",
    "inline",
    "kernel",
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
    "registry",
]

_MODULES = ("benchmark", "cache", "config", "registry")
# Names that are imported when they are first used: a program needs few of them. Those that are not
# in __all__ are classes of results and errors, and names that BrainEvent has.
_LATER = {
    "_ext.embed.export": ("export_bundle",),
    "_ext.emulator.device.switch": ("cuda_on_cpu",),
    "_ext.nvrtc.kernel": ("CudaKernel", "cuda_kernel"),
    "_src.custom.kernel": ("KernelEntry", "XLACustomKernel"),
    "_src.custom.rules": ("defjvp", "general_batching_rule"),
    "_src.custom.warp": ("jaxinfo_to_warpinfo", "jaxtype_to_warptype"),
    "_src.decorator": ("kernel",),
    "_ext.inline.function": ("InlinedFunction", "inline"),
    "_src.numba_cpu.returning": ("elementwise",),
    "_src.numba_cuda.kernel": ("numba_cuda_kernel",),
    "_src.record.callable": ("numba_cuda_callable",),
    "_ext.nvrtc.load_binary": ("CudaBinary", "load_binary"),
    "_src.source.module": ("CompiledModule", "SourceFunction"),
    "_ext.tools.check_rules": ("RuleCheck", "RuleCheckError", "check_rules"),
    "_ext.tools.doctor": ("print_diagnostics",),
    "_ext.tools.explain": ("Explanation", "explain"),
    "benchmark": ("BenchmarkConfig", "BenchmarkRecord", "BenchmarkResult", "benchmark_function"),
    "cache": ("clear_cache", "get_cache_dir", "set_cache_dir"),
    "registry": (
        "get_all_primitive_names",
        "get_primitives_by_tags",
        "get_registry",
        "list_registered_targets",
        "register_ffi_target",
    ),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kernbridge.{name}")
    if name not in _MODULE_OF:
        text = f"module 'kernbridge' has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=sys.modules[__name__])
    with _extensions.needed(f"kernbridge.{name}"):
        value = getattr(importlib.import_module(f"kernbridge.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULE_OF})
