"""Numba-CUDA kernels on the CPU against loops that Numba compiles for it, and what a block costs.

    python benchmarks/cuda_on_cpu.py [--rounds N] [--size 1000000] [--check]

Launches go to the core, without JAX, so that one core means one: kernel and loop work on the same
arrays, interleaved; ratios are medians over rounds. Two cores share a launch as JAX calls it. The
exit status is 1 with `--check` if a ratio is above its limit (those of issue 7).
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["KERNBRIDGE_LIBCUDA"] = "/nowhere/libcuda.so"  # the CPU, whatever else there is
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERNBRIDGE_CACHE_DIR"] = "0"  # both compilers run

import jax
import jax.numpy as jnp
import kernbridge
import kernbridge._core as _core
import measure
import numba
import numpy as np
from kernbridge._ext.emulator.compiler import compile as cuda_on_cpu_compile
from kernbridge._src.numba_cuda import compile as numba_cuda_compile
from kernbridge._src.plan import targets
from numba import cuda
from rich.console import Console
from rich.table import Table

BLOCK = 256
ONE = np.float32(1)


@cuda.jit
def relu(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = max(x[i], np.float32(0))


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def sigmoid(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = ONE / (ONE + math.exp(-x[i]))


@cuda.jit
def tree(x, out):
    s = cuda.shared.array(BLOCK, numba.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    step = BLOCK // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            s[t] += s[t + step]
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def warm(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = y[i] - x[i]


@numba.njit
def relu_loop(x, y, out):
    for i in range(out.size):
        out[i] = max(x[i], np.float32(0))


@numba.njit
def add_loop(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit
def sigmoid_loop(x, y, out):
    for i in range(out.size):
        out[i] = ONE / (ONE + math.exp(-x[i]))


class HostLaunch:
    """A kernel's launch on this thread. Gives the time that the kernel's two compilers took."""

    def __init__(self, kernel: Any, arrays: list[np.ndarray], grid: int) -> None:
        from kernbridge._src.numba_cuda.entry import DeviceParameter

        parameters = [DeviceParameter("array", a.dtype, a.ndim) for a in arrays]
        begun = time.process_time()
        function = numba_cuda_compile.compile_kernel(
            "benchmark", kernel, parameters, False, targets.of_platform("cpu")
        )
        both = time.process_time() - begun
        image = dict(function.images)[_core.HOST_CC]
        begun = time.process_time()
        cuda_on_cpu_compile.HostCodeRecipe(image, "", "").make()
        self.llvm_seconds = time.process_time() - begun
        self.numba_seconds = both - self.llvm_seconds
        words = [w for a in arrays for w in (a.ctypes.data, *a.shape)]
        self.arrays = arrays
        self.words = (ctypes.c_int64 * len(words))(*words)
        self.digest, self.grid = image[:64], (grid, 1, 1)

    def __call__(self) -> None:
        _core.launch_host_code(self.digest, self.grid, (BLOCK, 1, 1), 0, self.words)


def seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def interleaved(calls: list[Callable[[], Any]], rounds: int) -> list[list[float]]:
    """Times of each call, round by round."""
    for call in calls:
        call()
    times = [[seconds(call) for call in calls] for _ in range(rounds)]
    return [list(column) for column in zip(*times, strict=True)]


def against_loops(size: int, rounds: int, table: Table, results: dict[str, Any]) -> list[str]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, size)).astype(np.float32)
    missed = []
    HostLaunch(warm, [x, y, np.zeros(size, np.float32)], 1)  # Numba and LLVM load themselves
    for kernel, loop, limit in (
        (relu, relu_loop, 3),
        (add, add_loop, 3),
        (sigmoid, sigmoid_loop, 4),
    ):
        out, wanted = np.zeros(size, np.float32), np.zeros(size, np.float32)
        launch = HostLaunch(kernel, [x, y, out], -(-size // BLOCK))
        ours, theirs = interleaved([launch, partial(loop, x, y, wanted)], rounds)
        np.testing.assert_allclose(out, wanted, rtol=2e-6)
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        name = kernel.py_func.__name__
        table.add_row(
            f"{name}, one core",
            f"{statistics.median(ours) * 1e3:.2f} ms",
            f"njit loop {statistics.median(theirs) * 1e3:.2f} ms",
            f"{ratio:.2f} x",
            f"{limit} x",
        )
        pair = {"an njit loop": theirs, "CUDA kernel": ours}
        results[name] = [
            measure.row_of(who, [1e3 * s for s in times], [1e3 * s for s in theirs], "ms")
            for who, times in pair.items()
        ]
        missed += [name] * (ratio > limit)
        compiled = 1e3 * (launch.numba_seconds + launch.llvm_seconds)
        table.add_row(
            f"{name}, compiled",
            f"{compiled:.0f} ms",
            f"of which LLVM {launch.llvm_seconds * 1e3:.0f} ms",
            "",
            "150 ms, once warm",
        )
    return missed


def tree_reduction(rounds: int, table: Table) -> list[str]:
    n_blocks = 200
    x = np.random.default_rng(1).integers(0, 10, n_blocks * BLOCK).astype(np.float32)
    out = np.zeros(n_blocks, np.float32)
    launch = HostLaunch(tree, [x, out], n_blocks)
    (times,) = interleaved([launch], rounds)
    np.testing.assert_array_equal(out, x.reshape(n_blocks, BLOCK).sum(1))
    a_block = statistics.median(times) / n_blocks * 1e6
    table.add_row("tree reduction, 256 threads", f"{a_block:.0f} us a block", "", "", "200 us")
    return ["tree"] * (a_block > 200)


def two_cores(size: int, rounds: int, table: Table) -> list[str]:
    """A launch from a jitted function: with all cores of two, and with one."""
    if len(os.sched_getaffinity(0)) < 2:
        table.add_row("sigmoid, two cores", "", "there is one core", "", "1.7 x")
        return []
    x = jnp.asarray(np.random.default_rng(2).normal(size=8 * size), jnp.float32)
    op = kernbridge.numba_cuda_kernel(
        sigmoid, jax.ShapeDtypeStruct(x.shape, x.dtype), launch_dims=x.size
    )
    call = jax.jit(op)
    launch_alone = HostLaunch(
        sigmoid, [np.asarray(x), np.asarray(x), np.zeros(x.size, np.float32)], -(-x.size // BLOCK)
    )
    shared, alone = interleaved([lambda: jax.block_until_ready(call(x, x)), launch_alone], rounds)
    ratio = statistics.median(b / a for a, b in zip(shared, alone, strict=True))
    table.add_row(
        "sigmoid, two cores",
        f"{statistics.median(shared) * 1e3:.2f} ms",
        f"one core {statistics.median(alone) * 1e3:.2f} ms",
        f"{ratio:.2f} x faster",
        "1.7 x",
    )
    return ["two cores"] * (ratio < 1.7)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--size", type=int, default=1_000_000, help="elements")
    parser.add_argument("--check", action="store_true", help="fail above a limit")
    parser.add_argument("--json", metavar="FILE", help="write the figures of the loops there")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    warnings.simplefilter("ignore", kernbridge.KernbridgeWarning)
    table = Table("", "kernbridge", "against", "ratio", "limit")
    results: dict[str, Any] = {}
    missed = against_loops(options.size, options.rounds, table, results)
    missed += tree_reduction(options.rounds, table)
    missed += two_cores(options.size, options.rounds, table)
    Console().print(table)
    measure.save(options.json, results)
    if missed:
        print("above the limit:", ", ".join(missed))
    return int(bool(missed) and options.check)


if __name__ == "__main__":
    sys.exit(main())
