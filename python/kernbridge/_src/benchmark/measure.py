"""Measures the time of a function under `jax.jit`.

Several calls in one run are one jitted loop. Each call takes its operands out of an
`optimization_barrier` that also holds a number made from the results of the call before. That
changes no value; it keeps XLA from moving a call out of the loop, merging two, or leaving one out.
The number must be made from the results: what a barrier holds and nobody reads, XLA drops.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kernbridge._src.base import jax_inside
from kernbridge._src.base.reports import hides_frames


class BenchmarkTimes(NamedTuple):
    """Seconds per call over the runs of a function, and what it returned."""

    mean: float
    std: float
    min: float
    max: float
    output: Any


BenchmarkTimes.__module__ = "kernbridge.benchmark"


@dataclass(frozen=True)
class Measurement:
    """The times that `measure` found.

    Attributes
    ----------
    samples : tuple of float
        Seconds per call, of each timed run in the order of the runs.
    n_batch_per_run : int
        Calls in one run.
    output : pytree of jax.Array
        What the last call returned.
    """

    samples: tuple[float, ...]
    n_batch_per_run: int
    output: Any

    @property
    def mean(self) -> float:
        """Mean, in seconds per call."""
        return math.fsum(self.samples) / len(self.samples)

    @property
    def std(self) -> float:
        """Standard deviation over the runs (over n - 1), in seconds per call; 0 for one run."""
        return float(np.std(self.samples, ddof=1)) if len(self.samples) > 1 else 0.0

    @property
    def min(self) -> float:
        """The fastest run, in seconds per call."""
        return min(self.samples)

    @property
    def max(self) -> float:
        """The slowest run, in seconds per call."""
        return max(self.samples)

    @property
    def median(self) -> float:
        """Median, in seconds per call."""
        return float(np.median(self.samples))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile, in seconds per call."""
        first, third = np.percentile(self.samples, (25, 75))
        return float(first), float(third)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles, in seconds per call."""
        first, third = self.quartiles
        return third - first


Measurement.__module__ = "kernbridge.benchmark"


@dataclass(frozen=True)
class Prepared:
    """A run of a function: `run(*operands)` returns its results, or a number if it has none."""

    run: Callable[..., list[Any]]
    operands: tuple[Any, ...]
    rebuild: Callable[[Sequence[Any]], Any]
    has_effects: bool

    def __call__(self) -> list[Any]:
        """Run, and wait for the results and for the effects."""
        results = jax.block_until_ready(self.run(*self.operands))
        if self.has_effects:
            jax.effects_barrier()
        return results


def is_array(value: Any) -> bool:
    """Return whether a value goes to a device: arrays of numbers do, Python's numbers do not."""
    if isinstance(value, (np.ndarray, np.generic)):
        return bool(value.dtype == bool or jnp.issubdtype(value.dtype, np.number))
    return isinstance(value, jax.Array)


def prepare(fn: Callable[..., Any], data: Sequence[Any], n_batch_per_run: int) -> Prepared:
    """Trace a function and make a jitted run of several calls; compiles nothing yet.

    Arrays that the function closes over become operands, as constants could be folded away.
    """
    leaves, tree = jax.tree.flatten(tuple(data))

    def call(*arrays: Any) -> Any:
        given = iter(arrays)
        return fn(*tree.unflatten([next(given) if is_array(x) else x for x in leaves]))

    arrays = [jnp.asarray(x) for x in leaves if is_array(x)]
    closed, shapes = jax.make_jaxpr(call, return_shape=True)(*arrays)
    operands = (*(jnp.asarray(const) for const in closed.consts), *arrays)
    n_consts = len(closed.consts)

    def evaluate(*operands: Any) -> list[Any]:
        results = jax_inside.eval_jaxpr(closed.jaxpr, operands[:n_consts], *operands[n_consts:])
        return [
            lax.convert_element_type(r, r.dtype) if getattr(r, "weak_type", False) else r
            for r in results
        ]

    avals, results_tree = jax.tree.flatten(shapes)
    first = jnp.zeros((), jnp.int32)
    tied = any(operand.size for operand in operands)
    platform = next(iter((first, *operands)[-1].devices())).platform
    unroll = _calls_per_iteration(n_batch_per_run, platform) if tied else 1
    return Prepared(
        jax.jit(_repeated(evaluate, avals, n_batch_per_run, tied, unroll)),
        jax.block_until_ready((first, *operands)),
        lambda results: results_tree.unflatten(results[: len(avals)]),
        bool(closed.effects),
    )


def _repeated(
    evaluate: Callable[..., list[Any]], avals: Sequence[Any], n: int, tied: bool, unroll: int
) -> Callable[..., list[Any]]:
    """Return a run of `n` calls; `tied`: there is an operand to hang their dependence on."""

    def run(first: Any, *operands: Any) -> list[Any]:
        if n == 1:
            return evaluate(*operands) or [first + 1]  # something to wait for

        def body(i: Any, carry: Any) -> Any:
            operands, kept, token = carry
            if tied:
                operands, token = lax.optimization_barrier((operands, token))
                results = evaluate(*operands)
            else:  # XLA cannot see that `first` is 0, so this branch holds the call here
                results = lax.cond(i >= first, evaluate, lambda *_: kept, *operands)
            return operands, results, _witness(results, token)

        start = [lax.full(aval.shape, 0, aval.dtype) for aval in avals]
        _, results, token = lax.fori_loop(0, n, body, (operands, start, first), unroll=unroll)
        return [*results, token]

    return run


def _witness(results: list[Any], token: Any) -> Any:
    """Return a number that cannot be known before the results are."""
    for result in lax.optimization_barrier(results):
        if result.size and not jnp.issubdtype(result.dtype, jax.dtypes.extended):
            token = token + (result[(0,) * result.ndim] != 0).astype(token.dtype)
    return token


def _calls_per_iteration(n: int, platform: str) -> int:
    """Return 1 for a CPU, where XLA would merge calls; a GPU's costly steps hold up to 8."""
    return 1 if platform == "cpu" else max(d for d in range(1, 9) if n % d == 0)


@hides_frames
def measure(
    fn: Callable[..., Any],
    *,
    n_warmup: int = 5,
    n_runs: int = 20,
    n_batch_per_run: int = 1,
    data: Sequence[Any] = (),
) -> Measurement:
    """Measure the time of a call of a function inside `jax.jit`.

    Parameters
    ----------
    fn : callable
        The function. JAX traces `fn(*data)`, which returns a pytree of arrays or None. Arrays that
        it closes over are passed like those of `data`.
    n_warmup : int
        The number of runs before the timing, after a first one that compiles.
    n_runs : int
        The number of timed runs. Each ends when its results are available.
    n_batch_per_run : int
        The number of calls in one run. If it is above 1, the calls are the iterations of a jitted
        loop, which depend on each other and are all executed, so that the cost of dispatch is
        divided by their number. The figures include the cost of the loop itself.
    data : tuple
        Positional arguments, pytrees: the arrays in them (of any shape) are put on the device
        first, everything else is passed as it is.

    Returns
    -------
    Measurement
        The time of every run in seconds per call, statistics of these times, and the last output.

    Raises
    ------
    ValueError
        `n_warmup` is negative, or another count below 1.
    TypeError
        A count is not an int, or `data` not a tuple or list.

    Notes
    -----
    A part of `fn` that depends on none of its arrays may be computed once per run.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from kernbridge.benchmark import measure
    >>> found = measure(jnp.dot, n_runs=3, n_batch_per_run=10, data=(jnp.ones(8), jnp.ones(8)))
    >>> len(found.samples), float(found.output), 0 < found.min <= found.median <= found.max
    (3, 8.0, True)
    """
    check_counts(n_warmup=n_warmup, n_runs=n_runs, n_batch_per_run=n_batch_per_run)
    if not isinstance(data, (tuple, list)):
        raise TypeError(
            "`data` must be the tuple of the function's positional arguments, such as (x,); got "
            f"{type(data).__name__} [KB8005]"
        )
    prepared = prepare(fn, data, n_batch_per_run)
    for _ in range(1 + n_warmup):
        results = prepared()
    samples = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(n_runs):
            del results  # outside of what is timed
            start = time.perf_counter()
            results = prepared()
            samples.append((time.perf_counter() - start) / n_batch_per_run)
    finally:
        if collecting:
            gc.enable()
    return Measurement(tuple(samples), n_batch_per_run, prepared.rebuild(results))


def check_counts(**counts: Any) -> None:
    """Refuse counts of runs that are not ints, or too small."""
    for name, value in counts.items():
        least = 0 if name == "n_warmup" else 1
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"`{name}` must be an int, a number of runs; got {value!r} [KB8005]")
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}, got {value} [KB8005]")


@hides_frames
def benchmark_function(
    fn: Callable[..., Any],
    n_warmup: int,
    n_runs: int,
    n_batch_per_run: int = 1,
    data: Sequence[Any] = (),
) -> BenchmarkTimes:
    """Measure the time of a call of a function inside `jax.jit`, and return five figures.

    The parameters and errors are those of `measure`, which returns the median and the time of every
    run as well.

    Returns
    -------
    BenchmarkTimes
        The tuple (mean, std, min, max, output): seconds per call over the runs, and what the last
        call returned.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from kernbridge.benchmark import benchmark_function
    >>> mean, std, least, most, output = benchmark_function(jnp.sum, 1, 5, data=(jnp.ones(4),))
    >>> least <= mean <= most, float(output)
    (True, 4.0)
    """
    found = measure(
        fn, n_warmup=n_warmup, n_runs=n_runs, n_batch_per_run=n_batch_per_run, data=data
    )
    return BenchmarkTimes(found.mean, found.std, found.min, found.max, found.output)
