"""Changes Numba-CUDA temporarily while kernbridge compiles with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernbridge import _core
from kernbridge._src.base.patched import patched
from kernbridge._src.numba_common import private_numba_cuda as numba_cuda
from kernbridge._src.numba_common.defaults import change_of
from kernbridge._src.numba_common.private_llvmlite import TABLE, ir
from kernbridge._src.numba_common.private_numba_cuda import codegen, nvvm, target

# What CUDA promises about thread and block indices: the first, and the one after the last. Numba
# reads them as signed numbers of any value, and wraps negative indices as Python does: four
# instructions for each array that an index enters. With the ranges known these go away, and a
# kernel of Numba has the code of one of nvcc. (CUDA programming guide, compute capabilities.)
_PREFIX = "llvm.nvvm.read.ptx.sreg."
RANGES = {"laneid": (0, 32), "warpsize": (32, 33)}
for _axis, _threads, _blocks in (("x", 1024, 2**31 - 1), ("y", 1024, 65536), ("z", 64, 65536)):
    RANGES |= {
        f"tid.{_axis}": (0, _threads),
        f"ntid.{_axis}": (1, _threads + 1),
        f"ctaid.{_axis}": (0, _blocks),
        f"nctaid.{_axis}": (1, _blocks),
    }

_make_constant = target.CUDATargetContext.make_constant_array


class _WithoutBytes(np.ndarray[Any, Any]):
    def tobytes(self, order: Any = "C") -> bytes:
        return b""


def _constant_array(self: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Make a large array one constant, with a name of its own, instead of one for each byte."""
    if array.nbytes < 4096:
        return _make_constant(self, builder, kind, array)
    array = array if array.flags.f_contiguous else np.ascontiguousarray(array)
    data = bytearray(array.tobytes(order="A"))
    made = _make_constant(self, builder, kind, array.view(_WithoutBytes))
    _, table = builder.module.globals.popitem()
    table.name = TABLE + hashlib.sha256(data).hexdigest()
    table.value_type.count, table.initializer.constant = len(data), data
    builder.module.add_global(table)
    return made


_CONSTANTS = (target.CUDATargetContext, "make_constant_array", _constant_array)


def cubin_of(library: Any, architecture: tuple[int, int]) -> bytes:
    """The machine code of a code library that is complete.

    NVRTC, which is open once it was asked for architectures, compiles CUDA C++ that it links.
    """
    cc = (*architecture, "")
    numba_cuda.nvrtc.get_arch_option(*cc)
    _core.nvrtc_keep_signals(0)
    return bytes(library.get_cubin(cc=cc).code)


def _annotate(library: Any) -> None:
    """Add the ranges to every read of an index in a library that was not yet compiled."""
    for module in library.modules:
        blocks = (block for function in module.functions for block in function.blocks)
        for instruction in (i for block in blocks for i in block.instructions):
            callee = getattr(getattr(instruction, "callee", None), "name", "")
            bounds = RANGES.get(callee[len(_PREFIX) :]) if callee.startswith(_PREFIX) else None
            if bounds is not None and "range" not in instruction.metadata:
                constants = [ir.Constant(ir.IntType(32), n) for n in bounds]
                instruction.set_metadata("range", module.add_metadata(constants))
    library._llvm_strs = None  # made of the modules at the next use


@contextmanager
def compiling_for(architecture: tuple[int, int]) -> Iterator[None]:
    """Let Numba compile for this architecture, whatever GPU there is, or none."""
    library, cc = codegen.CUDACodeLibrary, (*architecture, "")
    device = SimpleNamespace(id=0, compute_capability=architecture)
    with numba_cuda.global_compiler_lock, patched(change_of(numba_cuda.Omitted)):
        assemble = library.get_asm_str

        def assemble_annotated(self: Any, *args: Any, **kwargs: Any) -> Any:
            _annotate(self)
            return assemble(self, *args, **kwargs)

        with patched(
            (numba_cuda.dispatcher, "get_current_device", lambda: device),
            (library, "_ensure_cc", lambda self, given: cc if given is None else given),
            (library, "get_asm_str", assemble_annotated),
            _CONSTANTS,
        ):
            yield


@contextmanager
def without_nvvm() -> Iterator[None]:
    """Stop Numba-CUDA at LLVM IR, for which no CUDA library is needed. Under Numba's lock."""
    # What Numba-CUDA asks of libNVVM while it makes LLVM IR: two constants
    known = SimpleNamespace(data_layout=nvvm._datalayout, get_ir_version=lambda: (2, 0, 3, 2))
    with patched(
        (codegen.CUDACodeLibrary, "get_asm_str", lambda self, *_, **__: ""),
        (nvvm, "NVVM", lambda: known),
        _CONSTANTS,
    ):
        yield
