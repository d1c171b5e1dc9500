"""Math functions in loops with libmvec: the time without `vector_math` over that with it.

    python benchmarks/vector_math.py [--json FILE] [--rounds N]

Each kernel goes over 10^6 elements on one core. "x floor" is how much of the time is left.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
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
from rich.console import Console

SIZE = 1_000_000


@numba.njit
def sigmoid(x, out):
    for i in range(x.size):
        out[i] = 1 / (1 + math.exp(-x[i]))


def each(function: Callable[[float], float]) -> Any:
    """The kernel of a function of one number, under its name."""

    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = function(x[i])

    kernel.__name__ = function.__name__
    return numba.njit(kernel)


@numba.njit
def power(x, out):
    for i in range(x.size):
        out[i] = math.pow(x[i], x[i])


def wall_of(kernel: Any, x: jax.Array, vector_math: bool) -> Callable[[], float]:
    outs = jax.ShapeDtypeStruct(x.shape, x.dtype)
    op = jax.jit(kernbridge.numba_kernel(kernel, outs, vector_math=vector_math))
    return measure.least_wall(functools.partial(op, x))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default 7)")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    results = {}
    for dtype in (jnp.float32, jnp.float64):
        x = jnp.linspace(0.1, 3.0, SIZE).astype(dtype)
        for kernel in (sigmoid, *map(each, (math.exp, math.log, math.sin, math.tanh)), power):
            title = f"{kernel.__name__} of 10^6 {x.dtype.name}"
            measures = {f"vector_math={on}": wall_of(kernel, x, on) for on in (False, True)}
            results[title] = measure.rounds(measures, options.rounds, 1e-3)
            measure.show(Console(), title, "ms", results[title])
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
