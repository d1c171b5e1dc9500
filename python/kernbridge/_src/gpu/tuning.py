"""`threads_per_block="tune"`: measures which block size is fastest on this GPU.

The launch that XLA will call is measured alone, on arrays of zeros. The result is stored on disk
for the program, the extents of its arrays and the GPU.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernbridge import _core
from kernbridge._src.base.errors import KernelError, without_code
from kernbridge._src.base.kept import Kept
from kernbridge._src.gpu import registers
from kernbridge._src.gpu.program import NO_DIGEST, Launch, Program, Value
from kernbridge._src.operation.spec import ArrayType
from kernbridge._src.store import artefacts

CACHE_KIND = "tuned"
VERSION = 1  # of the measurement; part of every key
ROUNDS = 7
LEAST_GAIN = 0.03  # of the time by occupancy: less is noise
CANDIDATES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The chosen size of a block, 0 for the one by occupancy, and how it was chosen."""

    block: int
    text: str


_known: Kept[Tuned] = Kept(1024)


def tuned(
    step: Launch, program_of: Callable[[Launch], Program], arrays: Sequence[ArrayType], host: bool
) -> Launch:
    """The launch with the block that was measured to be fastest.

    `program_of` returns the program of a launch alone, and `arrays` are those of its buffers.
    """
    found = _found(step, program_of, arrays, host)
    if found.block == 0:
        return replace(step, tune=False, tuning=found.text)
    x = step.grid[0]
    if x.kind == "constant":
        x = Value(constant=-(-x.constant // found.block))
    else:
        x = replace(x, divisor=x.divisor * found.block)
    return replace(
        step,
        grid=(x, *step.grid[1:]),
        block=(found.block, 1, 1),
        function=replace(step.function, auto_shared=0),
        auto_block=False,
        tune=False,
        tuning=found.text,
    )


def _found(
    step: Launch, program_of: Callable[[Launch], Program], arrays: Sequence[ArrayType], host: bool
) -> Tuned:
    count, why = _core.device_count()
    if host or count == 0:
        reason = "the kernel was compiled for a CPU" if host else f"there is no GPU ({why})"
        return _not_measured(reason)
    dims = tuple(tuple(t.shape) for t in arrays)
    if not all(isinstance(n, int) for extents in dims for n in extents):
        return _not_measured("the shapes are symbolic")
    program = program_of(replace(step, tune=False)).write(NO_DIGEST)
    gpu = f"{_core.device_name(0)}, sm_{''.join(map(str, _core.compute_capability(0)))}"
    parts = (str(VERSION).encode(), program, repr(dims).encode(), gpu.encode())
    key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()

    def find_or_measure() -> Tuned:
        kept = artefacts.load(CACHE_KIND, key)
        if kept is not None:
            return Tuned(kept.meta["block"], kept.meta["text"])
        found, is_final = _measured(step, program, dims, gpu)
        if is_final:
            meta: dict[str, Any] = {"block": found.block, "text": found.text}
            artefacts.store(CACHE_KIND, key, artefacts.Artefact(meta, ()), step.function.name)
        return found

    return _known.find_or_make(key, find_or_measure)


def _not_measured(reason: str) -> Tuned:
    return Tuned(0, f"threads_per_block is 'auto': nothing was measured, since {reason}")


def _measured(
    step: Launch, program: bytes, dims: tuple[tuple[int, ...], ...], gpu: str
) -> tuple[Tuned, bool]:
    """The result of a measurement, and whether it holds for later processes, too."""
    blocks = (0, *(n for n in CANDIDATES if n <= registers.most_threads(step.function)))
    try:
        auto, us = _core.time_blocks(program, dims, blocks, ROUNDS)
    except RuntimeError as e:
        if "context is lost" in str(e):
            raise KernelError(
                f'{without_code(str(e))}. threads_per_block="tune" launches the kernel on arrays '
                "of zeros, which must not fail; pass a number of threads or 'auto' instead "
                "[KB3004]"
            ) from e
        return _not_measured(f"that failed: {e}"), False
    times = {n: [t for t in us[i :: len(blocks)] if t >= 0] for i, n in enumerate(blocks)}
    times = {n: each for n, each in times.items() if each}
    block = choose(times)
    by_occupancy = f"{auto} threads by occupancy {statistics.median(times[0]):.2f} us"
    if block == 0:
        text = f"no block was faster than {by_occupancy}, measured on {gpu}"
    else:
        text = (
            f"{block} threads per block took {statistics.median(times[block]):.2f} us, "
            f"{by_occupancy}, measured on {gpu}"
        )
    return Tuned(block, text), True


def choose(times: Mapping[int, Sequence[float]]) -> int:
    """The block with the least median of those that gain more than the noise over 0, or 0.

    The noise is the larger of `LEAST_GAIN` and the distances between the quartiles of both.
    """
    median = {n: statistics.median(each) for n, each in times.items()}
    noise = max(LEAST_GAIN * median[0], _spread(times[0]))
    faster = [n for n in times if median[0] - median[n] > max(noise, _spread(times[n]))]
    return min(faster, key=lambda n: (median[n], n), default=0)


def _spread(times: Sequence[float]) -> float:
    if len(times) < 2:
        return 0.0
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return high - low
