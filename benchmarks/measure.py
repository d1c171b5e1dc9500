"""Timing in rounds: every candidate once per round, so that a machine's drift hits all alike."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from rich.console import Console
from rich.table import Table

Run = Callable[[], object]
UNITS = {1.0: "", 1e-3: "ms", 1e-6: "µs", 1e-9: "ns"}  # by their seconds
PACKAGES = ("jax", "numba", "numba-cuda", "numpy", "kernbridge")


@dataclass(frozen=True)
class Row:
    """One candidate: its time, and the median over rounds of its ratio to the floor's."""

    name: str
    median: float
    least: float
    ratio: float
    above_floor: float  # median over rounds of the difference to the floor
    quartiles: tuple[float, float]
    ratio_quartiles: tuple[float, float]
    rounds: int
    unit: str


def timed(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def least_wall(call: Run) -> Callable[[], float]:
    """Seconds of a call: the least of ten, which leaves out what other processes take."""
    jax.block_until_ready(call())
    return lambda: min(timed(lambda: jax.block_until_ready(call())) for _ in range(10))


def run_threads(team: Sequence[threading.Thread]) -> float:
    """Return the seconds until all of these threads, which have not begun, have ended."""
    start = time.perf_counter()
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return time.perf_counter() - start


def rounds(measures: Mapping[str, Callable[[], float]], n: int, unit: float) -> list[Row]:
    """Measure each candidate n times, interleaved; the first is the floor."""
    times: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(n):
        for name, measure in measures.items():
            times[name].append(measure() / unit)
    floor = next(iter(times.values()))
    return [row_of(name, values, floor, UNITS[unit]) for name, values in times.items()]


def row_of(name: str, values: Sequence[float], floor: Sequence[float], unit: str) -> Row:
    """The figures of one candidate, from its values and those of the floor in the same rounds."""
    ratios = [v / f for v, f in zip(values, floor, strict=True)]
    return Row(
        name=name,
        median=statistics.median(values),
        least=min(values),
        ratio=statistics.median(ratios),
        above_floor=statistics.median(v - f for v, f in zip(values, floor, strict=True)),
        quartiles=quartiles(values),
        ratio_quartiles=quartiles(ratios),
        rounds=len(values),
        unit=unit,
    )


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    first, third = np.percentile(values, (25, 75))
    return float(first), float(third)


def per_call_in_a_loop(
    step: Callable[[Any], Any], x: Any, iterations: int, calls: int = 16
) -> Callable[[], float]:
    """Seconds of one call inside a jitted loop: bodies of 1 + `calls` dependent calls less bodies
    of one, so that the loop itself does not count."""

    def chain(k: int) -> Run:
        def body(_: Any, value: Any) -> Any:
            for _ in range(k):
                value = step(value)
            return value

        loop = jax.jit(lambda x: lax.fori_loop(0, iterations, body, x))
        jax.block_until_ready(loop(x))
        return lambda: jax.block_until_ready(loop(x))

    short, long = chain(1), chain(1 + calls)
    return lambda: (timed(long) - timed(short)) / iterations / calls


def per_call_eager(call: Run, n: int) -> Callable[[], float]:
    """Seconds of one call from Python, not waiting for each."""
    jax.block_until_ready(call())

    def run() -> None:
        for _ in range(n - 1):
            call()
        jax.block_until_ready(call())

    return lambda: timed(run) / n


def show(console: Console, title: str, unit: str, rows: Sequence[Row]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("candidate")
    for column in (f"median {unit}", f"least {unit}", "x floor", f"+ {unit}"):
        table.add_column(column, justify="right")
    for row in rows:
        figures = (row.median, row.least, row.ratio, row.above_floor)
        table.add_row(row.name, *(f"{figure:,.2f}" for figure in figures))
    console.print(table)


def save(path: str | None, results: Mapping[str, Sequence[Row]]) -> None:
    """Write everything as JSON, with what it was measured on."""
    if path is None:
        return
    rows = {title: [asdict(row) for row in table] for title, table in results.items()}
    write(path, {"results": rows})


def write(path: str | Path, figures: Mapping[str, Any]) -> None:
    """Write figures as JSON, with what they were measured on."""
    text = json.dumps({"machine": about(), **figures}, indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n")


def about() -> dict[str, Any]:
    """The machine, the day, the command and the versions that figures depend on."""
    found = {
        "processor": processor(),
        "restricted_to": os.environ.get("NUMBA_CPU_NAME"),  # see tests/processor
        "cores": len(os.sched_getaffinity(0)),
        "gpu": gpu(),
        "load": round(os.getloadavg()[0], 1),  # processes that ran, these ones too
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join(["python benchmarks/" + Path(sys.argv[0]).name, *_arguments()]),
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {name: value for name, value in found.items() if value}


def _arguments() -> list[str]:
    """The arguments of this program, but for the file that it writes, without folders."""
    given = [Path(x).name if os.path.isabs(x) else x for x in sys.argv[1:]]
    if "--json" in given:
        at = given.index("--json")
        given = given[:at] + given[at + 2 :]
    return given


def processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    names = [x.partition(":")[2].strip() for x in text.splitlines() if x.startswith("model name")]
    return names[0] if names else platform.machine()


def gpu() -> str:
    """The name of the GPU and its driver's version, where JAX uses one."""
    if jax.default_backend() != "gpu":
        return ""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout
        name, driver = (part.strip() for part in told.splitlines()[0].split(","))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return str(jax.devices()[0].device_kind)
    return f"{name}, driver {driver}"
