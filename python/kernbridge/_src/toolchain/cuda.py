"""Determines the GPUs to compile for, and explains what is missing for CUDA."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import TypeAlias, cast

from kernbridge import _core
from kernbridge._src.base import settings
from kernbridge._src.base.errors import KernelNotAvailableError, UnsupportedArchError
from kernbridge._src.base.reports import warn
from kernbridge._src.base.versions import install

Architecture: TypeAlias = tuple[int, int, str]
"""Major and minor compute capability, and "", "a" or "f"."""
Spelling: TypeAlias = "str | int | float | Iterable[str | int | float] | None"

VARIABLES = (
    "KERNBRIDGE_CUDA_ARCHS",
    "KERNBRIDGE_COMPUTE_CAPABILITIES",
    "BRAINEVENT_COMPUTE_CAPABILITIES",
)
"""The first that is set counts."""
OLDEST_MAJOR = 5
ALL_MAJOR = ((8, 0), (9, 0), (10, 0), (12, 0))


def cuda_architectures(argument: Spelling = None) -> tuple[Architecture, ...]:
    """What to compile for: the argument, else the setting, the environment, this machine's GPUs.

    An argument is one compute capability or several, as 8.6, "8.6", 86, "sm_86", "compute_86" and
    "9.0a" spell it, in a list or separated by commas. The result is sorted; it is empty where
    nothing is chosen and there is no GPU: then one of each generation that nvcc knows is meant.
    UnsupportedArchError is raised for what no compiler of today compiles for, ValueError for what
    is no compute capability.
    """
    if argument is not None:
        return tuple(sorted(read(argument)))
    if found := chosen():
        return found
    count, _ = _core.device_count()
    return tuple(sorted({(*_core.compute_capability(i), "") for i in range(count)}))


def chosen() -> tuple[Architecture, ...]:
    """Return what the setting, else the environment names, sorted; empty if neither does."""
    if settings.architectures is not None:
        return tuple(sorted(settings.architectures))
    for name in VARIABLES:
        text = os.environ.get(name, "")
        if text.strip():
            return tuple(sorted(read(text, name)))
    return ()


def read(spelling: Spelling, what: str = "compute_capability") -> tuple[Architecture, ...]:
    """Read compute capabilities, each once; raises as `cuda_architectures` does."""
    several = isinstance(spelling, Iterable) and not isinstance(spelling, str)
    items = list(cast("Iterable[object]", spelling)) if several else [spelling]
    found: dict[Architecture, None] = {}
    for item in items or [spelling]:
        is_spelled = isinstance(item, (str, int, float)) and not isinstance(item, bool)
        for part in re.split(r"[,;\s]+", str(item).strip()) if is_spelled else [""]:
            match = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2}?)\.?(\d)([af]?)", part)
            if match is None:
                raise ValueError(
                    f"{what}: {item!r} is not a compute capability; expected one such as 8.6, "
                    "'8.6', 86, 'sm_86' or '9.0a', several in a list or separated by commas "
                    f"[{'KB8002' if what in VARIABLES else 'KB8001'}]"
                )
            major, minor = int(match[1]), int(match[2])
            if major < OLDEST_MAJOR:
                raise UnsupportedArchError(
                    f"{what}: compute capability {major}.{minor} is older than "
                    f"{OLDEST_MAJOR}.0, the oldest that is supported; 12.0 is spelled '12.0' or "
                    "120 [KB4009]"
                )
            found[major, minor, match[3]] = None
    return tuple(found)


def name(architecture: Architecture) -> str:
    major, minor, suffix = architecture
    return f"sm_{major}{minor}{suffix}"


def flags(architectures: tuple[Architecture, ...]) -> tuple[str, ...]:
    """Return the flags of nvcc for machine code of each, and PTX of the highest for newer GPUs."""
    if not architectures:
        return ("-arch=all-major", "--threads=0")
    found = []
    for architecture in architectures:
        code = name(architecture)
        virtual = code.replace("sm_", "compute_")
        real = f"[{code},{virtual}]" if architecture == architectures[-1] else code
        found += ["-gencode", f"arch={virtual},code={real}"]
    return (*found, "--threads=0") if len(architectures) > 1 else tuple(found)


def architectures() -> tuple[tuple[int, int], ...]:
    """Return what to compile for: what is chosen, else this machine's GPUs, else all."""
    return tuple(sorted({(major, minor) for major, minor, _ in cuda_architectures()})) or ALL_MAJOR


def require(label: str) -> None:
    """Raise ImportError where Numba-CUDA, which the kernel needs, is missing."""
    if importlib.util.find_spec("numba") is None or importlib.util.find_spec("numba_cuda") is None:
        raise ImportError(
            f"{label} needs Numba-CUDA: {install('cuda13')} (or [cu12]); "
            f"{install('cuda')} is enough to run kernels on the CPU [KB4016]"
        )


@functools.cache
def versions() -> tuple[str, ...]:
    """Return the versions of everything that machine code depends on beside its source."""
    found = [f"python {sys.version_info[0]}.{sys.version_info[1]}"]
    names = ("numba", "numba-cuda", "llvmlite", "cuda-core", "nvidia-nvvm", "nvidia-nvjitlink")
    for name in (*names, "numba-cuda-mlir"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(name)}")
    variables = ("CUDA_HOME", "CUDA_PATH", "NUMBA_OPT")
    return (*found, *(f"{variable} {os.environ.get(variable, '')}" for variable in variables))


def tell_of_cpu(label: str) -> None:
    """Say, once per process, that CUDA kernels run on the CPU; or refuse, if that is not wanted."""
    if settings.cuda_on_cpu == "error":
        raise KernelNotAvailableError(
            f"{label} was lowered for the CPU, and kernbridge.config.set_cuda_on_cpu('error') "
            "forbids that; commit its inputs to a GPU, jax.device_put(x, jax.devices('cuda')[0])"
            " [KB7003]"
        )
    if not settings.told_of_cpu:
        settings.told_of_cpu = True
        warn(
            f"{label} is a CUDA kernel and runs on the CPU, since JAX lowered it for that "
            "platform. To make this an error, call kernbridge.config.set_cuda_on_cpu('error') "
            "before the first call. This warning is issued once [KB7002]"
        )
