"""First calls: what it takes to compile the Numba kernels of one program.

    python benchmarks/first_calls.py [--json FILE] [--rounds N]

Ten different kernels are compiled in a new process with an empty disk cache, after one other kernel
that lets Numba initialise itself:

- by Numba alone, without kernbridge, for the same types;
- each in a jitted function of its own, so that one is compiled after the other;
- in one jitted function;
- in one jitted function, from the disk cache.

The CPU time of the thread that lowers is shown as well, which is the wall time on a quiet machine.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import kernbridge
import measure
import numba
import numpy as np
from rich.console import Console

N = 64
F32 = jax.ShapeDtypeStruct((N,), jnp.float32)
MODES = ("Numba alone", "one after the other", "one program", "one program, cached")


def warm(x: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = x[i] + 1


def sigmoid(x: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = 1 / (1 + math.exp(-x[i]))


def weighted(x: Any, y: Any, out: Any) -> None:
    total = 0.0
    for i in range(x.size):
        total += math.exp(x[i]) * math.log1p(abs(y[i]))
    out[:] = total


def csr(data: Any, indices: Any, starts: Any, x: Any, out: Any) -> None:
    for row in range(out.size):
        total = np.float32(0)
        for j in range(starts[row], starts[row + 1]):
            total += data[j] * x[indices[j]]
        out[row] = total


def csr_of_spikes(data: Any, indices: Any, starts: Any, spikes: Any, out: Any) -> None:
    out[:] = 0
    for row in range(spikes.size):
        if spikes[row] != 0:
            for j in range(starts[row], starts[row + 1]):
                out[indices[j]] += data[j] * spikes[row]


def integrate_and_fire(v: Any, g: Any, current: Any, out: Any) -> None:
    for i in range(v.size):
        u = v[i] + 0.1 * (-(v[i] + 60) - g[i] * v[i] + current[i])
        out[i] = -60 if u > -50 else u


def gate(v: Any, m: Any, out: Any) -> None:
    for i in range(v.size):
        opening = 0.1 * (v[i] + 40) / (1 - math.exp(-(v[i] + 40) / 10))
        closing = 4 * math.exp(-(v[i] + 65) / 18)
        out[i] = m[i] + 0.01 * (opening * (1 - m[i]) - closing * m[i])


def outer(x: Any, y: Any, out: Any) -> None:
    for i in range(x.size):
        total = 0.0
        for j in range(y.size):
            total += x[i] * y[j] / (1 + abs(i - j))
        out[i] = total


def stencil(x: Any, out: Any) -> None:
    for i in range(x.size):
        left, right = x[max(i - 1, 0)], x[min(i + 1, x.size - 1)]
        out[i] = 0.25 * left + 0.5 * x[i] + 0.25 * right


def cumulate(x: Any, y: Any, out: Any) -> None:
    if x.size != y.size:
        raise ValueError("x and y have different sizes")
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
        out[i] = total


def extremes(x: Any, out: Any) -> None:
    low, high = x[0], x[0]
    for i in range(x.size):
        low, high = min(low, x[i]), max(high, x[i])
    for i in range(x.size):
        out[i] = (x[i] - low) / (high - low + 1)


SPARSE = (np.float32, np.int32, np.int32, np.float32)
KERNELS: tuple[tuple[Any, tuple[type, ...]], ...] = (
    *((kernel, SPARSE) for kernel in (csr, csr_of_spikes)),
    *((kernel, (np.float32,) * 3) for kernel in (integrate_and_fire,)),
    *((kernel, (np.float32,) * 2) for kernel in (weighted, gate, outer, cumulate)),
    *((kernel, (np.float32,)) for kernel in (sigmoid, stencil, extremes)),
)


def arrays(dtypes: tuple[type, ...]) -> list[Any]:
    return [jnp.arange(N + (i == 2), dtype=d) for i, d in enumerate(dtypes)]


def compile_all(mode: str) -> tuple[float, float]:
    """Compile the kernels in this process. Seconds, and those of this thread on a core."""
    kernels = [(numba.njit(kernel), arrays(dtypes)) for kernel, dtypes in KERNELS]
    ops = [(kernbridge.numba_kernel(kernel, F32), given) for kernel, given in kernels]
    kernbridge.numba_kernel(numba.njit(warm), F32)(jnp.zeros(N, jnp.float32))
    if mode == "Numba alone":
        out = numba.typeof(np.empty(N, np.float32))
        typed = [(k, (*map(numba.typeof, map(np.asarray, g)), out)) for k, g in kernels]

        def run() -> None:
            for kernel, types in typed:
                kernel.compile(types)
    elif mode == "one after the other":

        def run() -> None:
            for op, given in ops:
                jax.jit(op).lower(*given)
    else:

        def run() -> None:
            given = [given for _, given in ops]
            jax.jit(lambda given: [op(*g) for (op, _), g in zip(ops, given, strict=True)]).lower(
                given
            )

    wall, cpu = time.perf_counter(), time.thread_time()
    run()
    return time.perf_counter() - wall, time.thread_time() - cpu


def in_a_process(mode: str, cache: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--mode", mode]
    environment = {**os.environ, "KERNBRIDGE_CACHE_DIR": cache}
    wall, cpu = json.loads(subprocess.check_output(command, env=environment, text=True))
    return wall, cpu


def measured(mode: str, kept: str, cpu_of: dict[str, list[float]]) -> float:
    """Seconds of a new process; those on a core are noted."""
    with tempfile.TemporaryDirectory() as empty:
        wall, cpu = in_a_process(mode, kept if mode.endswith("cached") else empty)
    cpu_of[mode].append(cpu)
    return wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mode:
        print(json.dumps(compile_all(options.mode)))
        return 0
    cpu_of: dict[str, list[float]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as kept:
        in_a_process(MODES[-1], kept)
        measures: dict[str, Callable[[], float]] = {
            mode: functools.partial(measured, mode, kept, cpu_of) for mode in MODES
        }
        wall = measure.rounds(measures, options.rounds, 1e-3)
    of_thread = {mode: [1e3 * seconds for seconds in cpu_of[mode]] for mode in MODES}
    cpu = [
        measure.row_of(mode, values, of_thread[MODES[0]], "ms")
        for mode, values in of_thread.items()
    ]
    results = {
        f"{len(KERNELS)} kernels, wall time": wall,
        f"{len(KERNELS)} kernels, CPU time of the thread that lowers": cpu,
    }
    console = Console()
    for title, rows in results.items():
        measure.show(console, title, "ms", rows)
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
