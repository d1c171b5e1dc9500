"""How many threads of a block the registers of a kernel allow."""

from __future__ import annotations

import math

from kernbridge import _core
from kernbridge._src.gpu import cubin
from kernbridge._src.gpu.program import DeviceFunction, Launch

_REGISTERS, _WARP = 65536, 32  # of a multiprocessor, which hands them out to warps by 256
_MOST = 1024  # threads of a block
_ALWAYS = 256  # a thread has at most 255 registers, so that this many threads always fit


def most_threads(function: DeviceFunction) -> int:
    """The threads of a block that the registers of all images allow."""
    return min((_threads(n) for n in _used(function)), default=_MOST)


def check(label: str, step: Launch) -> None:
    """Raise if no GPU that the kernel was compiled for can launch its blocks."""
    threads = math.prod(step.block)
    if step.auto_block or threads <= _ALWAYS:
        return
    used = _used(step.function)
    least = min(used, default=0)
    most = _threads(least)
    if threads <= most:
        return
    room = _REGISTERS // (-(-threads // _WARP) * _WARP) // 8 * 8
    raise ValueError(
        f"{label}: a block of {threads} threads cannot be launched: {step.function.name!r} uses "
        f"{least} registers a thread, and so many threads have {room} each. Expected at most "
        f"{most} threads a block; or let the compiler use fewer registers, by "
        f"@cuda.jit(launch_bounds={threads}) in Numba and __launch_bounds__({threads}) in CUDA C++ "
        "[KB1102]"
    )


def _threads(registers: int) -> int:
    """The threads that have room for so many registers each."""
    of_a_warp = -(-max(registers, 1) * _WARP // 256) * 256
    return _REGISTERS // of_a_warp * _WARP


def _used(function: DeviceFunction) -> list[int]:
    """The registers of a thread in each image; the driver judges images that we cannot read."""
    found = []
    for cc, image in function.images:
        if cc in (_core.HOST_CC, _core.HOST_CODE_CC):
            continue
        try:
            found.append(cubin.read(image, function.entry).registers)
        except ValueError:
            continue
    return found
