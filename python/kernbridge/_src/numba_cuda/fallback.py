"""Kernels that only Numba's own launcher can launch, through Python."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from kernbridge._src.base.errors import KernbridgeWarning
from kernbridge._src.base.places import beginning_of
from kernbridge._src.gpu.frontend import Lowered, plan, zeros
from kernbridge._src.gpu.launch import LaunchRule, LaunchShape
from kernbridge._src.numba_cuda.callback import CallingFrontend
from kernbridge._src.operation.spec import ArrayType, Call

_warned: weakref.WeakSet[Any] = weakref.WeakSet()


def lower_kernel(
    frontend: CallingFrontend,
    kernel: Any,
    why: str,
    rule: LaunchRule,
    shape: LaunchShape,
    has_more: bool,
    operands: Sequence[ArrayType],
    call: Call,
) -> Lowered:
    """A kernel that only Numba's own launcher can launch; `has_more` if it has views or zeros."""
    label, assignment = frontend.label, frontend.assign(call)
    if kernel not in _warned:
        _warned.add(kernel)
        warnings.warn(
            f"{label}: a kernel with {why} is launched by Numba, through Python, at every "
            "call; without it C launches the kernel, and XLA may put it into a CUDA graph",
            KernbridgeWarning,
            stacklevel=2,
        )
    if (
        has_more
        or any((shape.auto_block, rule.cluster, rule.pdl, rule.cooperative))
        or (assignment.named)
    ):
        raise ValueError(
            f"{label}: a kernel with {why} is launched by Numba, which has no "
            'threads_per_block="auto", cluster=, pdl=, cooperative=, view=, zero_outputs= or '
            "parameters left to their defaults"
        )
    if any(v.kind != "constant" for v in shape.grid):
        raise ValueError(
            f"{label}: a kernel with {why} is launched by Numba, and needs constant shapes"
        )
    grid, block = tuple(v.constant for v in shape.grid), shape.block
    source = beginning_of(kernel.py_func)
    if 0 in grid:
        fills = zeros((*operands, *call.outs), call.fresh)
        return plan(label, source, operands, call, assignment.names, fills)

    def order(arrays: Sequence[Any], stream: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        return [stream, *(arrays[b] for b in assignment.positional)], {}

    def launch(stream: Any, *arrays: Any) -> None:
        kernel[grid, block, stream, rule.shared_mem](*arrays)

    key = (grid, block, assignment)
    return frontend.lower_as_python(key, source, launch, order, operands, call)
