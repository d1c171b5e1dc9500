"""Launches Numba-CUDA's kernels on the CPU: converts the arguments, and reports errors.

The arguments become 8-byte words in the order of Numba's entry. The kernel works on the memory of
NumPy arrays directly. An array is copied, as for a GPU, if it overlaps another array of the launch,
if `cuda.In` protects it, or if its elements are not aligned. `install_host_api` lets the host API
of a package use the processor and these launches.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy

from kernbridge import _core
from kernbridge._src.base.errors import KernelFaultError, coded
from kernbridge._src.cuda_device import device, mode
from kernbridge._src.cuda_device.mode import choose
from kernbridge._src.numba_common.private_numba_cuda import (
    NumbaPerformanceWarning,
    config,
    cuda,
    devicearray,
    dispatcher,
    driver,
    types,
    wrap_arg,
)
from kernbridge._src.plan.launch import pad

Three = tuple[int, int, int]
Words = list[int]


class View:
    """What Numba's launcher reads of a strided memory view of cuda.core, of an array's memory."""

    __slots__ = ("_layout", "array", "dtype", "ptr", "shape", "size")

    def __init__(self, array: Any) -> None:
        self.array, flags = array, array.flags
        self.ptr = _address(array)
        self.shape = array.shape
        self.dtype = array.dtype
        self.size = array.size
        self._layout = devicearray._StridedLayoutShim(
            strides_in_bytes=array.strides,
            is_contiguous_c=flags.c_contiguous,
            is_contiguous_f=flags.f_contiguous,
            is_contiguous_any=flags.forc,
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
        return View(array), True
    begin, end = driver.host_memory_extents(array)  # more than nbytes where strides leave gaps
    memory = numpy.empty(end - begin, numpy.uint8)
    if copy:
        if not user_explicit and isinstance(value, numpy.ndarray):
            _warn_of_copies()
        ctypes.memmove(_address(memory), begin, end - begin)
    offset = _address(array) - begin
    return View(numpy.ndarray(array.shape, array.dtype, memory, offset, array.strides)), True


def _copied_back(copy: Any, value: Any) -> None:
    """Write the elements of the copy of a host array into the array, and nothing between them."""
    array = numpy.asanyarray(value)
    if array.flags.writeable:
        array[...] = copy
    elif array.tobytes() != copy.tobytes():  # the compiler allows it for arrays of JAX
        raise KernelFaultError(
            f"a kernel wrote to an argument of type {type(value).__name__}, {array.dtype.name}"
            f"[{','.join(map(str, array.shape))}], which is read-only, so that the result would "
            "be lost; pass a NumPy array that can be written to, such as numpy.array(x), or "
            "memory of cuda.to_device(x) [KB3003]"
        )


def _out_to_device(hint: Any, after: list[Any], stream: Any = 0) -> Any:
    """`Out.to_device` of Numba: a copy is copied back when the launch has ended."""
    view, is_copy = copied(hint.value, stream, hint.copy_input)
    if is_copy:
        after.append(lambda: _copied_back(view.array, hint.value))
    return view


def words_of(kernel: Any, arguments: Any, stream: Any, after: list[Any]) -> Words:
    """Return the words of a launch; the caller calls what is put in `after` when it has ended."""
    packers = kernel.__dict__.get("_kernbridge_packers")
    if packers is None:
        packers = kernel._kernbridge_packers = [_packer(kernel, t) for t in kernel.argument_types]
    words: Words = []
    hosts = Hosts(stream, after)
    hosts.add(tuple(arguments))
    for pack, argument in zip(packers, arguments, strict=True):
        pack(words, argument, hosts)
    return words


class Hosts:
    """The host arrays of a launch, its stream, and what is called when it has ended."""

    def __init__(self, stream: Any, after: list[Any]) -> None:
        self.stream, self.after = stream, after
        self._extents: dict[int, tuple[int, int]] = {}  # by the identity of an argument
        self._all: list[tuple[int, int]] = []

    def add(self, value: Any) -> None:
        """Remember where an argument, or each member of a tuple, lies if it is a host array."""
        if isinstance(value, tuple):
            for element in value:
                self.add(element)
        array = value if type(value) is numpy.ndarray else getattr(value, "value", None)
        if type(array) is numpy.ndarray and array.nbytes:
            extents = driver.host_memory_extents(array)
            self._extents[id(value)] = extents
            self._all.append(extents)

    def address(self, array: Any) -> int | None:
        """Where a host array lies, or None if another argument shares memory with it."""
        extents = self._extents.get(id(array))
        if extents is None:
            return _address(array)
        begin, end = extents
        if len(self._all) > 1 and sum(b < end and begin < e for b, e in self._all) > 1:
            return None
        return begin if array.flags.forc else _address(array)


Packer = Callable[[Words, Any, Hosts], None]


def _packer(kernel: Any, kind: Any) -> Packer:
    def through_numba(words: Words, value: Any, hosts: Hosts) -> None:
        parts: list[Any] = []
        kernel._prepare_args(kind, value, hosts.stream, hosts.after, parts)
        words += map(bits, parts)

    if kernel.extensions:
        return through_numba
    if isinstance(kind, types.Array):
        return _pack_array
    if isinstance(kind, types.Integer):
        mask = (1 << kind.bitwidth) - 1
        return lambda words, value, hosts: words.append(operator.index(value) & mask)
    if isinstance(kind, types.BaseTuple):
        packers = [_packer(kernel, element) for element in kind]

        def pack_members(words: Words, value: Any, hosts: Hosts) -> None:
            for pack, element in zip(packers, value, strict=True):
                pack(words, element, hosts)

        return pack_members
    if kind in (types.float64, types.float32):
        number = ctypes.c_double if kind == types.float64 else ctypes.c_float
        return lambda words, value, hosts: words.append(bits(number(value)))
    return through_numba  # records, enumerations, and other rare types


def _pack_array(words: Words, value: Any, hosts: Hosts) -> None:
    if type(value) is numpy.ndarray:
        address = hosts.address(value)
        if address is not None and value.flags.aligned:
            _warn_of_copies()
            words += (0, 0, value.size, value.itemsize, address, *value.shape, *value.strides)
            return
    elif isinstance(value, devicearray.DeviceNDArray):
        own: Words | None = vars(value).get("_kernbridge_words")  # which stay the same
        if own is None:
            device.refuse_memory_of_gpus(value)
            view = value._strided_memory_view_shim
            own = [0, 0, view.size, view.dtype.itemsize, view.ptr or 0]
            own += (*view.shape, *view._layout.strides_in_bytes)
            value._kernbridge_words = own
        words += own
        return
    view = wrap_arg(value).to_device(hosts.after, hosts.stream)
    words += (0, 0, view.size, view.dtype.itemsize, view.ptr or 0, *view.shape)
    words += view._layout.strides_in_bytes


def bits(value: Any) -> int:
    """A value as cuda.core's launch takes it."""
    if isinstance(value, float):
        value = ctypes.c_double(value)
    if isinstance(value, ctypes._SimpleCData):
        return int.from_bytes(bytes(value), "little")
    return int(value)


def _address(array: Any) -> int:
    return int(array.ctypes.data)


def _warn_of_copies() -> None:
    if config.CUDA_WARN_ON_IMPLICIT_COPY and not config.DISABLE_PERFORMANCE_WARNINGS:
        text = "Host array used in CUDA kernel will incur copy overhead to/from device."
        devicearray.warn(NumbaPerformanceWarning(text))


def launch(
    kernel: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
) -> None:
    """`_Kernel.launch` of Numba-CUDA."""
    if kernel.debug:
        _launch_with_exceptions(kernel, args, griddim, blockdim, stream, sharedmem)
        return
    function = kernel._codelibrary.get_cufunc()
    after: list[Any] = []
    words = words_of(kernel, args, stream, after)
    run(function, three(griddim), three(blockdim), sharedmem, words)
    for write_back in after:
        write_back()


def run(function: Any, grid: Three, block: Three, shared: int, words: Words) -> None:
    packed = (ctypes.c_uint64 * len(words))(*words)
    try:
        _core.launch_host_code(function.digest, grid, block, int(shared), packed)
    except RuntimeError as e:
        text = f"kernel {function.kernel_name!r}: launch with grid {grid}, block {block}: {e}"
        raise KernelFaultError(coded(text, "KB3004")) from None
    except (ValueError, OverflowError) as e:
        error = device.failure(driver, "cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE")
        error.add_note(f"kernel {function.kernel_name!r}, grid {grid}, block {block}: {e}")
        raise error from None


def three(sizes: Any) -> Three:
    return pad([int(n) for n in sizes] if isinstance(sizes, tuple) else [int(sizes)])


def _core_launch(stream: Any, config: Any, function: Any, *values: Any) -> None:
    words = [bits(value) for value in values]
    run(function, three(config.grid), three(config.block), config.shmem_size, words)


# Numba's launcher reads the exceptions of kernels with `debug=True`: it is run with another launch.
_launch_with_exceptions = FunctionType(
    dispatcher._Kernel.launch.__code__,
    {**vars(dispatcher), "launch": _core_launch, "LaunchConfig": SimpleNamespace},
    "launch",
    dispatcher._Kernel.launch.__defaults__,
)


def install_host_api(inside: Any) -> None:
    """Put the processor beneath the host API of a package, whose modules `inside` has."""
    driver, devices = inside.driver, inside.devices
    vars(driver).setdefault("_logger", driver.make_logger())
    on_host = [devices._DeviceContextManager(device.install(driver))]
    on_gpus = devices._DeviceList.lst
    devices._DeviceList.lst = property(
        lambda self: on_gpus.fget(self) if mode.current() is None else on_host
    )

    def host_stream(stream: Any) -> Any:
        return driver.Stream(driver.binding.CUstream(driver._stream_handle(stream or 0)))

    choose(driver, "_to_core_stream", host_stream)
    choose(inside.nvvm, "is_available", lambda: True)  # none is needed
    choose(inside.runtime.Runtime, "get_version", lambda self: device.VERSION)
    require = driver.require_device_memory

    def require_of_cpu(memory: Any) -> None:
        require(memory)
        device.refuse_memory_of_gpus(memory)

    choose(driver, "require_device_memory", require_of_cpu)
    choose(inside.devicearray, "_to_strided_memory_view", copied)
    choose(inside.Out, "to_device", _out_to_device)
