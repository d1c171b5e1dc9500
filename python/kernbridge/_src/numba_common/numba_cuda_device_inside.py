"""The names of Numba-CUDA's host API that the package `cuda_device` replaces, looked up once.

Imported only when CUDA kernels are to be launched on the CPU, since Numba-CUDA takes time to
import.
"""

from __future__ import annotations

from kernbridge._src.base import versions
from kernbridge._src.numba_common.private_numba_cuda import (
    codegen,
    cuda,
    dispatcher,
    driver,
    global_compiler_lock,
    nvvm,
    typeinfer,
)

NAMES = (
    "numba.cuda.codegen.CUDACodeLibrary.get_cufunc",
    "numba.cuda.codegen.JITCUDACodegen.magic_tuple",
    "numba.cuda.core.config.CUDA_WARN_ON_IMPLICIT_COPY",
    "numba.cuda.core.config.DISABLE_PERFORMANCE_WARNINGS",
    "numba.cuda.core.errors.NumbaPerformanceWarning",
    "numba.cuda.cudadrv.devicearray._make_strided_memory_view",
    "numba.cuda.cudadrv.devicearray._StridedLayoutShim",
    "numba.cuda.cudadrv.devicearray._to_strided_memory_view",
    "numba.cuda.cudadrv.devicearray.DeviceNDArrayBase._strided_memory_view_shim",
    "numba.cuda.cudadrv.devicearray.DeviceRecord",
    "numba.cuda.cudadrv.devicearray.warn",
    "numba.cuda.cudadrv.devices._DeviceContextManager",
    "numba.cuda.cudadrv.devices._DeviceList.lst",
    "numba.cuda.cudadrv.devices.get_context",
    "numba.cuda.cudadrv.driver._PendingDeallocs",
    "numba.cuda.cudadrv.driver._stream_handle",
    "numba.cuda.cudadrv.driver._to_core_stream",
    "numba.cuda.cudadrv.driver.AutoFreePointer",
    "numba.cuda.cudadrv.driver.binding",
    "numba.cuda.cudadrv.driver.Context",
    "numba.cuda.cudadrv.driver.CU_STREAM_DEFAULT",
    "numba.cuda.cudadrv.driver.CudaAPIError",
    "numba.cuda.cudadrv.driver.Device",
    "numba.cuda.cudadrv.driver.Driver",
    "numba.cuda.cudadrv.driver.driver",
    "numba.cuda.cudadrv.driver.Event",
    "numba.cuda.cudadrv.driver.host_memory_extents",
    "numba.cuda.cudadrv.driver.HostOnlyCUDAMemoryManager",
    "numba.cuda.cudadrv.driver.is_device_memory",
    "numba.cuda.cudadrv.driver.make_logger",
    "numba.cuda.cudadrv.driver.ManagedMemory",
    "numba.cuda.cudadrv.driver.MappedMemory",
    "numba.cuda.cudadrv.driver.MemoryInfo",
    "numba.cuda.cudadrv.driver.MemoryPointer",
    "numba.cuda.cudadrv.driver.PinnedMemory",
    "numba.cuda.cudadrv.driver.require_device_memory",
    "numba.cuda.cudadrv.driver.Stream",
    "numba.cuda.cudadrv.nvvm.is_available",
    "numba.cuda.cudadrv.runtime.Runtime.get_version",
    "numba.cuda.dispatcher._Kernel._prepare_args",
    "numba.cuda.dispatcher._Kernel.bind",
    "numba.cuda.dispatcher._Kernel.launch",
    "numba.cuda.dispatcher.CUDACache",
    "numba.cuda.dispatcher.CUDADispatcher.compile",
    "numba.cuda.dispatcher.CUDADispatcher.compile_device",
    "numba.cuda.dispatcher.global_compiler_lock",
    "numba.cuda.dispatcher.types.Array",
    "numba.cuda.dispatcher.types.BaseTuple",
    "numba.cuda.dispatcher.types.float32",
    "numba.cuda.dispatcher.types.float64",
    "numba.cuda.dispatcher.types.Integer",
    "numba.cuda.dispatcher.types.Record",
    "numba.cuda.memory_management.nrt._nrt_mstats",
    "numba.cuda.memory_management.nrt._Runtime",
)
OF_LIBRARIES = ("_cubin_cache", "_cufunc_cache", "_linking_files", "_nvvm_options")

versions.look_up("Numba-CUDA", NAMES)

from numba.cuda.args import ArgHint, In, InOut, Out
from numba.cuda.core import config
from numba.cuda.core.errors import NumbaPerformanceWarning
from numba.cuda.cudadrv import devicearray, devices, runtime
from numba.cuda.memory_management import nrt

types = dispatcher.types
__all__ = [
    "ArgHint",
    "In",
    "InOut",
    "NumbaPerformanceWarning",
    "Out",
    "codegen",
    "config",
    "cuda",
    "devicearray",
    "devices",
    "dispatcher",
    "driver",
    "global_compiler_lock",
    "nrt",
    "nvvm",
    "runtime",
    "typeinfer",
    "types",
]
