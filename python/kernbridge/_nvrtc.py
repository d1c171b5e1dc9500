"""CUDA device code to machine code, by NVRTC: where it is, its options, and what it gave.

Needs no GPU, no nvcc and no host compiler.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernbridge import _cache, _core, _cubin, _cuda_toolchain
from kernbridge._errors import CompilationError, KernelCompilationError, KernelToolchainError

VARIABLE = "KERNBRIDGE_LIBNVRTC"
CACHE_KIND = "nvrtc"
FORMAT = 1  # of what is kept: part of the key in the cache

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
# Textures, surfaces and the functions of the C++ library: without them it takes half the time.
_NOT_MINIMAL = re.compile(r"#\s*include|texture|surface|surf[123]D|tex[123]D|std::")

# Of the headers that NVRTC lacks, the one that device code asks for.
_STDINT = """
#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
"""
_HEADERS = (("stdint.h", _STDINT), ("cstdint", _STDINT), ("stddef.h", ""), ("cstddef", ""))


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Machine code of one kernel; what `_cuda_program` launches. Compared by object."""

    identity: bytes
    name: str
    entry: str
    sizes: tuple[int, ...]  # of the parameters, in bytes
    images: tuple[tuple[int, bytes], ...]  # (10 major + minor, cubin)
    ptx: str = ""
    auto_shared: int = 0

    @property
    def n_words(self) -> int:
        """That the parameters take."""
        return sum(-(-size // 8) for size in self.sizes)

    def code(self) -> tuple[str, str]:
        """LLVM IR, which NVRTC does not give, and PTX."""
        return "", self.ptx


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be compiled."""

    label: str
    source: str
    file: str  # the name by which messages call the source
    name: str  # of the kernel, as C++ writes it
    options: tuple[str, ...]
    include_paths: tuple[str, ...]


def compile_kernel(request: Request) -> Function:
    """The kernel for the architectures that are chosen, compiled at most once per content.

    Raises
    ------
    KernelToolchainError
        If there is no NVRTC.
    CompilationError
        If it refuses the source.
    """
    return _compiled(request, _cuda_toolchain.architectures(), library())


@functools.lru_cache(maxsize=1024)
def _compiled(request: Request, architectures: tuple[tuple[int, int], ...], nvrtc: str) -> Function:
    made_of = (FORMAT, request.source, request.name, request.options, request.include_paths)
    identity = hashlib.sha256(repr(("nvrtc", *made_of)).encode()).digest()
    about = os.stat(nvrtc)
    compiler = (nvrtc, about.st_size, about.st_mtime_ns)
    key = hashlib.sha256(repr((*made_of, request.file, architectures, compiler)).encode()).digest()
    # What is included may change, and NVRTC does not tell what it read.
    keeps = not re.search(r"#\s*include", request.source) or not request.include_paths
    found = _cache.load(CACHE_KIND, key) if keeps else None
    if found is None:
        found = _compile(request, architectures, nvrtc)
        if keeps:
            _cache.store(CACHE_KIND, key, found)
    meta = found.meta
    images = tuple(
        (10 * major + minor, cubin)
        for (major, minor), cubin in zip(architectures, found.blobs, strict=False)
    )
    content = identity if keeps else hashlib.sha256(b"".join((identity, *found.blobs))).digest()
    return Function(
        identity=content,
        name=request.name,
        entry=meta["entry"],
        sizes=tuple(meta["sizes"]),
        images=images,
        ptx=found.blobs[-1].decode(),
    )


def _compile(
    request: Request, architectures: tuple[tuple[int, int], ...], nvrtc: str
) -> _cache.Artefact:
    cubins, entry, ptx = [], "", ""
    for major, minor in architectures:
        options = (
            f"--gpu-architecture=sm_{major}{minor}",
            "-std=c++17",
            *(f"-I{path}" for path in (*request.include_paths, *_toolkit_headers(nvrtc))),
            *request.options,
        )
        cubin, ptx, entry = _run(request, options, nvrtc)
        cubins.append(cubin)
    sizes = _cubin.read(cubins[0], entry).parameters
    return _cache.Artefact(
        meta={"entry": entry, "sizes": [size for _, size in sizes]},
        blobs=(*cubins, ptx.encode()),
    )


def _run(request: Request, options: tuple[str, ...], nvrtc: str) -> tuple[bytes, str, str]:
    minimal = () if _NOT_MINIMAL.search(request.source) else ("--minimal",)
    for attempt in dict.fromkeys((minimal, ())):
        given = (*options, *attempt)
        try:
            cubin, ptx, entry, _ = _core.nvrtc_compile(
                nvrtc, request.source, request.file, given, _HEADERS, request.name
            )
            return cubin, ptx.rstrip("\0"), entry
        except ValueError as e:
            what, log = e.args
            refusal = CompilationError(
                f"{request.label}: NVRTC does not compile {request.name!r} ({what})",
                compiler_output=str(log),
                command=" ".join(("nvrtc", *given)),
            )
        except RuntimeError as e:
            raise KernelCompilationError(f"{request.label}: {e}") from e
    raise refusal


def library() -> str:
    """Path of libnvrtc.

    Raises
    ------
    KernelToolchainError
        If it is nowhere.
    """
    return _find_library(os.environ.get(VARIABLE), os.environ.get("CUDA_HOME"))


@functools.lru_cache(maxsize=8)
def _find_library(chosen: str | None, home: str | None) -> str:
    if chosen:
        if not Path(chosen).is_file():
            raise KernelToolchainError(f"{VARIABLE} is {chosen!r}, and there is no such file")
        return chosen
    folders = list(_folders(home))
    for folder in folders:
        for name in _NAMES:
            if (folder / name).is_file():
                return str((folder / name).resolve())
    raise KernelToolchainError(
        "NVRTC, NVIDIA's run-time compiler, was not found. Looked for "
        f"{' and '.join(_NAMES[:2])} in {', '.join(map(str, folders))}. pip install "
        f"nvidia-cuda-nvrtc, or set CUDA_HOME to a toolkit, or {VARIABLE} to the library"
    )


def _folders(home: str | None) -> Iterator[Path]:
    if home:
        yield from (Path(home) / "lib64", Path(home) / "lib")
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        wheels = sorted(Path(place).glob("cu[0-9]*"), reverse=True)
        yield from (folder / "lib" for folder in (*wheels, Path(place) / "cuda_nvrtc"))
    yield from (Path("/usr/local/cuda/lib64"), Path("/usr/lib/x86_64-linux-gnu"))
    yield from map(Path, filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)))


@functools.lru_cache(maxsize=8)
def _toolkit_headers(nvrtc: str) -> tuple[str, ...]:
    """Folders of cuda_fp16.h and the like, next to the library or in the toolkit."""
    lib = Path(nvrtc).parent
    places = [lib.parent / "include", lib.parents[1] / "include"]
    places += [lib.parents[1] / "cuda_runtime" / "include"]
    places += [lib.parents[i] / "include" for i in range(2, min(4, len(lib.parents)))]
    found = [str(p) for p in places if (p / "cuda_fp16.h").is_file()]
    return tuple(found[:1])


def describe() -> dict[str, Any]:
    """For `print_diagnostics`."""
    path = library()
    return {"path": path, "version": _core.nvrtc_version(path)}


def option_texts(label: str, options: Sequence[str]) -> tuple[str, ...]:
    """The caller's options, checked."""
    if isinstance(options, str):
        raise TypeError(f"{label}: options is {options!r}, expected a list of texts")
    return tuple(map(str, options))
