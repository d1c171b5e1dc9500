"""The cache of compiled kernels: its folder and size, and what this process keeps in memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import kernbridge._core as _core
from kernbridge._src.forge.artefacts import get_cache_dir, set_cache_dir
from kernbridge._src.forge.limit import cache_stats, clear_cache
from kernbridge._src.forge.obtain import held
from kernbridge._src.source import module

__all__ = ["CacheStats", "clear_cache", "get_cache_dir", "set_cache_dir", "stats"]


@dataclass(frozen=True)
class CacheStats:
    """What kernbridge holds in memory and on disk.

    Objects marked as lasting stay in memory until the process ends, since compiled programs contain
    the addresses of their machine code.

    Attributes
    ----------
    kernels, kernel_bytes : int
        Kernels and plans that programs of this process can call, and the memory of their
        descriptions. Lasting.
    cpu_kernels : int
        Numba kernels with machine code for the CPU, one for each content and signature. Lasting.
    cuda_functions, cuda_function_bytes : int
        Numba-CUDA kernels with machine code for GPUs, and the memory of that code. They are
        released with the last kernel that has the same content and the last plan that launches
        them.
    cuda_on_cpu : int
        CUDA kernels with machine code for the CPU. Lasting.
    cuda_on_cpu_threads : int
        CUDA threads whose stacks are kept for the next launch on the CPU; at most 1,024 for each
        processor.
    gpu_functions, gpu_loads : int
        Functions of registered GPU programs, which programs of the same content share, and how
        many times such a function was loaded into a GPU. Lasting.
    gpu_images, gpu_bytes : int
        Images with their machine code, one for each content, and the memory of these functions and
        images. Lasting.
    modules : int
        Modules that were built from C, C++ or CUDA source and loaded. Lasting.
    callbacks : int
        Python functions that run at every call because they cannot be recorded. They are released
        with their operation and the programs that call them, except for the 64 that were used last.
    disk_entries, disk_bytes : int
        Compiled artefacts in the folder of the cache, and bytes of the folder.
    """

    kernels: int
    kernel_bytes: int
    cpu_kernels: int
    cuda_functions: int
    cuda_function_bytes: int
    cuda_on_cpu: int
    cuda_on_cpu_threads: int
    gpu_functions: int
    gpu_loads: int
    gpu_images: int
    gpu_bytes: int
    modules: int
    callbacks: int
    disk_entries: int
    disk_bytes: int


def stats() -> CacheStats:
    """Count what kernbridge holds in memory and on disk, which it shares with other processes.

    Examples
    --------
    >>> from kernbridge import cache
    >>> cache.stats().kernels >= 0
    True
    """
    callback = sys.modules.get("kernbridge._src.numba_cuda.callback")
    functions = list(held("numba_cuda").values())
    disk_entries, disk_bytes = cache_stats()
    kernels, kernel_bytes = _core.registry_stats()
    gpu_functions, gpu_loads, gpu_bytes, gpu_images = _core.function_stats()
    return CacheStats(
        kernels=kernels,
        kernel_bytes=kernel_bytes,
        cpu_kernels=len(held("numba_cpu_code")),
        cuda_functions=len(functions),
        cuda_function_bytes=sum(len(image) for f in functions for _, image in f.images),
        cuda_on_cpu=len(held("cuda_host_code")),
        cuda_on_cpu_threads=getattr(_core, "host_threads_kept", int)(),  # of an extension
        gpu_functions=gpu_functions,
        gpu_loads=gpu_loads,
        gpu_images=gpu_images,
        gpu_bytes=gpu_bytes,
        modules=len(module._modules),
        callbacks=len(callback._callees) if callback is not None else 0,
        disk_entries=disk_entries,
        disk_bytes=disk_bytes,
    )
