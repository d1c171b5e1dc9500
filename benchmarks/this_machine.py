"""The main ratios of docs/performance.md on this machine, beside the recorded ones.

    python benchmarks/this_machine.py [--only PART] [--json FILE] [--record NAME]

Runs the benchmarks that `plots.py --run cpu` runs, with fewer rounds, one after the other, and ends
within five minutes: what has not run by then is left out, and `--only` measures it alone, without a
limit. Other programs should rest meanwhile: the load is printed, and the quartiles of each ratio
show how far to trust it. Recorded figures are those of benchmarks/results/machines: of processors
with AVX2 and with AVX-512, and of the machine of the GPU. `--record NAME` writes such a file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
MACHINES = HERE / "results" / "machines"
SECONDS = 290  # for all benchmarks together
SECONDS_OF_ONE = 120


class Part(NamedTuple):
    """A benchmark: its arguments here, and what its ratios are."""

    about: str
    arguments: str


PARTS = {
    "cuda_on_cpu": Part("CUDA kernels on one core, over a loop", "--rounds 5"),
    "per_call": Part("a call on the CPU, over an empty C handler or a jitted x + 1", "--rounds 2"),
    "source_calls": Part("a call of a C or C++ function, over an empty C handler", "--rounds 3"),
    "threads": Part("two threads over one", "--rounds 3"),
    "csr": Part("a sparse product, over event-driven kernels", "--rounds 1 --density 0.1 --hidden"),
    "demo": Part("a step of the demo's network, over two Numba kernels", "--rounds 1"),
    "build": Part("building from source, over the bare compiler", "--rounds 1"),
}


def measured(name: str, seconds: float | None) -> tuple[Mapping[str, Any], str]:
    """The results of a benchmark, and why there are none."""
    if seconds is not None and seconds <= 0:
        return {}, "the time was up: --only measures it"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        command = [sys.executable, str(HERE / f"{name}.py"), *PARTS[name].arguments.split()]
        try:
            done = subprocess.run(
                [*command, "--json", str(file)],
                capture_output=True,
                text=True,
                timeout=seconds,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
        except subprocess.TimeoutExpired:
            return {}, f"took more than {seconds:.0f} s: --only measures it"
        if file.exists():
            return json.loads(file.read_text()), ""
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        return {}, lines[-1]


def rows_of(results: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The title of each table and the name of each row, with its figures, without the floors."""
    for title, rows in results.get("results", {}).items():
        for row in rows:
            is_floor = row.get("ratio_quartiles") == [1.0, 1.0]
            if not row.get("failure") and not is_floor:
                yield title, row["name"], row


def shown(row: Mapping[str, Any] | None, with_quartiles: bool = False) -> str:
    if row is None:
        return ""
    ratio = f"{row['ratio']:,.3g}"
    if not with_quartiles:
        return ratio
    return f"{ratio}  ({' to '.join(f'{q:,.3g}' for q in row['ratio_quartiles'])})"


def recorded() -> dict[str, Mapping[str, Any]]:
    """The figures of each machine in benchmarks/results/machines, by its name."""
    files = sorted(MACHINES.glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def described(known: tuple[str, Mapping[str, Any]]) -> str:
    """The heading of a recorded machine: its name, its processor, and the date."""
    name, parts = known
    machine = next((part["machine"] for part in parts.values() if part), {})
    level = f" as {machine['restricted_to']}" if "restricted_to" in machine else ""
    return f"{name}: {machine.get('processor', 'nothing')}{level}, {machine.get('date', 'never')}"


def add_part(
    table: Table,
    name: str,
    found: Mapping[str, Any],
    failure: str,
    others: Sequence[Mapping[str, Any]],
) -> None:
    known = [
        {(title, row): figures for title, row, figures in rows_of(other.get(name, {}))}
        for other in others
    ]
    table.add_row(f"[bold]{name}[/]: {PARTS[name].about}", failure, style="dim")
    for title, row, figures in rows_of(found):
        unit = figures.get("unit", "")
        table.add_row(
            f"  {title}: {row}",
            shown(figures, with_quartiles=True),
            f"{figures['median']:,.3g} {unit}",
            *(shown(figures_there.get((title, row))) for figures_there in known),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", choices=["", *PARTS], help="this benchmark alone")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--record", metavar="NAME", help="keep them as those of a machine")
    options = parser.parse_args()
    console, begun = Console(), time.monotonic()
    names = [options.only] if options.only else list(PARTS)
    all_found, failures = {}, {}
    for name in names:
        spent = time.monotonic() - begun
        console.print(f"{name} ({spent:.0f} s so far)", style="dim")
        seconds = None if options.only else min(SECONDS - spent, SECONDS_OF_ONE)
        all_found[name], failures[name] = measured(name, seconds)
    machines = [found["machine"] for found in all_found.values() if found]
    title = "no benchmark ran"
    if machines:
        load = max(machine.get("load", 0) for machine in machines)
        title = f"{machines[0]['processor']}, {machines[0]['cores']} cores, load up to {load}"
    table = Table(title=title, title_justify="left")
    table.add_column("what", overflow="fold")
    machines_known = recorded()
    for column in ("ratio here (quartiles)", "time here", *map(described, machines_known.items())):
        table.add_column(column, justify="right")
    for name in names:
        add_part(table, name, all_found[name], failures[name], [*machines_known.values()])
    console.print(table)
    console.print(f"{time.monotonic() - begun:.0f} s")
    text = json.dumps(all_found, indent=1, ensure_ascii=False) + "\n"
    for file in (options.json, options.record and MACHINES / f"{options.record}.json"):
        if file:
            Path(file).write_text(text)
    return int(any(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
