"""Computes how many threads a block can have, given the registers of a kernel."""

from __future__ import annotations

import math

from kernbridge import _core
from kernbridge._src.gpu import cubin
from kernbridge._src.gpu.occupancy import BLOCK_MAX, REGISTERS_MAX, registers_with, threads_with
from kernbridge._src.gpu.program import DeviceFunction, Launch


def most_threads(function: DeviceFunction) -> int:
    """The threads of a block that the registers of all images allow."""
    return min(map(threads_with, _used(function)), default=BLOCK_MAX)


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
