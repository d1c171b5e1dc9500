"""The CPU as the only CUDA device of a thread: a driver in Python beneath Numba-CUDA, and launches.

Numba's arrays, contexts, memory, streams and events are used unchanged; their calls of the driver
are executed in the memory of the process, immediately. An object may end when its thread no longer
uses the CPU. The functions that end objects therefore recognise objects of the CPU by handle.
numba-cuda-mlir has the same host API in modules of its own, so each package has its own driver.

The arguments of a launch become 8-byte words in the order of Numba's entry. The kernel works on the
memory of NumPy arrays directly. An array is copied, as for a GPU, if arrays of the launch overlap,
if `cuda.In` protects it, or if its elements are not aligned.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import struct
import threading
import time
import uuid
from collections.abc import Iterator
from types import FunctionType, SimpleNamespace
from typing import Any, NoReturn

import numpy

from kernbridge import _core
from kernbridge._ext.emulator.device import mode
from kernbridge._src.base.errors import KernelFaultError, KernelNotAvailableError, coded, typed
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common import private_numba_cuda as numba_cuda
from kernbridge._src.numba_common.private_numba_cuda import config, cuda, dispatcher, driver, types
from kernbridge._src.plan.launch import pad

Words = list[int]

binding = driver.binding  # of both packages
VERSION = 13, 0  # which the driver reports to Numba
NAME = "the CPU, by kernbridge"
CAPABILITY = 9, 0
COUNTERPART_OF = "_kernbridge_original"  # in a dispatcher: label, kernel of numba-cuda-mlir

_CONTEXT = 0x10  # the handle of the only context
_ALIGNMENT = 256  # of memory, as cuMemAlloc has it
_HANDLES = itertools.count(0x1000)  # of streams and events, smaller than any address
_ENDING = (
    *("cuMemFree", "cuMemFreeHost", "cuMemHostUnregister"),
    *("cuEventDestroy", "cuStreamDestroy", "cuLibraryUnload"),
)
_ATTRIBUTES = {
    **dict.fromkeys(("CAN_MAP_HOST_MEMORY", "COOPERATIVE_LAUNCH", "UNIFIED_ADDRESSING"), 1),
    **dict.fromkeys(("CONCURRENT_MANAGED_ACCESS", "MANAGED_MEMORY"), 1),
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MULTIPROCESSOR_COUNT": 4,
    "WARP_SIZE": 32,
}


def failure(api: Any, call: str, code: str) -> Exception:
    return api.CudaAPIError(getattr(binding.CUresult, code), f"Call to {call} results in {code}")


def _nothing(*_: Any, **__: Any) -> None:
    """Everything has ended when a call returns, and needs no preparation."""


def _always(answer: int) -> Any:
    return lambda *_, **__: answer


class HostDriver:
    """The functions of the driver that Numba calls, as its `Driver` has them: errors raise."""

    api: Any  # the package's module `driver`
    is_initialized, initialization_error = True, None

    def __new__(cls) -> HostDriver:
        return object.__new__(cls)  # there is only one `Driver`, which is another one

    def __init__(self) -> None:
        self.devices: dict[int, Any] = {}
        # What has not ended: memory and pinned memory by address, streams, and times of events.
        self.alive: dict[int, Any] = {}
        self._thread = threading.local()  # `pushed`: how often it has pushed the only context

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

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def cuCtxGetCurrent(self) -> Any:
        return binding.CUcontext(_CONTEXT if getattr(self._thread, "pushed", 0) else 0)

    def cuCtxPushCurrent(self, handle: Any) -> None:
        self._thread.pushed = getattr(self._thread, "pushed", 0) + 1

    def cuCtxPopCurrent(self) -> Any:
        self._thread.pushed -= 1
        return binding.CUcontext(_CONTEXT)

    def cuMemGetInfo(self) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def cuMemAlloc(self, size: int, flags: int = 0) -> Any:
        if size == 0:
            raise failure(self.api, "cuMemAlloc", "CUDA_ERROR_INVALID_VALUE")
        try:
            if size > self.cuMemGetInfo()[1]:
                raise MemoryError
            memory = numpy.empty(size + _ALIGNMENT, numpy.uint8)
        except MemoryError:
            raise failure(self.api, "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY") from None
        address = -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self.alive[address] = memory
        return binding.CUdeviceptr(address)

    cuMemAllocManaged = cuMemAlloc

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        return int(self.cuMemAlloc(size))

    def cuMemHostGetDevicePointer(self, pointer: int, flags: int) -> Any:
        return binding.CUdeviceptr(int(pointer))

    def cuPointerGetAttribute(self, attribute: Any, pointer: Any) -> Any:
        return pointer

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[Any, int]:
        at = int(pointer)
        for begin, memory in list(self.alive.items()):
            size = memory.size - _ALIGNMENT if isinstance(memory, numpy.ndarray) else 0
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
        if pointer in self.alive:
            code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
            raise failure(self.api, "cuMemHostRegister", code)
        self.alive[pointer] = None

    def _handle(self, kind: Any, flags: int) -> Any:
        handle = next(_HANDLES)
        self.alive[handle] = None
        return kind(handle)

    cuStreamCreate = functools.partialmethod(_handle, binding.CUstream)
    cuEventCreate = functools.partialmethod(_handle, binding.CUevent)

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self.alive[int(event)] = time.perf_counter()

    def cuEventElapsedTime(self, begin: Any, end: Any) -> float:
        begun, ended = self.alive[int(begin)], self.alive[int(end)]
        if begun is None or ended is None:
            raise failure(self.api, "cuEventElapsedTime", "CUDA_ERROR_INVALID_HANDLE")
        return 1e3 * (ended - begun)


def _ending(name: str) -> Any:
    """A function that ends an object, of the CPU or of a GPU, whatever its thread uses now."""

    def call(self: HostDriver, handle: Any) -> None:
        if int(handle) in self.alive:
            del self.alive[int(handle)]
            return
        code, *_ = getattr(binding, name)(handle)
        if code != binding.CUresult.CUDA_SUCCESS:
            raise failure(self.api, name, code.name)

    call.__name__ = name  # which Numba logs
    return call


for _name in _ENDING:
    setattr(HostDriver, _name, _ending(_name))


def install(api: Any) -> Any:
    """Put the processor beneath a package, whose module `driver` is `api`; return its device."""
    host = type("HostDriver", (HostDriver, api.Driver), {"api": api})()
    device = object.__new__(api.Device)
    number = uuid.uuid5(uuid.NAMESPACE_OID, "kernbridge")
    vars(device).update(id=0, compute_capability=CAPABILITY, name=NAME, uuid=f"GPU-{number}")
    device.release_primary_context = _nothing  # there is one as long as the process lives
    with patched((api, "_memory_manager", api.NumbaCUDAMemoryManager)):
        context = device.primary_context = api.Context(device, binding.CUcontext(_CONTEXT))
    # It frees what nothing uses; memory that is still in use stays.
    context.reset = context.memory_manager.deallocations.clear
    host.devices[0] = device

    class ChoosingDriver(api.Driver):
        """For which `host` stands while a thread is on the CPU."""

        def __getattribute__(self, name: str) -> Any:
            if mode.current() is None and name not in _ENDING:
                return object.__getattribute__(self, name)
            return getattr(host, name)

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self if mode.current() is None else host, name, value)

        def __delattr__(self, name: str) -> None:
            object.__delattr__(self if mode.current() is None else host, name)

    api.driver.__class__ = ChoosingDriver
    mode.choose(api.Stream, "add_callback", lambda stream, call, arg=None: call(stream, 0, arg))
    return device


def refuse_memory_of_gpus(memory: Any) -> None:
    """Raise TypeError for an array, or its memory, that Numba has made on a GPU."""
    context = getattr(getattr(memory, "gpu_data", memory), "context", None)
    if context is not None and context.device.name != NAME:
        raise TypeError(
            "a device array that was created on a GPU, outside of kernbridge.cuda_on_cpu, is "
            "used inside of it; copy it to the host first, with copy_to_host() [KB7005]"
        )


class _Copy(numpy.ndarray[Any, Any]):
    """An array with what Numba's launcher reads of a strided memory view of cuda.core."""

    ptr = property(lambda self: self.ctypes.data)
    _layout = property(
        lambda self: SimpleNamespace(
            strides_in_bytes=self.strides, is_contiguous_c=True, is_contiguous_f=True
        )
    )


def copied(
    value: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False
) -> tuple[Any, bool]:
    """`_to_strided_memory_view` of Numba: the device's memory, and whether it is a copy."""
    if not driver.is_device_memory(value) and hasattr(value, "__cuda_array_interface__"):
        value = cuda.from_cuda_array_interface(value.__cuda_array_interface__, owner=value)
    if driver.is_device_memory(value):
        return value._strided_memory_view_shim, False
    array = numpy.asanyarray(value)
    if not array.nbytes:
        return array.view(_Copy), True
    begin, end = driver.host_memory_extents(array)  # more than nbytes where strides leave gaps
    memory = numpy.empty(end - begin, numpy.uint8)
    if copy:
        if not user_explicit and isinstance(value, numpy.ndarray):
            _warn_of_copies()
        ctypes.memmove(memory.ctypes.data, begin, end - begin)
    return _Copy(array.shape, array.dtype, memory, array.ctypes.data - begin, array.strides), True


def _copied_back(copy: Any, value: Any) -> None:
    """Write the elements of the copy of a host array into the array, and nothing between them."""
    array = numpy.asanyarray(value)
    if array.flags.writeable:
        array[...] = copy
    elif array.tobytes() != copy.tobytes():  # the compiler allows it for arrays of JAX
        raise KernelFaultError(
            f"a kernel wrote to an argument of type {type(value).__name__}, "
            f"{typed(array.dtype, array.shape)}, which is read-only, so that the result would "
            "be lost; pass a NumPy array that can be written to, such as numpy.array(x), or "
            "memory of cuda.to_device(x) [KB3003]"
        )


def _out_to_device(hint: Any, after: list[Any], stream: Any = 0) -> Any:
    """`Out.to_device` of Numba: a copy is copied back when the launch has ended."""
    view, is_copy = copied(hint.value, stream, hint.copy_input)
    if is_copy:
        after.append(lambda: _copied_back(view, hint.value))
    return view


def _host_extents(value: Any) -> Iterator[tuple[int, int]]:
    """Where an argument, or each member of a tuple, lies if it is a host array."""
    for element in value if isinstance(value, tuple) else ():
        yield from _host_extents(element)
    array = value if type(value) is numpy.ndarray else getattr(value, "value", None)
    if type(array) is numpy.ndarray and array.nbytes:
        yield driver.host_memory_extents(array)


def _apart(value: Any) -> Any:
    """An argument whose host arrays are copied."""
    if isinstance(value, tuple):
        return tuple(map(_apart, value))
    return numba_cuda.wrap_arg(value) if type(value) is numpy.ndarray else value


def _bits(value: Any) -> int:
    """A value as cuda.core's launch takes it."""
    if isinstance(value, float):
        value = ctypes.c_double(value)
    if isinstance(value, ctypes._SimpleCData):
        return int.from_bytes(bytes(value).ljust(8, b"\0"), "little", signed=True)
    return int(value or 0)


def _warn_of_copies() -> None:
    if config.CUDA_WARN_ON_IMPLICIT_COPY and not config.DISABLE_PERFORMANCE_WARNINGS:
        text = "Host array used in CUDA kernel will incur copy overhead to/from device."
        numba_cuda.devicearray.warn(numba_cuda.NumbaPerformanceWarning(text))


def _launch_on_cpu(stream: Any, config: dict[str, Any], function: Any, *values: Any) -> None:
    words = [value if type(value) is int else _bits(value) for value in values]
    packed = struct.pack(f"{len(words)}q", *words)
    grid, block = _three(config["grid"]), _three(config["block"])
    try:
        _core.launch_host_code(function.digest, grid, block, int(config["shmem_size"]), packed)
    except RuntimeError as e:
        text = f"kernel {function.kernel_name!r}: launch with grid {grid}, block {block}: {e}"
        raise KernelFaultError(coded(text, "KB3004")) from None
    except (ValueError, OverflowError) as e:
        error = failure(driver, "cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE")
        error.add_note(f"kernel {function.kernel_name!r}, grid {grid}, block {block}: {e}")
        raise error from None


def _three(sizes: Any) -> tuple[int, int, int]:
    return pad([int(n) for n in sizes] if isinstance(sizes, tuple) else [int(sizes)])


# Numba's launcher, which also reads the exceptions of kernels with `debug=True`.
_launch = FunctionType(
    dispatcher._Kernel.launch.__code__,
    {**vars(dispatcher), "launch": _launch_on_cpu, "LaunchConfig": dict},
)


def refuse(what: str, *_: Any, **__: Any) -> NoReturn:
    raise KernelNotAvailableError(
        f"the program asks for the {what} of a kernel, which does not exist where kernels run on "
        "the CPU; run this part on a GPU [KB7005]"
    )


def label_of(function: Any) -> str:
    return f"kernel {function.__name__!r}"


class HostKernel(dispatcher._Kernel):
    """A kernel of Numba that was compiled for the CPU.

    Its launch works on host arrays, unless an exception must leave them as they were, or
    extensions get them.
    """

    def launch(
        self, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        list(zip(self.argument_types, args, strict=True))  # Numba takes fewer arguments, or more
        extents = sorted(_host_extents(tuple(args)))
        overlap = any(begin < end for (_, end), (begin, _) in itertools.pairwise(extents))
        if overlap and not self.extensions:
            args = _apart(tuple(args))
        _launch(self, args, griddim, blockdim, stream, sharedmem)

    def _prepare_args(
        self, kind: Any, value: Any, stream: Any, after: list[Any], words: Words
    ) -> None:
        is_array = isinstance(kind, types.Array) and not self.extensions
        if is_array and isinstance(value, numba_cuda.devicearray.DeviceNDArray):
            own = vars(value).get("_kernbridge_words")  # which stay the same
            if own is None:
                refuse_memory_of_gpus(value)
                own = value._kernbridge_words = []
                super()._prepare_args(kind, value, stream, after, own)
            words += own
        elif is_array and type(value) is numpy.ndarray and value.flags.aligned and not self.debug:
            _warn_of_copies()
            words += [0, 0, value.size, value.itemsize, value.ctypes.data]
            words += [*value.shape, *value.strides]
        else:
            super()._prepare_args(kind, value, stream, after, words)


def install_host_api(inside: Any) -> None:
    """Put the processor beneath the host API of a package, whose modules `inside` has."""
    driver, devices = inside.driver, inside.devices
    vars(driver).setdefault("_logger", driver.make_logger())
    on_host = [devices._DeviceContextManager(install(driver))]
    on_gpus = devices._DeviceList.lst
    devices._DeviceList.lst = property(
        lambda self: on_gpus.fget(self) if mode.current() is None else on_host
    )

    def host_stream(stream: Any) -> Any:
        return driver.Stream(driver.binding.CUstream(driver._stream_handle(stream or 0)))

    mode.choose(driver, "_to_core_stream", host_stream)
    mode.choose(inside.nvvm, "is_available", lambda: True)  # none is needed
    mode.choose(inside.runtime.Runtime, "get_version", lambda self: VERSION)
    require = driver.require_device_memory

    def require_of_cpu(memory: Any) -> None:
        require(memory)
        refuse_memory_of_gpus(memory)

    mode.choose(driver, "require_device_memory", require_of_cpu)
    mode.choose(inside.devicearray, "_to_strided_memory_view", copied)
    mode.choose(inside.Out, "to_device", _out_to_device)
