"""What is different in Numba-CUDA while kernbridge compiles with it.

Imported only when a kernel is compiled, since it imports Numba.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kernbridge._src.base.patched import patched
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


@contextmanager
def compiling_for(architecture: tuple[int, int]) -> Iterator[None]:
    """Let Numba compile for this architecture, whatever GPU there is, or none."""
    library, cc = codegen.CUDACodeLibrary, compiler_cc(*architecture)
    device = SimpleNamespace(id=0, compute_capability=architecture)
    with global_compiler_lock, exact_defaults(Omitted):
        assemble = library.get_asm_str

        def assemble_annotated(self: Any, *args: Any, **kwargs: Any) -> Any:
            ranges.annotate(self)
            return assemble(self, *args, **kwargs)

        with patched(
            (dispatcher, "get_current_device", lambda: device),
            (library, "_ensure_cc", lambda self, given: cc if given is None else given),
            (library, "get_asm_str", assemble_annotated),
        ):
            yield


def _no_nvvm() -> SimpleNamespace:
    """What Numba-CUDA asks of libNVVM while it makes LLVM IR: two constants."""
    return SimpleNamespace(data_layout=nvvm._datalayout, get_ir_version=lambda: (2, 0, 3, 2))


@contextmanager
def without_nvvm() -> Iterator[None]:
    """Stop Numba-CUDA at LLVM IR, for which no CUDA library is needed. Under Numba's lock."""
    with patched(
        (codegen.CUDACodeLibrary, "get_asm_str", lambda self, *_, **__: ""),
        (nvvm, "NVVM", _no_nvvm),
    ):
        yield
