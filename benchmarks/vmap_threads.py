"""Slices of a batch on all cores: the speed-up, and what the sharing itself costs.

    python benchmarks/vmap_threads.py [--json FILE] [--rounds N] [--threads N]

- 1,000 slices of a kernel of 50 us: the wall time of a loop over that of the batch. The floor is
  the same with threads of Python that call the kernel without the GIL and without JAX: what this
  machine's cores give while it is measured. The results are compared bit by bit.
- As many slices as threads, of 100 us: the time of the batch less that of one slice alone. All of
  it is scheduling: the waking of threads, and the waiting for the last. Numba's own `prange` over
  the same slices, without JAX, wakes threads of its own.
- The same as a step of a `lax.fori_loop`, where threads wait for the next batch.
- What of that is scheduling: each slice records when it begins and ends. From the begin of the call
  to the begin of the slice that begins last, and from the end of the slice that ends last to the
  end of the call; in a loop, from the last end in one step to the last begin in the next. The
  spread of the slices themselves does not count. One slice alone is the floor: what is above it is
  the cost of several threads.
- Slices of 1 us that take 60 us together, the least that is shared: the time less that of a loop.

`--threads` is how many cores there are for it; set it where the process has less than the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # prange's threads sleep, as XLA's do
sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import kernbridge
import measure
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from rich.console import Console

OUT = jax.ShapeDtypeStruct((1,), jnp.float32)
CALIBRATION = 1_000_000
STEPS = 50


@numba.njit(nogil=True)
def spin(x, n, out):
    s = x[0]
    for _ in range(n[0]):
        s = s * np.float32(1.0000001) + np.float32(1e-9)
    out[0] = s


@numba.njit(nogil=True)
def loop(x, n, out):
    """The slices of one thread, without JAX."""
    for i in range(x.shape[0]):
        spin(x[i], n, out[i])


@numba.njit(nogil=True, parallel=True)
def parallel_loop(x, n, out):
    """The slices on Numba's threads, without JAX."""
    for i in numba.prange(x.shape[0]):
        spin(x[i], n, out[i])


def operation(**options: Any) -> Callable[..., Any]:
    return jax.jit(jax.vmap(kernbridge.numba_kernel(spin, OUT, **options), in_axes=(0, None)))


@intrinsic
def now(typing_context: Any) -> Any:
    """Nanoseconds of the clock that `time.perf_counter_ns` reads."""
    word, number = ir.IntType(64), ir.IntType(32)
    time_type = ir.LiteralStructType((word, word))

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(number, (number, time_type.as_pointer()))
        read = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        at = cgutils.alloca_once(builder, time_type)
        builder.call(read, (number(time.CLOCK_MONOTONIC), at))
        seconds, rest = (builder.extract_value(builder.load(at), i) for i in range(2))
        return builder.add(builder.mul(seconds, word(1_000_000_000)), rest)

    return numba.int64(), code


@numba.njit(nogil=True)
def spin_timed(x, n, out, at):
    """`spin`, and when it began and ended: the lower and the upper half of each time."""
    begin = now()
    s = x[0]
    for _ in range(n[0]):
        s = s * np.float32(1.0000001) + np.float32(1e-9)
    out[0] = s
    end = now()
    at[0], at[1] = np.uint32(begin & 0xFFFFFFFF), np.uint32(begin >> 32)
    at[2], at[3] = np.uint32(end & 0xFFFFFFFF), np.uint32(end >> 32)


# The kernel calls a function that kernbridge does not know, so that threads must be allowed.
timed_op = kernbridge.numba_kernel(
    spin_timed, (OUT, jax.ShapeDtypeStruct((4,), jnp.uint32)), vmap_threads=True
)
timed = jax.jit(jax.vmap(timed_op, in_axes=(0, None)))

shared, ordered = operation(), operation(vmap_threads=False)


def iterations(seconds: float) -> Any:
    """How many iterations of `spin` take that long here."""
    host = np.ones(1, np.float32), np.array([CALIBRATION], np.int32), np.zeros(1, np.float32)
    spin(*host)
    taken = min(measure.timed(lambda: spin(*host)) for _ in range(20))
    return jnp.array([round(CALIBRATION * seconds / taken)], jnp.int32)


def wall_of(call: Callable[..., Any], count: int, n: Any) -> Callable[[], float]:
    """Seconds of a batch: the least of some calls, which leaves out what other processes take."""
    x = jnp.ones((count, 1), jnp.float32)
    jax.block_until_ready(call(x, n))
    return lambda: min(measure.timed(lambda: jax.block_until_ready(call(x, n))) for _ in range(5))


def wall_of_step(call: Callable[..., Any], count: int, n: Any) -> Callable[[], float]:
    """Seconds of a step of a loop whose only operation is a batch."""
    loop_of = jax.jit(lambda x, n: jax.lax.fori_loop(0, STEPS, lambda _, y: call(y, n), x))
    batches = wall_of(loop_of, count, n)
    return lambda: batches() / STEPS


def times_of(at: Any) -> tuple[Any, Any]:
    """When each slice began and ended, in nanoseconds."""
    halves = np.asarray(at).astype(np.int64)
    return halves[:, 0] + (halves[:, 1] << 32), halves[:, 2] + (halves[:, 3] << 32)


def scheduling_of(count: int, n: Any) -> Callable[[], float]:
    """Seconds of a batch before the last slice begins, and after the last one ends.

    A slice that begins when another has ended, since no thread came, counts that one's time, too.
    """
    x = jnp.ones((count, 1), jnp.float32)
    jax.block_until_ready(timed(x, n))

    def once() -> float:
        begin = time.perf_counter_ns()
        _, at = jax.block_until_ready(timed(x, n))
        end = time.perf_counter_ns()
        begins, ends = times_of(at)
        return float(begins.max() - begin + end - ends.max()) * 1e-9

    return lambda: min(once() for _ in range(20))  # on a busy machine, most are not overlapped


def scheduling_of_step(count: int, n: Any) -> Callable[[], float]:
    """The same for a step of a loop: between the last end in a step, and the last begin after."""

    def body(_: Any, carried: Any) -> Any:
        y, at, _ = carried
        return *timed(y, n), at

    at = jnp.zeros((count, 4), jnp.uint32)
    loop_of = jax.jit(lambda x: jax.lax.fori_loop(0, STEPS, body, (x, at, at)))
    x = jnp.ones((count, 1), jnp.float32)
    jax.block_until_ready(loop_of(x))

    def once() -> float:
        _, at, before = jax.block_until_ready(loop_of(x))
        return float(times_of(at)[0].max() - times_of(before)[1].max()) * 1e-9

    return lambda: min(once() for _ in range(5))


def wall_of_prange(count: int, n: Any) -> Callable[[], float]:
    host = np.ones((count, 1), np.float32), np.asarray(n), np.empty((count, 1), np.float32)
    parallel_loop(*host)
    return lambda: min(measure.timed(lambda: parallel_loop(*host)) for _ in range(5))


def wall_of_threads(n_threads: int, count: int, n: Any) -> Callable[[], float]:
    """The same for threads of Python that call the kernel themselves."""
    parts = np.array_split(np.ones((count, 1), np.float32), n_threads)
    host = np.asarray(n)
    outs = [np.empty_like(part) for part in parts]
    loop(parts[0], host, outs[0])

    def once() -> float:
        team = [
            threading.Thread(target=loop, args=(part, host, out))
            for part, out in zip(parts, outs, strict=True)
        ]
        return measure.run_threads(team)

    return lambda: min(once() for _ in range(5))


def speed_up(count: int, n_threads: int) -> dict[str, Callable[[], float]]:
    n = iterations(50e-6)
    x = jnp.linspace(0, 1, count, dtype=jnp.float32).reshape(-1, 1)
    np.testing.assert_array_equal(shared(x, n), ordered(x, n))
    of_one, of_all = wall_of_threads(1, count, n), wall_of_threads(n_threads, count, n)
    in_order, on_threads = wall_of(ordered, count, n), wall_of(shared, count, n)
    return {
        "njit(nogil=True), threads": lambda: of_one() / of_all(),
        "vmap": lambda: in_order() / on_threads(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=9, help="rounds (default 9)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores")
    options = parser.parse_args()
    console, results = Console(), {}

    def report(title: str, unit: str, scale: float, measures: Any) -> None:
        results[title] = measure.rounds(measures, options.rounds, scale)
        measure.show(console, title, unit, results[title])

    n_threads = options.threads
    title = f"1,000 slices of 50 us: speed-up on {n_threads} cores"
    report(title, "x", 1.0, speed_up(1000, n_threads))
    n = iterations(100e-6)
    prange = wall_of_prange(n_threads, n)
    layer = numba.threading_layer()
    report(
        f"{n_threads} slices of 100 us on {n_threads} cores, and one alone",
        "us",
        1e-6,
        {
            "one slice": wall_of(shared, 1, n),
            "as many as cores": wall_of(shared, n_threads, n),
            "one slice, a step": wall_of_step(shared, 1, n),
            "as many as cores, a step": wall_of_step(shared, n_threads, n),
            f"prange ({layer}), one slice": wall_of_prange(1, n),
            f"prange ({layer}), as many as cores": prange,
        },
    )
    report(
        f"of these, scheduling: {n_threads} slices of 100 us less the critical path of the slices",
        "us",
        1e-6,
        {"one slice": scheduling_of(1, n), "as many as cores": scheduling_of(n_threads, n)},
    )
    report(
        f"of these, scheduling: a step with {n_threads} slices of 100 us",
        "us",
        1e-6,
        {
            "one slice, a step": scheduling_of_step(1, n),
            "as many as cores, a step": scheduling_of_step(n_threads, n),
        },
    )
    n = iterations(1e-6)
    report(
        "60 slices of 1 us",
        "us",
        1e-6,
        {"in order": wall_of(ordered, 60, n), "shared": wall_of(shared, 60, n)},
    )
    measure.save(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
