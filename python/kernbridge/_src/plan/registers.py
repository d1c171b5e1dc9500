"""Computes how many threads a block can have, given the registers of a kernel.

The calculation is that of cuda_occupancy.h.
"""

from __future__ import annotations

import math

from kernbridge import _core
from kernbridge._src.plan import cubin
from kernbridge._src.plan.program import DeviceFunction, Launch

REGISTERS = 64 << 10  # of a multiprocessor, and the most that one block may have
REGISTERS_MAX = 255  # of a thread
_WARP = 32
_PARTITIONS = 4  # of a multiprocessor, each with its own registers
_REGISTER_UNIT = 256  # registers are allocated to warps in multiples of this


def check(label: str, step: Launch) -> None:
    """Raise if no GPU that the kernel was compiled for can launch its blocks."""
    threads = math.prod(step.block)
    if step.auto_block or threads <= threads_with(REGISTERS_MAX):
        return
    least = min(_used(step.function), default=0)
    most = threads_with(least)
    if threads <= most:
        return
    raise ValueError(
        f"{label}: a block of {threads} threads cannot be launched: {step.function.name!r} needs "
        f"{least} registers per thread, but each of {threads} threads can have only "
        f"{registers_with(threads)}. Use at most {most} threads per block, or let the compiler "
        f"use fewer registers, with @cuda.jit(launch_bounds={threads}) in Numba or "
        f"__launch_bounds__({threads}) in CUDA C++ [KB1102]"
    )


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


def threads_with(registers: int) -> int:
    """Return how many threads have room for so many registers each, whole warps of them."""
    of_warp = _round_up(max(registers, 1) * _WARP, _REGISTER_UNIT)
    return REGISTERS // _PARTITIONS // of_warp * _PARTITIONS * _WARP


def registers_with(threads: int) -> int:
    """Return how many registers each thread of a block of this size can have."""
    warps = _round_up(-(-threads // _WARP), _PARTITIONS)
    of_warp = REGISTERS // warps // _REGISTER_UNIT * _REGISTER_UNIT
    return min(of_warp // _WARP, REGISTERS_MAX)


def _round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
