"""What is different in Numba-CUDA while kernbridge compiles with it.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernbridge._src.numba_common.defaults import exact_defaults
from kernbridge._src.numba_common.numba_cuda_inside import (
    Omitted,
    codegen,
    dispatcher,
    global_compiler_lock,
    nvrtc,
    nvvm,
)
from kernbridge._src.numba_cuda import ranges


def compiler_cc(major: int, minor: int) -> Any:
    """A compute capability as this Numba-CUDA's code library takes it."""
    takes_suffix = len(inspect.signature(nvrtc.get_arch_option).parameters) > 2
    return (major, minor, "") if takes_suffix else (major, minor)


class _Device:
    """Answers the one question that Numba asks of the current device while it compiles."""

    id = 0

    def __init__(self, architecture: tuple[int, int]) -> None:
        self.compute_capability = architecture


@contextmanager
def compiling_for(architecture: tuple[int, int]) -> Iterator[None]:
    """Let Numba compile for this architecture, whatever GPU there is, or none."""
    library = codegen.CUDACodeLibrary
    with global_compiler_lock, exact_defaults(Omitted):
        device, ensure, assemble = (
            dispatcher.get_current_device,
            library._ensure_cc,
            library.get_asm_str,
        )
        cc = compiler_cc(*architecture)

        def assemble_annotated(self: Any, *args: Any, **kwargs: Any) -> Any:
            ranges.annotate(self)
            return assemble(self, *args, **kwargs)

        dispatcher.get_current_device = lambda: _Device(architecture)
        library._ensure_cc = lambda self, given: cc if given is None else given
        library.get_asm_str = assemble_annotated
        try:
            yield
        finally:
            dispatcher.get_current_device = device
            library._ensure_cc, library.get_asm_str = ensure, assemble


class _NoNvvm:
    """What Numba-CUDA asks of libNVVM while it makes LLVM IR: two constants."""

    def __init__(self) -> None:
        self.data_layout = nvvm._datalayout

    def get_ir_version(self) -> tuple[int, int, int, int]:
        return 2, 0, 3, 2


@contextmanager
def without_nvvm() -> Iterator[None]:
    """Stop Numba-CUDA at LLVM IR, for which no CUDA library is needed. Under Numba's lock."""
    library, whole = codegen.CUDACodeLibrary, nvvm.NVVM
    assemble = library.get_asm_str
    library.get_asm_str = lambda self, *_, **__: ""
    nvvm.NVVM = _NoNvvm
    try:
        yield
    finally:
        library.get_asm_str, nvvm.NVVM = assemble, whole
