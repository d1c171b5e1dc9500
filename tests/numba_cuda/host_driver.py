"""A CUDA driver in Python whose only device is the processor, beneath Numba-CUDA's own host API.

Numba's arrays, contexts, streams and events stay as they are; what they ask of the driver happens
in the memory of the process, at once. `install()` before anything asks for a device.
"""

from __future__ import annotations

import ctypes
import itertools
import time
import uuid
from types import SimpleNamespace
from typing import Any

import numpy
from kernbridge._src.base.errors import KernelCompilationError

CAPABILITY = (9, 0)
_HANDLES = itertools.count(0x1000, 16)
_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]

symbols: dict[tuple[int, bytes], tuple[int, int]] = {}
"""Addresses and sizes of the globals of a module, by its handle."""


class Functions:
    """The functions of the driver that Numba calls, as its `Driver` gives them: errors raise."""

    def __init__(self) -> None:
        from cuda.bindings import driver as binding

        self._binding = binding
        self._sizes: dict[int, int] = {}
        self._current: list[int] = []
        self._recorded: dict[int, float] = {}

    def fail(self, call: str, code: str) -> Exception:
        from numba.cuda.cudadrv.driver import CudaAPIError

        error = getattr(self._binding.CUresult, code)
        return CudaAPIError(error, f"Call to {call} results in {code}")

    def cuInit(self, flags: int) -> None:
        del flags

    def cuDriverGetVersion(self) -> int:
        return 13000

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        del device
        known = {
            "MAX_THREADS_PER_BLOCK": 1024,
            "MULTIPROCESSOR_COUNT": 4,
            "WARP_SIZE": 32,
            "CAN_MAP_HOST_MEMORY": 1,
            "UNIFIED_ADDRESSING": 1,
            "MAX_BLOCK_DIM_X": 1024,
            "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
            "CONCURRENT_MANAGED_ACCESS": 1,
        }
        return known.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuCtxGetCurrent(self) -> Any:
        return self._binding.CUcontext(self._current[-1] if self._current else 0)

    def cuCtxGetDevice(self) -> int:
        return 0

    def cuCtxPushCurrent(self, handle: Any) -> None:
        self._current.append(int(handle))

    def cuCtxPopCurrent(self) -> Any:
        return self._binding.CUcontext(self._current.pop())

    def cuCtxSynchronize(self) -> None:
        pass

    def cuDevicePrimaryCtxRelease(self, device: int) -> None:
        del device

    def cuDevicePrimaryCtxReset(self, device: int) -> None:
        del device

    def cuDeviceCanAccessPeer(self, device: Any, other: Any) -> int:
        del device, other
        return 0

    def cuMemGetInfo(self) -> tuple[int, int]:
        return 1 << 33, 1 << 34

    def cuMemAlloc(self, size: int) -> Any:
        if size == 0:
            raise self.fail("cuMemAlloc", "CUDA_ERROR_INVALID_VALUE")
        if size > 1 << 34:
            raise self.fail("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
        address = _libc.aligned_alloc(256, -(-size // 256) * 256)
        self._sizes[address] = size
        return self._binding.CUdeviceptr(address)

    def cuMemAllocManaged(self, size: int, flags: int) -> Any:
        del flags
        return self.cuMemAlloc(size)

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        del flags
        return int(self.cuMemAlloc(size))

    def cuMemFree(self, pointer: Any) -> None:
        if self._sizes.pop(int(pointer), None) is None:
            raise self.fail("cuMemFree", "CUDA_ERROR_INVALID_VALUE")
        _libc.free(int(pointer))

    def cuMemFreeHost(self, pointer: Any) -> None:
        self.cuMemFree(pointer)

    def cuMemHostRegister(self, pointer: int, size: int, flags: int) -> None:
        del pointer, size, flags

    def cuMemHostUnregister(self, pointer: int) -> None:
        del pointer

    def cuMemHostGetDevicePointer(self, pointer: int, flags: int) -> Any:
        del flags
        return self._binding.CUdeviceptr(int(pointer))

    def cuPointerGetAttribute(self, attribute: Any, pointer: Any) -> Any:
        del attribute
        return pointer

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[Any, int]:
        at = int(pointer)
        for begin, size in self._sizes.items():
            if begin <= at < begin + size:
                return self._binding.CUdeviceptr(begin), size
        raise self.fail("cuMemGetAddressRange", "CUDA_ERROR_NOT_FOUND")

    def _copy(self, to: Any, source: Any, size: int, stream: Any = 0) -> None:
        del stream
        ctypes.memmove(int(to), int(source), size)

    cuMemcpyHtoD = cuMemcpyDtoH = cuMemcpyDtoD = _copy
    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _copy

    def cuMemsetD8(self, to: Any, byte: int, size: int, stream: Any = 0) -> None:
        del stream
        ctypes.memset(int(to), byte, size)

    cuMemsetD8Async = cuMemsetD8

    def cuStreamCreate(self, flags: int) -> Any:
        del flags
        return self._binding.CUstream(next(_HANDLES))

    def _nothing(self, *handles: Any) -> None:
        del handles

    cuStreamDestroy = cuStreamSynchronize = cuStreamWaitEvent = cuEventDestroy = _nothing
    cuEventSynchronize = cuEventQuery = cuLibraryUnload = cuProfilerStart = _nothing
    cuProfilerStop = cuKernelSetCacheConfig = cuKernelSetAttribute = _nothing

    def cuEventCreate(self, flags: int) -> Any:
        del flags
        return self._binding.CUevent(next(_HANDLES))

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        del stream
        self._recorded[int(event)] = time.perf_counter()

    def cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        return 1e3 * (self._recorded[int(end)] - self._recorded[int(begin)])

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *asked: Any) -> int:
        del asked
        return 2

    def cuLibraryGetGlobal(self, handle: int, name: bytes) -> tuple[Any, int]:
        if (handle, name) not in symbols:
            raise self.fail("cuLibraryGetGlobal", "CUDA_ERROR_NOT_FOUND")
        address, size = symbols[handle, name]
        return self._binding.CUdeviceptr(address), size


class _Device:
    """What Numba asks of cuda.core's device."""

    def __init__(self, number: int) -> None:
        from cuda.bindings import driver as binding

        self.device_id = number
        self.compute_capability = CAPABILITY
        self.name = "the processor"
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, "kernbridge"))
        self.context = SimpleNamespace(handle=binding.CUcontext(0x10))

    def set_current(self) -> None:
        pass


class _Stream:
    """A stream of cuda.core: its handle."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    @classmethod
    def from_handle(cls, handle: Any) -> _Stream:
        return cls(int(handle))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class _View:
    """What Numba's launcher reads of a strided memory view."""

    def __init__(self, address: int, array: Any, owner: Any = None) -> None:
        contiguous = array.flags.c_contiguous, array.flags.f_contiguous
        self.ptr = address
        self.shape = tuple(array.shape)
        self.dtype = array.dtype
        self.size = array.size
        self._layout = SimpleNamespace(
            strides_in_bytes=tuple(array.strides),
            is_contiguous_c=contiguous[0],
            is_contiguous_f=contiguous[1],
            is_contiguous_any=any(contiguous),
        )
        self._owner = owner


def _view(array: Any, *, stream_ptr: Any = 0) -> _View:
    del stream_ptr
    array = numpy.asanyarray(array)
    return _View(array.__array_interface__["data"][0], array, array)


def _on_device(
    value: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False
) -> tuple[Any, bool]:
    """`_to_strided_memory_view` of Numba: the device's copy, and whether one was made."""
    from numba.cuda.core import config
    from numba.cuda.core.errors import NumbaPerformanceWarning
    from numba.cuda.cudadrv import devicearray, devices, driver

    del stream
    if driver.is_device_memory(value):
        return value._strided_memory_view_shim, False
    if hasattr(value, "__cuda_array_interface__"):
        from numba.cuda.api import from_cuda_array_interface

        array = from_cuda_array_interface(value.__cuda_array_interface__, owner=value)
        return array._strided_memory_view_shim, False
    array = numpy.asanyarray(value)
    if not array.nbytes:
        return _View(0, array), True
    begin, end = driver.host_memory_extents(array)  # more than nbytes where strides leave gaps
    memory = devices.get_context().memalloc(end - begin)
    address = memory.device_ctypes_pointer.value
    if copy:
        if (
            config.CUDA_WARN_ON_IMPLICIT_COPY
            and not config.DISABLE_PERFORMANCE_WARNINGS
            and not user_explicit
            and isinstance(value, numpy.ndarray)
        ):
            devicearray.warn(
                NumbaPerformanceWarning(
                    "Host array used in CUDA kernel will incur copy overhead to/from device."
                )
            )
        ctypes.memmove(address, begin, end - begin)
    return _View(address + array.__array_interface__["data"][0] - begin, array, memory), True


def install() -> None:
    """Put the processor in the place of the driver."""
    from numba.cuda.cudadrv import devicearray, driver

    real, functions = driver.driver, Functions()
    real.is_initialized, real.initialization_error = True, None
    driver._logger = driver.make_logger()
    for name in dir(functions):
        if name.startswith("cu"):
            setattr(real, name, _named(name, getattr(functions, name)))
    driver.ExperimentalDevice = _Device
    driver.ExperimentalStream = _Stream
    devicearray._to_strided_memory_view = _on_device
    devicearray._make_strided_memory_view = _view
    driver._Linker = _NoLinker
    _without_memsys()


class _NoLinker:
    """In the place of the linker of CUDA C++ and PTX."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        del arguments, options
        raise KernelCompilationError("CUDA C++ and PTX do not run on CPUs")


def _without_memsys() -> None:
    """Numba keeps its statistics of device memory in CUDA C++; here nothing is counted."""
    from numba.cuda.memory_management import nrt

    runtime = nrt._Runtime
    for name in ("ensure_allocated", "ensure_initialized", "_single_thread_launch"):
        setattr(runtime, name, lambda self, *_, **__: None)
    runtime.set_memsys_to_module = lambda self, *_, **__: None
    runtime.get_allocation_stats = lambda self, *_, **__: nrt._nrt_mstats(0, 0, 0, 0)


def _named(name: str, function: Any) -> Any:
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    call.__name__ = name  # which Numba writes into its log
    return call
