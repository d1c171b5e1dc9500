"""What the checked mode of CUDA kernels on the CPU costs, over the kernels of tests/cuda_corpus.

    python benchmarks/checked_mode.py [--rounds N] [--group NAME ...] [--all] [--check]

Each kernel is launched in the core, without JAX, on one thread, checked and unchecked in turns; the
ratio of a kernel is that of the medians. The last line is the median over all kernels; the exit
status is 1 with `--check` if it is above 5.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ["KERNBRIDGE_LIBCUDA"] = "/nowhere/libcuda.so"  # the CPU, whatever else there is
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import kernbridge
import kernbridge._core as _core
import numpy as np
from kernbridge._src.numba_cuda import compile as numba_cuda_compile
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cuda_corpus.case import GROUPS, Case, cases

LIMIT = 5


class Launch:
    """A launch of a case on arrays of its own, on this thread."""

    def __init__(self, case: Case, function: Any) -> None:
        image = dict(function.images)[_core.HOST_CC]
        self.digest = image[:64]
        self.arrays = [np.array(x) for x in case.arguments()]
        outputs = [np.zeros(shape, dtype) for shape, dtype in case.outs]
        for i, o in (case.aliases or {}).items():
            outputs[o] = self.arrays[i]
        scalars = dict(case.scalars)
        words: list[bytes] = []
        given = iter([*self.arrays, *outputs])
        for parameter in function.parameters:
            if parameter.kind == "array":
                array = next(given)
            else:
                name = parameter.keyword or next(iter(scalars))
                array = np.asarray(scalars.pop(name)).astype(parameter.dtype)
                self.arrays.append(array)
            if parameter.kind == "scalar":
                data = array.tobytes()
                words += [data.ljust(-(-len(data) // 8) * 8, b"\0")]
                continue
            extents = array.shape[: parameter.ndim]
            words += [np.int64(n).tobytes() for n in (array.ctypes.data, *extents)]
        self.arrays += outputs
        self.before = [np.copy(array) for array in self.arrays]
        joined = b"".join(words)
        self.words = ctypes.create_string_buffer(joined, len(joined))
        at = ctypes.addressof(self.words)
        places = []
        for word in words:
            places += [at + 8 * i for i in range(len(word) // 8)]
            at += len(word)
        self.places = (ctypes.c_void_p * len(places))(*places)
        self.grid, self.block = case.sizes()
        self.shared = case.shared_mem

    def restore(self) -> None:
        """Let the arrays hold what they held before the first launch."""
        for array, before in zip(self.arrays, self.before, strict=True):
            array[...] = before

    def __call__(self) -> None:
        _core.launch_host_code(
            self.digest, self.grid, self.block, self.shared, ctypes.addressof(self.places)
        )


def functions(case: Case) -> list[Any]:
    """The kernel's machine code without checks and with them."""
    found = []
    compile_kernel = numba_cuda_compile.compile_kernel

    def seen(*args: Any, **how: Any) -> Any:
        found.append(compile_kernel(*args, **how))
        return found[-1]

    numba_cuda_compile.compile_kernel = seen
    try:
        for checked in (False, True):
            case.run(check=checked)
    finally:
        numba_cuda_compile.compile_kernel = compile_kernel
    by_checks = {b"kb_check_table" in dict(f.images)[_core.HOST_CC]: f for f in found}
    return [by_checks[False], by_checks[True]]


def seconds(launch: Launch) -> float:
    launch.restore()
    begun = time.perf_counter()
    launch()
    return time.perf_counter() - begun


def measured(case: Case, rounds: int) -> tuple[float, float]:
    """Seconds of a launch without checks and with them."""
    plain, checked = (Launch(case, function) for function in functions(case))
    times = [(seconds(plain), seconds(checked)) for _ in range(rounds)]
    of_plain, of_checked = zip(*times, strict=True)
    return statistics.median(of_plain), statistics.median(of_checked)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--group", nargs="*", default=GROUPS, choices=GROUPS)
    parser.add_argument("--all", action="store_true", help="a row for each kernel")
    parser.add_argument("--check", action="store_true", help="fail above the limit")
    options = parser.parse_args()
    warnings.simplefilter("ignore", kernbridge.KernbridgeWarning)
    jax.config.update("jax_enable_x64", True)
    table = Table("kernel", "unchecked", "checked", "ratio")
    ratios = []
    for case in cases(*options.group):
        plain, checked = measured(case, options.rounds)
        ratios.append(checked / plain)
        row = (f"{plain * 1e6:.1f} us", f"{checked * 1e6:.1f} us", f"{ratios[-1]:.1f} x")
        table.add_row(case.name, *row)
    if options.all:
        Console().print(table)
    median = statistics.median(ratios)
    print(
        f"{len(ratios)} kernels: checked / unchecked {min(ratios):.1f} to {max(ratios):.1f}, "
        f"median {median:.2f} x (limit {LIMIT} x)"
    )
    return int(median > LIMIT and options.check)


if __name__ == "__main__":
    sys.exit(main())
