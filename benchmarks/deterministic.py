"""deterministic= beside the plain kernel: histograms, and the product with a transposed CSR matrix.

    python benchmarks/deterministic.py [--n 10000000] [--json FILE]

Each kernel adds to an aliased output in a loop inside one jit, so that the deterministic one pays
for its zeros, its integers and its last launch. The candidates take turns; the first one, the plain
kernel, is the floor. Runs on a GPU, or with JAX_PLATFORMS=cpu on the CPU.
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

CHAIN, MEAN = 10, 10  # calls of a loop, elements of a row
MOST = 2.0  # times the plain kernel


@cuda.jit
def histogram(begin, values, places, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(out, places[i], values[i])


@cuda.jit
def transposed_product(begin, data, columns, rows, x, out):
    """A thread a row of a CSR matrix, which adds to the elements of its columns."""
    i = cuda.grid(1)
    if i < x.size:
        for j in range(rows[i], rows[i + 1]):
            cuda.atomic.add(out, columns[j], data[j] * x[i])


def chained(kernel: Any, out: Any, inputs: Any, threads: int, how: Any) -> Callable[[], float]:
    op = kb.numba_cuda_kernel(
        kernel, out, launch_dims=threads, input_output_aliases={0: 0}, deterministic=how
    )

    def chain(y: jax.Array, *inputs: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, CHAIN, lambda _, y: op(y, *inputs), y)

    run, y = jax.jit(chain), jnp.zeros(out.shape, out.dtype)
    jax.block_until_ready(run(y, *inputs))
    return lambda: measure.timed(lambda: jax.block_until_ready(run(y, *inputs))) / CHAIN


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", help="write the figures there, too")
    args = parser.parse_args()
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # type: ignore[attr-defined]  # numba-cuda 0.30 reads it
    jax.config.update("jax_enable_x64", True)
    rng, results, worst = np.random.default_rng(0), {}, 0.0
    n = args.n
    for dtype in ("float32", "float64"):
        cases = []
        for bins in (1_000, 1_000_000):
            places = rng.integers(0, bins, n, dtype=np.int32)
            inputs = [jnp.asarray(rng.normal(size=n).astype(dtype)), jnp.asarray(places)]
            cases.append((f"{n:,} {dtype} into {bins:,} bins", histogram, bins, inputs, n))
        m = n // MEAN
        rows = np.concatenate([[0], np.cumsum(rng.multinomial(n, np.full(m, 1 / m)))])
        columns = rng.integers(0, m, n, dtype=np.int32)
        data, x = rng.normal(size=n).astype(dtype), rng.normal(size=m).astype(dtype)
        inputs = [jnp.asarray(a) for a in (data, columns, rows.astype(np.int32), x)]
        title = f"transposed CSR product, {m:,} rows, {n:,} {dtype}"
        cases.append((title, transposed_product, m, inputs, m))
        for title, kernel, size, inputs, threads in cases:
            out = jax.ShapeDtypeStruct((size,), dtype)
            runs = {
                "plain": chained(kernel, out, inputs, threads, False),
                "deterministic": chained(kernel, out, inputs, threads, True),
            }
            results[title] = measure.rounds(runs, args.rounds, 1e-3)
            measure.show(Console(), title, "ms", results[title])
            worst = max(worst, results[title][1].ratio)
    measure.save(args.json, results)
    verdict = "within" if worst <= MOST else "ABOVE"
    print(f"at most {worst:.2f} times the plain kernel, {verdict} the bound of {MOST:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
