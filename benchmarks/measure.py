"""Timing in rounds: every candidate once per round, so that a machine's drift hits all alike."""

from __future__ import annotations

import json
import os
import platform
import statistics
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


@dataclass(frozen=True)
class Row:
    """One candidate: its time, and the median over rounds of its ratio to the floor's."""

    name: str
    median: float
    least: float
    ratio: float
    above_floor: float  # median over rounds of the difference to the floor


def timed(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def rounds(measures: Mapping[str, Callable[[], float]], n: int, unit: float) -> list[Row]:
    """Measure each candidate n times, interleaved; the first is the floor."""
    times: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(n):
        for name, measure in measures.items():
            times[name].append(measure() / unit)
    floor = next(iter(times.values()))
    return [
        Row(
            name=name,
            median=statistics.median(values),
            least=min(values),
            ratio=statistics.median(v / f for v, f in zip(values, floor, strict=True)),
            above_floor=statistics.median(v - f for v, f in zip(values, floor, strict=True)),
        )
        for name, values in times.items()
    ]


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
    machine = {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    rows = {title: [asdict(row) for row in table] for title, table in results.items()}
    Path(path).write_text(json.dumps({"machine": machine, "results": rows}, indent=2) + "\n")
