"""Derivatives, nearly all by Enzyme: their times over those of the kernel, and over JAX's own.

    python benchmarks/derivatives.py [--json FILE] [--rounds N]

The floor of each table is the kernel itself. JAX may use all cores, the kernels use one. The last
table has the least times of all, and the seconds in which the gradient is lowered and compiled.
"Tangent" is the value and its tangent, of which one call makes both.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERNBRIDGE_CACHE_DIR", "")  # each run compiles
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import measure
import numba
import numpy as np
from kernbridge import load_cpp_inline, numba_kernel
from rich.console import Console
from rich.table import Table

S = jax.ShapeDtypeStruct


@numba.njit
def elementwise(x, out):
    for i in range(x.size):
        out[i] = np.log1p(np.exp(x[i])) * np.sin(x[i])


@numba.njit
def csr_product(data, indices, indptr, v, out):
    for i in range(out.size):
        total = v.dtype.type(0)
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * v[indices[k]]
        out[i] = total


@numba.njit
def neurons(v, current, out, spikes):
    """Leaky neurons over some steps, with a reset; `spikes` counts those of each."""
    for i in range(v.size):
        u, n = v[i], 0.0
        for t in range(current.shape[0]):
            u = u + 0.1 * (current[t, i] - u)
            if u > 1.0:
                u, n = 0.0, n + 1.0
        out[i], spikes[i] = u, n


@numba.njit
def sweeps(x, out):
    """Gauss-Seidel sweeps in place, which JAX runs as a loop over elements."""
    for _ in range(10):
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                x[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


@numba.njit
def sine(x, w, out):
    for i in range(x.size):
        out[i] = math.sin(x[i]) * w[i]


@numba.njit
def recurrence(x, w, out):
    u = x[0]
    for i in range(x.size):
        u = 0.5 * u * w[i] + math.sin(u)
        out[i] = u


@numba.njit
def stencil(x, w, out):
    n = x.size
    out[0], out[n - 1] = x[0], x[n - 1]
    for i in range(1, n - 1):
        out[i] = 0.25 * (x[i - 1] + x[i + 1]) + 0.5 * x[i] * w[i]


@numba.njit
def scaled(x, w, out):
    total = 0.0
    for i in range(x.size):
        total += x[i] * w[i]
    for i in range(x.size):
        out[i] = total * x[i]


@numba.njit
def expression(x, w, out):
    out[:] = np.exp(-x * x) * w + np.tanh(w)


@numba.njit
def inner_steps(x, w, out):
    for i in range(x.size):
        u = x[i]
        for _ in range(10):
            u = u - 0.1 * (u * u * u - w[i])
        out[i] = u


def recurrence_of_jax(x: Any, w: Any) -> Any:
    def step(u: Any, w: Any) -> Any:
        u = 0.5 * u * w + jnp.sin(u)
        return u, u

    return jax.lax.scan(step, x[0], w)[1]


def stencil_of_jax(x: Any, w: Any) -> Any:
    inside = 0.25 * (x[:-2] + x[2:]) + 0.5 * x[1:-1] * w[1:-1]
    return jnp.concatenate([x[:1], inside, x[-1:]])


def inner_steps_of_jax(x: Any, w: Any) -> Any:
    u = x
    for _ in range(10):
        u = u - 0.1 * (u * u * u - w)
    return u


@numba.njit
def stencil_pulled_back(x, w, ct, dx, dw):
    """The gradient of `stencil` as one writes it by hand: it adds to nothing in memory."""
    n = x.size
    dx[0], dx[n - 1] = ct[0] + 0.25 * ct[1], ct[n - 1] + 0.25 * ct[n - 2]
    dx[1] = 0.25 * ct[2] + 0.5 * w[1] * ct[1]
    dx[n - 2] = 0.25 * ct[n - 3] + 0.5 * w[n - 2] * ct[n - 2]
    dw[0], dw[1] = 0.0, 0.5 * x[1] * ct[1]
    dw[n - 2], dw[n - 1] = 0.5 * x[n - 2] * ct[n - 2], 0.0
    for i in range(2, n - 2):
        dx[i] = 0.25 * (ct[i - 1] + ct[i + 1]) + 0.5 * w[i] * ct[i]
        dw[i] = 0.5 * x[i] * ct[i]


def stencil_with_rule() -> Any:
    """The stencil with that gradient: no other gradient through a call takes less time."""
    pulled_back = numba_kernel(stencil_pulled_back, lambda x, *_: (like(x), like(x)))
    return numba_kernel(stencil, like, jvp="enzyme", vjp=lambda xs, _, cts: pulled_back(*xs, cts))


LOOPS = [
    ("sin(x) w", sine, lambda x, w: jnp.sin(x) * w),
    ("recurrence", recurrence, recurrence_of_jax),
    ("stencil", stencil, stencil_of_jax),
    ("sum, then product", scaled, lambda x, w: jnp.vdot(x, w) * x),
    ("NumPy expression", expression, lambda x, w: jnp.exp(-x * x) * w + jnp.tanh(w)),
    ("10 inner steps", inner_steps, inner_steps_of_jax),
]


CSR_IN_CPP = r"""
#include "kernbridge/kernbridge.hpp"
using kernbridge::Tensor;
// @BE csr arg:f64[k] arg:i32[k] arg:i32[...] arg:f64[m] ret:f64[n]
void csr(const Tensor data, const Tensor indices, const Tensor indptr, const Tensor v, Tensor out)
{
    const double *d = data.data_ptr<double>(), *x = v.data_ptr<double>();
    const int32_t *at = indices.data_ptr<int32_t>(), *ends = indptr.data_ptr<int32_t>();
    double *o = out.data_ptr<double>();
    for (int64_t i = 0; i < out.numel(); i++) {
        double total = 0;
        for (int32_t k = ends[i]; k < ends[i + 1]; k++)
            total += d[k] * x[at[k]];
        o[i] = total;
    }
}
"""


def neurons_of_jax(v: Any, current: Any) -> Any:
    def step(state: Any, now: Any) -> Any:
        u, n = state
        u = u + 0.1 * (now - u)
        fired = u > 1.0
        return (jnp.where(fired, 0.0, u), n + fired), None

    return jax.lax.scan(step, (v, jnp.zeros_like(v)), current)[0]


def sweeps_of_jax(x: Any) -> Any:
    n = x.shape[0] - 2

    def step(x: Any, k: Any) -> Any:
        i, j = k // n % n + 1, k % n + 1
        return x.at[i, j].set(0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])), None

    return jax.lax.scan(step, x, jnp.arange(10 * n * n))[0]


def like(x: Any, *_: Any) -> Any:
    return S(x.shape, x.dtype)


def cases() -> list[tuple[str, Any, Callable[..., Any], Sequence[Any]]]:
    rng = np.random.default_rng(0)
    indptr = np.arange(0, 320_001, 32, dtype=np.int32)
    indices = rng.integers(0, 10_000, 320_000).astype(np.int32)
    rows = np.repeat(np.arange(10_000), 32)

    def csr_of_jax(data: Any, indices: Any, indptr: Any, v: Any) -> Any:
        return jax.ops.segment_sum(data * v[indices], rows, 10_000, indices_are_sorted=True)

    def enzyme(kernel: Any, outs: Any = like, **options: Any) -> Any:
        return numba_kernel(kernel, outs, derivatives="enzyme", **options)

    # The recurrence does not end in subnormal numbers, which JAX's own code replaces by zero.
    x, w = 0.5 + rng.random(size=1_000_000), 0.5 + rng.random(size=1_000_000)
    return [
        *((f"{title} of 10^6", enzyme(kernel), theirs, [x, w]) for title, kernel, theirs in LOOPS),
        ("stencil, gradient by hand", stencil_with_rule(), stencil_of_jax, [x, w]),
        (
            "log1p(exp(x)) sin(x) of 10^5",
            enzyme(elementwise),
            lambda x: jnp.log1p(jnp.exp(x)) * jnp.sin(x),
            [rng.normal(size=100_000)],
        ),
        (
            "CSR product, 320,000 entries",
            enzyme(csr_product, lambda d, i, p, v: S((p.shape[0] - 1,), v.dtype)),
            csr_of_jax,
            [rng.normal(size=320_000), indices, indptr, rng.normal(size=10_000)],
        ),
        (
            "the same in C++",
            load_cpp_inline("csr_benchmark", CSR_IN_CPP).csr.operation(
                S((10_000,), np.float64), derivatives="enzyme"
            ),
            csr_of_jax,
            [rng.normal(size=320_000), indices, indptr, rng.normal(size=10_000)],
        ),
        (
            "500 neurons, 200 steps",
            enzyme(neurons, lambda v, _: (like(v), like(v))),
            neurons_of_jax,
            [rng.normal(size=500), 2 * rng.random(size=(200, 500))],
        ),
        (
            "10 sweeps of 12 x 12 in place",
            enzyme(sweeps, input_output_aliases={0: 0}),
            sweeps_of_jax,
            [rng.normal(size=(12, 12))],
        ),
    ]


def wall_of(function: Callable[..., Any], *given: Any) -> Callable[[], float]:
    return measure.least_wall(functools.partial(jax.jit(function), *given))


def gradient_of(function: Callable[..., Any], given: Sequence[Any]) -> Callable[..., Any]:
    real = [i for i, x in enumerate(given) if jnp.issubdtype(x.dtype, jnp.inexact)]

    def loss(*given: Any) -> Any:
        return sum(map(jnp.sum, jax.tree.leaves(function(*given))))  # without running the kernel

    return jax.grad(loss, argnums=real)


def tangent_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The results and their tangents, along the arrays of real numbers."""

    def pushed(*given: Any) -> Any:
        real = [i for i, x in enumerate(given) if jnp.issubdtype(x.dtype, jnp.inexact)]

        def of_real(*some: Any) -> Any:
            moved = dict(zip(real, some, strict=True))
            return function(*(moved.get(i, x) for i, x in enumerate(given)))

        return jax.jvp(of_real, [given[i] for i in real], [given[i] for i in real])

    return pushed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default 7)")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    results = {}
    summary = Table("kernel", "gradient / JAX", "/ kernel", "tangent / JAX", "/ kernel", "in s")
    for title, op, reference, arrays in cases():
        given = [jnp.asarray(a) for a in arrays]
        ours, theirs = (gradient_of(f, given) for f in (op, reference))
        jax.jit(op).lower(*given).compile()
        start = time.perf_counter()
        jax.jit(ours).lower(*given).compile()
        seconds = time.perf_counter() - start
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9),
            ours(*given),
            theirs(*given),
        )
        measures = {
            "kernel": wall_of(op, *given),
            "gradient": wall_of(ours, *given),
            "in JAX": wall_of(reference, *given),
            "gradient by JAX": wall_of(theirs, *given),
            "value and tangent": wall_of(tangent_of(op), *given),
            "by JAX": wall_of(tangent_of(reference), *given),
        }
        results[title] = measure.rounds(measures, options.rounds, 1e-3)
        measure.show(Console(), title, "ms", results[title])
        least = [row.least for row in results[title]]
        kernel, gradient, _, of_jax, tangent, tangent_of_jax = least
        pairs = (gradient, of_jax), (gradient, kernel), (tangent, tangent_of_jax), (tangent, kernel)
        ratios = [f"{a / b:.2f}" for a, b in pairs]
        summary.add_row(title, *ratios, f"{seconds:.1f}")
    Console().print(summary)
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
