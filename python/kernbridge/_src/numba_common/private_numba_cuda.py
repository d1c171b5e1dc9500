"""The names of Numba-CUDA that kernbridge uses, looked up once.

No other module imports them. Imported only when a kernel is wrapped or compiled, since Numba-CUDA
takes time to import.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable

from numba import cuda

from kernbridge._src.base import versions
from kernbridge._src.base.errors import KernelToolchainError, UnsupportedArchError, coded

NAMES = (
    "numba.cuda.cache_hints.cgutils",
    "numba.cuda.cgutils._StructProxy._getvalue",
    "numba.cuda.cgutils.alloca_once",
    "numba.cuda.cgutils.alloca_once_value",
    "numba.cuda.cgutils.do_boundscheck",
    "numba.cuda.cgutils.get_item_pointer",
    "numba.cuda.cgutils.get_item_pointer2",
    "numba.cuda.cgutils.get_null_value",
    "numba.cuda.cgutils.pack_array",
    "numba.cuda.cgutils.unpack_tuple",
    "numba.cuda.codegen.CUDACodeLibrary._ensure_cc",
    "numba.cuda.codegen.CUDACodeLibrary.get_asm_str",
    "numba.cuda.codegen.CUDACodeLibrary.get_cubin",
    "numba.cuda.codegen.CUDACodeLibrary.get_llvm_str",
    "numba.cuda.codegen.CUDACodeLibrary.modules",
    "numba.cuda.core.callconv.MinimalCallConv.return_user_exc",
    "numba.cuda.core.compiler_lock.global_compiler_lock"
    " or numba.core.compiler_lock.global_compiler_lock",
    "numba.cuda.core.errors.NumbaDebugInfoWarning",
    "numba.cuda.core.typeinfer.register_dispatcher",
    "numba.cuda.cudadrv.devicearray.DeviceNDArrayBase._default_stream",
    "numba.cuda.cudadrv.driver.LinkableCode.from_path_or_obj",
    "numba.cuda.cudadrv.driver.device_memset",
    "numba.cuda.cudadrv.driver.device_to_device",
    "numba.cuda.cudadrv.nvrtc.config.CUDA_NVRTC_EXTRA_SEARCH_PATHS",
    "numba.cuda.cudadrv.nvrtc.get_arch_option",
    "numba.cuda.cudadrv.nvvm.NVVM",
    "numba.cuda.cudadrv.nvvm._datalayout",
    "numba.cuda.cuda_paths.get_cuda_paths",
    "numba.cuda.dispatcher.CUDADispatcher.__getitem__",
    "numba.cuda.dispatcher.CUDADispatcher._make_finalizer",
    "numba.cuda.dispatcher.CUDADispatcher.configure",
    "numba.cuda.dispatcher.CUDADispatcher.forall",
    "numba.cuda.dispatcher.CUDADispatcher.get_call_template",
    "numba.cuda.dispatcher._Kernel",
    "numba.cuda.dispatcher._LaunchConfiguration",
    "numba.cuda.dispatcher.cuda_target.target_context.cached_internal_func",
    "numba.cuda.dispatcher.get_current_device",
    "numba.cuda.datamodel.models.ArrayModel",
    "numba.cuda.extending.intrinsic",
    "numba.cuda.lowering.CUDALower.lower_inst",
    "numba.cuda.models.register_model",
    "numba.cuda.np.arrayobj.basic_indexing",
    "numba.cuda.np.arrayobj.load_item",
    "numba.cuda.np.arrayobj.make_array_flat_cls",
    "numba.cuda.np.arrayobj.store_item",
    "numba.cuda.np.numpy_support.from_dtype",
    "numba.cuda.dispatcher.types.Omitted",
    "numba.cuda.stubs.atomic.add",
    "numba.cuda.stubs.atomic.cas",
    "numba.cuda.stubs.atomic.compare_and_swap",
    "numba.cuda.stubs.atomic.exch",
    "numba.cuda.stubs.atomic.sub",
    "numba.cuda.target.CUDATargetContext.enable_boundscheck",
    "numba.cuda.target.CUDATargetContext.insert_string_const_addrspace",
    "numba.cuda.typing.typeof.typeof",
)
OF_DISPATCHERS = ("_specialized", "overloads", "py_func", "targetoptions")
OF_KERNELS = ("_codelibrary._entry_name", "_codelibrary._llvm_strs")

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
    if "IMPORT_NAME" in text:
        return (
            "Numba-CUDA does not support `import` inside a device function: move it to the "
            "module level"
        )
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


def check() -> None:
    """Raise UnknownVersionError if names are missing, or KernelToolchainError with a remedy."""
    try:
        versions.look_up("Numba-CUDA", NAMES)
    except (AttributeError, ImportError) as e:
        remedy = explain(e)
        if not remedy:
            raise
        raise KernelToolchainError(coded(remedy, "KB4008")) from e


if importlib.util.find_spec("numba_cuda") is None:
    raise ImportError(
        "kernels of numba.cuda need the package numba-cuda, which is not installed: pip install "
        "'kernbridge[cuda13]' (or [cuda12]); 'kernbridge[cuda]' is enough to run them on the CPU"
        " [KB4016]"
    )
if "numba_cuda" not in (cuda.__file__ or ""):
    raise ImportError(
        f"numba.cuda was imported from {cuda.__file__} instead of from the package numba-cuda. "
        "That package is installed, but Python did not read its _numba_cuda_redirector.pth at "
        "startup; install numba-cuda into the environment's own site-packages [KB4016]"
    )
check()
versions.warn_of_untested("Numba-CUDA")

from numba.cuda import (
    cache_hints,
    cgutils,
    codegen,
    dispatcher,
    lowering,
    stubs,
    target,
)
from numba.cuda.core import typeinfer
from numba.cuda.core.callconv import MinimalCallConv
from numba.cuda.core.errors import NumbaDebugInfoWarning
from numba.cuda.cuda_paths import get_cuda_paths
from numba.cuda.cudadrv import driver, nvrtc, nvvm
from numba.cuda.cudadrv.devicearray import DeviceNDArrayBase
from numba.cuda.datamodel.models import ArrayModel as array_model
from numba.cuda.extending import intrinsic
from numba.cuda.models import register_model
from numba.cuda.np import arrayobj, numpy_support
from numba.cuda.typing.typeof import typeof

try:
    from numba.cuda.core.compiler_lock import global_compiler_lock
except ImportError:
    from numba.core.compiler_lock import global_compiler_lock

LinkableCode = driver.LinkableCode
Omitted = dispatcher.types.Omitted
