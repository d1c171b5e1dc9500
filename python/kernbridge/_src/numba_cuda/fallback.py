"""Kernels that only Numba's own launcher can launch, through Python."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kernbridge._src.base.errors import KernbridgeWarning
from kernbridge._src.base.places import beginning_of
from kernbridge._src.gpu.frontend import native_call, plan
from kernbridge._src.gpu.program import Program
from kernbridge._src.numba_cuda.callback import Callee, Callees, lower, scalars_of

if TYPE_CHECKING:
    from kernbridge._src.gpu.launch import LaunchRule, LaunchShape
    from kernbridge._src.numba_common.parameters import Assignment
    from kernbridge._src.operation.primitive import NativeCall
    from kernbridge._src.operation.spec import ArrayType, Call

_warned: weakref.WeakSet[Any] = weakref.WeakSet()


class KernelFrontend(Protocol):
    """What a kernel's front end has to say about its launches."""

    kernel: Any
    label: str
    rule: LaunchRule
    views: tuple[tuple[str | int, Any], ...]
    zero_outputs: bool

    @property
    def callees(self) -> Callees:
        """What it calls through Python."""
        ...


def lower_kernel(
    frontend: KernelFrontend,
    why: str,
    assignment: Assignment,
    launch: LaunchShape,
    operands: Sequence[ArrayType],
    call: Call,
) -> tuple[NativeCall, Program]:
    """A kernel that only Numba's own launcher can launch."""
    kernel, rule = frontend.kernel, frontend.rule
    if kernel not in _warned:
        _warned.add(kernel)
        warnings.warn(
            f"{frontend.label}: a kernel with {why} is launched by Numba, through Python, at every "
            "call; without it C launches the kernel, and XLA may put it into a CUDA graph",
            KernbridgeWarning,
            stacklevel=2,
        )
    extras = (launch.auto_block, rule.cluster, rule.pdl, rule.cooperative, frontend.views)
    if any(extras) or frontend.zero_outputs or assignment.named:
        raise ValueError(
            f"{frontend.label}: a kernel with {why} is launched by Numba, which has no "
            'threads_per_block="auto", cluster=, pdl=, cooperative=, view=, zero_outputs= or '
            "parameters left to their defaults"
        )
    if any(v.kind != "constant" for v in launch.grid):
        raise ValueError(
            f"{frontend.label}: a kernel with {why} is launched by Numba, and needs constant shapes"
        )
    grid, block = tuple(v.constant for v in launch.grid), launch.block
    if 0 in grid:
        return _lower_nothing(frontend, assignment, operands, call)

    def order(arrays: Sequence[Any], stream: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        return [*(arrays[b] for b in assignment.positional), stream], {}

    scalars = scalars_of(operands, call)
    launcher = _launcher(kernel, grid, block, rule.shared_mem)
    callee = frontend.callees.find(
        (grid, block, assignment, scalars), lambda: Callee(launcher, order, scalars)
    )
    names = assignment.names
    return lower(frontend.label, beginning_of(kernel.py_func), callee, names, operands, call)


def _lower_nothing(
    frontend: KernelFrontend, assignment: Assignment, operands: Sequence[ArrayType], call: Call
) -> tuple[NativeCall, Program]:
    """A launch of no threads: outputs are zeros."""
    source = beginning_of(frontend.kernel.py_func)
    program = plan(frontend.label, source, operands, call, assignment.names, [], True)
    return native_call(program, (), ""), program


def _launcher(kernel: Any, grid: Any, block: Any, shared: int) -> Callable[..., None]:
    def launch(*arguments: Any) -> None:
        *arrays, stream = arguments
        kernel[grid, block, stream, shared](*arrays)

    return launch
