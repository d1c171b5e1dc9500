"""threads_per_block="tune" beside "auto" and the default of 256, on kernels of several kinds.

    python benchmarks/tuned_blocks.py [--json FILE]

Each kernel is called 200 times in a chain inside one jit; the candidates take turns. "tune" may not
be slower than "auto" by more than the noise, which the table shows as the ratio of "auto" to
itself, measured as another candidate. Needs a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kernbridge as kb
import measure
import numpy as np
from numba import cuda
from rich.console import Console

CHAIN, SIDE = 200, 1024


@cuda.jit
def stream(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.5 * x[i] + 1


@cuda.jit
def stencil(x, out):
    i = cuda.grid(1)
    if i < out.size:
        total = x[i]
        for k in range(1, 16):
            total += x[max(i - k, 0)] + x[min(i + k, out.size - 1)]
        out[i] = total / 31


@cuda.jit
def strided(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[(i % SIDE) * (out.size // SIDE) + i // SIDE]


@cuda.jit
def arithmetic(x, out):
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = x[i], x[i] + 1, x[i] + 2, x[i] + 3
        for _ in range(200):
            a, b, c, d = a * b + c, b * c + d, c * d + a, d * a + b
            a, b, c, d = a * 0.001, b * 0.001, c * 0.001, d * 0.001
        out[i] = a + b + c + d


@cuda.jit
def rows(x, out):
    """A thread a row: few threads, each with much to do."""
    i = cuda.grid(1)
    n = out.size // SIDE
    if i < SIDE:
        for k in range(n):
            out[i * n + k] = x[i * n + k] + 1


def chained(kernel: Any, n: int, threads: Any, launched: int) -> Callable[[], float]:
    out = jax.ShapeDtypeStruct((n,), jnp.float32)
    op = kb.numba_cuda_kernel(kernel, out, launch_dims=launched, threads_per_block=threads)

    def chain(x: jax.Array) -> jax.Array:
        for _ in range(CHAIN):
            x = op(x)
        return x

    run, x = jax.jit(chain), jnp.ones(n)
    jax.block_until_ready(run(x))
    if threads == "tune":
        (found,) = op.inspect(x)
        print(f"{kernel.py_func.__name__} of {n:,}: {found.tuning}", file=sys.stderr)
    return lambda: measure.timed(lambda: jax.block_until_ready(run(x))) / CHAIN


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", help="write the figures there, too")
    args = parser.parse_args()
    if jax.default_backend() != "gpu":
        parser.error("JAX has no GPU here")
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]  # numba-cuda 0.30 reads it
    results = {}
    for kernel in (stream, stencil, strided, arithmetic, rows):
        for n in (64 * SIDE, 4096 * SIDE):
            launched = SIDE if kernel is rows else n
            candidates = {"auto": "auto", "auto again": "auto", "tune": "tune", "256": 256}
            runs = {name: chained(kernel, n, t, launched) for name, t in candidates.items()}
            title = f"{kernel.py_func.__name__} of {n:,} float32"
            results[title] = measure.rounds(runs, args.rounds, 1e-6)
            measure.show(Console(), title, "us", results[title])
    measure.save(args.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
