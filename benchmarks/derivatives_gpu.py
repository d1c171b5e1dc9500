"""Derivatives of Numba-CUDA kernels by Enzyme: their time over that of the kernel, and over JAX's.

    python benchmarks/derivatives_gpu.py [--json FILE] [--rounds N] [--size N]

The floor of each table is the kernel itself. A time is that of ten calls in a row, divided by ten.
Cotangents are constants, so that a derivative which changes them copies them first. Without a GPU,
kernels run on the CPU, and the times say nothing about GPUs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import measure
import numpy as np
from kernbridge import numba_cuda_kernel
from numba import cuda, float64
from rich.console import Console

S = jax.ShapeDtypeStruct
CALLS = 10


@cuda.jit
def scatter(x, at, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, at[i], x[i] * x[i])


@cuda.jit
def tiles(u, out):
    """A stencil whose blocks read their part of the input once."""
    s = cuda.shared.array(258, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < u.size:
        s[t + 1] = u[i]
        if t == 0:
            s[0] = u[i - 1] if i > 0 else 0.0
        if t == 255:
            s[257] = u[i + 1] if i < u.size - 1 else 0.0
    cuda.syncthreads()
    if i < u.size:
        out[i] = 0.25 * s[t] + 0.5 * s[t + 1] * s[t + 1] + 0.25 * s[t + 2]


@cuda.jit
def csr_product(data, indices, indptr, v, out):
    row = cuda.grid(1)
    if row < out.size:
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * v[indices[k]]
        out[row] = total


@cuda.jit
def neurons(v, current, out):
    i = cuda.grid(1)
    if i < v.size:
        u = v[i] + 0.1 * (current[i] - v[i])
        out[i] = 0.0 if u > 1.0 else u


def tiles_of_jax(u: Any) -> Any:
    padded = jnp.pad(u, 1)
    return 0.25 * padded[:-2] + 0.5 * u * u + 0.25 * padded[2:]


def neurons_of_jax(v: Any, current: Any) -> Any:
    u = v + 0.1 * (current - v)
    return jnp.where(u > 1.0, 0.0, u)


def cases(n: int) -> list[tuple[str, Any, Callable[..., Any], Sequence[Any]]]:
    rng = np.random.default_rng(0)
    x, y, m, rows = rng.normal(size=n), rng.normal(size=n), max(n // 20, 1), max(n // 16, 1)
    at = rng.integers(0, m, n).astype(np.int32)
    indptr = np.arange(0, 16 * rows + 1, 16, dtype=np.int32)
    segments = jnp.asarray(np.repeat(np.arange(rows), 16).astype(np.int32))

    def csr_of_jax(data: Any, indices: Any, indptr: Any, v: Any) -> Any:
        return jax.ops.segment_sum(data * v[indices], segments, rows)

    def enzyme(kernel: Any, size: int, threads: int, **options: Any) -> Any:
        out = S((size,), jnp.float64)
        return numba_cuda_kernel(kernel, out, launch_dims=threads, derivatives="enzyme", **options)

    of_matrix = [x[: 16 * rows], at[: 16 * rows], indptr, y[:m]]
    return [
        (
            "scatter by atomics",
            enzyme(scatter, m, n, zero_outputs=True),
            lambda x, at: jnp.zeros(m).at[at].add(x * x),
            [x, at],
        ),
        ("stencil in shared memory", enzyme(tiles, n, n), tiles_of_jax, [x]),
        ("CSR product, a thread a row", enzyme(csr_product, rows, rows), csr_of_jax, of_matrix),
        ("leaky neurons", enzyme(neurons, n, n), neurons_of_jax, [x, y]),
    ]


def wall_of(function: Callable[..., Any], given: Sequence[Any]) -> Callable[[], float]:
    run = jax.jit(function)

    def calls() -> Any:
        return [run(*given) for _ in range(CALLS)][-1]

    jax.block_until_ready(calls())
    return lambda: measure.timed(lambda: jax.block_until_ready(calls())) / CALLS


def adjoint_of(function: Callable[..., Any], given: Sequence[Any]) -> Callable[..., Any]:
    real = [i for i, x in enumerate(given) if jnp.issubdtype(x.dtype, jnp.inexact)]
    out = jax.eval_shape(function, *given)
    cotangents = jnp.asarray(np.random.default_rng(1).normal(size=out.shape))

    def adjoint(*given: Any) -> Any:
        def of_real(*values: Any) -> Any:
            moved = dict(zip(real, values, strict=True))
            return function(*(moved.get(i, x) for i, x in enumerate(given)))

        return jax.vjp(of_real, *(given[i] for i in real))[1](cotangents)

    return adjoint


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=20, help="rounds (default 20)")
    parser.add_argument("--size", type=int, default=4_000_000, help="elements (default 4,000,000)")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    results = {}
    for title, op, reference, arrays in cases(options.size):
        given = [jnp.asarray(a) for a in arrays]
        ours, theirs = (adjoint_of(f, given) for f in (op, reference))
        for a, b in zip(jax.jit(ours)(*given), jax.jit(theirs)(*given), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        measures = {
            "kernel": wall_of(op, given),
            "adjoint by Enzyme": wall_of(ours, given),
            "in JAX": wall_of(reference, given),
            "adjoint by JAX": wall_of(theirs, given),
        }
        results[title] = measure.rounds(measures, options.rounds, 1e-6)
        measure.show(Console(), title, "µs", results[title])
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
