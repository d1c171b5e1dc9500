"""`deterministic=`: sums of `cuda.atomic.add` that are the same from run to run.

Such a kernel adds whole multiples of a power of two, the resolution, to 64-bit integers in hidden
temporaries, one for each element of an array that receives additions. `sums` compiles the
additions, `sum_uses` refuses what depends on their order, and `hidden_sums` makes the launches
around that of the kernel; here are the option, and what they agree on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.numba_cuda import mlir

EXPONENT = -40  # of the resolution of `deterministic=True`
EXPONENTS = range(-100, 101)
PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER, TOO_LARGE = 1, 2, 4, 8  # marks: what was added


def read_option(label: str, given: Any, kernel: Any = None) -> int | None:
    """The exponent of the resolution that `deterministic=` asks for; None if it is off."""
    if given is False:
        return None
    if mlir.is_mlir(kernel):
        refuse_mlir(label)
    if given is True:
        return EXPONENT
    if isinstance(given, (float, np.floating)) and math.isfinite(given):  # 1 may be meant as True
        mantissa, exponent = math.frexp(given)
        if mantissa == 0.5 and exponent - 1 in EXPONENTS:
            return exponent - 1
    raise ValueError(
        f"{label}: deterministic is {given!r}, expected True, False or the resolution of the sums, "
        f"a power of two from 2.0**{EXPONENTS[0]} to 2.0**{EXPONENTS[-1]}; True is 2.0**{EXPONENT}"
        " [KB1005]"
    )


def refuse_mlir(label: str) -> NoReturn:
    """Refuse a kernel of numba-cuda-mlir."""
    raise KernelCompilationError(
        f"{label}: deterministic= is not available for kernels of numba-cuda-mlir; decorate the "
        "kernel with @numba.cuda.jit [KB4017]"
    )


def refuse_launch_of_numba(label: str, why: str) -> NoReturn:
    """Refuse a kernel that Numba's own launcher launches."""
    raise KernelCompilationError(
        f"{label}: deterministic= is not available for a kernel with {why}, which Numba launches; "
        f"remove {why} from cuda.jit [KB4017]"
    )


def refuse_inputs(label: str, opened: Iterable[int], summed: Iterable[int]) -> None:
    """Refuse a kernel that adds to inputs which are to be read-only."""
    if not set(opened).isdisjoint(summed):
        raise KernelCompilationError(
            f"{label}: deterministic= refuses the kernel, which adds to an input; alias it to an "
            "output (input_output_aliases) [KB4017]"
        )
