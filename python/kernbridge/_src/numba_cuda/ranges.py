"""Tells LLVM what CUDA promises about thread and block indices.

Numba reads them as signed numbers of any value, and wraps negative indices as Python does: four
instructions for each array that an index enters. With the ranges known these go away, and a kernel
of Numba has the code of one of nvcc. Imported only when a kernel is compiled.
"""

from __future__ import annotations

from typing import Any

from kernbridge._src.numba_common.llvmlite_inside import ir

_PREFIX = "llvm.nvvm.read.ptx.sreg."
_X, _YZ = 2**31 - 1, 65536
_RANGES = {  # first, and the one behind the last; CUDA programming guide, compute capabilities
    "tid.x": (0, 1024),
    "tid.y": (0, 1024),
    "tid.z": (0, 64),
    "ntid.x": (1, 1025),
    "ntid.y": (1, 1025),
    "ntid.z": (1, 65),
    "ctaid.x": (0, _X),
    "ctaid.y": (0, _YZ),
    "ctaid.z": (0, _YZ),
    "nctaid.x": (1, _X),
    "nctaid.y": (1, _YZ),
    "nctaid.z": (1, _YZ),
    "laneid": (0, 32),
    "warpsize": (32, 33),
}


def annotate(library: Any) -> None:
    """Add the ranges to every read of an index in a library that was not yet compiled."""
    for module in library.modules:
        for function in module.functions:
            for block in function.blocks:
                for instruction in block.instructions:
                    _annotate(module, instruction)
    library._llvm_strs = None  # made of the modules at the next use


def _annotate(module: Any, instruction: Any) -> None:
    callee = getattr(getattr(instruction, "callee", None), "name", "")
    bounds = _RANGES.get(callee[len(_PREFIX) :]) if callee.startswith(_PREFIX) else None
    if bounds is None or "range" in instruction.metadata:
        return
    i32 = ir.IntType(32)
    node = module.add_metadata([ir.Constant(i32, n) for n in bounds])
    instruction.set_metadata("range", node)
