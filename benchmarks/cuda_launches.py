"""Launches of Numba-CUDA's kernels on the CPU by its own syntax, without JAX.

    python benchmarks/cuda_launches.py [--rounds N] [--size 1000000] [--json FILE] [--check]

A relu of float32 in blocks of 256 threads, on device arrays and on NumPy arrays, beside a loop that
`numba.njit` compiles, interleaved on the same arrays; ratios are medians over rounds. Numba's
simulator (NUMBA_ENABLE_CUDASIM=1) runs fewer threads in a process of its own, whose time for one
thread is multiplied. The last rows say what a launch of one block costs, and which part of that is
Numba's. The exit status is 1 with `--check` if a ratio to the loop is above 2.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import cuda

BLOCK = 256
SIMULATED = 20 * BLOCK  # threads
LIMIT = 2.0
ZERO = np.float32(0)


@cuda.jit
def relu(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = max(x[i], ZERO)


@numba.njit
def relu_loop(x, out):
    for i in range(out.size):
        out[i] = max(x[i], ZERO)


def interleaved(rounds: int, *calls: Callable[[], Any]) -> list[list[float]]:
    """Seconds of each call, round by round."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, own in zip(calls, times, strict=True):
            begun = time.perf_counter()
            call()
            own.append(time.perf_counter() - begun)
    return times


def memory_of(array: Any) -> np.ndarray:
    """The memory of a device array, which is the process's."""
    address = array.device_ctypes_pointer.value
    return np.ctypeslib.as_array((ctypes.c_float * array.size).from_address(address))


def against_a_loop(size: int, rounds: int) -> dict[str, float]:
    x = np.random.default_rng(0).normal(size=size).astype(np.float32)
    given, made = cuda.to_device(x), cuda.device_array_like(x)
    configured = relu[-(-size // BLOCK), BLOCK]
    found = {}
    for kind, arrays, memory in (
        ("device arrays", (given, made), (memory_of(given), memory_of(made))),
        ("NumPy arrays", (x, out := np.zeros_like(x)), (x, out)),
    ):
        ours, loop = interleaved(rounds, partial(configured, *arrays), partial(relu_loop, *memory))
        np.testing.assert_array_equal(memory[1], np.maximum(x, 0))
        found[f"{kind}, us"] = 1e6 * statistics.median(ours)
        found[f"{kind}, njit loop, us"] = 1e6 * statistics.median(loop)
        ratios = [a / b for a, b in zip(ours, loop, strict=True)]
        found[f"{kind}, ratio to the loop"] = statistics.median(ratios)
    return found


def one_block(rounds: int) -> dict[str, float]:
    from kernbridge import _core
    from kernbridge._ext.emulator.device import launch

    x, out = cuda.to_device(np.ones(BLOCK, np.float32)), cuda.device_array(BLOCK, np.float32)
    configured = relu[1, BLOCK]
    configured(x, out)
    (kernel,) = relu.overloads.values()
    digest = kernel._codelibrary.get_cufunc().digest
    words = np.array(launch.words_of(kernel, (x, out), 0, []), np.uint64)
    size, many = (1, 1, 1), range(100)

    def repeated(call: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: [call() for _ in many]

    whole, own, core = interleaved(
        rounds,
        repeated(lambda: configured(x, out)),
        repeated(lambda: kernel.launch((x, out), size, (BLOCK, 1, 1))),
        repeated(lambda: _core.launch_host_code(digest, size, (BLOCK, 1, 1), 0, words)),
    )
    whole_us, own_us, core_us = (1e6 / len(many) * statistics.median(t) for t in (whole, own, core))
    return {
        "one block, us": whole_us,
        "of which Numba's dispatcher, us": whole_us - own_us,
        "of which arguments, us": own_us - core_us,
        "of which the core, us": core_us,
    }


SIMULATOR = """
import time, warnings, numpy as np
from numba import cuda
warnings.simplefilter("ignore")

@cuda.jit
def relu(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = max(x[i], np.float32(0))

x = np.ones({size}, np.float32)
given, made = cuda.to_device(x), cuda.device_array_like(x)
relu[1, 32](given, made)
begun = time.perf_counter()
relu[{blocks}, {block}](given, made)
print((time.perf_counter() - begun) / {size})
"""


def simulator_seconds_a_thread() -> float:
    program = SIMULATOR.format(size=SIMULATED, blocks=SIMULATED // BLOCK, block=BLOCK)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KERNB")}
    environment = {**kept, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-c", program]
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import kernbridge

    with kernbridge.cuda_on_cpu():
        found = against_a_loop(options.size, options.rounds)
        found |= one_block(options.rounds)
    simulated = simulator_seconds_a_thread() * options.size
    found["simulator, s"] = simulated
    found["simulator, ratio to device arrays"] = 1e6 * simulated / found["device arrays, us"]
    for name, value in found.items():
        print(f"{name:36} {value:.2f}")
    if options.json:
        options.json.write_text(json.dumps({"size": options.size, "found": found}))
    slow = [n for n, v in found.items() if n.endswith("to the loop") and v > LIMIT]
    return 1 if options.check and slow else 0


if __name__ == "__main__":
    sys.exit(main())
