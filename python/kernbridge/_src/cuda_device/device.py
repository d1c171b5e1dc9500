"""The CPU as a CUDA device, with its context, memory, streams and events.

Numba's own classes are used where these call the driver. Objects that may outlive the block in
which the thread uses the CPU (memory, streams, events) do not call the driver. Each package has
its own `Processor`.
"""

from __future__ import annotations

import uuid
import weakref
from typing import Any

from kernbridge._src.cuda_device.driver import HostDriver, Mixin, binding, failure

NAME = "the CPU, by kernbridge"
CAPABILITY = 9, 0
_CONTEXT = 0x10  # the handle of the only context


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
        """The class of this package that ours is put before."""
        return type(ours.__name__, (ours, base), {"api": self.api, "processor": self})


class _Owned(Mixin):
    """What belongs to a processor."""

    api: Any
    processor: Processor


class HostMemory(_Owned):
    """Memory of the process in the place of a GPU's. Numba frees it in batches, as there."""

    def __init__(self, context: Any) -> None:
        super().__init__(context=context)
        self.deallocations.memory_capacity = self.processor.host.cuMemGetInfo()[1]

    def initialize(self) -> None:
        """Nothing is to be done."""

    def _own(self, kind: Any, address: Any, size: int, owner: Any = None) -> Any:
        def free() -> None:
            self.allocations.pop(int(address), None)
            if owner is None:
                self.deallocations.add_item(self.processor.host.cuMemFree, address, size)

        context = weakref.proxy(self.context)
        return kind(context, address, size, owner=owner, finalizer=free)

    def _kept(self, kind: Any, address: Any, size: int, owner: Any = None) -> Any:
        """Memory that Numba counts references of."""
        made = self._own(kind, address, size, owner)
        self.allocations[int(address)] = made
        return made.own()

    def memalloc(self, size: int) -> Any:
        return self._kept(self.api.AutoFreePointer, self.processor.host.cuMemAlloc(size), size)

    def memallocmanaged(self, size: int, attach_global: bool) -> Any:
        return self._kept(self.api.ManagedMemory, self.processor.host.cuMemAlloc(size), size)

    def memhostalloc(
        self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Any:
        address = int(self.processor.host.cuMemAlloc(size))
        if mapped:
            return self._kept(self.api.MappedMemory, address, size)
        return self._own(self.api.PinnedMemory, address, size)

    def mempin(self, owner: Any, pointer: Any, size: int, mapped: bool = False) -> Any:
        if mapped and int(pointer) in self.allocations:
            raise failure(
                self.api, "cuMemHostRegister", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
            )
        if mapped:
            return self._kept(self.api.MappedMemory, pointer, size, owner)
        return self._own(self.api.PinnedMemory, pointer, size, owner)

    def get_memory_info(self) -> Any:
        free, total = self.processor.host.cuMemGetInfo()
        return self.api.MemoryInfo(free=free, total=total)

    def get_ipc_handle(self, memory: Any) -> Any:
        return self.processor.host.cuIpcGetMemHandle(memory)  # which is refused

    @property
    def interface_version(self) -> int:
        return 1


class HostStream(_Owned):
    """A stream, on which all has ended when a call returns."""

    def add_callback(self, callback: Any, arg: Any = None) -> None:
        callback(self, 0, arg)


class HostEvent(_Owned):
    """An event: when it was recorded."""

    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        weakref.finalize(self, self.processor.host.forget_event, int(handle))

    def query(self) -> bool:
        return True

    def record(self, stream: Any = 0) -> None:
        self.processor.host.cuEventRecord(self.handle, stream)

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def wait(self, stream: Any = 0) -> None:
        """There is nothing to wait for."""


class HostContext(_Owned):
    """The context of the processor."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.handle = binding.CUcontext(_CONTEXT)
        self.allocations: dict[Any, Any] = {}
        self.memory_manager = self.processor.memory(context=self)
        self.deallocations = self.api._PendingDeallocs()  # of streams and events, which need none
        self.modules: dict[Any, Any] = {}
        self.extras: dict[Any, Any] = {}

    def reset(self) -> None:
        """Forget what the context holds; memory that somebody has stays."""
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

    def synchronize(self) -> None:
        """There is nothing to wait for."""


class HostDevice(_Owned):
    """The processor."""

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

    def release_primary_context(self) -> None:
        """There is one context as long as the process lives."""

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
    """A stream of cuda.core: its handle."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    @classmethod
    def from_handle(cls, handle: Any) -> CoreStream:
        """As cuda.core makes it."""
        return cls(int(handle))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle
