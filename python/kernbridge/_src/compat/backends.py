"""`CompilerBackend` and its subclasses: BrainEvent's interface to compilers.

kernbridge finds the compilers and builds in its cache, so `toolchain` and `build_dir` are accepted
and not used. Errors are those of `load_cpp_inline` and `load_cuda_inline`.
"""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any

from kernbridge._src.build import build as builder
from kernbridge._src.build.request import Request
from kernbridge._src.forge import artefacts
from kernbridge._src.source import assemble
from kernbridge._src.toolchain import architectures


class CompilerBackend(abc.ABC):
    """A compiler that turns a source text into a shared library for `platform_name`."""

    platform_name = ""

    def __init__(self, toolchain: object = None) -> None:
        del toolchain

    @abc.abstractmethod
    def compile_source(self, source: str, output_path: str, build_dir: str, **options: Any) -> str:
        """Compile a translation unit, and return the path of the library, made absolute.

        Options are `extra_cflags` (for CUDA `extra_cuda_cflags`), `extra_ldflags`,
        `extra_include_paths` and `verbose`, and for CUDA `gpu_arch`, `optimization_level` and
        `use_fast_math`.
        """

    def _compile(self, source: str, output_path: str, build_dir: str = "", **options: Any) -> str:
        target, cuda = Path(output_path).absolute(), self.platform_name == "cuda"
        arch = architectures.cuda_architectures(options.get("gpu_arch", "sm_80")) if cuda else ()
        request = Request(
            name=target.stem,
            language="cuda" if cuda else "c++",
            source=source,
            spec="",
            cflags=tuple(options.get("extra_cuda_cflags" if cuda else "extra_cflags") or ()),
            ldflags=tuple(options.get("extra_ldflags") or ()),
            include_paths=tuple(options.get("extra_include_paths") or ()),
            own_include_paths=assemble.include_paths(),
            architectures=arch,
            optimization_level=options.get("optimization_level", 3) if cuda else None,
            fast_math=bool(options.get("use_fast_math")),
            verbose=bool(options.get("verbose")),
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        artefacts.publish(target, builder.build(request).path.read_bytes(), 0o755)
        return str(target)


def _backend(name: str, platform: str, doc: str, method: Any) -> Any:
    body = {"platform_name": platform, "__doc__": doc, "compile_source": method}
    return type(name, (CompilerBackend,), body | {"__module__": __name__})


def _refuse(self: Any, *where: Any, **options: Any) -> str:
    raise NotImplementedError("kernbridge does not compile for AMD's GPUs [KB7006]")


_compile = CompilerBackend._compile
CPPBackend = _backend("CPPBackend", "cpu", "The machine's compiler for C++17.", _compile)
CUDABackend = _backend("CUDABackend", "cuda", "nvcc, for CUDA C++17.", _compile)
HIPBackend = _backend("HIPBackend", "hip", "AMD's compiler, which is not supported.", _refuse)
