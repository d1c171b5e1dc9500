"""`CompilerBackend` and its subclasses: BrainEvent's interface to compilers."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.build import build as builder
from kernbridge._src.build.request import Request
from kernbridge._src.source import assemble
from kernbridge._src.store import artefacts
from kernbridge._src.toolchain import architectures
from kernbridge._src.toolchain.architectures import Spelling


class CompilerBackend(abc.ABC):
    """A compiler that turns a source text into a shared library."""

    platform_name = ""
    """The platform that its libraries run on."""

    @abc.abstractmethod
    def compile_source(self, source: str, output_path: str, build_dir: str, **options: Any) -> str:
        """Compile a translation unit; returns the path of the library."""


class _OwnBackend(CompilerBackend):
    """A compiler that kernbridge finds; its libraries come from kernbridge's cache."""

    _language = ""

    def __init__(self, toolchain: object = None) -> None:
        del toolchain  # kernbridge looks for the compiler when it is needed

    def _build(
        self,
        source: str,
        output_path: str,
        cflags: Sequence[str] | None,
        ldflags: Sequence[str] | None,
        include_paths: Sequence[str] | None,
        **options: Any,
    ) -> str:
        target = Path(os.path.abspath(output_path))
        request = Request(
            name=target.stem,
            language=self._language,
            source=source,
            spec="",
            cflags=tuple(cflags or ()),
            ldflags=tuple(ldflags or ()),
            include_paths=tuple(include_paths or ()),
            own_include_paths=assemble.include_paths(),
            **options,
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        artefacts.publish(target, builder.build(request).path.read_bytes(), 0o755)
        return str(target)


class CPPBackend(_OwnBackend):
    """The C++ compiler of the machine.

    Parameters
    ----------
    toolchain : optional
        Accepted for programs that pass one, and not used: CXX, CC and PATH decide.
    """

    _language = "c++"
    platform_name = "cpu"

    def compile_source(
        self,
        source: str,
        output_path: str,
        build_dir: str = "",
        *,
        extra_cflags: Sequence[str] | None = None,
        extra_ldflags: Sequence[str] | None = None,
        extra_include_paths: Sequence[str] | None = None,
        verbose: bool = False,
        **kwargs: Any,
    ) -> str:
        """Compile a C++ translation unit into a shared library.

        Parameters
        ----------
        source : str
            C++17.
        output_path : str
            Where the library goes.
        build_dir : str
            Not used: kernbridge builds in a folder of its cache.
        extra_cflags, extra_ldflags, extra_include_paths : list of str, optional
        verbose : bool
            Print the command and what the compiler prints.

        Returns
        -------
        str
            `output_path`, made absolute.

        Raises
        ------
        KernelToolchainError
            If there is no compiler.
        CompilationError
            If it refuses the source.
        """
        return self._build(
            source,
            output_path,
            extra_cflags,
            extra_ldflags,
            extra_include_paths,
            optimization_level=None,
            verbose=verbose,
        )


class CUDABackend(_OwnBackend):
    """nvcc, with the C++ compiler of the machine.

    Parameters
    ----------
    toolchain : optional
        Accepted for programs that pass one, and not used: CUDA_HOME, PATH and the settings decide.
    """

    _language = "cuda"
    platform_name = "cuda"

    def compile_source(
        self,
        source: str,
        output_path: str,
        build_dir: str = "",
        *,
        extra_cuda_cflags: Sequence[str] | None = None,
        extra_ldflags: Sequence[str] | None = None,
        extra_include_paths: Sequence[str] | None = None,
        verbose: bool = False,
        gpu_arch: Spelling = "sm_80",
        optimization_level: int = 3,
        use_fast_math: bool = False,
        **kwargs: Any,
    ) -> str:
        """Compile a CUDA translation unit into a shared library.

        Parameters
        ----------
        source : str
            CUDA C++17.
        output_path : str
            Where the library goes.
        build_dir : str
            Not used: kernbridge builds in a folder of its cache.
        extra_cuda_cflags, extra_ldflags, extra_include_paths : list of str, optional
        verbose : bool
            Print the command and what nvcc prints.
        gpu_arch : str or list of str
            GPUs to compile for.
        optimization_level : int
            0 to 3.
        use_fast_math : bool
            Whether arithmetic may be less exact.

        Returns
        -------
        str
            `output_path`, made absolute.

        Raises
        ------
        KernelToolchainError
            If there is no nvcc or no host compiler.
        CompilationError
            If one of them refuses the source.
        """
        return self._build(
            source,
            output_path,
            extra_cuda_cflags,
            extra_ldflags,
            extra_include_paths,
            architectures=architectures.cuda_architectures(gpu_arch),
            optimization_level=optimization_level,
            fast_math=use_fast_math,
            verbose=verbose,
        )


class HIPBackend(CompilerBackend):
    """AMD's compiler, which neither BrainEvent nor kernbridge uses yet."""

    platform_name = "hip"

    def compile_source(self, source: str, output_path: str, build_dir: str, **options: Any) -> str:
        """Raise NotImplementedError."""
        raise NotImplementedError("kernbridge does not compile for AMD's GPUs [KB7006]")
