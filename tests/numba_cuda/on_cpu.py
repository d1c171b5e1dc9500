"""Numba-CUDA with kernbridge beneath it: kernels are compiled for the CPU and run there.

Numba types a kernel, makes its LLVM IR, takes the arguments of a launch apart and keeps what it
compiled, all as for a GPU. In the place of a cubin there is kernbridge's image of the kernel.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import host_driver
import kernbridge._core as _core
from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.cuda_on_cpu import compile as cuda_on_cpu_compile
from kernbridge._src.numba_cuda import patches as numba_cuda_patches
from stand_ins import reads

LEVEL = "NUMBA_CUDA_TESTS_LEVEL"  # environment variable: see _optimise_less
launches = 0
refusals: list[str] = []
"""What kernbridge said of kernels that it does not run on CPUs."""

_patches = ExitStack()  # which nobody leaves
_MODULES = itertools.count(0x100000, 16)
_MAX_THREADS = 1024


def install() -> None:
    """Patch Numba-CUDA, for the life of the process."""
    from numba.cuda import codegen, dispatcher

    host_driver.install()
    _patches.enter_context(numba_cuda_patches.without_nvvm())
    codegen.CUDACodeLibrary.get_cubin = _image
    codegen.CUDACodeLibrary.get_cufunc = _function
    dispatcher.launch = _launch
    _only_kernels()
    _optimise_less(int(os.environ.get(LEVEL, "1")))
    dispatcher.LaunchConfig = SimpleNamespace


def _only_kernels() -> None:
    """Tests that read what a compiler of GPUs makes are none of kernels on CPUs: they end there."""
    from numba.cuda import codegen
    from numba.cuda.cudadrv import nvvm

    def assembly(library: Any, cc: Any = None) -> str:
        del cc
        if sys._getframe(1).f_code.co_name == "__init__":  # of _Kernel, which looks for NRT in it
            return ""
        return reads("PTX")(library)

    library = codegen.CUDACodeLibrary
    library.get_asm_str = assembly
    library.get_asm_strs = library.get_ltoir = library.get_lto_ptx = reads("PTX")
    library.get_sass = library.get_sass_cfg = reads("SASS")
    library.get_linkerinfo = reads("linker output")
    nvvm.CompilationUnit.__init__ = reads("PTX")


def _optimise_less(level: int) -> None:
    """Let LLVM optimise up to this level: at 3, as kernbridge asks for it, it takes most time."""
    import llvmlite.binding as llvm

    options, machine = llvm.create_pipeline_tuning_options, llvm.Target.create_target_machine

    def fewer(speed_level: int = 2) -> Any:
        return options(min(level, speed_level))

    def create_target_machine(target: Any, **given: Any) -> Any:
        return machine(target, **{**given, "opt": min(level, given.get("opt", 2))})

    llvm.create_pipeline_tuning_options = fewer
    llvm.Target.create_target_machine = create_target_machine


def _image(library: Any, cc: Any = None) -> bytes:
    """`CUDACodeLibrary.get_cubin`: the image, made once."""
    from numba.cuda.core.compiler_lock import global_compiler_lock

    cc = library._ensure_cc(cc)
    if cc not in library._cubin_cache:
        try:
            with global_compiler_lock:
                image, _ = cuda_on_cpu_compile.image_of(library.name, library, library._entry_name)
        except KernelCompilationError as e:
            refusals.append(str(e))
            raise
        library._cubin_cache[cc] = image
    return library._cubin_cache[cc]


def _function(library: Any) -> Any:
    """`CUDACodeLibrary.get_cufunc`: the machine code, with what Numba reads of a CUfunction."""
    if 0 not in library._cufunc_cache:
        image = _image(library)
        cuda_on_cpu_compile.compile_image(image)
        module = _Module(image)
        kernel = SimpleNamespace(
            image=image,
            handle=module.handle,
            attributes=SimpleNamespace(max_threads_per_block=_MAX_THREADS),
        )
        library._cufunc_cache[0] = SimpleNamespace(
            module=module,
            kernel=kernel,
            handle=module.handle,
            name=library._entry_name,
            attrs=_Attributes(module),
            set_shared_memory_carveout=lambda carveout: None,
        )
    return library._cufunc_cache[0]


class _Module:
    """A loaded module: the globals of its image."""

    def __init__(self, image: bytes) -> None:
        self.handle = next(_MODULES)
        self.initialized = False
        self.defined = cuda_on_cpu_compile._registered[image[:64].decode()]

    def setup(self) -> None:
        self.initialized = True

    def get_global_symbol(self, name: str) -> tuple[Any, int]:
        from numba.cuda.cudadrv import devices, driver

        address = self.defined.get(name)
        if address is None:
            raise KeyError(f"the image has no global {name!r}")
        pointer = driver.binding.CUdeviceptr(address)
        return driver.MemoryPointer(devices.get_context(), pointer, 4), 4


class _Attributes:
    """What Numba tells of a kernel's machine code."""

    maxthreads = _MAX_THREADS

    def __init__(self, module: _Module) -> None:
        self.shared = _number(module.defined["kb_shared_size"])
        self.local = _number(module.defined["kb_stack_size"])

    @property
    def regs(self) -> int:
        return int(reads("registers")())

    @property
    def const(self) -> int:
        return int(reads("constant memory")())


def _number(address: int) -> int:
    """What a function of the image returns."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(address)())


def _launch(stream: Any, config: Any, kernel: Any, *arguments: Any) -> None:
    """`cuda.core.launch`."""
    global launches
    del stream
    launches += 1
    held = [_parameter(a) for a in arguments]
    parameters = (ctypes.c_void_p * (len(held) + 1))(*(ctypes.addressof(h) for h in held))
    grid, block = _three(config.grid), _three(config.block)
    if 0 in grid + block or block[0] * block[1] * block[2] > _MAX_THREADS:
        raise host_driver.Functions().fail("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE")
    digest = kernel.image[:64]
    _core.launch_host_code(
        digest, grid, block, int(config.shmem_size), ctypes.addressof(parameters)
    )


def _three(sizes: Any) -> tuple[int, int, int]:
    given = sizes if isinstance(sizes, tuple) else (sizes,)
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z


def _parameter(value: Any) -> Any:
    """A value as cuda.core's launch takes it."""
    if isinstance(value, ctypes._SimpleCData):
        return value
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_int64(int(value))
