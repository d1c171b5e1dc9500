"""The names of numba-cuda-mlir's host API that kernbridge replaces, looked up once.

Imported only where a program has imported numba-cuda-mlir. The package's driver, devices and arrays
are those of Numba-CUDA, under names of its own.
"""

from __future__ import annotations

from kernbridge._src.base import versions

NAMES = (
    "numba_cuda_mlir.cuda.as_cuda_array",
    "numba_cuda_mlir.cuda.device_array",
    "numba_cuda_mlir.cuda.external_stream",
    "numba_cuda_mlir.cuda.gpus",
    "numba_cuda_mlir.descriptor._ArgMarshaller.__call__",
    "numba_cuda_mlir.descriptor.MLIRDispatcher.__call__",
    "numba_cuda_mlir.descriptor.MLIRDispatcher.__getitem__",
    "numba_cuda_mlir.descriptor.MLIRDispatcher._compile_device_callee",
    "numba_cuda_mlir.descriptor.MLIRDispatcher._compile_public",
    "numba_cuda_mlir.descriptor.MLIRDispatcher.configure",
    "numba_cuda_mlir.descriptor.MLIRDispatcher.disable_compile",
    "numba_cuda_mlir.descriptor.MLIRDispatcher.forall",
    "numba_cuda_mlir.numba_cuda.api.device_array",
    "numba_cuda_mlir.numba_cuda.args.In",
    "numba_cuda_mlir.numba_cuda.args.Out",
    "numba_cuda_mlir.numba_cuda.core.sigutils.normalize_signature",
    "numba_cuda_mlir.numba_cuda.cudadrv.devicearray._make_strided_memory_view",
    "numba_cuda_mlir.numba_cuda.cudadrv.devicearray._to_strided_memory_view",
    "numba_cuda_mlir.numba_cuda.cudadrv.devicearray.DeviceNDArrayBase._default_stream",
    "numba_cuda_mlir.numba_cuda.cudadrv.devicearray.DeviceNDArrayBase._strided_memory_view_shim",
    "numba_cuda_mlir.numba_cuda.cudadrv.devicearray.DeviceRecord",
    "numba_cuda_mlir.numba_cuda.cudadrv.devices._DeviceContextManager",
    "numba_cuda_mlir.numba_cuda.cudadrv.devices._DeviceList.lst",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver._PendingDeallocs",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver._stream_handle",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver._to_core_stream",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.AutoFreePointer",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.binding",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.Context",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.CU_STREAM_DEFAULT",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.CudaAPIError",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.Device",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.device_memset",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.device_to_device",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.Driver",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.driver",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.Event",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.HostOnlyCUDAMemoryManager",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.make_logger",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.ManagedMemory",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.MappedMemory",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.MemoryInfo",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.PinnedMemory",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.require_device_memory",
    "numba_cuda_mlir.numba_cuda.cudadrv.driver.Stream",
    "numba_cuda_mlir.numba_cuda.cudadrv.nvvm.is_available",
    "numba_cuda_mlir.numba_cuda.cudadrv.runtime.Runtime.get_version",
)
OF_MARSHALLERS = ("_available_launch_config", "_dispatcher", "_extensions")

versions.look_up("numba-cuda-mlir", NAMES)

import numba_cuda_mlir.cuda as cuda
import numba_cuda_mlir.numba_cuda as numba_cuda
from numba_cuda_mlir import descriptor
from numba_cuda_mlir.numba_cuda import api
from numba_cuda_mlir.numba_cuda.args import In, Out
from numba_cuda_mlir.numba_cuda.core import sigutils
from numba_cuda_mlir.numba_cuda.cudadrv import devicearray, devices, driver, nvvm, runtime

__all__ = [
    "In",
    "Out",
    "api",
    "cuda",
    "descriptor",
    "devicearray",
    "devices",
    "driver",
    "numba_cuda",
    "nvvm",
    "runtime",
    "sigutils",
]
