"""Two threads that drive two GPUs: the wall time of both over that of one alone.

    python studies/two_gpus.py [--json FILE] [--rounds N] [--only fori_loop,driver]

1.0 means that nothing is shared. Each row is a loop of 2,000 steps over float32[4096]. "threads" is
two threads with a program for each GPU, "one program" is one program for both GPUs, "processes" is
two processes with a GPU each. Beside the wall times stand the processor's time that a thread needs
for a step, and how often it sleeps: a lock shows in the latter, or in the former if it spins. Rows
without a kernel of kernbridge say what XLA and the driver share; the second table is the driver
alone, called from C.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the other processes need some
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # numba-cuda 0.30 reads what numpy 2.5 removed

import floor
import jax
import jax.numpy as jnp
import kernbridge
import measure as measuring
from jax import lax
from numba import cuda
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
N, STEPS, CALLS = 4096, 2000, 5
LAUNCHES = 20_000
OUT = jax.ShapeDtypeStruct((N,), jnp.float32)
GRAPHS_OF_ONE = {"xla_gpu_graph_min_graph_size": 1}

Step = Callable[[Any], Any]


@cuda.jit
def add_one(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


kernel: Step = kernbridge.numba_cuda_kernel(add_one, OUT, launch_dims=N)


def add_one_in_jax(x: Any) -> Any:
    return x + 1


def fori_loop(step: Step, unroll: int = 1) -> Step:
    return lambda x: lax.fori_loop(0, STEPS, lambda _, x: step(x), x, unroll=unroll)


def scan(step: Step) -> Step:
    return lambda x: lax.scan(lambda x, _: (step(x), None), x, length=STEPS)[0]


def workloads(platform: str) -> dict[str, tuple[Step, dict[str, Any]]]:
    """Each program, and XLA's options for it."""
    empty = floor.call(OUT)
    graphs = GRAPHS_OF_ONE if platform == "gpu" else {}
    return {
        "fori_loop, kernel": (fori_loop(kernel), {}),
        "fori_loop, jnp": (fori_loop(add_one_in_jax), {}),
        "fori_loop, empty handler": (fori_loop(empty), {}),
        "fori_loop, kernel, graphs of one": (fori_loop(kernel), graphs),
        "scan, kernel": (scan(kernel), {}),
        "scan, jnp": (scan(add_one_in_jax), {}),
        "fori_loop unroll=10, kernel": (fori_loop(kernel, 10), {}),
        "fori_loop unroll=10, jnp": (fori_loop(add_one_in_jax, 10), {}),
    }


@dataclass(frozen=True)
class Wall:
    """Seconds until all were done, and what a thread needed of the processor on average."""

    seconds: float
    busy: float = 0.0
    sleeps: float = 0.0


def usage() -> tuple[float, int]:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime, used.ru_nvcsw


def together(runs: list[Callable[[], Any]]) -> Wall:
    """Run each in a thread of its own, CALLS times, all begun at once."""
    start = threading.Barrier(len(runs) + 1)
    used = []

    def work(run: Callable[[], Any]) -> None:
        start.wait()
        busy, sleeps = usage()
        for _ in range(CALLS):
            jax.block_until_ready(run())
        after, slept = usage()
        used.append((after - busy, slept - sleeps))

    team = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in team:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in team:
        thread.join()
    seconds = time.perf_counter() - begin
    busy, sleeps = (sum(values) / len(runs) for values in zip(*used, strict=True))
    return Wall(seconds, busy, sleeps)


class Program:
    """A program on each of two devices, and one on both."""

    def __init__(self, function: Step, options: dict[str, Any], devices: list[Any]) -> None:
        jitted = jax.jit(function, compiler_options=options)
        self.runs = [self._compiled(jitted, jax.device_put(jnp.zeros(N), d)) for d in devices]
        self.whole: Callable[[], Any] | None = None
        if len(devices) == 2:
            mesh = jax.sharding.Mesh(np.array(devices), ("x",))
            spec = jax.sharding.PartitionSpec("x")
            both = jax.shard_map(
                function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
            )
            x = jax.device_put(jnp.zeros(2 * N), jax.sharding.NamedSharding(mesh, spec))
            self.whole = self._compiled(jax.jit(both, compiler_options=options), x)

    @staticmethod
    def _compiled(jitted: Any, x: Any) -> Callable[[], Any]:
        run = jitted.lower(x).compile()
        for _ in range(3):  # graphs are made by the first calls
            jax.block_until_ready(run(x))
        return lambda: run(x)


class Process:
    """A process that runs the same programs on one GPU, on request."""

    def __init__(self, index: int, names: list[str]) -> None:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", json.dumps(names)],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": shown[index]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, name: str) -> None:
        assert self.process.stdin is not None
        print(name, file=self.process.stdin, flush=True)

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("a process of the comparison ended early")
        return line


@contextmanager
def processes(n: int, names: list[str]) -> Iterator[list[Process]]:
    some = [Process(index, names) for index in range(n)]
    try:
        for each in some:
            each.answer()
        yield some
    finally:
        for each in some:
            each.process.terminate()


def work_for_another(names: list[str]) -> None:
    """What a process of the comparison does."""
    platform = prepare()
    programs = {name: Program(*workloads(platform)[name], [jax.devices()[0]]) for name in names}
    print("ready", flush=True)
    for line in sys.stdin:
        print(together(programs[line.strip()].runs).seconds, flush=True)


def in_processes(both: list[Process], name: str) -> float:
    """The wall time of two processes at once over that of the slower one alone."""

    def seconds(some: list[Process]) -> float:
        for each in some:
            each.start(name)
        return max(float(each.answer()) for each in some)

    return seconds(both) / max(seconds([each]) for each in both)


@dataclass(frozen=True)
class Round:
    """One measurement of a program."""

    alone: Wall  # the slower of the two GPUs
    both: Wall
    threads: float
    one_program: float
    processes: float


def measure(program: Program, both: list[Process], name: str) -> Round:
    alone = max((together([run]) for run in program.runs), key=lambda w: w.seconds)
    two = together(program.runs)
    assert program.whole is not None
    whole = together([program.whole])
    return Round(
        alone,
        two,
        two.seconds / alone.seconds,
        whole.seconds / alone.seconds,
        in_processes(both, name) if both else float("nan"),
    )


def show(console: Console, results: dict[str, list[Round]]) -> None:
    table = Table(title=f"Two GPUs, {STEPS:,} steps", title_justify="left")
    table.add_column("program")
    for column in (
        "us a step alone",
        "us a step in two threads",
        "threads / alone",
        "one program / alone",
        "processes / alone",
        "busy us a step, alone and in two",
        "sleeps a step, alone and in two",
    ):
        table.add_column(column, justify="right")
    for name, rounds in results.items():

        def median(value: Callable[[Round], float], rounds: list[Round] = rounds) -> float:
            return statistics.median(map(value, rounds))

        us = 1e6 / CALLS / STEPS
        table.add_row(
            name,
            f"{median(lambda r: r.alone.seconds) * us:.2f}",
            f"{median(lambda r: r.both.seconds) * us:.2f}",
            f"{median(lambda r: r.threads):.2f}",
            f"{median(lambda r: r.one_program):.2f}",
            f"{median(lambda r: r.processes):.2f}",
            f"{median(lambda r: r.alone.busy) * us:.2f}, {median(lambda r: r.both.busy) * us:.2f}",
            f"{median(lambda r: r.alone.sleeps) * us / 1e6:.3f}, "
            f"{median(lambda r: r.both.sleeps) * us / 1e6:.3f}",
        )
    console.print(table)


def driver_alone(rounds: int) -> dict[str, list[float]] | str:
    """Ratios of launches from C: by the driver's two kinds of handles, with and without waiting."""
    library = Path(tempfile.mkdtemp(prefix="kernbridge-floor-")) / "two_gpus.so"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{HERE.parent / 'src'}"]
    source = str(HERE / "two_gpus.c")
    subprocess.run([*command, source, "-o", str(library), "-lpthread", "-ldl"], check=True)
    code = ctypes.CDLL(str(library))
    code.two_gpus_prepare.restype = ctypes.c_char_p
    code.two_gpus_run.restype = ctypes.c_double
    if why := code.two_gpus_prepare():
        return str(why.decode())
    results: dict[str, list[float]] = {}
    for waits in (0, 1):
        n = LAUNCHES // 10 if waits else LAUNCHES
        for by_kernel in (1, 0):
            kind = "by the kernel of every context" if by_kernel else "by the context's function"
            row = results[f"launch {kind}{', and wait' * waits}"] = []
            for _ in range(rounds + 1):
                first, second, two = (
                    code.two_gpus_run(mask, by_kernel, waits, n) for mask in (1, 2, 3)
                )
                row += [max(first, second) / n * 1e6, two / max(first, second)]
            del row[:2]  # the first round warms up
    return results


def show_driver(console: Console, results: dict[str, list[float]] | str) -> None:
    if isinstance(results, str):
        console.print(f"The driver alone: {results}")
        return
    table = Table(title="The driver alone, from C", title_justify="left")
    for column in ("calls", "us a launch alone", "threads / alone"):
        table.add_column(column, justify="left" if column == "calls" else "right")
    for name, row in results.items():
        us, ratios = statistics.median(row[::2]), statistics.median(row[1::2])
        table.add_row(name, f"{us:.2f}", f"{ratios:.2f}")
    console.print(table)


def prepare() -> str:
    platform = "cpu" if jax.default_backend() == "cpu" else "gpu"
    floor.register("cpu" if platform == "cpu" else "CUDA")
    return platform


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default 7)")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--no-processes", action="store_true", help="threads alone")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work_for_another(json.loads(options.worker))
        return 0
    if jax.device_count() < 2:
        print(f"two devices are needed, there are {jax.devices()}")
        return 1
    wanted = options.only.split(",")
    programs = {
        name: Program(*workload, jax.devices()[:2])
        for name, workload in workloads(prepare()).items()
        if any(part in name for part in wanted)
    }
    results: dict[str, list[Round]] = {name: [] for name in programs}
    console = Console(width=None if sys.stdout.isatty() else 160)
    with processes(0 if options.no_processes else 2, list(programs)) as others:
        for _ in range(options.rounds):
            for name, program in programs.items():
                results[name].append(measure(program, others, name))
    show(console, results)
    alone: dict[str, list[float]] | str = {}
    if any(part in "driver" for part in wanted):
        alone = driver_alone(options.rounds)
        show_driver(console, alone)
    if options.json:
        rounds = {name: [asdict(r) for r in each] for name, each in results.items()}
        measuring.write(options.json, {"programs": rounds, "driver": alone})
    return 0


if __name__ == "__main__":
    sys.exit(main())
