"""What kernbridge costs on a GPU, against handlers written by hand that launch nvcc's kernels.

    python benchmarks/chain.py [--json FILE] [--quick] [--only chain,vmap]

Each table is one run, its first row the floor that the ratios refer to, all rows interleaved. "x
median" is the median over rounds of the ratio to the floor; it decides `ok` or `MISSED`. "x least"
is the ratio of the least times. Values are compared with NumPy's before anything is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a child process needs some too
sys.path.insert(0, str(Path(__file__).parent))
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # numba-cuda 0.30 reads what numpy 2.5 removed

import jax
import jax.numpy as jnp
import kernbridge
import measure
import peers
from jax import lax
from measure import timed
from numba import cuda
from rich.console import Console
from rich.markup import escape
from rich.table import Table

HERE = Path(__file__).parent
N, THREADS, CHAIN, STEPS, SLICES, SITES = 1024, 256, 200, 1000, 1000, 50
OUT = jax.ShapeDtypeStruct((N,), jnp.float32)
BATCH = jax.ShapeDtypeStruct((SLICES, N), jnp.float32)
NO_GRAPHS = {"xla_gpu_enable_command_buffer": ""}  # of XLA_FLAGS, here for one program
FLOOR = "hand-written C handler"
WARM_UP_S, SLOW, SLOW_EVERY = 0.1, 5, 10  # who needs SLOW times the floor's time runs less often

Op = Callable[..., Any]  # (x, y) -> out
Build = Callable[[], Op]
Run = Callable[[], object]


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = np.float32(0.5) * x[i]


@cuda.jit
def add_with_z(x, y, out):
    i = cuda.grid(1) + cuda.blockIdx.z
    if i < out.size:
        out[i] = x[i] + y[i]


def add_then_scale(x, y, out, stream):
    blocks = (out.shape[0] + THREADS - 1) // THREADS
    temporary = cuda.device_array(out.shape[0], np.float32)
    add[blocks, THREADS, stream](x, y, temporary)
    scale[blocks, THREADS, stream](temporary, out)


def wrapped(kernel: Any = add) -> Op:
    return kernbridge.numba_cuda_kernel(kernel, OUT, launch_dims=N, threads_per_block=THREADS)


def wrapped_callable() -> Op:
    return kernbridge.numba_cuda_callable(add_then_scale, OUT, record="always")


class Floor:
    """The handlers of gpu_floor.cu, as FFI targets of the same names."""

    TARGETS = ("add", "add_without_trait", "add_then_scale", "add_slices")

    def __init__(self) -> None:
        nvcc = shutil.which("nvcc") or os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/nvcc"
        capability = jax.devices("gpu")[0].compute_capability.replace(".", "")
        library = Path(tempfile.mkdtemp(prefix="kernbridge-floor-")) / "gpu_floor.so"
        flags = ["-O3", f"-arch=sm_{capability}", "-shared", "-Xcompiler=-fPIC"]
        source, include = HERE / "gpu_floor.cu", HERE.parent / "src"
        subprocess.run([nvcc, *flags, f"-I{include}", str(source), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))
        for name in self.TARGETS:
            capsule = jax.ffi.pycapsule(getattr(self.library, f"gpu_floor_{name}"))
            jax.ffi.register_ffi_target(f"gpu_floor_{name}", capsule, platform="CUDA")
        self.library.gpu_floor_load.restype = ctypes.c_char_p
        self.library.gpu_floor_executions.restype = ctypes.c_int64
        if message := self.library.gpu_floor_load():
            raise RuntimeError(f"gpu_floor.cu: {message.decode()}")

    def op(self, name: str, outs: Any = OUT) -> Op:
        return jax.ffi.ffi_call(f"gpu_floor_{name}", outs)

    def add_then_scale(self) -> Op:
        both = self.op("add_then_scale", (OUT, OUT))
        return lambda x, y: both(x, y)[0]

    def executions(self) -> int:
        return self.library.gpu_floor_executions()


@dataclass(frozen=True)
class Row:
    """One contender. Without a limit, a row is there to compare; `above_floor` is in its unit."""

    name: str
    least: float = float("nan")
    median: float = float("nan")
    ratio: float = float("nan")  # median over rounds of the ratio to the floor
    least_ratio: float = float("nan")
    above_floor: float = float("nan")  # median over rounds of the difference to the floor
    quartiles: tuple[float, float] = (float("nan"), float("nan"))
    ratio_quartiles: tuple[float, float] = (float("nan"), float("nan"))
    rounds: int = 0
    unit: str = "µs"
    limit: str = ""
    ok: bool | None = None
    failure: str = ""


@dataclass(frozen=True)
class Limit:
    """At most `most` times the floor, or at most `most` above it."""

    most: float
    above: bool = False

    def judge(self, row: Row) -> dict[str, Any]:
        value = row.above_floor if self.above else row.ratio
        text = f"+ {self.most:,g}" if self.above else f"{self.most:g} x"
        return {"limit": text, "ok": value <= self.most}


@dataclass(frozen=True)
class Contender:
    build: Build
    limit: Limit | None = None
    options: Mapping[str, str] | None = None  # of the compiler


def interleaved(runs: Mapping[str, Run], seconds: float) -> dict[str, dict[int, float]]:
    """Seconds of every run by round, in rounds of a random order until the time is spent. The
    first run is the floor; those much slower take part in few rounds, at least two of them."""
    order, times = list(runs), {name: {} for name in runs}
    usual = {}
    for name, run in runs.items():
        end, usual[name] = time.perf_counter() + WARM_UP_S, float("inf")
        while time.perf_counter() < end:
            usual[name] = min(usual[name], timed(run))
    slow = {name for name in runs if usual[name] > SLOW * usual[order[0]]}
    shuffle, end, i = random.Random(0).shuffle, time.perf_counter() + seconds, 0
    gc.collect()
    gc.disable()
    try:
        while time.perf_counter() < end or i <= SLOW_EVERY:
            shuffle(order)
            for name in order:
                if name not in slow or i % SLOW_EVERY == 0:
                    times[name][i] = timed(runs[name])
            i += 1
    finally:
        gc.enable()
    return times


def rows_of(
    times: Mapping[str, Mapping[int, float]], unit: float, limits: Mapping[str, Limit | None]
) -> list[Row]:
    floor = next(iter(times.values()))
    rows = []
    for name, by_round in times.items():
        values = [v / unit for v in by_round.values()]
        ratios = [v / floor[i] for i, v in by_round.items()]
        row = Row(
            name=name,
            least=min(values),
            median=statistics.median(values),
            ratio=statistics.median(ratios),
            least_ratio=min(by_round.values()) / min(floor.values()),
            above_floor=statistics.median((v - floor[i]) / unit for i, v in by_round.items()),
            quartiles=measure.quartiles(values),
            ratio_quartiles=measure.quartiles(ratios),
            rounds=len(values),
            unit="s" if unit == 1 else "µs",
        )
        limit = limits.get(name)
        rows.append(Row(**asdict(row) | limit.judge(row)) if limit else row)
    return rows


def failed(name: str, error: BaseException) -> Row:
    message = " ".join(f"{type(error).__name__}: {error}".split())
    where = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(where[-1].filename).name}:{where[-1].lineno})" if where else ""
    return Row(
        name=name, failure=(message if len(message) < 600 else message[:600] + "...") + place
    )


# Programs: what one timed run does with an operation. Each has the number of calls in it.


@dataclass(frozen=True)
class Program:
    calls: int
    wrap: Callable[[Op], Op]
    batched: bool = False


def chain(calls: int, batched: bool = False) -> Program:
    def wrap(op: Op) -> Op:
        def program(x, y):
            for _ in range(calls):
                x = op(x, y)
            return x

        return program

    return Program(calls, wrap, batched)


def loop(steps: int) -> Program:
    def wrap(op: Op) -> Op:
        return lambda x, y: lax.fori_loop(0, steps, lambda _, x: op(x, y), x)

    return Program(steps, wrap)


def sum_of(x: Any, y: Any) -> Any:
    return x + y


def half_sum_of(x: Any, y: Any) -> Any:
    return np.float32(0.5) * (x + y)


def compete(
    program: Program,
    contenders: Mapping[str, Contender],
    seconds: float,
    reference: Op = sum_of,
    unit: float = 1e-6,
) -> list[Row]:
    """Time a program with every contender's operation; the first is the floor."""
    shape = BATCH.shape if program.batched else OUT.shape
    y = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(np.float32)
    x = expected = (np.arange(np.prod(shape)) % 5).reshape(shape).astype(np.float32)
    for _ in range(program.calls):
        expected = reference(expected, y)
    x, y = jax.device_put(x), jax.device_put(y)
    runs, failures = {}, []
    for name, contender in contenders.items():
        try:
            function = jax.jit(program.wrap(contender.build()), compiler_options=contender.options)
            np.testing.assert_allclose(np.asarray(function(x, y)), expected, rtol=1e-6)
            runs[name] = lambda function=function: function(x, y).block_until_ready()
        except Exception as error:
            failures.append(failed(name, error))
    if not runs or next(iter(runs)) != next(iter(contenders)):  # nothing to compare with
        return failures
    limits = {name: contender.limit for name, contender in contenders.items()}
    times = interleaved(runs, seconds)
    return rows_of(times, unit * program.calls, limits) + failures


def check_graphs(floor: Floor, console: Console) -> None:
    """Check that XLA put the chain into a CUDA graph, and did not if that was disabled."""
    program, x = chain(CHAIN).wrap(floor.op("add")), jnp.ones(N, jnp.float32)
    for words, options in (("", None), ("out", NO_GRAPHS)):
        function, runs = jax.jit(program, compiler_options=options), 10
        for _ in range(runs):
            function(x, x).block_until_ready()
        before = floor.executions()
        for _ in range(runs):
            function(x, x).block_until_ready()
        share = (floor.executions() - before) / runs / CHAIN
        if (share > 0.5) == (options is None):
            console.print(
                f"[bold]with{words} graphs: XLA executed {share:.0%} of the handlers: this is not "
                f"what the table says[/] (XLA_FLAGS is {os.environ.get('XLA_FLAGS')!r})"
            )
        else:
            console.print(f"with{words} graphs: XLA executed {share:.0%} of the handlers")


# Tables.


@dataclass(frozen=True)
class Bench:
    floor: Floor
    seconds: float  # for each table
    quick: bool

    def peers(self) -> dict[str, Contender]:
        wraps = peers.installed_for_cuda()
        return {name: Contender(lambda wrap=wrap: wrap(add, OUT)) for name, wrap in wraps.items()}

    def adds(self, program: Program, with_peers: bool = True) -> list[Row]:
        contenders = {
            FLOOR: Contender(lambda: self.floor.op("add")),
            "kernbridge": Contender(wrapped, Limit(1.1)),
            "JAX's own x + y": Contender(lambda: jnp.add),
        }
        return compete(program, contenders | (self.peers() if with_peers else {}), self.seconds)

    def chain(self) -> list[Row]:
        return self.adds(chain(CHAIN))

    def chain_plain(self) -> list[Row]:
        contenders = {
            FLOOR: Contender(lambda: self.floor.op("add"), None, NO_GRAPHS),
            "kernbridge": Contender(wrapped, Limit(1.1), NO_GRAPHS),
            f"{FLOOR}, no trait": Contender(lambda: self.floor.op("add_without_trait")),
        }
        return compete(chain(CHAIN), contenders, self.seconds)

    def call(self) -> list[Row]:
        return self.adds(chain(1))

    def loop(self) -> list[Row]:
        return self.adds(loop(STEPS))

    def two(self, options: Mapping[str, str] | None = None) -> list[Row]:
        contenders = {
            FLOOR: Contender(self.floor.add_then_scale, None, options),
            "kernbridge": Contender(wrapped_callable, Limit(1.1), options),
        }
        return compete(chain(CHAIN), contenders, self.seconds, half_sum_of)

    def two_plain(self) -> list[Row]:
        return self.two(NO_GRAPHS)

    def vmap(self, calls: int = 1) -> list[Row]:
        contenders = {
            f"{FLOOR}, one launch": Contender(lambda: self.floor.op("add", BATCH)),
            "kernbridge": Contender(lambda: jax.vmap(wrapped()), Limit(2)),
        }
        return compete(chain(calls, batched=True), contenders, self.seconds)

    def slices(self, calls: int = 1) -> list[Row]:
        contenders = {
            f"{FLOOR}, a launch a slice": Contender(lambda: self.floor.op("add_slices", BATCH)),
            "kernbridge": Contender(lambda: jax.vmap(wrapped(add_with_z)), Limit(1.1)),
        }
        return compete(chain(calls, batched=True), contenders, self.seconds)

    def lower(self) -> list[Row]:
        """The share of one more call site in lowering a program; the kernel is compiled."""

        def per_site(site: Callable[[], Op]) -> Run:
            def lowered(sites: int) -> float:
                def program(x, y):
                    for _ in range(sites):
                        x = site()(x, y)
                    return x

                return timed(lambda: jax.jit(program).lower(OUT, OUT))

            return lambda: (lowered(1 + SITES) - lowered(1)) / SITES

        sites = {"jax.ffi.ffi_call": lambda: self.floor.op("add")}
        failures = []
        try:
            op = wrapped()
            jax.jit(op).lower(OUT, OUT)
            sites |= {"kernbridge": lambda: op, "kernbridge, wrapped at every site": wrapped}
        except Exception as error:
            failures.append(failed("kernbridge", error))
        measures = {name: per_site(site) for name, site in sites.items()}
        for per_call in measures.values():
            per_call()
        times: dict[str, dict[int, float]] = {name: {} for name in sites}
        for i in range(5 if self.quick else 15):
            for name, per_call in measures.items():
                times[name][i] = per_call()
        limits = dict.fromkeys(list(sites)[1:], Limit(1_000, above=True))
        return rows_of(times, 1e-6, limits) + failures

    def first(self) -> list[Row]:
        """Seconds from wrapping to the result, in new processes; JAX has run something before."""
        times: dict[str, dict[int, float]] = {}
        end, failures = time.perf_counter() + 10 * self.seconds, []
        for i in range(1 if self.quick else 3):
            if i and time.perf_counter() > end:
                break
            with tempfile.TemporaryDirectory(prefix="kernbridge-cache-") as folder:
                for name in ("no kernel in the disk cache", "from the disk cache"):
                    try:
                        of_jax, ours = first_call_in_new_process(folder)
                    except Exception as error:
                        return [failed(f"kernbridge, {name}", error)]
                    times.setdefault("JAX's own x + y", {}).setdefault(i, of_jax)
                    times.setdefault(f"kernbridge, {name}", {})[i] = ours
                if not any(p.is_file() for p in Path(folder).rglob("*")):
                    error = FileNotFoundError("KERNBRIDGE_CACHE_DIR is still empty")
                    failures = [failed("the disk cache", error)]
        return rows_of(times, 1, {}) + failures


TABLES: dict[str, tuple[str, str, Callable[[Bench], list[Row]]]] = {
    "chain": (f"{CHAIN} dependent adds in one jit, in CUDA graphs, a call", "us", Bench.chain),
    "chain-plain": (f"{CHAIN} dependent adds in one jit, no graphs", "us", Bench.chain_plain),
    "call": ("One jitted call and block_until_ready", "us", Bench.call),
    "loop": (f"A step of fori_loop ({STEPS:,} steps)", "us", Bench.loop),
    "two": (f"Two kernels, {CHAIN} calls in a chain, in CUDA graphs, a call", "us", Bench.two),
    "two-plain": (f"Two kernels, {CHAIN} calls in a chain, no graphs", "us", Bench.two_plain),
    "vmap": (f"vmap over {SLICES:,} slices of {N:,}, one call", "us", Bench.vmap),
    "vmap-8": ("The same, 8 calls in a chain in a graph, a call", "us", lambda b: b.vmap(8)),
    "slices": (
        f"vmap over {SLICES:,} slices of {N:,}, a kernel that reads z, one call",
        "us",
        Bench.slices,
    ),
    "slices-8": ("The same, 8 calls in a chain in a graph, a call", "us", lambda b: b.slices(8)),
    "lower": (f"Lowering one more call site, of {SITES}", "us", Bench.lower),
    "first": ("First call, each in a new process", "s", Bench.first),
}


def first_call() -> None:
    """In a process of its own: print the seconds of JAX's own first add, and of ours."""
    x = jnp.ones(N, jnp.float32)
    x.block_until_ready()
    of_jax = timed(lambda: jax.jit(jnp.add)(x, x).block_until_ready())
    results = []
    ours = timed(lambda: results.append(jax.jit(wrapped())(x, x).block_until_ready()))
    np.testing.assert_array_equal(np.asarray(results[0]), np.full(N, 2, np.float32))
    print(json.dumps([of_jax, ours]))


def first_call_in_new_process(cache: str) -> list[float]:
    command = [sys.executable, __file__, "--first-call"]
    environment = os.environ | {"KERNBRIDGE_CACHE_DIR": cache}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip()[-500:])
    return json.loads(ended.stdout.splitlines()[-1])


# Output.


def show(console: Console, title: str, unit: str, rows: Iterable[Row]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("contender")
    columns = (f"least {unit}", f"median {unit}", "x least", "x median", f"+ {unit}")
    for column in (*columns, "rounds", "limit", ""):
        table.add_column(column, justify="right")
    failures = []
    for row in rows:
        if row.failure:
            table.add_row(row.name, *[""] * 7, "[bold red]FAILED[/]")
            failures.append(row)
            continue
        figures = (row.least, row.median, row.least_ratio, row.ratio, row.above_floor)
        verdict = {None: "", True: "ok", False: "[bold red]MISSED[/]"}[row.ok]
        texts = (f"{figure:,.2f}" for figure in figures)
        table.add_row(row.name, *texts, str(row.rounds), row.limit, verdict)
    console.print(table)
    for row in failures:
        console.print(f"  {row.name}: {escape(row.failure)}", highlight=False)


def save(path: str | None, results: Mapping[str, list[Row]]) -> None:
    if path is None:
        return
    rows = {
        title: [
            {"name": row.name, "failure": row.failure} if row.failure else asdict(row)
            for row in table
        ]
        for title, table in results.items()
    }
    measure.write(path, {"XLA_FLAGS": os.environ.get("XLA_FLAGS", ""), "results": rows})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", help=f"of {', '.join(TABLES)}, by their beginnings")
    parser.add_argument("--first-call", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    begins = tuple(options.only.split(","))
    chosen = {key: table for key, table in TABLES.items() if key.startswith(begins)}
    if not chosen:
        parser.error(f"--only is {options.only!r}, expected some of {', '.join(TABLES)}")
    if jax.default_backend() != "gpu":
        sys.exit(f"chain.py: needs a GPU that JAX uses; its backend is {jax.default_backend()!r}")
    if options.first_call:
        first_call()
        return 0
    started = time.perf_counter()
    console = Console(width=None if sys.stdout.isatty() else 130)
    about = measure.about()
    console.print(", ".join(f"{k} {v}" for k, v in about.items() if v), highlight=False)
    if absent := peers.absent_for_cuda():
        console.print(f"not installed, so not compared: {', '.join(absent)}", highlight=False)
    bench = Bench(Floor(), 0.6 if options.quick else 3.5, options.quick)
    if any(key.startswith(("chain", "two")) for key in chosen):
        check_graphs(bench.floor, console)
    results: dict[str, list[Row]] = {}
    for key, (title, unit, table) in chosen.items():
        try:
            rows = table(bench)
        except Exception as error:
            rows = [failed(key, error)]
        results[f"{key}: {title}"] = rows
        show(console, f"{key}: {title}", unit, rows)
        save(options.json, results)
    judged = [(title, row) for title, rows in results.items() for row in rows if row.limit]
    missed = [f"{title}, {row.name}" for title, row in judged if not row.ok]
    failures = [
        f"{title}, {row.name}" for title, rows in results.items() for row in rows if row.failure
    ]
    console.print(f"{len(judged) - len(missed)} of {len(judged)} within their limits", end="")
    console.print(f", {len(failures)} failed, {time.perf_counter() - started:.0f} s")
    for title in missed:
        console.print(f"  MISSED {title}", highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
