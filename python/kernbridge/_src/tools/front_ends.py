"""Determines which kinds of kernels work on this machine, and what the others need."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import jax
import numpy as np

from kernbridge import _core
from kernbridge._src.base.errors import KernelToolchainError
from kernbridge._src.base.versions import minor
from kernbridge._src.cuda_kernel import nvrtc
from kernbridge._src.toolchain import architectures, compilers

PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")  # of JAX, for NVIDIA's GPUs


@dataclass(frozen=True)
class Verdict:
    """Whether one kind of kernel works here.

    Attributes
    ----------
    name : str
        The function that makes operations of such kernels.
    runs_on : tuple of str
        "cpu" and "gpu", as far as its kernels run there; empty if it is not ready.
    why : str
        What is missing; empty if it is ready.
    remedy : str
        What to install or to do; empty if nothing is missing.
    """

    name: str
    runs_on: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether its kernels run anywhere here."""
        return bool(self.runs_on)

    def __str__(self) -> str:
        if self.is_ready:
            places = " and the ".join(place.upper() for place in self.runs_on)
            return f"ready, on the {places}" + (f"\n{self.why}" if self.why else "")
        return f"not ready: {self.why}\n{self.remedy}".rstrip()


def verdicts() -> list[Verdict]:
    """Judge every front end. Nothing is compiled, and JAX's backends are not started."""
    return [
        _numba(),
        _numba_cuda(),
        *_mlir(),
        _cuda_kernel(),
        _source("load_c_inline", compilers.find_c),
        _source("load_cpp_inline", compilers.find_cxx),
        _source_cuda(),
    ]


def version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _known_trouble() -> Iterator[tuple[str, str]]:
    """What is installed or set and keeps Numba-CUDA from working: why, and the remedy."""
    numpy, numba_cuda = version("numpy") or "0", version("numba-cuda")
    lacks_row_stack = minor(numpy) >= (2, 5) and not hasattr(np, "row_stack")
    if numba_cuda and minor(numba_cuda) <= (0, 30) and lacks_row_stack:
        yield (
            f"numba-cuda {numba_cuda} does not work with NumPy {numpy} (numpy.row_stack has gone)",
            "pip install 'numpy<2.5', or a newer numba-cuda",
        )
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        yield "NUMBA_ENABLE_CUDASIM is set: Numba only simulates GPUs", "unset it"


def why_no_gpu() -> tuple[str, str]:
    """Why operations cannot run on a GPU of this machine, and a remedy; empty if they can."""
    count, why = _core.device_count()
    if count == 0:
        return (
            f"there is no GPU ({why.partition(':')[0]})",
            "run it on a machine with an NVIDIA GPU",
        )
    platforms = jax.config.jax_platforms
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        return f"JAX_PLATFORMS is {platforms!r}", "unset JAX_PLATFORMS, or add cuda to it"
    if not any(map(importlib.util.find_spec, PLUGINS)):
        return (
            "JAX is installed without its CUDA plugin",
            "pip install 'jax[cuda13]', or jax[cuda12]",
        )
    return "", ""


def _numba() -> Verdict:
    name = "numba_kernel"
    if importlib.util.find_spec("numba") is None:
        return Verdict(name, why="Numba is not installed", remedy="pip install 'kernbridge[numba]'")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return Verdict(name, (), "NUMBA_DISABLE_JIT is set, which disables Numba", "unset it")
    return Verdict(name, ("cpu",))


def _numba_cuda() -> Verdict:
    name = "numba_cuda_kernel"
    if not (importlib.util.find_spec("numba") and importlib.util.find_spec("numba_cuda")):
        remedy = "pip install 'kernbridge[cuda]', or kernbridge[cuda13] for GPUs"
        return Verdict(name, (), "Numba-CUDA is not installed", remedy)
    trouble = list(_known_trouble())
    if trouble:
        whys, remedies = zip(*trouble, strict=True)
        return Verdict(name, (), "; ".join(whys), "; ".join(remedies))
    return _on_cpu_and_gpu(name)


def _mlir() -> Iterator[Verdict]:
    """Judge the other package whose kernels numba_cuda_kernel takes, if it is installed."""
    if importlib.util.find_spec("numba_cuda_mlir"):
        yield _on_cpu_and_gpu("numba_cuda_kernel (numba-cuda-mlir)")


def _on_cpu_and_gpu(name: str) -> Verdict:
    why, _ = why_no_gpu()
    return Verdict(name, ("cpu",), f"not on a GPU: {why}") if why else Verdict(name, ("cpu", "gpu"))


def _cuda_kernel() -> Verdict:
    name = "cuda_kernel"
    try:
        nvrtc.library()
    except (KernelToolchainError, OSError):
        return Verdict(
            name, (), "NVRTC is not found", "pip install 'jax[cuda13]' or nvidia-cuda-nvrtc"
        )
    return _on_gpu(name)


def _source_cuda() -> Verdict:
    name = "load_cuda_inline"
    for find in (compilers.find_nvcc, compilers.find_cxx):
        verdict = _source(name, find)
        if not verdict.is_ready:
            return verdict
    if not compilers.find_nvcc().cudart:
        remedy = "pip install nvidia-cuda-runtime (CUDA 13) or nvidia-cuda-runtime-cu12"
        return Verdict(name, (), "libcudart is not found beside nvcc", remedy)
    return _on_gpu(name)


def _on_gpu(name: str) -> Verdict:
    why, remedy = why_no_gpu()
    if not why:
        return Verdict(name, ("gpu",))
    if architectures.chosen():
        return Verdict(
            name, (), f"{why}; it compiles and exports for the GPUs that are named", remedy
        )
    return Verdict(
        name, (), why, f"{remedy}, or name the GPUs to compile for: KERNBRIDGE_CUDA_ARCHS"
    )


def _source(name: str, find: Callable[[], Any]) -> Verdict:
    try:
        find()
    except (KernelToolchainError, ValueError) as e:
        why, _, rest = str(e).partition(". Looked")
        _, _, remedies = rest.partition("What to do, one of:\n")
        return Verdict(name, (), why, remedies.partition("\n")[0].removeprefix("  1. "))
    return Verdict(name, ("cpu",))
