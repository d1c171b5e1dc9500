"""Derivatives of CUDA kernels by Enzyme: their time over the kernel's, and over JAX's derivative.

    python benchmarks/derivatives_gpu.py [--json FILE] [--rounds N] [--size N ...]

Each kernel is one of Numba-CUDA and one of CUDA C++, and the floor of a table is the former. A time
is that of ten calls in a row, divided by ten. Cotangents are constants, so that a derivative which
changes them copies them first. Below each table is what the GPU did in a call, from a profile: how
often it ran each kernel, copy and fill, and for how long. Without a GPU, kernels run on the CPU,
and the times say nothing about GPUs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import measure
import numpy as np
from kernbridge import cuda_kernel, numba_cuda_kernel
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


CPP = r"""
__global__ void scatter(const double *x, const int *at, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(out + at[i], x[i] * x[i]);
}

__global__ void tiles(const double *u, double *out, int n)
{
    __shared__ double s[258];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (i < n) {
        s[t + 1] = u[i];
        if (t == 0)
            s[0] = i > 0 ? u[i - 1] : 0.0;
        if (t == 255)
            s[257] = i < n - 1 ? u[i + 1] : 0.0;
    }
    __syncthreads();
    if (i < n)
        out[i] = 0.25 * s[t] + 0.5 * s[t + 1] * s[t + 1] + 0.25 * s[t + 2];
}

__global__ void csr_product(const double *data, const int *indices, const int *indptr,
                            const double *v, double *out, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    double total = 0;
    for (int k = indptr[row]; k < indptr[row + 1]; k++)
        total += data[k] * v[indices[k]];
    out[row] = total;
}

__global__ void neurons(const double *v, const double *current, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double u = v[i] + 0.1 * (current[i] - v[i]);
    out[i] = u > 1.0 ? 0.0 : u;
}
"""


def tiles_of_jax(u: Any) -> Any:
    padded = jnp.pad(u, 1)
    return 0.25 * padded[:-2] + 0.5 * u * u + 0.25 * padded[2:]


def neurons_of_jax(v: Any, current: Any) -> Any:
    u = v + 0.1 * (current - v)
    return jnp.where(u > 1.0, 0.0, u)


Case = tuple[str, dict[str, Any], Callable[..., Any], Sequence[Any]]


def cases(n: int) -> list[Case]:
    """The title of each, the operations by language, the same in JAX, and arguments."""
    rng = np.random.default_rng(0)
    x, y, m, rows = rng.normal(size=n), rng.normal(size=n), max(n // 20, 1), max(n // 16, 1)
    at = rng.integers(0, m, n).astype(np.int32)
    indptr = np.arange(0, 16 * rows + 1, 16, dtype=np.int32)
    segments = jnp.asarray(np.repeat(np.arange(rows), 16).astype(np.int32))

    def csr_of_jax(data: Any, indices: Any, indptr: Any, v: Any) -> Any:
        return jax.ops.segment_sum(data * v[indices], segments, rows)

    def enzyme(kernel: Any, size: int, threads: int, **options: Any) -> dict[str, Any]:
        given = (S((size,), jnp.float64),)
        options |= {"launch_dims": threads, "derivatives": "enzyme", "threads_per_block": 256}
        name, n = kernel.__name__, {"n": threads}
        return {
            "Numba-CUDA": numba_cuda_kernel(kernel, *given, **options),
            "CUDA C++": cuda_kernel(CPP, name, *given, attrs=n, **options),
        }

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


def work_of_gpu(function: Callable[..., Any], given: Sequence[Any]) -> list[list[Any]]:
    """What a GPU does in a call: names, how often each is run, and the median of its time in µs."""
    run = jax.jit(function)
    jax.block_until_ready(run(*given))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready([run(*given) for _ in range(CALLS)])
        (file,) = Path(folder).rglob("*.trace.json.gz")
        with gzip.open(file) as stream:
            events = json.load(stream)["traceEvents"]
    rows = {
        (e["name"], e["pid"], e.get("tid")): e["args"].get("name", "")
        for e in events
        if e.get("ph") == "M"
    }
    times = defaultdict(list)
    for e in (e for e in events if e.get("ph") == "X"):
        process, row = ("process_name", e["pid"], None), ("thread_name", e["pid"], e["tid"])
        if "GPU" in rows.get(process, "") and "Stream" in rows.get(row, ""):
            times[e["name"]].append(e["dur"])
    return [[name, len(t) / CALLS, statistics.median(t)] for name, t in times.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=20, help="rounds (default 20)")
    parser.add_argument(
        "--size",
        type=int,
        nargs="+",
        default=[4_000_000],
        help="elements; several sizes are measured one after the other (default 4,000,000)",
    )
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    console, results, work = Console(width=120), {}, {}
    for n in options.size:
        for title, ops, reference, arrays in cases(n):
            title, given = f"{title}, {n:,} elements", [jnp.asarray(a) for a in arrays]
            theirs = adjoint_of(reference, given)
            functions: dict[str, Callable[..., Any]] = {}
            for language, op in ops.items():
                ours = adjoint_of(op, given)
                for a, b in zip(jax.jit(ours)(*given), jax.jit(theirs)(*given), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
                functions |= {f"{language} kernel": op, f"its adjoint by Enzyme, {language}": ours}
            functions |= {"in JAX": reference, "adjoint by JAX": theirs}
            measures = {name: wall_of(f, given) for name, f in functions.items()}
            results[title] = measure.rounds(measures, options.rounds, 1e-6)
            measure.show(console, title, "µs", results[title])
            work[title] = {name: work_of_gpu(f, given) for name, f in functions.items()}
            for name, parts in work[title].items():
                for part, count, time in parts:
                    console.print(f"  {name}: {count:g} x {part[:60]}, {time:.2f} µs")
    if options.json is not None:
        figures = {title: [asdict(row) for row in rows] for title, rows in results.items()}
        measure.write(options.json, {"results": figures, "work": work})
    return 0


if __name__ == "__main__":
    sys.exit(main())
