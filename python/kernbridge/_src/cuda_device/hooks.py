"""Replaces functions of Numba-CUDA when a thread launches on the CPU for the first time.

Functions of numba-cuda-mlir, which has the same host API, are replaced when a program imports that
package. Each replacement checks the mode of the thread, so threads that launch on a GPU are not
affected. Replacements stay in place until the process ends.
"""

from __future__ import annotations

import functools
from typing import Any

from kernbridge import _core
from kernbridge._src.cuda_device import code, device, dispatchers, imports, launch, mode
from kernbridge._src.cuda_device.replacing import choose, install_host_api
from kernbridge._src.keys import package_digest
from kernbridge._src.numba_common import numba_cuda_device_inside
from kernbridge._src.numba_common.numba_cuda_device_inside import (
    codegen,
    dispatcher,
    driver,
    global_compiler_lock,
    nrt,
)
from kernbridge._src.numba_cuda.counterpart import counterpart

_installed = False


def install() -> None:
    """Replace the functions of Numba-CUDA, once."""
    global _installed
    with global_compiler_lock:
        if not _installed:
            install_host_api(numba_cuda_device_inside)
            _install_memory()
            _install_code()
            _install_dispatchers()
            imports.when_imported("numba_cuda_mlir.cuda", _install_mlir)
            _installed = True


def _install_mlir() -> None:
    from kernbridge._src.cuda_device import mlir_hooks

    mlir_hooks.install()


def _install_memory() -> None:
    # Numba keeps its statistics of device memory in CUDA C++; here nothing is counted.
    of_memory = nrt._Runtime
    for name in ("ensure_allocated", "ensure_initialized", "_single_thread_launch"):
        choose(of_memory, name, lambda self, *_, **__: None)
    choose(of_memory, "set_memsys_to_module", lambda self, *_, **__: None)
    choose(of_memory, "get_allocation_stats", lambda self: nrt._nrt_mstats(0, 0, 0, 0))


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
    choose(codegen.JITCUDACodegen, "magic_tuple", _magic)


def _of_gpus(original: Any, what: str) -> Any:
    """A function that refuses to return `what` of a kernel for the CPU."""

    @functools.wraps(original)
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        if code.is_for_cpu(self):
            raise code.not_there(what)
        return original(self, *args, **kwargs)

    return chosen


def _magic(self: Any) -> tuple[Any, ...]:
    """What distinguishes kernels for the CPU in Numba's cache on disk."""
    return "kernbridge", _core.HOST_ABI, mode.current(), package_digest.digest()


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
        original = vars(self).get(dispatchers.COUNTERPART_OF)
        if original is not None:  # which may read something else than when it was compiled before
            self.py_func = counterpart(*original).py_func
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
    choose(kernels, "bind", bound)
    choose(of_kernels, "compile", compiled)
    choose(of_kernels, "compile_device", compiled_device)
