"""A CUDA driver in Python whose only device is the CPU, beneath Numba-CUDA's own host API.

Numba's arrays, contexts, streams and events are used unchanged; their calls of the driver are
executed in the memory of the process, immediately. numba-cuda-mlir has the same host API in
modules of its own; `api` is the module `driver` of one of the packages.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from typing import Any

from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.cuda_device import mode
from kernbridge._src.numba_common.numba_cuda_device_inside import driver

binding = driver.binding  # of both packages
Mixin: Any = object  # what is to be put before a class of a package
VERSION = 13, 0  # which the driver reports to Numba

_ALIGNMENT = 256  # of memory, as cuMemAlloc has it
_HANDLES = itertools.count(0x1000, 16)
_ATTRIBUTES = {
    "CAN_MAP_HOST_MEMORY": 1,
    "CONCURRENT_MANAGED_ACCESS": 1,
    "COOPERATIVE_LAUNCH": 1,
    "MANAGED_MEMORY": 1,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MULTIPROCESSOR_COUNT": 4,
    "UNIFIED_ADDRESSING": 1,
    "WARP_SIZE": 32,
}
_libc = ctypes.CDLL(None)
_libc.aligned_alloc.restype = ctypes.c_void_p
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def failure(api: Any, call: str, code: str) -> Exception:
    """The error that a package raises where a call of the driver fails."""
    error: Exception
    error = api.CudaAPIError(getattr(binding.CUresult, code), f"Call to {call} results in {code}")
    return error


class _Stack(threading.local):
    """The contexts that are current on one thread."""

    def __init__(self) -> None:
        self.handles: list[int] = []


class HostDriver(Mixin):
    """The functions of the driver that Numba calls, as its `Driver` has them: errors raise."""

    api: Any

    def __new__(cls) -> HostDriver:
        return object.__new__(cls)

    def __init__(self) -> None:
        self.devices: dict[int, Any] = {}
        self.is_initialized, self.initialization_error, self.pid = True, None, os.getpid()
        self.symbols: dict[tuple[int, bytes], tuple[int, int]] = {}
        self._sizes: dict[int, int] = {}  # of memory, by address
        self._stack = _Stack()
        self._recorded: dict[int, float] = {}  # when, by event

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        raise KernelNotAvailableError(
            f"the program calls {name} of the CUDA driver, which does not run on CPUs; run it on a "
            "GPU"
            " [KB7005]"
        )

    def _failure(self, call: str, code: str) -> Exception:
        return failure(self.api, call, code)

    def _call_gpu(self, name: str, *arguments: Any) -> None:
        """Call the CUDA driver: an object on a GPU ends while its thread is on the CPU."""
        code, *_ = getattr(binding, name)(*arguments)
        if code != binding.CUresult.CUDA_SUCCESS:
            raise self._failure(name, code.name)

    def ensure_initialized(self) -> None:
        """Nothing is to be done."""

    def get_device(self, devnum: int = 0) -> Any:
        if devnum != 0:
            raise self._failure("cuDeviceGet", "CUDA_ERROR_INVALID_DEVICE")
        return self.devices[0]

    def reset(self) -> None:
        """Forget which contexts are current on this thread."""
        self._stack.handles.clear()

    def cuInit(self, flags: int) -> None:
        """Nothing is to be done."""

    def cuDriverGetVersion(self) -> int:
        return 1000 * VERSION[0] + 10 * VERSION[1]

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuCtxGetCurrent(self) -> Any:
        handles = self._stack.handles
        return binding.CUcontext(handles[-1] if handles else 0)

    def cuCtxGetDevice(self) -> int:
        return 0

    def cuCtxPushCurrent(self, handle: Any) -> None:
        self._stack.handles.append(int(handle))

    def cuCtxPopCurrent(self) -> Any:
        return binding.CUcontext(self._stack.handles.pop())

    def cuCtxSynchronize(self) -> None:
        """Launches and copies have ended when they return."""

    def cuDeviceCanAccessPeer(self, device: Any, other: Any) -> int:
        return 0

    def cuMemGetInfo(self) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def cuMemAlloc(self, size: int) -> Any:
        if size == 0:
            raise self._failure("cuMemAlloc", "CUDA_ERROR_INVALID_VALUE")
        whole = -(-size // _ALIGNMENT) * _ALIGNMENT
        address = None
        if size <= self.cuMemGetInfo()[1]:
            address = _libc.aligned_alloc(_ALIGNMENT, whole)
        if not address:
            raise self._failure("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
        self._sizes[address] = size
        return binding.CUdeviceptr(address)

    def cuMemAllocManaged(self, size: int, flags: int) -> Any:
        return self.cuMemAlloc(size)

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        return int(self.cuMemAlloc(size))

    def cuMemFree(self, pointer: Any) -> None:
        if self._sizes.pop(int(pointer), None) is None:
            self._call_gpu("cuMemFree", pointer)
        else:
            _libc.free(int(pointer))

    def cuMemFreeHost(self, pointer: Any) -> None:
        if self._sizes.pop(int(pointer), None) is None:
            self._call_gpu("cuMemFreeHost", pointer)
        else:
            _libc.free(int(pointer))

    def cuMemHostGetDevicePointer(self, pointer: int, flags: int) -> Any:
        return binding.CUdeviceptr(int(pointer))

    def cuPointerGetAttribute(self, attribute: Any, pointer: Any) -> Any:
        return pointer

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[Any, int]:
        at = int(pointer)
        for begin, size in list(self._sizes.items()):
            if begin <= at < begin + size:
                return binding.CUdeviceptr(begin), size
        raise self._failure("cuMemGetAddressRange", "CUDA_ERROR_NOT_FOUND")

    def _copy(self, to: Any, source: Any, size: int, stream: Any = 0) -> None:
        ctypes.memmove(int(to), int(source), size)

    cuMemcpyHtoD = cuMemcpyDtoH = cuMemcpyDtoD = _copy
    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _copy

    def cuMemsetD8(self, to: Any, byte: int, size: int, stream: Any = 0) -> None:
        ctypes.memset(int(to), byte, size)

    cuMemsetD8Async = cuMemsetD8

    def cuStreamCreate(self, flags: int) -> Any:
        return binding.CUstream(next(_HANDLES))

    def _nothing(self, *handles: Any) -> None:
        """Streams and events have come to their end at any time."""

    cuStreamSynchronize = cuStreamWaitEvent = cuEventSynchronize = cuEventQuery = _nothing
    cuProfilerStart = cuProfilerStop = cuKernelSetCacheConfig = cuKernelSetAttribute = _nothing

    def cuEventCreate(self, flags: int) -> Any:
        return binding.CUevent(next(_HANDLES))

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self._recorded[int(event)] = time.perf_counter()

    def cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        if int(begin) not in self._recorded or int(end) not in self._recorded:
            raise self._failure("cuEventElapsedTime", "CUDA_ERROR_INVALID_HANDLE")
        return 1e3 * (self._recorded[int(end)] - self._recorded[int(begin)])

    def forget_event(self, handle: int) -> None:
        """An event is gone."""
        self._recorded.pop(handle, None)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *asked: Any) -> int:
        return 2


def _for_gpu(name: str) -> Any:
    """What the end of an object on a GPU calls, which comes at any time."""

    def call(self: HostDriver, *handles: Any) -> None:
        self._call_gpu(name, *handles)

    call.__name__ = name
    return call


for _name in ("cuEventDestroy", "cuStreamDestroy", "cuLibraryUnload", "cuMemHostUnregister"):
    setattr(HostDriver, _name, _for_gpu(_name))


def choosing(base: Any, host: Any) -> Any:
    """The class of a package's driver: `host` stands for it while a thread is on the CPU."""

    class ChoosingDriver(base):
        def __getattribute__(self, name: str) -> Any:
            if mode.current() is None:
                return object.__getattribute__(self, name)
            return getattr(host, name)

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self if mode.current() is None else host, name, value)

        def __delattr__(self, name: str) -> None:
            object.__delattr__(self if mode.current() is None else host, name)

    return ChoosingDriver
