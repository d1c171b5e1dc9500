"""Benchmarks an operation: runs every backend on every config and compares the results."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import jax

from kernbridge._src.base.errors import BenchmarkDataFnNotProvidedError
from kernbridge._src.base.reports import hides_frames
from kernbridge._src.benchmark.compare import difference, on_host
from kernbridge._src.benchmark.measure import check_counts, measure
from kernbridge._src.benchmark.records import KWARGS, BenchmarkConfig, BenchmarkRecord, figures
from kernbridge._src.benchmark.result import BenchmarkResult
from kernbridge._src.benchmark.table import duration

PLATFORMS = ("cpu", "gpu", "tpu")


class BenchmarkedOperation(Protocol):
    """What is benchmarked: an `XLACustomKernel`, or whatever has these."""

    name: str

    @property
    def call_function(self) -> Callable[..., Any] | None: ...

    @property
    def benchmark_data(self) -> Callable[..., Any] | None: ...

    def available_backends(self, platform: str) -> list[str]: ...

    def call(self, *args: Any, **kwargs: Any) -> Any: ...


@hides_frames
def benchmark_operation(
    op: BenchmarkedOperation,
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
    progress: bool | None = None,
) -> BenchmarkResult:
    """Benchmark every backend of an operation in every config of its benchmark data.

    Parameters
    ----------
    op : XLACustomKernel
        With a call function (`def_call`) and benchmark data (`def_benchmark_data`). It is called as
        `op.call(*config.args, backend=..., **config.kernel_kwargs)`.
    platform : {"cpu", "gpu", "tpu"}
        The platform whose first device receives the arrays of the configs and runs the operation.
    n_warmup, n_runs, n_batch_per_run : int
        The numbers of runs before the timing, of timed runs, and of calls in each run; see
        `measure`.
    compare_results : bool
        Compare the results of each backend with those of the first backend that ran: integers and
        bools exactly, other types within `atol` plus `rtol` times the first result. NaN equals NaN.
        If the results differ, the record is a failure that states the position and the size of the
        difference; it keeps its times.
    rtol, atol : float
        The relative and the absolute tolerance.
    verbose : bool
        Print a line for each record.
    catch_errors : bool
        Turn the exceptions of a backend into failed records with the error "Type: message".
        Otherwise, they are raised.
    backends : str, sequence of str, or None
        The backends to run; by default all of them.
    progress : bool or None
        Show a progress bar on standard error; by default if that is a terminal and rich is
        installed.

    Returns
    -------
    BenchmarkResult
        A record for each backend in each config.

    Raises
    ------
    ValueError
        If the operation has no call function, no backend for the platform, or none of `backends`;
        if the data function returns no config; or if a count is too small.
    BenchmarkDataFnNotProvidedError
        If the operation has no data function.
    RuntimeError
        If JAX has no device of this platform.
    TypeError
        If the data function returns something other than configs.
    ImportError
        If `progress` is True and rich is not installed.
    """
    counts = {"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run}
    check_counts(**counts)
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
    chosen = _backends(op, platform, backends)
    device = _device(op, platform)
    with jax.default_device(device):
        configs = _configs(op, platform)
    records: list[BenchmarkRecord] = []
    bar = _bar(progress)
    with bar or contextlib.nullcontext():
        task = bar and bar.add_task(op.name, total=len(configs) * len(chosen))
        for config in configs:
            placed = reference = None
            for backend in chosen:
                where = f"{config.name}, {backend}"
                if bar:
                    bar.update(task, description=f"{op.name}: {where}", refresh=True)
                found, error = {}, None
                try:
                    with jax.default_device(device):
                        placed = placed or config.put_args(device)
                        call = functools.partial(op.call, backend=backend, **config.kernel_kwargs)
                        timed = measure(call, **counts, data=placed.args)
                    if compare_results:
                        output = on_host(timed.output)
                        reference = reference or (backend, output)
                        error = _mismatch(backend, output, *reference, rtol, atol)
                    found = figures(timed)
                except Exception as e:
                    if not catch_errors:
                        raise
                    error = f"{type(e).__name__}: {e}"
                given = {name: dict(getattr(config, name)) for name in KWARGS}
                outcome = {"success": error is None, "error": error, **given, **found}
                record = BenchmarkRecord(platform, backend, config.name, **outcome)
                records.append(record)
                if verbose:
                    times = f"{duration(record.median_ms)} (IQR {duration(record.iqr_ms)})"
                    text = times if record.success else f"failed: {error}"
                    print(f"{op.name}, {where}: {text}", flush=True)
                if bar:
                    bar.advance(task)
        if bar:
            bar.update(task, description=op.name, refresh=True)
    return BenchmarkResult(records, op.name)


def _mismatch(
    backend: str, output: Any, reference: str, wanted: Any, rtol: float, atol: float
) -> str | None:
    text = None if backend == reference else difference(output, wanted, reference, rtol, atol)
    return text and f"Mismatch: backend {backend!r}: {text}"


def _bar(wanted: bool | None) -> Any:
    """Return a bar of rich on standard error; None where it is not wanted, or rich is missing."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        return None
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError as e:
        if not wanted:
            return None
        raise ImportError(
            "a progress bar needs rich: pip install 'kernbridge[bench]', or progress=False [KB4016]"
        ) from e
    texts, console = TextColumn("{task.description}", markup=False), Console(stderr=True)
    return Progress(texts, BarColumn(), MofNCompleteColumn(), console=console)


def _backends(
    op: BenchmarkedOperation, platform: str, chosen: str | Sequence[str] | None
) -> list[str]:
    known = op.available_backends(platform)
    if not known:
        elsewhere = [other for other in PLATFORMS if op.available_backends(other)]
        raise ValueError(
            f"{op.name!r} has no backend for {platform!r}; it has some for "
            f"{', '.join(elsewhere) or 'no platform'}: define one with op.def_kernel"
            " [KB8005]"
        )
    wanted = [chosen] if isinstance(chosen, str) else chosen
    if wanted is None:
        return list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise ValueError(
            f"{op.name!r} on {platform!r}: `backends` is {list(wanted)!r}, expected some of "
            f"{', '.join(map(repr, known))}"
            " [KB8005]"
        )
    return list(dict.fromkeys(wanted))


def _device(op: BenchmarkedOperation, platform: str) -> Any:
    try:
        return jax.devices(platform)[0]
    except RuntimeError as e:
        here = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise RuntimeError(
            f"{op.name!r} cannot be benchmarked on {platform!r}: JAX has no such device here, only "
            f"{here}; install a JAX for it (pip install 'jax[cuda13]' for NVIDIA's GPUs), unset "
            f"JAX_PLATFORMS if it excludes them, or choose platform={here.split(', ')[0]!r}"
            " [KB8005]"
        ) from e


def _configs(op: BenchmarkedOperation, platform: str) -> list[BenchmarkConfig]:
    assert op.benchmark_data is not None
    given = op.benchmark_data(platform=platform)
    configs = list(given) if isinstance(given, Iterable) else [given]
    wrong = [config for config in configs if not isinstance(config, BenchmarkConfig)]
    if wrong:
        raise TypeError(
            f"{op.name!r}: its benchmark data function must return a list of BenchmarkConfig, but "
            f"the list contains a {type(wrong[0]).__name__} in it [KB8005]"
        )
    if not configs:
        raise ValueError(
            f"{op.name!r}: its benchmark data function returns no config for {platform!r} [KB8005]"
        )
    return configs
