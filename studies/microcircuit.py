"""The cortical microcircuit of Potjans and Diesmann (2014), with CUDA kernels inside real JAX.

    python studies/microcircuit.py --scale 0.1 --plan graph --seconds 1

77,169 neurons under 1 mm2 of cortex, 299 million synapses, steps of 0.1 ms: the yardstick of
simulators of spiking networks. The model is in the folder pd14. Two plans run it on GPUs:

    graph       one launch a step in a JAX loop, on one GPU, or on several by shard_map
    persistent  one cooperative launch for many steps

and "cpu" is a plain loop on one core. Both plans run on CPUs, too, at a small scale. All plans, on
any number of devices, have the same bits: spikes add integers to what arrives at a neuron, and
random numbers depend on the neuron and the step alone. The program checks that for the first steps,
and the rates of the populations where a reference is known. docs/microcircuit.md has the rest.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from pd14 import figure, measures, network, run
from pd14 import parameters as p
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

DISCARDED = 0.5  # seconds before the spikes count, as the field's recipe has it
RATE_TOLERANCE = (0.1, 0.15)  # of a population's reference rate: relative, and Hz beside that
CHECKED_FROM = 1.0  # seconds of model time, for rates


def compare_states(ours: dict, theirs: dict) -> list[str]:
    """What differs between the states of two runs, in words."""
    return [
        f"the final {name} differs in {np.count_nonzero(ours[name] != theirs[name])} places"
        for name in ours
        if ours[name].tobytes() != theirs[name].tobytes()
    ]


def compare_spikes(ours: run.Spikes, theirs: run.Spikes) -> list[str]:
    """Where the spikes of two runs begin to differ, in words."""
    size = min(ours.steps.size, theirs.steps.size)
    same = (ours.steps[:size] == theirs.steps[:size]) & (
        ours.neurons[:size] == theirs.neurons[:size]
    )
    if same.all() and ours.steps.size == theirs.steps.size:
        return []
    at = int(np.argmin(same)) if not same.all() else size
    step = min(int(s.steps[at]) for s in (ours, theirs) if at < s.steps.size)
    sizes = f"{ours.steps.size} and {theirs.steps.size}"
    return [f"the spikes differ from step {step} on; there are {sizes} in all"]


def check_rates(model: p.Model, rates: list[np.ndarray], seconds: float) -> list[str]:
    """Which populations leave the tolerance, in words."""
    reference = p.reference_rates(model)
    if reference is None or seconds < CHECKED_FROM:
        return []
    relative, absolute = RATE_TOLERANCE
    faults = []
    for name, of_neurons, expected in zip(p.NAMES, rates, reference, strict=True):
        mean, allowed = of_neurons.mean(), relative * expected + absolute
        if abs(mean - expected) > allowed:
            faults.append(f"{name} has {mean:.2f} Hz, not {expected:.2f} +- {allowed:.2f}")
    return faults


def report(model: p.Model, found: measures.Measures, out: Console) -> None:
    reference = p.reference_rates(model)
    table = Table("population", "neurons", "Hz", "reference", "CV", "correlation")
    for column in table.columns[1:]:
        column.justify = "right"
    for i, name in enumerate(p.NAMES):
        known = "" if reference is None else f"{reference[i]:.2f}"
        cv, correlation = (
            f"{x[i].mean():.3f}" if x[i].size else "" for x in (found.cvs, found.correlations)
        )
        mean = f"{found.rates[i].mean():.2f}"
        table.add_row(name, f"{model.sizes[i]:,}", mean, known, cv, correlation)
    out.print(table)


def speed(steps: int, seconds: float) -> str:
    us = seconds / steps * 1e6
    return f"{us:,.2f} us a step: {us / (p.DT * 1000):.4f} of real time"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="The cortical microcircuit of Potjans and Diesmann (2014).",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--scale", type=float, default=0.1, help="the part of the neurons")
    parser.add_argument("--in-degrees", type=float, default=1.0, help="the part of their inputs")
    parser.add_argument("--plan", choices=run.PLANS, default="graph")
    parser.add_argument("--drive", choices=("poisson", "dc"), default="poisson")
    parser.add_argument("--seconds", type=float, default=1.0, help="of model time")
    parser.add_argument("--discard", type=float, default=DISCARDED, help="seconds before that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1, help="with the plan graph")
    parser.add_argument("--check", type=float, default=0.1, help="seconds, by another plan, too")
    parser.add_argument("--figure", type=Path, default=Path("microcircuit.png"))
    parser.add_argument("--benchmark", action="store_true", help="count spikes only, long calls")
    parser.add_argument("--parts", type=int, help="blocks of the kernels (default: by the SMs)")
    parser.add_argument("--threads", type=int, help="of a block (default: 1,024 or 512 on GPUs)")
    parser.add_argument("--group", type=int, default=16, help="threads that deliver a spike")
    a = parser.parse_args(argv)
    if not 0.001 <= a.scale <= 1:
        parser.error(f"--scale is {a.scale}, expected 0.001 to 1")
    if not 0.01 <= a.in_degrees <= 1:
        parser.error(f"--in-degrees is {a.in_degrees}, expected 0.01 to 1")
    if not 0.001 <= a.seconds <= 10_000 or not 0 <= a.discard <= 100:
        parser.error("expected 0.001 to 10000 for --seconds, and 0 to 100 for --discard")
    if not 0 <= a.check < a.discard + a.seconds:
        parser.error(f"--check is {a.check}, expected less than --discard and --seconds")
    if not 0 <= a.seed < 2**32:
        parser.error(f"--seed is {a.seed}, expected 0 to 2**32 - 1")
    if a.group not in (1, 2, 4, 8, 16, 32):
        parser.error(f"--group is {a.group}, expected a power of two up to 32")
    if not a.figure.parent.is_dir():
        parser.error(f"--figure is {a.figure}, expected a name in a directory that exists")
    return a


def simulate(a: argparse.Namespace, out: Console, bar: Progress) -> list[str]:
    """Build the network, run and check it; returns what is wrong, in words."""
    model = p.Model(a.scale, a.in_degrees, a.drive)
    devices = jax.devices("cpu" if a.plan == "cpu" else None)[: a.devices]
    if len(devices) < a.devices:
        raise run.Fault(f"there are {len(devices)} devices, not {a.devices}")
    parts = a.parts or run.default_parts(model, devices[0], a.devices, a.plan)
    task = bar.add_task("Drawing synapses", total=model.neurons)
    begin = time.perf_counter()
    net = network.build(model, a.seed, parts, a.devices, lambda n: bar.advance(task, n))
    built = time.perf_counter() - begin
    size = (net.records.nbytes + net.synapses.nbytes) / net.count
    out.print(
        f"Network: {model.neurons:,} neurons, {net.count:,} synapses of {size:.2f} bytes,"
        f" built in {built:.1f} s; {net.parts} parts on {a.devices} {devices[0].device_kind}"
    )

    checked, discarded, steps = (round(s * 1000 / p.DT) for s in (a.check, a.discard, a.seconds))
    launch = run.Launch(a.parts, a.threads, a.group)
    simulation = run.Simulation(
        model,
        net,
        a.seed,
        a.plan,
        devices,
        chunk=10_000 if a.benchmark else 1000,
        records_spikes=not a.benchmark,
        launch=launch,
    )
    task = bar.add_task(f"Plan {a.plan}", total=discarded + steps)

    def advance(count: int) -> tuple[run.Spikes, float]:
        return simulation.advance(count, lambda n: bar.advance(task, n))

    faults = []
    early = []  # spikes of the steps that are checked
    if checked:
        early.append(advance(checked)[0])
        faults = check(a, model, net, early[0], simulation.values(), checked, bar)
        if not faults:
            other = "the plan graph" if a.plan == "cpu" else "a plain loop on a CPU"
            out.print(f"Exact: {checked:,} steps have the bits of {other}")
    if discarded > checked:
        early.append(advance(discarded - checked)[0])
    before = simulation.values()["total"]
    left = discarded + steps - max(checked, discarded)
    spikes, seconds = advance(left)
    total = simulation.values()["total"] - before
    out.print(f"Simulated: {a.seconds:g} s after {a.discard:g} s, {a.drive} drive;")
    out.print(f"{speed(left, seconds)}, plan {a.plan}")
    if a.benchmark:
        hz = np.split(total / (left * p.DT / 1000), model.starts[1:-1])
        found = measures.Measures(hz, [np.zeros(0)] * 8, [np.zeros(0)] * 8)
        report(model, found, out)
        return faults + check_rates(model, found.rates, a.seconds)
    spikes = run.Spikes(*(np.concatenate(x) for x in zip(*early, spikes, strict=True)))
    kept = spikes.steps >= discarded
    ms = (spikes.steps[kept] - discarded) * p.DT
    found = measures.measure(spikes.neurons[kept], ms, model.starts, a.seconds)
    report(model, found, out)
    end, reference = discarded + steps, p.reference_rates(model)
    written = figure.draw(a.figure, model, spikes, end, found, reference)
    out.print("Figure:", *written)
    return faults + check_rates(model, found.rates, a.seconds)


def check(a, model, net, spikes, values, steps: int, bar: Progress) -> list[str]:
    """Run the first steps by another plan on the CPU; returns what differs, in words."""
    plan = "graph" if a.plan == "cpu" else "cpu"
    if a.devices > 1:  # the layout of one device
        net = network.build(model, a.seed, net.parts)
    task = bar.add_task(f"Check by {plan}", total=steps)
    other = run.Simulation(
        model, net, a.seed, plan, jax.devices("cpu")[:1], records_spikes=not a.benchmark
    )
    theirs, _ = other.advance(steps, lambda n: bar.advance(task, n))
    return compare_spikes(spikes, theirs) + compare_states(values, other.values())


def main(argv: Sequence[str] | None = None) -> int:
    a = parse(argv)
    out, err = Console(highlight=False, soft_wrap=True), Console(stderr=True, highlight=False)
    try:
        with Progress(console=err) as bar:
            faults = simulate(a, out, bar)
    except run.Fault as fault:
        err.print(f"Error: {fault}", style="red", markup=False)
        return 2
    for fault in faults:
        err.print(f"Mismatch: {fault}", style="red", markup=False)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
