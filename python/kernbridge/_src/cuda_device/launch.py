"""Passes launches of Numba-CUDA's kernels on the CPU to the core, and reports their errors."""

from __future__ import annotations

import ctypes
from types import FunctionType, SimpleNamespace
from typing import Any

from kernbridge import _core
from kernbridge._src.base.errors import KernelFaultError, coded
from kernbridge._src.cuda_device import arguments
from kernbridge._src.cuda_device.driver import failure
from kernbridge._src.numba_common.numba_cuda_device_inside import dispatcher, driver
from kernbridge._src.plan.launch import pad

Three = tuple[int, int, int]


def launch(
    kernel: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
) -> None:
    """`_Kernel.launch` of Numba-CUDA."""
    if kernel.debug:
        _launch_with_exceptions(kernel, args, griddim, blockdim, stream, sharedmem)
        return
    function = kernel._codelibrary.get_cufunc()
    after: list[Any] = []
    words = arguments.words_of(kernel, args, stream, after)
    run(driver, function, three(griddim), three(blockdim), sharedmem, words)
    for write_back in after:
        write_back()


def run(api: Any, function: Any, grid: Three, block: Three, shared: int, words: list[int]) -> None:
    """Launch machine code and wait for it; `api` is the module `driver` of the package."""
    packed = (ctypes.c_uint64 * len(words))(*words)
    try:
        _core.launch_host_code(function.digest, grid, block, int(shared), packed)
    except RuntimeError as e:
        text = f"kernel {function.kernel_name!r}: launch with grid {grid}, block {block}: {e}"
        raise KernelFaultError(coded(text, "KB3004")) from None
    except (ValueError, OverflowError) as e:
        error = failure(api, "cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE")
        error.add_note(f"kernel {function.kernel_name!r}, grid {grid}, block {block}: {e}")
        raise error from None


def three(sizes: Any) -> Three:
    """Return the extents of a grid or block along x, y and z."""
    return pad([int(n) for n in sizes] if isinstance(sizes, tuple) else [int(sizes)])


def _core_launch(stream: Any, config: Any, function: Any, *values: Any) -> None:
    """`cuda.core.launch`."""
    words = [arguments.bits(value) for value in values]
    run(driver, function, three(config.grid), three(config.block), config.shmem_size, words)


# Numba's launcher reads the exceptions of kernels with `debug=True`: it is run with another launch.
_launch_with_exceptions = FunctionType(
    dispatcher._Kernel.launch.__code__,
    {**vars(dispatcher), "launch": _core_launch, "LaunchConfig": SimpleNamespace},
    "launch",
    dispatcher._Kernel.launch.__defaults__,
)
