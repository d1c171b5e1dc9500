"""Spiking networks by the recipe of the field: real-time factor, us a step, energy, and peers.

    python studies/spiking.py coba --brian2 PYTHON --nest PYTHON    # on two CPU cores
    python studies/spiking.py coba --platform cuda --neurons 4000 400000
    python studies/spiking.py microcircuit --plan persistent        # on a GPU, 10 seeds

`coba` runs the network of examples/coba.py, drawn once and read by every program from one file, in
a process for each run; the programs take turns, and medians are shown. PYTHON is an interpreter
that has Brian2 2.10 (which needs Python 3.12) or nest-simulator 3.10. The time is that of the loop
over the steps: making the network, compiling and the first 100 ms of ours and of NEST are left out.
All are given the same two cores. Brian2 integrates the same equations by Euler's method in float32;
NEST's `iaf_cond_exp` has adaptive steps in float64. On a GPU the published times of BrainEvent, on
an A6000, stand beside ours.

`microcircuit` discards 500 ms and times 10 s of the network of studies/microcircuit.py, whose
spikes are counted and not recorded, for each seed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import energy
from rich.console import Console
from rich.progress import track
from rich.table import Table

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
DT_US = 100  # a step of model time
# us a step by neurons: 10 s in 2.66 and in 11.7 s, examples/COBA_2005.py of chaobrain/brainevent
BRAINEVENT_A6000 = {4_000: 26.6, 400_000: 117.0}

Figures = dict[str, Any]


def write_network(folder: Path, neurons: int, synapses: float) -> Path:
    """Draw the network, in a process that runs on the CPU; returns its file."""
    file = folder / f"coba_{neurons}.npz"
    program = (
        "import sys, numpy as np\n"
        "import coba\n"
        "n = int(sys.argv[1])\n"
        "net = coba.build_network(coba.Params(neurons=n, connectivity=float(sys.argv[2]) / n), 1)\n"
        "np.savez(sys.argv[3], indptr=net.indptr, indices=net.indices, v=net.start.v)\n"
    )
    paths = (str(EXAMPLES), os.environ.get("PYTHONPATH", ""))
    subprocess.run(
        [sys.executable, "-c", program, str(neurons), str(synapses), str(file)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(paths)},
        check=True,
    )
    return file


def on_cores(command: Sequence[str], cores: int) -> list[str]:
    """The command on the first cores of those that this process may use, if taskset is there."""
    if not hasattr(os, "sched_getaffinity") or shutil.which("taskset") is None:
        return list(command)
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    return ["taskset", "--cpu-list", ",".join(map(str, chosen)), *command]


def run(command: Sequence[str]) -> Figures:
    """Run a program, and read the line of JSON that it prints last."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each figure; None where a run has none."""
    found: Figures = {}
    for name in runs[0]:
        values = [r[name] for r in runs]
        found[name] = None if None in values else statistics.median(values)
    return found


def coba_on_cpu(a: argparse.Namespace, folder: Path) -> dict[str, list[Figures]]:
    """Run all programs in turn; returns the figures of each run."""
    neurons = a.neurons[0]
    file = str(write_network(folder, neurons, a.synapses or 0.02 * neurons))
    ms, short = str(a.ms), str(min(a.ms, 200.0))
    ours = [sys.executable, str(HERE / "coba_kernbridge.py"), file, ms, "cpu"]
    programs = {"kernbridge": ours, "kernbridge, every spike recorded": [*ours, "--record"]}
    for threads in (1, a.cores) if a.cores > 1 else (1,):
        by = f", {threads} threads" if threads > 1 else ""
        if a.brian2:
            place = str(folder / f"brian2_{threads}")
            program = str(HERE / "coba_brian2.py")
            programs[f"Brian2{by}"] = [a.brian2, program, file, ms, str(threads), place]
        if a.nest:
            program = str(HERE / "coba_nest.py")
            programs[f"NEST{by}"] = [a.nest, program, file, short, str(threads)]
    for name, command in programs.items():
        if name.startswith("Brian2"):
            run(command)  # compiles it
    found: dict[str, list[Figures]] = {name: [] for name in programs}
    for _ in track(range(a.rounds), "rounds", console=Console(stderr=True)):
        for name, command in programs.items():
            found[name].append(run(on_cores(command, a.cores)))
    return found


def show_cpu(runs: Mapping[str, Sequence[Figures]], neurons: int, out: Console) -> None:
    ours = medians(runs["kernbridge"])
    table = Table(f"COBA, {neurons:,} neurons")
    for column in ("us CPU a step", "us wall", "x real time", "Hz", "ratio CPU", "ratio wall"):
        table.add_column(column, justify="right")
    for name, each in runs.items():
        m = medians(each)
        ratios = (m["cpu_us"] / ours["cpu_us"], m["wall_us"] / ours["wall_us"])
        speed = DT_US / m["wall_us"]
        figures = (m["cpu_us"], m["wall_us"], speed, m["rate"], *ratios)
        table.add_row(name, *(f"{figure:,.2f}" for figure in figures))
    out.print(table)
    out.print(f"Medians of {len(next(iter(runs.values())))} runs of each program, in turn.")


def coba_on_gpu(a: argparse.Namespace, folder: Path, out: Console) -> dict[str, list[Figures]]:
    table = Table("COBA on this GPU")
    for column in ("us a step", "x real time", "Hz", "mJ a step", "BrainEvent, A6000", "ratio"):
        table.add_column(column, justify="right")
    found = {}
    for neurons in a.neurons:
        file = str(write_network(folder, neurons, a.synapses or 80))
        program = str(HERE / "coba_kernbridge.py")
        command = [sys.executable, program, file, str(a.ms), "cuda"]
        runs = found[f"{neurons:,} neurons"] = [run(command) for _ in range(a.rounds)]
        m, theirs = medians(runs), BRAINEVENT_A6000.get(neurons)
        table.add_row(
            f"{neurons:,} neurons",
            *(f"{x:,.2f}" for x in (m["wall_us"], DT_US / m["wall_us"], m["rate"])),
            "" if m["joules"] is None else f"{m['joules'] / m['steps'] * 1000:.3f}",
            "" if theirs is None else f"{theirs:.1f}",
            "" if theirs is None else f"{theirs / m['wall_us']:.1f}",
        )
    out.print(table)
    return found


def microcircuit(a: argparse.Namespace, out: Console) -> dict[str, list[Figures]]:
    """The field's recipe, seed by seed."""
    import jax
    from pd14 import network, parameters
    from pd14 import run as simulations

    model, device = parameters.Model(a.scale), jax.devices()[0]
    parts = simulations.default_parts(model, device, 1, a.plan)
    steps, discarded = round(a.seconds * 1e6 / DT_US), round(a.discard * 1e6 / DT_US)
    meter, found = energy.Meter(), []
    for seed in track(range(1, a.seeds + 1), "seeds", console=Console(stderr=True)):
        simulation = simulations.Simulation(
            model,
            network.build(model, seed, parts),
            seed,
            a.plan,
            [device],
            chunk=min(10_000, steps),
            records_spikes=False,
        )
        simulation.advance(discarded)
        simulation.compile(steps)
        counted, joules = simulation.values()["total"], meter.joules()
        _, seconds = simulation.advance(steps)
        used = energy.between(joules, meter.joules())
        spikes = simulation.values()["total"] - counted
        events = float(spikes @ network.out_degrees(model, seed).sum(axis=1))
        found.append(
            {
                "wall_us": seconds / steps * 1e6,
                "real_time_factor": seconds / a.seconds,
                "events_per_second": events / seconds,
                "rate": float(spikes.mean()) / a.seconds,
                "joules_per_second": None if used is None else used / a.seconds,
                "nanojoules_per_event": None if used is None else used / events * 1e9,
            }
        )
    m = medians(found)
    out.print(
        f"Microcircuit, scale {a.scale:g}, plan {a.plan}, on {device.device_kind}: {a.seconds:g} s "
        f"of model time after {a.discard:g} s, {a.seeds} seeds, nothing recorded; medians"
    )
    for name, value in m.items():
        least, most = (None, None) if value is None else _range(found, name)
        shown = "no NVML here" if value is None else f"{value:,.4g} ({least:,.4g} to {most:,.4g})"
        out.print(f"  {name:<22}{shown}")
    return {a.plan: found}


def _range(runs: Sequence[Figures], name: str) -> tuple[float, float]:
    values = [r[name] for r in runs]
    return min(values), max(values)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the figures of all runs there")
    kinds = parser.add_subparsers(dest="kind", required=True)
    coba = kinds.add_parser("coba", help="the network of examples/coba.py")
    coba.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    coba.add_argument("--neurons", type=int, nargs="+", default=[4000])
    coba.add_argument(
        "--synapses", type=float, help="of a neuron in the mean; default: 80 of 4,000"
    )
    coba.add_argument("--ms", type=float, default=1000.0, help="of model time; NEST: at most 200")
    coba.add_argument("--rounds", type=int, default=5)
    coba.add_argument("--cores", type=int, default=2, help="that each program may use")
    coba.add_argument("--brian2", help="a Python that has Brian2")
    coba.add_argument("--nest", help="a Python that has NEST")
    circuit = kinds.add_parser("microcircuit", help="the network of studies/microcircuit.py")
    circuit.add_argument("--plan", choices=("graph", "persistent", "cpu"), default="graph")
    circuit.add_argument("--scale", type=float, default=1.0)
    circuit.add_argument("--seconds", type=float, default=10.0, help="of model time")
    circuit.add_argument("--discard", type=float, default=0.5, help="seconds before that")
    circuit.add_argument("--seeds", type=int, default=10)
    a = parser.parse_args()
    if a.kind == "coba" and a.platform == "cpu" and len(a.neurons) > 1:
        parser.error("--neurons takes one number on a CPU")
    return a


def main() -> int:
    a, out = parse(), Console(soft_wrap=True, highlight=False, width=120)
    with tempfile.TemporaryDirectory() as folder:
        if a.kind == "microcircuit":
            found = microcircuit(a, out)
        elif a.platform == "cpu":
            found = coba_on_cpu(a, Path(folder))
            show_cpu(found, a.neurons[0], out)
        else:
            found = coba_on_gpu(a, Path(folder), out)
    if a.json:
        sys.path.append(str(HERE.parent / "benchmarks"))
        import measure

        measure.write(a.json, {"runs": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
