"""Finds CUDA and the GPUs to compile for, and explains failures of Numba-CUDA."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys

from kernbridge._src.base import settings
from kernbridge._src.base.errors import KernelNotAvailableError
from kernbridge._src.base.reports import warn
from kernbridge._src.base.versions import install
from kernbridge._src.toolchain import architectures as toolchain_architectures

ALL_MAJOR = ((8, 0), (9, 0), (10, 0), (12, 0))


def require(label: str) -> None:
    """Raise ImportError where Numba-CUDA, which the kernel needs, is missing."""
    if importlib.util.find_spec("numba") is None or importlib.util.find_spec("numba_cuda") is None:
        raise ImportError(
            f"{label} needs Numba-CUDA: {install('cuda13')} (or [cu12]); "
            f"{install('cuda')} is enough to run kernels on the CPU [KB4016]"
        )


def architectures() -> tuple[tuple[int, int], ...]:
    """Return what to compile for: what is chosen, else this machine's GPUs, else all."""
    found = toolchain_architectures.cuda_architectures()
    return tuple(sorted({(major, minor) for major, minor, _ in found})) or ALL_MAJOR


@functools.cache
def versions() -> tuple[str, ...]:
    """Return the versions of everything that machine code depends on beside its source."""
    from importlib import metadata

    found = [f"python {sys.version_info[0]}.{sys.version_info[1]}"]
    names = ("numba", "numba-cuda", "llvmlite", "cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")
    for name in (*names, "numba-cuda-mlir"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    for variable in ("CUDA_HOME", "CUDA_PATH", "NUMBA_OPT"):
        found.append(f"{variable} {os.environ.get(variable, '')}")
    return tuple(found)


_told_of_cpu = False


def tell_of_cpu(label: str) -> None:
    """Say, once per process, that CUDA kernels run on the CPU; or refuse, if that is not wanted."""
    global _told_of_cpu
    if settings.cuda_on_cpu == "error":
        raise KernelNotAvailableError(
            f"{label} was lowered for the CPU, and kernbridge.config.set_cuda_on_cpu('error') "
            "forbids that; commit its inputs to a GPU, jax.device_put(x, jax.devices('cuda')[0])"
            " [KB7003]"
        )
    if not _told_of_cpu:
        _told_of_cpu = True
        warn(
            f"{label} is a CUDA kernel and runs on the CPU, since JAX lowered it for that "
            "platform. To make this an error, call kernbridge.config.set_cuda_on_cpu('error') "
            "before the first call. This warning is issued once [KB7002]"
        )
