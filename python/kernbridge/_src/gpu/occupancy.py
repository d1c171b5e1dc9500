"""Computes the occupancy of a launch without a GPU.

The calculation and the limits are those of cuda_occupancy.h, with which tests compare them. The
numbers of threads, which the header does not have, are those of NVIDIA's programming guide.
"""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """What one multiprocessor of an architecture has."""

    threads: int
    blocks: int
    shared: int  # bytes, for all blocks


LIMITS = {
    75: Limits(1024, 16, 64 << 10),
    80: Limits(2048, 32, 164 << 10),
    86: Limits(1536, 16, 100 << 10),
    87: Limits(1536, 16, 164 << 10),
    89: Limits(1536, 24, 100 << 10),
    90: Limits(2048, 32, 228 << 10),
    100: Limits(2048, 32, 228 << 10),
    120: Limits(1536, 24, 100 << 10),
}
"""By ten times the major version of the compute capability, plus the minor one."""

BLOCK_MAX = 1024
REGISTERS = 64 << 10  # of a multiprocessor, and the most that one block may have
REGISTERS_MAX = 255  # of a thread
_WARP = 32
_PARTITIONS = 4  # of a multiprocessor, each with its own registers
_REGISTER_UNIT = 256  # registers are allocated to warps in multiples of this


def reserved(architecture: int) -> int:
    """Bytes of shared memory that CUDA keeps in every block."""
    return 1024 if architecture >= 80 else 0


def occupancy(architecture: int, threads: int, registers: int, shared: int) -> float | None:
    """Return the share of a multiprocessor's threads that blocks of this size keep busy.

    It is 0 where not even one block fits, and None for an architecture that is not known.
    `registers` are those of a thread, `shared` the bytes of a block, static and dynamic.
    """
    limits = LIMITS.get(architecture)
    if limits is None:
        return None
    if not 0 < threads <= BLOCK_MAX or registers > REGISTERS_MAX:
        return 0.0
    warps = -(-threads // _WARP)
    blocks = min(
        limits.blocks,
        limits.threads // _WARP // warps,
        threads_with(registers) // _WARP // warps,
        _by_shared_memory(architecture, limits, shared),
    )
    return blocks * warps * _WARP / limits.threads


def threads_with(registers: int) -> int:
    """Return how many threads have room for so many registers each, whole warps of them."""
    of_warp = _round_up(max(registers, 1) * _WARP, _REGISTER_UNIT)
    return REGISTERS // _PARTITIONS // of_warp * _PARTITIONS * _WARP


def registers_with(threads: int) -> int:
    """Return how many registers each thread of a block of this size can have."""
    warps = _round_up(-(-threads // _WARP), _PARTITIONS)
    of_warp = REGISTERS // warps // _REGISTER_UNIT * _REGISTER_UNIT
    return min(of_warp // _WARP, REGISTERS_MAX)


def _by_shared_memory(architecture: int, limits: Limits, shared: int) -> int:
    unit = 128 if architecture >= 80 else 256
    of_block = _round_up(shared + reserved(architecture), unit)
    return limits.shared // of_block if of_block else BLOCK_MAX


def _round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit
