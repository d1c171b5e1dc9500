"""The CPU as the only CUDA device of a thread: a driver in Python beneath Numba-CUDA's host API.

Numba's arrays, contexts, streams and events are used unchanged; their calls of the driver are
executed in the memory of the process, immediately. Objects that may outlive the block in which the
thread uses the CPU (memory, streams, events) do not call the driver. numba-cuda-mlir has the same
host API in modules of its own, so each package has its own `Processor`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
import uuid
import weakref
from typing import Any

from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.cuda_device import mode
from kernbridge._src.numba_common.private_numba_cuda import driver

binding = driver.binding  # of both packages
VERSION = 13, 0  # which the driver reports to Numba
NAME = "the CPU, by kernbridge"
CAPABILITY = 9, 0

_CONTEXT = 0x10  # the handle of the only context
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
    return api.CudaAPIError(getattr(binding.CUresult, code), f"Call to {call} results in {code}")


class Processor:
    """The processor as the only device of a package, whose module `driver` is `api`."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.host = self._made(HostDriver, api.Driver)()
        self.memory = self._made(HostMemory, api.HostOnlyCUDAMemoryManager)
        self.stream = self._made(HostStream, api.Stream)
        self.event = self._made(HostEvent, api.Event)
        self.context = self._made(HostContext, api.Context)
        self.device = self.host.devices[0] = self._made(HostDevice, api.Device)()

    def _made(self, ours: Any, base: Any) -> Any:
        """A class that inherits first from ours, then from one of this package."""
        return type(ours.__name__, (ours, base), {"api": self.api, "processor": self})


_Object: Any = object  # lets mypy accept calls of methods that a package's class has


class _Owned(_Object):
    api: Any
    processor: Processor

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Everything has ended when a call returns, and needs no preparation."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.handles: list[int] = []


def _always(answer: int) -> Any:
    """A function of the driver that returns a number."""
    return lambda *_, **__: answer


class HostDriver(_Owned):
    """The functions of the driver that Numba calls, as its `Driver` has them: errors raise."""

    def __new__(cls) -> HostDriver:
        return object.__new__(cls)

    def __init__(self) -> None:
        self.devices: dict[int, Any] = {}
        self.is_initialized, self.initialization_error, self.pid = True, None, os.getpid()
        self.symbols: dict[tuple[int, bytes], tuple[int, int]] = {}
        self._sizes: dict[int, int] = {}  # of memory, by address
        self._stack = _Stack()
        self.recorded: dict[int, float] = {}  # when, by event

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        raise KernelNotAvailableError(
            f"the program calls {name} of the CUDA driver, which does not run on CPUs; run it on a "
            "GPU [KB7005]"
        )

    ensure_initialized = cuInit = cuCtxSynchronize = _Owned._nothing
    cuStreamSynchronize = cuStreamWaitEvent = cuEventSynchronize = cuEventQuery = _Owned._nothing
    cuProfilerStart = cuProfilerStop = cuKernelSetCacheConfig = _Owned._nothing
    cuKernelSetAttribute = _Owned._nothing
    cuDriverGetVersion = _always(1000 * VERSION[0] + 10 * VERSION[1])
    cuDeviceGetCount = _always(1)
    cuDeviceCanAccessPeer = cuCtxGetDevice = _always(0)
    cuOccupancyMaxActiveBlocksPerMultiprocessor = _always(2)

    def get_device(self, devnum: int = 0) -> Any:
        if devnum != 0:
            raise failure(self.api, "cuDeviceGet", "CUDA_ERROR_INVALID_DEVICE")
        return self.devices[0]

    def reset(self) -> None:
        self._stack.handles.clear()

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuCtxGetCurrent(self) -> Any:
        handles = self._stack.handles
        return binding.CUcontext(handles[-1] if handles else 0)

    def cuCtxPushCurrent(self, handle: Any) -> None:
        self._stack.handles.append(int(handle))

    def cuCtxPopCurrent(self) -> Any:
        return binding.CUcontext(self._stack.handles.pop())

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

    def cuStreamCreate(self, flags: int) -> Any:
        return binding.CUstream(next(_HANDLES))

    def cuEventCreate(self, flags: int) -> Any:
        return binding.CUevent(next(_HANDLES))

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self.recorded[int(event)] = time.perf_counter()

    def cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        if int(begin) not in self.recorded or int(end) not in self.recorded:
            raise failure(self.api, "cuEventElapsedTime", "CUDA_ERROR_INVALID_HANDLE")
        return 1e3 * (self.recorded[int(end)] - self.recorded[int(begin)])


def _ending(name: str) -> Any:
    """A function that ends an object of a GPU, also while its thread uses the CPU.

    Memory that the processor allocated is freed here instead.
    """

    def call(self: HostDriver, *handles: Any) -> None:
        if name.startswith("cuMemFree") and self._sizes.pop(int(handles[0]), None) is not None:
            _libc.free(int(handles[0]))
            return
        code, *_ = getattr(binding, name)(*handles)
        if code != binding.CUresult.CUDA_SUCCESS:
            raise failure(self.api, name, code.name)

    call.__name__ = name  # which Numba logs
    return call


for _name in (
    *("cuMemFree", "cuMemFreeHost", "cuMemHostUnregister"),
    *("cuEventDestroy", "cuStreamDestroy", "cuLibraryUnload"),
):
    setattr(HostDriver, _name, _ending(_name))


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


class HostMemory(_Owned):
    """Memory of the process in the place of a GPU's. Numba frees it in batches, as there."""

    def __init__(self, context: Any) -> None:
        super().__init__(context=context)
        self.deallocations.memory_capacity = self.processor.host.cuMemGetInfo()[1]

    initialize = _Owned._nothing

    def _own(self, kind: Any, address: Any, size: int, owner: Any = None) -> Any:
        def free() -> None:
            self.allocations.pop(int(address), None)
            if owner is None:
                self.deallocations.add_item(self.processor.host.cuMemFree, address, size)

        context = weakref.proxy(self.context)
        return kind(context, address, size, owner=owner, finalizer=free)

    def _counted(self, kind: Any, address: Any, size: int, owner: Any = None) -> Any:
        made = self._own(kind, address, size, owner)
        self.allocations[int(address)] = made
        return made.own()

    def memalloc(self, size: int) -> Any:
        return self._counted(self.api.AutoFreePointer, self.processor.host.cuMemAlloc(size), size)

    def memallocmanaged(self, size: int, attach_global: bool) -> Any:
        return self._counted(self.api.ManagedMemory, self.processor.host.cuMemAlloc(size), size)

    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Any:
        address = int(self.processor.host.cuMemAlloc(size))
        if mapped:
            return self._counted(self.api.MappedMemory, address, size)
        return self._own(self.api.PinnedMemory, address, size)

    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool = False) -> Any:
        if not mapped:
            return self._own(self.api.PinnedMemory, pointer, size, owner)
        if int(pointer) in self.allocations:
            code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
            raise failure(self.api, "cuMemHostRegister", code)
        return self._counted(self.api.MappedMemory, pointer, size, owner)

    def get_memory_info(self) -> Any:
        free, total = self.processor.host.cuMemGetInfo()
        return self.api.MemoryInfo(free=free, total=total)

    def get_ipc_handle(self, memory: Any) -> Any:
        return self.processor.host.cuIpcGetMemHandle(memory)  # which is refused

    interface_version = 1


class HostStream(_Owned):
    def add_callback(self, callback: Any, arg: Any = None) -> None:
        callback(self, 0, arg)


class HostEvent(_Owned):
    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        weakref.finalize(self, self.processor.host.recorded.pop, int(handle), None)

    def query(self) -> bool:
        return True

    def record(self, stream: Any = 0) -> None:
        self.processor.host.cuEventRecord(self.handle, stream)

    synchronize = wait = _Owned._nothing


class HostContext(_Owned):
    def __init__(self, device: Any) -> None:
        self.device = device
        self.handle = binding.CUcontext(_CONTEXT)
        self.allocations: dict[Any, Any] = {}
        self.memory_manager = self.processor.memory(context=self)
        self.deallocations = self.api._PendingDeallocs()  # of streams and events, which need none
        self.modules: dict[Any, Any] = {}
        self.extras: dict[Any, Any] = {}

    def reset(self) -> None:
        """Forget what the context holds; memory that is still in use stays."""
        self.modules.clear()
        self.extras.clear()

    def get_default_stream(self) -> Any:
        return self.processor.stream(binding.CUstream(self.api.CU_STREAM_DEFAULT))

    def get_legacy_default_stream(self) -> Any:
        return self.processor.stream(binding.CUstream(binding.CU_STREAM_LEGACY))

    def get_per_thread_default_stream(self) -> Any:
        return self.processor.stream(binding.CUstream(binding.CU_STREAM_PER_THREAD))

    def create_stream(self) -> Any:
        return self.processor.stream(self.processor.host.cuStreamCreate(0))

    def create_external_stream(self, ptr: int) -> Any:
        if not isinstance(ptr, int):
            raise TypeError("ptr for external stream must be an int")
        return self.processor.stream(binding.CUstream(ptr), external=True)

    def create_event(self, timing: bool = True) -> Any:
        return self.processor.event(self.processor.host.cuEventCreate(0))

    synchronize = _Owned._nothing


class HostDevice(_Owned):
    def __init__(self) -> None:
        self.id = 0
        self.compute_capability = CAPABILITY
        self.name = NAME
        self.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, 'kernbridge')}"
        self.primary_context = self.processor.context(self)

    def __getattr__(self, name: str) -> Any:
        code = getattr(binding.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        if code is None:
            raise AttributeError(name)
        return self.processor.host.cuDeviceGetAttribute(code, 0)

    def get_primary_context(self) -> Any:
        return self.primary_context

    release_primary_context = _Owned._nothing  # there is one as long as the process lives

    def reset(self) -> None:
        self.primary_context.reset()


def refuse_memory_of_gpus(memory: Any) -> None:
    """Raise TypeError for an array, or its memory, that Numba has made on a GPU."""
    context = getattr(getattr(memory, "gpu_data", memory), "context", None)
    if context is not None and context.device.name != NAME:
        raise TypeError(
            "a device array that was created on a GPU, outside of kernbridge.cuda_on_cpu, is "
            "used inside of it; copy it to the host first, with copy_to_host() [KB7005]"
        )


class CoreStream:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    @classmethod
    def from_handle(cls, handle: Any) -> CoreStream:
        return cls(int(handle))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle
