"""BrainEvent's operators on its own bridge and on kernbridge, side by side.

    python studies/brainevent_operators.py [--starts N] [--rounds N] [--only TEXT] [--json FILE]

Two processes, one with each bridge, take turns: every case is measured once in each per round, and
a ratio is the median over rounds of kernbridge's time to BrainEvent's. They run on the GPU where
JAX has one, else on the CPU. "First call" is an eager call in a new process, whose libraries are
built already: each start of the processes measures it once, and the first start, which may build,
does not count. Each start then measures the first calls for some further sizes, a little larger
each. Both must compute the same numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BRIDGES = ("own", "kernbridge")
STEPS = 1000  # of a loop
SCANNED = 100  # steps of a scan that is differentiated
CALLS = 50  # eager calls
UNITS = {"us": 1e6, "ms": 1e3}
FURTHER = 10  # sizes after the first
FURTHER_ROWS = 8  # that each of them has more than the one before
FORMS = {"loop": "us", "eager": "us", "gradient": "us", "first": "ms", "further": "ms"}
TITLES = {
    "loop": f"A step of lax.fori_loop of {STEPS:,} steps",
    "eager": "An eager call",
    "gradient": f"A step of the gradient of a lax.scan of {SCANNED} steps",
    "first": "First call in a new process",
    "further": "First call for a further size",
}


def operators() -> dict[str, Callable[[int], Callable[[Any], Any]]]:
    """Return what makes each operator for a size, as a function of a vector of so many floats."""
    import brainevent
    import jax.numpy as jnp
    import numpy as np

    def sparse(n: int) -> Any:
        rng = np.random.default_rng(0)
        dense = np.where(rng.random((n, n)) < 0.01, rng.random((n, n)), 0)
        return brainevent.CSR.fromdense(dense.astype(np.float32))

    def fixed(n: int) -> Any:
        rng = np.random.default_rng(0)
        weights = jnp.asarray(rng.random((n, 10), np.float32))
        indices = jnp.asarray(rng.integers(0, n, (n, 10), np.int32))
        return brainevent.FixedNumPerPre((weights, indices), shape=(n, n))

    def drawn(n: int) -> Any:
        return brainevent.JITCScalarR((1.5, 0.01, 3), shape=(n, n))

    def floats(matrix: Any) -> Callable[[Any], Any]:
        return lambda x: matrix @ x

    def events(matrix: Any) -> Callable[[Any], Any]:
        return lambda x: brainevent.BinaryArray(jnp.maximum(x - 0.5, 0)) @ matrix

    return {
        "csrmv, 1,000": lambda n: floats(sparse(n)),
        "csrmv, 4,000": lambda n: floats(sparse(n)),
        "binary_csrmv, 1,000": lambda n: events(sparse(n)),
        "binary_csrmv, 4,000": lambda n: events(sparse(n)),
        "fcnmv, 1,000": lambda n: floats(fixed(n)),
        "binary_fcnmv, 1,000": lambda n: events(fixed(n)),
        "jitsmv, 1,000": lambda n: floats(drawn(n)),
        "binary_jitsmv, 1,000": lambda n: events(drawn(n)),
    }


def serve(bridge: str) -> None:
    """Measure what standard input asks for, a line each; the answers are lines of JSON."""
    if bridge == "kernbridge":
        from kernbridge.compat import brainevent as compat

        compat.install()
    import jax
    import jax.numpy as jnp

    made: dict[tuple[str, str], Callable[[], Any]] = {}
    steps: dict[str, Callable[[Any], Any]] = {}
    makers = operators()
    last: dict[str, int] = {}  # sizes

    def vector(n: int) -> Any:
        return jax.block_until_ready(jnp.linspace(0.0, 1.0, n, dtype=jnp.float32))

    def size_of(operator: str) -> int:
        return int(operator.rpartition(" ")[2].replace(",", ""))

    def step_of(operator: str) -> tuple[Callable[[Any], Any], Any]:
        n = size_of(operator)
        if operator not in steps:
            steps[operator] = makers[operator](n)
        return steps[operator], vector(n)

    def further(operator: str) -> Callable[[], Any]:
        """Return a call for a size that this process has not had."""
        n = last[operator] = last.get(operator, size_of(operator)) + FURTHER_ROWS
        step, x = makers[operator](n), vector(n)
        return lambda: step(x)

    def program(operator: str, form: str) -> Callable[[], Any]:
        step, x = step_of(operator)

        def next_of(x: Any) -> Any:  # nearly x, so that all steps have the same events
            return x + 1e-30 * step(x)

        def total(x: Any) -> Any:
            def body(x: Any, _: Any) -> Any:
                return 0.5 * x + 1e-3 * jnp.tanh(step(x)), None

            return jax.lax.scan(body, x, None, SCANNED)[0].sum()

        if form == "loop":
            run = jax.jit(lambda x: jax.lax.fori_loop(0, STEPS, lambda _, x: next_of(x), x))
        elif form == "gradient":
            run = jax.jit(jax.grad(total))
        else:
            run = step
        return lambda: run(x)

    def measure(operator: str, form: str) -> float:
        key = (operator, form)
        if form in ("first", "further"):
            run = program(operator, form) if form == "first" else further(operator)
            start = time.perf_counter()
            jax.block_until_ready(run())
            return time.perf_counter() - start
        if key not in made:
            made[key] = program(*key)
            jax.block_until_ready(made[key]())
        run, n = made[key], CALLS if form == "eager" else 1
        start = time.perf_counter()
        for _ in range(n):
            result = run()
        jax.block_until_ready(result)
        seconds = time.perf_counter() - start
        return seconds / {"eager": CALLS, "loop": STEPS, "gradient": SCANNED}[form]

    def numbers(operator: str) -> list[float]:
        result = jnp.concatenate([program(operator, form)() for form in ("eager", "gradient")])
        return [float(result.sum()), float(jnp.abs(result).max())]

    print(json.dumps([jax.default_backend(), jax.__version__, list(makers)]), flush=True)
    for line in sys.stdin:
        operator, form = json.loads(line)
        found: Any = numbers(operator) if form == "numbers" else measure(operator, form)
        print(json.dumps(found), flush=True)


class Worker:
    """A process with one of the bridges."""

    def __init__(self, bridge: str) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", bridge]
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment
        )
        self.about = self.read()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended with exit status {self.process.wait()}")
        return json.loads(line)

    def ask(self, operator: str, form: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([operator, form]) + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self) -> None:
        self.process.communicate()


Times = dict[tuple[str, str], dict[str, list[float]]]


def run(starts: int, rounds: int, only: str) -> tuple[Times, Any]:
    """Measure all; the times of each operator and form, by bridge, and what was measured on."""
    times: Times = {}

    def turn(workers: dict[str, Worker], operator: str, form: str) -> Iterator[tuple[str, float]]:
        for bridge in workers:
            yield bridge, workers[bridge].ask(operator, form)

    about: Any = None
    for start in range(starts + 1):
        order = BRIDGES if start % 2 == 0 else BRIDGES[::-1]  # who is first has the colder machine
        workers = {bridge: Worker(bridge) for bridge in order}
        about = workers["own"].about
        names = [name for name in about[2] if only in name]
        for operator in names:
            later = ["further"] * FURTHER + ["loop", "eager", "gradient"] * rounds
            for form in ("first", *(later if start else ())):
                for bridge, seconds in turn(workers, operator, form):
                    if start:
                        by = times.setdefault((operator, form), {b: [] for b in BRIDGES})
                        by[bridge].append(seconds)
            if start == 0:
                numbers = dict(turn(workers, operator, "numbers"))
                own, ours = (numbers[bridge] for bridge in BRIDGES)
                same = all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(own, ours, strict=True))
                if not same:
                    raise SystemExit(f"{operator}: BrainEvent computes {own}, kernbridge {ours}")
        for worker in workers.values():
            worker.end()
    return times, about[:2]


def ratio(by: dict[str, list[float]]) -> float:
    return statistics.median(b / a for a, b in zip(by["own"], by["kernbridge"], strict=True))


def show(times: Times) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    for form, unit in FORMS.items():
        table = Table(title=TITLES[form], title_justify="left")
        for column in ("operator", f"BrainEvent {unit}", f"kernbridge {unit}", "ratio"):
            table.add_column(column, justify="left" if column == "operator" else "right")
        for (operator, measured), by in times.items():
            if measured == form:
                own, ours = (statistics.median(by[b]) * UNITS[unit] for b in BRIDGES)
                table.add_row(operator, f"{own:.2f}", f"{ours:.2f}", f"{ratio(by):.2f}")
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=3, help="of both processes")
    parser.add_argument("--rounds", type=int, default=5, help="of all cases, after each start")
    parser.add_argument("--only", default="", help="operators whose name has this text")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--serve", choices=BRIDGES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    times, (backend, version) = run(arguments.starts, arguments.rounds, arguments.only)
    show(times)
    if arguments.json:
        machine = {"python": platform.python_version(), "jax": version, "platform": backend}
        figures = [
            {"operator": operator, "form": form, "ratio": ratio(by), "seconds": by}
            for (operator, form), by in times.items()
        ]
        Path(arguments.json).write_text(json.dumps({**machine, "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
