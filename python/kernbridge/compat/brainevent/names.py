"""Functions and classes of BrainEvent's bridge that kernbridge itself does not use."""

from __future__ import annotations

import abc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernbridge._src.custom import kernel
from kernbridge._src.forge import artefacts
from kernbridge._src.toolchain import cuda as toolchain_cuda
from kernbridge._src.toolchain.build import build
from kernbridge._src.toolchain.library import Request

_WEIGHTS = {"float16": "_f16", "bfloat16": "_bf16", "float32": "_f32", "float64": "_f64"}
_TOKENS = {"args": "arg", "rets": "ret", "ctx.stream": "stream"}


def normalize_tokens(tokens: Sequence[str]) -> list[str]:
    """Return the tokens of an annotation under the names that are documented.

    "args", "rets", "ctx.stream" and those like "attrs.scale" have other names there.

    Examples
    --------
    >>> from kernbridge.compat.brainevent import normalize_tokens
    >>> normalize_tokens(["args", "rets", "attrs.scale", "attr.n:int32", "ctx.stream"])
    ['arg', 'ret', 'attr.scale', 'attr.n:int32', 'stream']
    """
    return [
        f"attr.{token.removeprefix('attrs.')}"
        if token.startswith("attrs.") and ":" not in token
        else _TOKENS.get(token, token)
        for token in tokens
    ]


def dtype_suffix(dtype: Any) -> str:
    """Return the suffix of BrainEvent's CUDA functions for a dtype of weights.

    A dtype that is not floating-point has float32's value.

    Examples
    --------
    >>> from kernbridge.compat.brainevent import dtype_suffix
    >>> dtype_suffix("float64")
    '_f64'
    """
    return _WEIGHTS.get(np.dtype(dtype).name, "_f32")


def spike_suffix(dtype: Any) -> str:
    """Return the suffix that BrainEvent's CUDA functions have for a dtype of spikes.

    Examples
    --------
    >>> from kernbridge.compat.brainevent import spike_suffix
    >>> spike_suffix(bool), spike_suffix("float32")
    ('_bool', '_float')
    """
    return "_bool" if np.dtype(dtype) == np.bool_ else "_float"


def so_ext() -> str:
    """Return the suffix of shared libraries on this system, such as ".so"."""
    return {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def check_pallas_jax_version() -> None:
    """Check that JAX is recent enough for Pallas kernels, which every supported JAX is."""


def check_warp_installed() -> None:
    """Raise RuntimeError if Warp cannot be imported."""
    try:
        import warp  # noqa: F401
    except ImportError as e:
        raise RuntimeError(
            f"Warp kernels need the package 'warp', which cannot be imported ({e}). Install it: "
            "pip install warp-lang [KB4016]"
        ) from e


def register_primitive(name: str, primitive: kernel.XLACustomKernel) -> None:
    """Enter an operation in the registry, as creating it does.

    An operation that has this name already is replaced, with a UserWarning.
    """
    kernel.register(name, primitive)


def get_cache_dir() -> str | None:
    """Return the folder of the cache as a text, or None where the cache is switched off."""
    folder = artefacts.get_cache_dir()
    return None if folder is None else str(folder)


class CompilerBackend(abc.ABC):
    """A compiler that turns a source text into a shared library for `platform_name`.

    kernbridge finds the compilers and builds in its cache, so `toolchain` and `build_dir` are
    accepted and not used. Errors are those of `load_cpp_inline` and `load_cuda_inline`.
    """

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
        arch = toolchain_cuda.cuda_architectures(options.get("gpu_arch", "sm_80")) if cuda else ()
        request = Request(
            name=target.stem,
            language="cuda" if cuda else "c++",
            source=source,
            spec="",
            cflags=tuple(options.get("extra_cuda_cflags" if cuda else "extra_cflags") or ()),
            ldflags=tuple(options.get("extra_ldflags") or ()),
            include_paths=tuple(options.get("extra_include_paths") or ()),
            architectures=arch,
            optimization_level=options.get("optimization_level", 3) if cuda else None,
            fast_math=bool(options.get("use_fast_math")),
            verbose=bool(options.get("verbose")),
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        artefacts.publish(target, build(request).path.read_bytes(), 0o755)
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

__all__ = [n for n, v in vars().items() if n[0] != "_" and getattr(v, "__module__", "") == __name__]
