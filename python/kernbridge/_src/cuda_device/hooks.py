"""What is different in Numba-CUDA from the first time on that a thread launches on the CPU.

Each function that is replaced asks for the mode of the thread, so threads that launch on a GPU see
no difference. It stays in place for the life of the process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kernbridge import _core
from kernbridge._src.cuda_device import arguments, code, device, dispatchers, launch, mode
from kernbridge._src.cuda_device.driver import VERSION, ChoosingDriver
from kernbridge._src.keys import generators
from kernbridge._src.numba_common.numba_cuda_device_inside import (
    codegen,
    devicearray,
    devices,
    dispatcher,
    driver,
    global_compiler_lock,
    nrt,
    nvvm,
    runtime,
)

_installed = False


def install() -> None:
    """Replace the functions of Numba-CUDA, once."""
    global _installed
    with global_compiler_lock:
        if not _installed:
            _install_driver()
            _install_memory()
            _install_code()
            _install_dispatchers()
            _installed = True


def _choose(owner: Any, name: str, on_cpu: Callable[..., Any]) -> None:
    """Let a thread that is on the CPU call `on_cpu`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (original if mode.current() is None else on_cpu)(*args, **kwargs)

    setattr(owner, name, chosen)


def _with_globals(function: Any, **names: Any) -> Any:
    """A copy of a function to which some global names mean something else."""
    space = {**function.__globals__, **names}
    return FunctionType(function.__code__, space, function.__name__, function.__defaults__)


def _install_driver() -> None:
    vars(driver).setdefault("_logger", driver.make_logger())
    driver.driver.__class__ = ChoosingDriver
    on_host = [devices._DeviceContextManager(device.device)]
    on_gpus = devices._DeviceList.lst
    devices._DeviceList.lst = property(
        lambda self: on_gpus.fget(self) if mode.current() is None else on_host
    )
    for name in ("_to_core_stream", "_stream_handle"):
        ours = _with_globals(getattr(driver, name), ExperimentalStream=device.CoreStream)
        _choose(driver, name, ours)
    _choose(nvvm, "is_available", lambda: True)  # none is needed
    _choose(runtime.Runtime, "get_version", lambda self: VERSION)


def _install_memory() -> None:
    require = driver.require_device_memory

    def require_of_cpu(memory: Any) -> None:
        require(memory)
        device.refuse_memory_of_gpus(memory)

    _choose(driver, "require_device_memory", require_of_cpu)
    _choose(devicearray, "_to_strided_memory_view", arguments.copied)
    _choose(devicearray, "_make_strided_memory_view", arguments.view_of)
    # Numba keeps its statistics of device memory in CUDA C++; here nothing is counted.
    of_memory = nrt._Runtime
    for name in ("ensure_allocated", "ensure_initialized", "_single_thread_launch"):
        _choose(of_memory, name, lambda self, *_, **__: None)
    _choose(of_memory, "set_memsys_to_module", lambda self, *_, **__: None)
    _choose(of_memory, "get_allocation_stats", lambda self: nrt._nrt_mstats(0, 0, 0, 0))


def _install_code() -> None:
    library, get_function = codegen.CUDACodeLibrary, codegen.CUDACodeLibrary.get_cufunc

    @functools.wraps(get_function)
    def function_of(self: Any) -> Any:
        return code.function_of(self) if code.is_for_cpu(self) else get_function(self)

    library.get_cufunc = function_of
    for name, what in (
        ("get_asm_str", "the PTX of a kernel"),
        ("get_asm_strs", "the PTX of a kernel"),
        ("get_lto_ptx", "the PTX of a kernel"),
        ("get_ltoir", "the LTO-IR of a kernel"),
        ("get_cubin", "the cubin of a kernel"),
        ("get_linkerinfo", "the linker output of a kernel"),
        ("get_sass", "the SASS of a kernel"),
        ("get_sass_cfg", "the SASS of a kernel"),
    ):
        setattr(library, name, _of_gpus(getattr(library, name), what))
    _choose(codegen.JITCUDACodegen, "magic_tuple", _magic)


def _of_gpus(original: Any, what: str) -> Any:
    """A function that refuses to return `what` of a kernel for the CPU."""

    @functools.wraps(original)
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if code.is_for_cpu(self):
            raise code.not_there(what)
        return original(self, *args, **kwargs)

    return chosen


def _magic(self: Any) -> tuple[Any, ...]:
    """What tells kernels for the CPU apart in Numba's cache on disk."""
    return "kernbridge", _core.HOST_ABI, mode.current(), generators.digest()


def _install_dispatchers() -> None:
    of_kernels, kernels = dispatcher.CUDADispatcher, dispatcher._Kernel
    make, bind, run = of_kernels.__init__, kernels.bind, kernels.launch
    compile_kernel, compile_device = of_kernels.compile, of_kernels.compile_device

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        dispatchers.tag(self)
        make(self, *args, **kwargs)

    def bound(self: Any) -> None:
        code.add_image(self)
        bind(self)

    def compiled(self: Any, sig: Any) -> Any:
        with code.compiling(self):
            return compile_kernel(self, sig)

    def compiled_device(self: Any, *args: Any, **kwargs: Any) -> Any:
        with code.compiling_device():
            return compile_device(self, *args, **kwargs)

    @functools.wraps(run)
    def launched(
        self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        if code.is_for_cpu(self._codelibrary):
            launch.launch(self, args, griddim, blockdim, stream, sharedmem)
            return
        if isinstance(stream, device.CoreStream):  # of a launch that was configured on the CPU
            stream = driver._to_core_stream(stream.handle)
        run(self, args, griddim, blockdim, stream, sharedmem)

    of_kernels.__init__ = made
    kernels.launch = launched
    _choose(kernels, "bind", bound)
    _choose(of_kernels, "compile", compiled)
    _choose(of_kernels, "compile_device", compiled_device)
