"""Finds nvcc, the CUDA compiler, and the parts of its toolkit. No process is started for it."""

import glob
import os
import sys
from collections.abc import Iterator

from kernbridge._src.base import settings
from kernbridge._src.base.errors import NvccNotFoundError
from kernbridge._src.base.struct import Struct
from kernbridge._src.toolchain.compilers import is_program, missing, which

_VARIABLES = ("KERNBRIDGE_NVCC_PATH", "BRAINEVENT_NVCC_PATH", "CUDA_HOME", "CUDA_PATH")


class Nvcc(Struct):
    path: str
    tools: tuple[str, ...]  # real paths of nvcc and of the programs that it runs
    include_dirs: tuple[str, ...]  # folders of headers that nvcc does not find by itself
    library_dirs: tuple[str, ...]  # folders that hold libcudart
    cudart: str  # path of the shared libcudart; empty where there is none


def find_nvcc() -> Nvcc:
    """Find the CUDA compiler, or raise NvccNotFoundError with all that was tried."""
    system_first = _prefers_system()
    probes: list[str] = []
    for name in _VARIABLES:
        place = os.path.expanduser(os.environ.get(name, ""))
        if not place:
            probes.append(f"{name}: not set")
            continue
        program = place if name.endswith("NVCC_PATH") else os.path.join(place, "bin", "nvcc")
        if is_program(program):
            return _describe(os.path.abspath(program), None)
        probes.append(f"{name}={place}: {program} is not a program")
        break  # what the user named is not passed over
    else:
        installed = "/usr/local/cuda/bin/nvcc"
        of_system = (
            (which("nvcc") or "", None, "nvcc on PATH: no such program"),
            (installed, None, f"{installed}: no such program"),
        )
        candidates = [*of_system, *_of_wheels()] if system_first else [*_of_wheels(), *of_system]
        for program, wheels, probe in candidates:
            if is_program(program):
                return _describe(program, wheels)
            probes.append(probe)
    raise missing(
        NvccNotFoundError,
        "no CUDA compiler (nvcc) was found",
        probes,
        "pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime "
        "nvidia-cuda-cccl (CUDA 13; the wheels of CUDA 12 have no nvcc)",
        "conda install -c conda-forge cuda-nvcc cuda-cudart-dev",
        "install NVIDIA's CUDA toolkit, and set CUDA_HOME to its folder",
        "set its path: KERNBRIDGE_NVCC_PATH=/path/to/nvcc",
    )


def _prefers_system() -> bool:
    if settings.prefer_system_nvcc is not None:
        return settings.prefer_system_nvcc
    for name in ("KERNBRIDGE_NVCC_PREFER", "BRAINEVENT_NVCC_PREFER"):
        value = os.environ.get(name, "").strip().lower()
        if value not in ("", "pip", "system"):
            raise ValueError(f"{name} is {value!r}, expected 'pip' or 'system' [KB8002]")
        if value:
            return value == "system"
    return False


def _of_wheels() -> Iterator[tuple[str, str | None, str]]:
    """Yield what may be nvcc, the folder of wheels that it is in, and what to say if it is none.

    NVIDIA's wheels put a whole toolkit into nvidia/cu13, or its parts beside each other.
    """
    for place in sys.path:
        base = os.path.join(place or ".", "nvidia")
        numbered = [n for n in glob.glob("cu*", root_dir=base) if n[2:].isdigit()]
        for name in (*sorted(numbered, key=lambda n: -int(n[2:])), "cuda_nvcc"):
            if os.path.isdir(os.path.join(base, name)):
                program = os.path.join(base, name, "bin", "nvcc")
                yield program, base, f"{program}: no such program"
    yield "", None, "wheels of NVIDIA: none with nvcc"


def _describe(program: str, wheels: str | None) -> Nvcc:
    real = os.path.realpath(program)
    # A link that leads to ccache does not show where the toolkit is.
    home = real if os.path.basename(real).startswith("nvcc") else program
    root = os.path.dirname(os.path.dirname(home))
    parts = ("bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc")
    tools = [real, *(p for part in parts if is_program(p := os.path.join(root, part)))]
    targets = os.path.join(root, "targets")
    target = sorted(glob.glob(f"{os.uname().machine}*", root_dir=targets))
    include: list[str] = []
    library = [os.path.join(targets, t, "lib") for t in target]
    library += [os.path.join(root, name) for name in ("lib64", "lib", "lib/x86_64-linux-gnu")]
    if wheels is not None and os.path.basename(root) == "cuda_nvcc":
        for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl"):
            folder = os.path.join(wheels, part, "include")
            include += [folder] if os.path.isdir(folder) else []
        library.insert(0, os.path.join(wheels, "cuda_runtime", "lib"))
    holding = [(folder, found) for folder in library if (found := _cudart_in(folder))]
    return Nvcc(
        path=program,
        tools=tuple(dict.fromkeys(tools)),
        include_dirs=tuple(include),
        library_dirs=tuple(dict.fromkeys(folder for folder, _ in holding)),
        cudart=holding[0][1] if holding else "",
    )


def _cudart_in(folder: str) -> str:
    """Return the shared libcudart of a folder: the name that a linker finds, else the newest."""
    plain = os.path.join(folder, "libcudart.so")
    if os.path.exists(plain):
        return plain
    names = sorted(glob.glob("libcudart.so.*", root_dir=folder))
    return os.path.join(folder, max(names, key=len)) if names else ""
