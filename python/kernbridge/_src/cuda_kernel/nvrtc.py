"""CUDA device code to machine code, by NVRTC: where it is, its options, and what it gave.

Needs no GPU, no nvcc and no host compiler.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge import _core
from kernbridge._src.base.errors import (
    CompilationError,
    KernelCompilationError,
    KernelToolchainError,
)
from kernbridge._src.cuda_kernel import headers as cuda_kernel_headers
from kernbridge._src.cuda_kernel import signature
from kernbridge._src.cuda_kernel.signature import Type
from kernbridge._src.gpu import cubin as gpu_cubin
from kernbridge._src.gpu.program import DeviceFunction
from kernbridge._src.keys import generators
from kernbridge._src.store import artefacts
from kernbridge._src.toolchain import cuda

VARIABLE = "KERNBRIDGE_LIBNVRTC"
CACHE_KIND = "nvrtc"
_RULES = (
    "cuda_kernel.nvrtc",
    "cuda_kernel.headers",
    "cuda_kernel.signature",
)  # the modules that decide what is kept
ATTEMPTS = 3  # compilations of one source, if its headers change meanwhile
FUNCTIONS_KEPT = 1024  # in memory

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


_functions: dict[bytes, NvrtcFunction] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NvrtcFunction(DeviceFunction):
    """Machine code of one kernel."""

    ptx: str = ""
    types: tuple[Type, ...] | None = None  # of the parameters; None: nobody knows

    def code(self) -> tuple[str, str]:
        """LLVM IR, which NVRTC does not give, and PTX."""
        return "", self.ptx


@dataclass(frozen=True, slots=True)
class Compilation:
    """What is to be compiled."""

    label: str
    source: str
    file: str  # the name by which messages call the source
    name: str  # of the kernel, as C++ writes it
    options: tuple[str, ...]
    include_paths: tuple[str, ...]


def compile_kernel(request: Compilation) -> NvrtcFunction:
    """The kernel for the architectures that are chosen, compiled at most once per content.

    Raises
    ------
    KernelToolchainError
        If there is no NVRTC.
    CompilationError
        If it refuses the source.
    """
    return _compiled(request, cuda.architectures(), library())


def _compiled(
    request: Compilation, architectures: tuple[tuple[int, int], ...], nvrtc: str
) -> NvrtcFunction:
    about = os.stat(nvrtc)
    compiler = (nvrtc, about.st_size, about.st_mtime_ns)
    toolkit = _toolkit_headers(nvrtc)
    for _ in range(ATTEMPTS):
        headers = cuda_kernel_headers.look(
            request.source, request.options, request.include_paths, toolkit
        )
        made_of = (
            *(generators.digest_of(*_RULES), headers.digest),
            *(request.source, request.name, request.options, request.include_paths),
        )
        key = _digest((*made_of, request.file, architectures, compiler))
        if not headers.known:
            found = _compile(request, architectures, nvrtc)
            return _function(request, architectures, found, _digest((made_of, found.blobs)))
        with _lock:
            function = _functions.get(key)
        if function is not None:
            return function
        cached = artefacts.load(CACHE_KIND, key)
        if cached is not None:
            found = cached
            break
        found = _compile(request, architectures, nvrtc)
        after = cuda_kernel_headers.look(
            request.source, request.options, request.include_paths, toolkit
        )
        if after == headers:
            artefacts.store(CACHE_KIND, key, found)
            break
    else:  # headers that change while they are compiled
        return _function(request, architectures, found, _digest((made_of, found.blobs)))
    function = _function(request, architectures, found, _digest(("nvrtc", *made_of)))
    with _lock:
        if len(_functions) >= FUNCTIONS_KEPT:
            _functions.pop(next(iter(_functions)))
        return _functions.setdefault(key, function)


def forget() -> None:
    """Drop the functions that are kept in memory; the disk cache stays."""
    with _lock:
        _functions.clear()


def _digest(parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()


def _function(
    request: Compilation,
    architectures: tuple[tuple[int, int], ...],
    found: artefacts.Artefact,
    identity: bytes,
) -> NvrtcFunction:
    images = tuple(
        (10 * major + minor, cubin)
        for (major, minor), cubin in zip(architectures, found.blobs, strict=False)
    )
    return NvrtcFunction(
        identity=identity,
        name=request.name,
        entry=found.meta["entry"],
        sizes=tuple(found.meta["sizes"]),
        images=images,
        ptx=found.blobs[-1].decode(),
        types=tuple(signature.Type(*t) for t in found.meta["types"]),
    )


def _compile(
    request: Compilation, architectures: tuple[tuple[int, int], ...], nvrtc: str
) -> artefacts.Artefact:
    runs = []
    for major, minor in architectures:
        options = (
            f"--gpu-architecture=sm_{major}{minor}",
            "-std=c++17",
            *(f"-I{path}" for path in (*request.include_paths, *_toolkit_headers(nvrtc))),
            *request.options,
        )
        runs.append(_run(request, options, nvrtc))
    first = runs[0]
    sizes = []
    for run in runs:
        if (run.entry, run.types) == (first.entry, first.types):
            sizes.append([size for _, size in gpu_cubin.read(run.cubin, run.entry).parameters])
        if len(sizes) == 0 or sizes[-1] != sizes[0] or run.types != first.types:
            raise _differing(request, architectures, runs)
    return artefacts.Artefact(
        meta={"entry": first.entry, "sizes": sizes[0], "types": [list(t) for t in first.types]},
        blobs=(*(run.cubin for run in runs), runs[-1].ptx.encode()),
    )


def _differing(
    request: Compilation, architectures: Sequence[tuple[int, int]], runs: Sequence[_Run]
) -> KernelCompilationError:
    lines = "\n".join(
        f"  {major}.{minor}: ({', '.join(map(str, run.types))})"
        for (major, minor), run in zip(architectures, runs, strict=True)
    )
    return KernelCompilationError(
        f"{request.label}: the parameters of {request.name!r} are not the same for each compute "
        f"capability, as every GPU gets the same arguments:\n{lines}"
    )


class _Run(NamedTuple):
    cubin: bytes
    ptx: str
    entry: str
    types: tuple[Type, ...]


def _run(request: Compilation, options: tuple[str, ...], nvrtc: str) -> _Run:
    minimal = () if _NOT_MINIMAL.search(request.source) else ("--minimal",)
    headers = (*_HEADERS, (signature.HEADER_NAME, signature.HEADER))
    pre_included = (f"--pre-include={signature.HEADER_NAME}", *options)
    probe = signature.expression(request.name)
    refusals = []
    for attempt in dict.fromkeys((minimal, ())):
        given = (*options, *attempt)
        try:
            cubin, ptx, entry, lowered, _ = _nvrtc_call(
                request, nvrtc, (*pre_included, *attempt), headers, probe
            )
            return _Run(cubin, ptx.rstrip("\0"), entry, signature.read(lowered))
        except ValueError as e:
            refusals.append(_refusal(request, e, given))
    # Without a word of ours in the messages; and if it compiles so, its types are not known.
    try:
        _nvrtc_call(request, nvrtc, options, _HEADERS, None)
    except ValueError as e:
        raise _refusal(request, e, options) from None
    raise KernelCompilationError(
        f"{request.label}: NVRTC compiles {request.name!r}, and does not report the types of its "
        "parameters, which have to be compared with the source; NVRTC's output:\n"
        f"{refusals[-1].compiler_output}"
    )


def _nvrtc_call(
    request: Compilation,
    nvrtc: str,
    options: tuple[str, ...],
    headers: tuple[tuple[str, str], ...],
    probe: str | None,
) -> tuple[bytes, str, str, str, str]:
    try:
        return _core.nvrtc_compile(
            nvrtc, request.source, request.file, options, headers, request.name, probe
        )
    except RuntimeError as e:
        raise KernelCompilationError(f"{request.label}: {e}") from e


def _refusal(request: Compilation, error: ValueError, options: tuple[str, ...]) -> CompilationError:
    what, log = error.args
    return CompilationError(
        f"{request.label}: NVRTC does not compile {request.name!r} ({what})",
        compiler_output=str(log),
        command=" ".join(("nvrtc", *options)),
    )


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
