"""The names of numba-cuda-mlir's host API that kernbridge replaces, looked up once.

Imported only where a program has imported numba-cuda-mlir. The package's driver, devices and arrays
are those of Numba-CUDA, under names of its own.
"""

from __future__ import annotations

from kernbridge._src.base import versions

_HOST = "numba_cuda_mlir.numba_cuda"
_DISPATCHER = "numba_cuda_mlir.descriptor.MLIRDispatcher"
NAMES = (
    "numba_cuda_mlir.cuda.device_array",
    "numba_cuda_mlir.cuda.is_available",
    "numba_cuda_mlir.descriptor._ArgMarshaller.__call__",
    *(
        f"{_DISPATCHER}.{name}"
        for name in (
            "__call__", "__getitem__", "_compile_device_callee", "_compile_public",
            "_raise_ambiguous", "_resolve_overload", "configure", "disable_compile", "forall",
        )
    ),
    f"{_HOST}.api.device_array",
    f"{_HOST}.core.config.CUDA_WARN_ON_IMPLICIT_COPY",
    f"{_HOST}.core.config.DISABLE_PERFORMANCE_WARNINGS",
    f"{_HOST}.core.errors.NumbaError",
    f"{_HOST}.core.errors.NumbaPerformanceWarning",
    f"{_HOST}.cudadrv.devicearray._make_strided_memory_view",
    f"{_HOST}.cudadrv.devicearray._StridedLayoutShim",
    f"{_HOST}.cudadrv.devicearray._to_strided_memory_view",
    f"{_HOST}.cudadrv.devicearray.DeviceNDArrayBase._default_stream",
    f"{_HOST}.cudadrv.devicearray.DeviceNDArrayBase._strided_memory_view_shim",
    f"{_HOST}.cudadrv.devices._DeviceContextManager",
    f"{_HOST}.cudadrv.devices._DeviceList.lst",
    f"{_HOST}.cudadrv.devices.get_context",
    f"{_HOST}.cudadrv.driver._PendingDeallocs",
    f"{_HOST}.cudadrv.driver._stream_handle",
    f"{_HOST}.cudadrv.driver._to_core_stream",
    f"{_HOST}.cudadrv.driver.Context",
    f"{_HOST}.cudadrv.driver.Device",
    f"{_HOST}.cudadrv.driver.device_memset",
    f"{_HOST}.cudadrv.driver.device_to_device",
    f"{_HOST}.cudadrv.driver.Driver",
    f"{_HOST}.cudadrv.driver.driver",
    f"{_HOST}.cudadrv.driver.Event",
    f"{_HOST}.cudadrv.driver.host_memory_extents",
    f"{_HOST}.cudadrv.driver.HostOnlyCUDAMemoryManager",
    f"{_HOST}.cudadrv.driver.is_device_memory",
    f"{_HOST}.cudadrv.driver.require_device_memory",
    f"{_HOST}.cudadrv.driver.Stream",
    f"{_HOST}.cudadrv.nvvm.is_available",
    f"{_HOST}.cudadrv.runtime.Runtime.get_version",
    f"{_HOST}.core.sigutils.normalize_signature",
    f"{_HOST}.np.numpy_support.as_dtype",
    f"{_HOST}.types.Number",
)  # fmt: skip
OF_MARSHALLERS = ("_available_launch_config", "_dispatcher", "_extensions")

versions.look_up("numba-cuda-mlir", NAMES)

import numba_cuda_mlir.cuda as cuda
import numba_cuda_mlir.numba_cuda as numba_cuda
from numba_cuda_mlir import descriptor
from numba_cuda_mlir.numba_cuda import api, types
from numba_cuda_mlir.numba_cuda.args import ArgHint, In, Out
from numba_cuda_mlir.numba_cuda.core import config, sigutils
from numba_cuda_mlir.numba_cuda.core.compiler_lock import global_compiler_lock
from numba_cuda_mlir.numba_cuda.core.errors import NumbaError, NumbaPerformanceWarning
from numba_cuda_mlir.numba_cuda.cudadrv import devicearray, devices, driver, nvvm, runtime
from numba_cuda_mlir.numba_cuda.np import numpy_support

__all__ = [
    "ArgHint",
    "In",
    "NumbaError",
    "NumbaPerformanceWarning",
    "Out",
    "api",
    "config",
    "cuda",
    "descriptor",
    "devicearray",
    "devices",
    "driver",
    "global_compiler_lock",
    "numba_cuda",
    "numpy_support",
    "nvvm",
    "runtime",
    "sigutils",
    "types",
]
