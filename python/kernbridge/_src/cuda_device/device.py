"""The CPU as the only CUDA device of a thread: a driver in Python beneath Numba-CUDA's host API.

Numba's arrays, contexts, memory, streams and events are used unchanged; their calls of the driver
are executed in the memory of the process, immediately. An object may end when its thread no longer
uses the CPU. The functions that end objects therefore tell those of the CPU by their handles.
numba-cuda-mlir has the same host API in modules of its own, so each package has its own driver.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
import uuid
from typing import Any

from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.base.patched import patched
from kernbridge._src.cuda_device import mode
from kernbridge._src.cuda_device.mode import choose
from kernbridge._src.numba_common.private_numba_cuda import driver

binding = driver.binding  # of both packages
VERSION = 13, 0  # which the driver reports to Numba
NAME = "the CPU, by kernbridge"
CAPABILITY = 9, 0

_CONTEXT = 0x10  # the handle of the only context
_ALIGNMENT = 256  # of memory, as cuMemAlloc has it
_HANDLES = itertools.count(0x1000)  # of streams and events, smaller than any address
_ENDING = (
    *("cuMemFree", "cuMemFreeHost", "cuMemHostUnregister"),
    *("cuEventDestroy", "cuStreamDestroy", "cuLibraryUnload"),
)
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
    return api.CudaAPIError(getattr(binding.CUresult, code), f"Call to {call} results in {code}")


class _Stack(threading.local):
    def __init__(self) -> None:
        self.handles: list[int] = []


def _nothing(*_: Any, **__: Any) -> None:
    """Everything has ended when a call returns, and needs no preparation."""


def _always(answer: int) -> Any:
    """A function of the driver that returns a number."""
    return lambda *_, **__: answer


class HostDriver:
    """The functions of the driver that Numba calls, as its `Driver` has them: errors raise."""

    api: Any  # the package's module `driver`
    is_initialized, initialization_error = True, None

    def __new__(cls) -> HostDriver:
        return object.__new__(cls)  # there is only one `Driver`, which is another one

    def __init__(self) -> None:
        self.devices: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}  # of memory, by address
        # Handles of streams and events, with the times of events; and pinned addresses.
        self._handles: dict[int, float | None] = {}
        self._contexts = _Stack()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        raise KernelNotAvailableError(
            f"the program calls {name} of the CUDA driver, which does not run on CPUs; run it on a "
            "GPU [KB7005]"
        )

    ensure_initialized = cuInit = cuCtxSynchronize = cuDevicePrimaryCtxReset = _nothing
    cuStreamSynchronize = cuStreamWaitEvent = cuEventSynchronize = cuEventQuery = _nothing
    cuProfilerStart = cuProfilerStop = cuKernelSetCacheConfig = cuKernelSetAttribute = _nothing
    cuDriverGetVersion = _always(1000 * VERSION[0] + 10 * VERSION[1])
    cuDeviceGetCount = _always(1)
    cuDeviceCanAccessPeer = cuCtxGetDevice = _always(0)
    cuOccupancyMaxActiveBlocksPerMultiprocessor = _always(2)

    def get_device(self, devnum: int = 0) -> Any:
        if devnum != 0:
            raise failure(self.api, "cuDeviceGet", "CUDA_ERROR_INVALID_DEVICE")
        return self.devices[0]

    def reset(self) -> None:
        self._contexts.handles.clear()

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuCtxGetCurrent(self) -> Any:
        handles = self._contexts.handles
        return binding.CUcontext(handles[-1] if handles else 0)

    def cuCtxPushCurrent(self, handle: Any) -> None:
        self._contexts.handles.append(int(handle))

    def cuCtxPopCurrent(self) -> Any:
        return binding.CUcontext(self._contexts.handles.pop())

    def cuMemGetInfo(self) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def cuMemAlloc(self, size: int) -> Any:
        if size == 0:
            raise failure(self.api, "cuMemAlloc", "CUDA_ERROR_INVALID_VALUE")
        whole = -(-size // _ALIGNMENT) * _ALIGNMENT
        fits = size <= self.cuMemGetInfo()[1]
        address = _libc.aligned_alloc(_ALIGNMENT, whole) if fits else None
        if not address:
            raise failure(self.api, "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
        self._sizes[address] = size
        return binding.CUdeviceptr(address)

    def cuMemAllocManaged(self, size: int, flags: int) -> Any:
        return self.cuMemAlloc(size)

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        return int(self.cuMemAlloc(size))

    def cuMemHostGetDevicePointer(self, pointer: int, flags: int) -> Any:
        return binding.CUdeviceptr(int(pointer))

    def cuPointerGetAttribute(self, attribute: Any, pointer: Any) -> Any:
        return pointer

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[Any, int]:
        at = int(pointer)
        for begin, size in list(self._sizes.items()):
            if begin <= at < begin + size:
                return binding.CUdeviceptr(begin), size
        raise failure(self.api, "cuMemGetAddressRange", "CUDA_ERROR_NOT_FOUND")

    def _copy(self, to: Any, source: Any, size: int, stream: Any = 0) -> None:
        ctypes.memmove(int(to), int(source), size)

    cuMemcpyHtoD = cuMemcpyDtoH = cuMemcpyDtoD = _copy
    cuMemcpyHtoDAsync = cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = _copy

    def cuMemsetD8(self, to: Any, byte: int, size: int, stream: Any = 0) -> None:
        ctypes.memset(int(to), byte, size)

    cuMemsetD8Async = cuMemsetD8

    def cuMemHostRegister(self, pointer: int, size: int, flags: int) -> None:
        if pointer in self._handles:
            code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
            raise failure(self.api, "cuMemHostRegister", code)
        self._handles[pointer] = None

    def _handle(self, kind: Any) -> Any:
        handle = next(_HANDLES)
        self._handles[handle] = None
        return kind(handle)

    def cuStreamCreate(self, flags: int) -> Any:
        return self._handle(binding.CUstream)

    def cuEventCreate(self, flags: int) -> Any:
        return self._handle(binding.CUevent)

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self._handles[int(event)] = time.perf_counter()

    def cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        begun, ended = self._handles[int(begin)], self._handles[int(end)]
        if begun is None or ended is None:
            raise failure(self.api, "cuEventElapsedTime", "CUDA_ERROR_INVALID_HANDLE")
        return 1e3 * (ended - begun)


def _ending(name: str) -> Any:
    """A function that ends an object, of the CPU or of a GPU, whatever its thread uses now."""

    def call(self: HostDriver, handle: Any) -> None:
        if name.startswith("cuMemFree") and self._sizes.pop(int(handle), None) is not None:
            _libc.free(int(handle))
        elif int(handle) in self._handles:
            del self._handles[int(handle)]
        else:
            code, *_ = getattr(binding, name)(handle)
            if code != binding.CUresult.CUDA_SUCCESS:
                raise failure(self.api, name, code.name)

    call.__name__ = name  # which Numba logs
    return call


for _name in _ENDING:
    setattr(HostDriver, _name, _ending(_name))


def choosing(base: Any, host: Any) -> Any:
    """The class of a package's driver: `host` stands for it while a thread is on the CPU."""

    class ChoosingDriver(base):
        def __getattribute__(self, name: str) -> Any:
            if mode.current() is None and name not in _ENDING:
                return object.__getattribute__(self, name)
            return getattr(host, name)

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self if mode.current() is None else host, name, value)

        def __delattr__(self, name: str) -> None:
            object.__delattr__(self if mode.current() is None else host, name)

    return ChoosingDriver


class HostDevice:
    def __init__(self) -> None:
        self.id = 0
        self.compute_capability = CAPABILITY
        self.name = NAME
        self.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, 'kernbridge')}"

    release_primary_context = _nothing  # there is one as long as the process lives


class HostContext:
    def reset(self: Any) -> None:
        """Free what nothing uses; memory that is still in use stays."""
        self.memory_manager.deallocations.clear()


def install(api: Any) -> Any:
    """Put the processor beneath a package, whose module `driver` is `api`; return its device."""
    host = type("HostDriver", (HostDriver, api.Driver), {"api": api})()
    device = type("HostDevice", (HostDevice, api.Device), {})()
    context = type("HostContext", (HostContext, api.Context), {})
    with patched((api, "_memory_manager", api.NumbaCUDAMemoryManager)):
        device.primary_context = context(device, binding.CUcontext(_CONTEXT))
    host.devices[0] = device
    api.driver.__class__ = choosing(api.Driver, host)
    choose(api.Stream, "add_callback", lambda stream, call, arg=None: call(stream, 0, arg))
    return device


def refuse_memory_of_gpus(memory: Any) -> None:
    """Raise TypeError for an array, or its memory, that Numba has made on a GPU."""
    context = getattr(getattr(memory, "gpu_data", memory), "context", None)
    if context is not None and context.device.name != NAME:
        raise TypeError(
            "a device array that was created on a GPU, outside of kernbridge.cuda_on_cpu, is "
            "used inside of it; copy it to the host first, with copy_to_host() [KB7005]"
        )
