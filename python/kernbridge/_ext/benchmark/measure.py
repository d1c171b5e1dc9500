"""Measures the time of a function under `jax.jit`, and of every backend of an operation.

Several calls in one run are one jitted loop. Each call takes its operands out of an
`optimization_barrier` that also holds a number made from the results of the call before. It keeps
XLA from moving a call out of the loop, merging two, or leaving one out. The number must be made
from the results: XLA drops what a barrier holds if nothing reads it.
"""

from __future__ import annotations

import functools
import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernbridge._ext.benchmark.result import KWARGS, BenchmarkRecord, BenchmarkResult, centre
from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import BenchmarkDataFnNotProvidedError, typed
from kernbridge._src.base.progress import shown
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.custom.kernel import PLATFORMS


@dataclass(frozen=True)
class Measurement:
    """The times that `measure` found, in seconds per call.

    It prints as the median and half the distance of the quartiles, such as "73 us +- 2".
    `samples` has the time of each timed run, of `n_batch_per_run` calls. `std` is the standard
    deviation over the runs (over n - 1; 0 for one run), and `iqr` the distance of the `quartiles`.
    `output` is what the last call returned.
    """

    samples: tuple[float, ...]
    n_batch_per_run: int
    output: Any
    mean: float
    std: float
    min: float
    max: float
    median: float
    quartiles: tuple[float, float]
    iqr: float

    def __str__(self) -> str:
        return centre(1e3 * self.median, 1e3 * self.iqr / 2)

    __repr__ = __str__


Measurement.__module__ = "kernbridge.benchmark"


def record_of(timed: Measurement | None, **known: Any) -> BenchmarkRecord:
    """A measurement as a record of a `BenchmarkResult`, with what else is known of it."""
    if timed is None:
        return BenchmarkRecord(**known)
    names = ("mean", "std", "min", "median", "iqr", "max")
    found: dict[str, Any] = {f"{name}_ms": 1e3 * getattr(timed, name) for name in names}
    found["q1_ms"], found["q3_ms"] = (1e3 * seconds for seconds in timed.quartiles)
    found["throughput"] = 1 / timed.median if timed.median else math.nan
    found |= {"n_runs": len(timed.samples), "n_batch_per_run": timed.n_batch_per_run}
    return BenchmarkRecord(**(found | known))


def _is_array(value: Any) -> bool:
    """Return whether a value goes to a device: arrays of numbers do, Python's numbers do not."""
    if isinstance(value, (np.ndarray, np.generic)):
        return bool(value.dtype == bool or jnp.issubdtype(value.dtype, np.number))
    return isinstance(value, jax.Array)


def _prepare(
    fn: Callable[..., Any], data: Sequence[Any], n: int
) -> tuple[Callable[[], list[Any]], Callable[[list[Any]], Any]]:
    """Trace a function; return what runs `n` calls and waits, and what rebuilds its output."""
    leaves, tree = jax.tree.flatten(tuple(data))

    def call(*arrays: Any) -> Any:
        given = iter(arrays)
        return fn(*tree.unflatten([next(given) if _is_array(x) else x for x in leaves]))

    arrays = [jnp.asarray(x) for x in leaves if _is_array(x)]
    closed, shapes = jax.make_jaxpr(call, return_shape=True)(*arrays)
    avals, results_tree = jax.tree.flatten(shapes)
    n_consts = len(closed.consts)
    # Arrays that the function closes over become operands, as constants could be folded away
    given = (jnp.zeros((), jnp.int32), *map(jnp.asarray, closed.consts), *arrays)
    jax.block_until_ready(given)
    tied = any(operand.size for operand in given[1:])  # there is an operand to depend on
    unroll = 1  # on a CPU, as XLA would merge unrolled calls there
    if tied and next(iter(given[-1].devices())).platform != "cpu":  # where iterations are costly
        unroll = max(d for d in range(1, 9) if n % d == 0)

    def evaluate(*operands: Any) -> list[Any]:
        return private_jax.eval_jaxpr(closed.jaxpr, operands[:n_consts], *operands[n_consts:])

    def repeated(first: Any, *operands: Any) -> list[Any]:
        if n == 1:
            return evaluate(*operands) or [first + 1]  # something to wait for

        def body(i: Any, carry: Any) -> Any:
            operands, kept, token = carry
            if tied:
                operands, token = jax.lax.optimization_barrier((operands, token))
                results = evaluate(*operands)
            else:  # XLA cannot see that `first` is 0, so this branch holds the call here
                results = jax.lax.cond(i >= first, evaluate, lambda *_: kept, *operands)
            for result in jax.lax.optimization_barrier(results):
                if result.size and not jnp.issubdtype(result.dtype, jax.dtypes.extended):
                    token = token + (result[(0,) * result.ndim] != 0).astype(token.dtype)
            return operands, results, token

        start = [jax.lax.full(aval.shape, 0, aval.dtype) for aval in avals]
        _, results, token = jax.lax.fori_loop(0, n, body, (operands, start, first), unroll=unroll)
        return [*results, token]

    compiled = jax.jit(repeated)

    def run() -> list[Any]:
        results = jax.block_until_ready(compiled(*given))
        if closed.effects:
            jax.effects_barrier()
        return results

    return run, lambda results: results_tree.unflatten(results[: len(avals)])


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
        JAX traces `fn(*data)`, which returns a pytree of arrays or None. Arrays that it closes over
        are passed like the arrays of `data`. A part that depends on no array may run once per run.
    n_warmup, n_runs : int
        The number of runs before the timing, after a first one that compiles, and of timed runs.
    n_batch_per_run : int
        The number of calls in one run: the iterations of a jitted loop, which depend on each other
        and are all executed. The figures include the cost of the loop itself.
    data : tuple
        Positional arguments, pytrees: arrays in them are put on the device first.
    """
    _check_counts(n_warmup=n_warmup, n_runs=n_runs, n_batch_per_run=n_batch_per_run)
    if not isinstance(data, (tuple, list)):
        raise TypeError(
            "`data` must be the tuple of the function's positional arguments, such as (x,); got "
            f"{type(data).__name__} [KB8005]"
        )
    samples, collecting = [], gc.isenabled()
    with shown(f"measuring {getattr(fn, '__name__', fn)}"):
        run, rebuild = _prepare(fn, data, n_batch_per_run)
        for _ in range(1 + n_warmup):
            results = run()
        gc.disable()
        try:
            for _ in range(n_runs):
                del results  # outside of what is timed
                start = time.perf_counter()
                results = run()
                samples.append((time.perf_counter() - start) / n_batch_per_run)
        finally:
            if collecting:
                gc.enable()
    std = float(np.std(samples, ddof=1)) if n_runs > 1 else 0.0
    first, median, third = map(float, np.percentile(samples, (25, 50, 75)))
    figures: Any = math.fsum(samples) / n_runs, std, min(samples), max(samples), median
    figures += ((first, third), third - first)
    return Measurement(tuple(samples), n_batch_per_run, rebuild(results), *figures)


def _check_counts(**counts: Any) -> None:
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
) -> tuple[float, float, float, float, Any]:
    """Measure a function as `measure` does, and return (mean, std, min, max, output)."""
    counts = {"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run}
    found = measure(fn, **counts, data=data)
    return found.mean, found.std, found.min, found.max, found.output


@dataclass
class BenchmarkConfig:
    """One set of arguments with which an operation is benchmarked.

    `name` is its label in tables and plots. The operation is called with `args`, which are pytrees,
    and `kernel_kwargs`; `data_kwargs` describe the data, such as sizes, for tables and plots.
    """

    __module__ = "kernbridge"

    name: str
    args: tuple[Any, ...]
    kernel_kwargs: dict[str, Any] = field(default_factory=dict)
    data_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.args, (tuple, list)):
            raise TypeError(
                f"BenchmarkConfig {self.name!r}: `args` must be the tuple of positional "
                f"arguments, such as (x,); got {type(self.args).__name__} [KB8005]"
            )

    def put_args(self, device: Any = None) -> BenchmarkConfig:
        """Return a config whose arrays are on a device (JAX's default device) or sharding."""
        args = jax.tree.map(lambda x: jax.device_put(x, device) if _is_array(x) else x, self.args)
        jax.block_until_ready(args)
        return replace(self, args=args)


@hides_frames
def benchmark_operation(
    op: Any,
    *,
    platform: str,
    n_warmup: int = 5,
    n_runs: int = 20,
    n_batch_per_run: int = 1,
    compare_results: bool = True,
    rtol: float = 1e-3,
    atol: float = 1e-3,
    verbose: bool = False,
    catch_errors: bool = True,
    backends: str | Sequence[str] | None = None,
) -> BenchmarkResult:
    """Benchmark every backend of an operation in every config of its benchmark data.

    Parameters
    ----------
    op : XLACustomKernel
        Called as `op.call(*config.args, backend=..., **config.kernel_kwargs)`.
    platform : {"cpu", "gpu", "tpu"}
        The platform whose first device receives the arrays of the configs and runs the operation.
    n_warmup, n_runs, n_batch_per_run : int
        As for `measure`.
    compare_results, rtol, atol : bool, float, float
        Compare the results of each backend with the results of the first one that ran: integers and
        bools exactly, other types within `atol` plus `rtol` times the first result. NaN equals NaN.
        If they differ, the record is a failure that states where and how much; it keeps its times.
    verbose, catch_errors : bool
        Print a line for each record; turn exceptions of a backend into failed records.
    backends : str, sequence of str, or None
        The backends to run; by default all of them.

    Raises
    ------
    ValueError, BenchmarkDataFnNotProvidedError
        If the operation has no call function, no backend for the platform, or no benchmark data.
    """
    counts = {"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run}
    _check_counts(**counts)
    chosen = _chosen_backends(op, platform, backends)
    try:
        device = jax.devices(platform)[0]
    except RuntimeError as e:
        raise RuntimeError(
            f"{op.name!r} cannot be benchmarked on {platform!r}, as JAX has no such device here: "
            "choose another platform, or unset JAX_PLATFORMS if it excludes this one [KB8005]"
        ) from e
    with jax.default_device(device):
        given = op.benchmark_data(platform=platform)
    configs = list(given) if isinstance(given, Iterable) else []
    if not configs or not all(isinstance(config, BenchmarkConfig) for config in configs):
        raise TypeError(
            f"{op.name!r}: its benchmark data function must return a list of BenchmarkConfig for "
            f"{platform!r}, got {given!r} [KB8005]"
        )
    records: list[BenchmarkRecord] = []
    for config in configs:
        placed = reference = None
        for backend in chosen:
            known: dict[str, Any] = {name: dict(getattr(config, name)) for name in KWARGS}
            known |= {"platform": platform, "backend": backend, "label": config.name}
            timed = error = None
            try:
                with jax.default_device(device):
                    placed = placed or config.put_args(device)
                    call = functools.partial(op.call, backend=backend, **config.kernel_kwargs)
                    timed = measure(call, **counts, data=placed.args)
                if compare_results:
                    output = jax.tree.map(_on_host, timed.output)
                    reference = reference or (backend, output)
                    text = _difference(output, *reference, rtol, atol)
                    error = text and f"Mismatch: backend {backend!r}: {text}"
            except Exception as e:
                if not catch_errors:
                    raise
                error = f"{type(e).__name__}: {e}"
            records.append(record_of(timed, success=error is None, error=error, **known))
            if verbose:
                print(f"{op.name}, {records[-1]}", flush=True)
    return BenchmarkResult(records, op.name)


def _chosen_backends(op: Any, platform: str, backends: str | Sequence[str] | None) -> list[str]:
    """Return the backends to run, if the operation has all that a benchmark needs."""
    if op.call_function is None:
        raise ValueError(
            f"{op.name!r} has no call function to benchmark: define one with "
            "op.def_call(function) [KB8005]"
        )
    if op.benchmark_data is None:
        raise BenchmarkDataFnNotProvidedError(
            f"{op.name!r} has no benchmark data: define a function with "
            "op.def_benchmark_data(function) that is called as function(platform=...) and "
            "returns a list of BenchmarkConfig [KB8005]"
        )
    known = op.available_backends(platform)
    if not known:
        elsewhere = ", ".join(other for other in PLATFORMS if op.available_backends(other))
        raise ValueError(
            f"{op.name!r} has no backend for {platform!r}; it has some for "
            f"{elsewhere or 'no platform'}: define one with op.def_kernel [KB8005]"
        )
    backends = [backends] if isinstance(backends, str) else backends
    chosen = list(dict.fromkeys(known if backends is None else backends))
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(
            f"{op.name!r} on {platform!r}: `backends` is {chosen!r}, expected some of "
            f"{', '.join(map(repr, known))} [KB8005]"
        )
    return chosen


def _on_host(value: Any) -> Any:
    """Return an array of NumPy, so that the device is free for the next backend."""
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def _difference(got: Any, reference: str, want: Any, rtol: float, atol: float) -> str | None:
    """Return how results differ from the results of the backend `reference`, or None."""
    named, tree = jax.tree_util.tree_flatten_with_path(got)
    wanted, expected = jax.tree.flatten(want)
    if tree != expected:
        return f"returned {tree}, {reference!r} returned {expected}"
    for (path, a), b in zip(named, wanted, strict=True):
        name = f"output {jax.tree_util.keystr(path)}" if path else "the output"
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            found, other = (typed(x.dtype, x.shape) for x in (a, b))
            return f"{name} is {found}, but {other} for {reference!r}"
        is_exact = not jnp.issubdtype(a.dtype, np.inexact)
        wide: Any = np.complex128 if jnp.iscomplexobj(a) else np.float64
        if is_exact:  # Python's integers: differences of 64-bit integers overflow
            wide = object if a.dtype.itemsize == 8 else np.int64
        a, b = a.astype(wide), b.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            equal = a == b if is_exact else np.isclose(a, b, rtol, atol, equal_nan=True)
            sizes = np.asarray(np.abs(a - b), np.float64)
        if np.all(equal):
            continue
        sizes = np.where(equal, -1, np.where(np.isnan(sizes), np.inf, sizes))
        index = [int(i) for i in np.unravel_index(int(np.argmax(sizes)), a.shape)]
        x, y = (f"{values[(*index,)]:{'' if is_exact else '.9g'}}" for values in (a, b))
        tolerance = "" if is_exact else f" (rtol={rtol:g}, atol={atol:g})"
        return (
            f"{name} differs from {reference!r} in {np.sum(~np.asarray(equal, bool))} of {a.size} "
            f"elements{tolerance}, at most by {np.max(sizes):.6g} at {index} ({x} against {y})"
        )
    return None
