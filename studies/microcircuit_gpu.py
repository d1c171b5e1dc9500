"""The microcircuit on one GPU: checked, tuned and timed in one go, for docs/microcircuit.md.

    python studies/microcircuit_gpu.py --json microcircuit.json        # 5 minutes on an H200

1. Both plans run 100 ms at full scale with each drive; spikes and states must be those of a plain
   loop on the host's CPU, to the bit.
2. Each plan is timed for one second of model time with several sizes of blocks, and numbers of
   threads that deliver a spike.
3. With the best of these, the field's recipe: 500 ms are left out, 10 s are timed, spikes are
   counted and not recorded, for each of the seeds. Rates must be the published ones.

`--quick` runs it all at a small scale, where there is no GPU, too.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import jax
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import measure
import microcircuit as example
from pd14 import network, run
from pd14 import parameters as p

THREADS = {"graph": (384, 512, 640), "persistent": (640, 768, 1024)}  # tried, of a block
PLANS = tuple(THREADS)


def check(model: p.Model, nets: dict[str, network.Network], seed: int, steps: int) -> list[str]:
    """Compare the first steps of the plans with the plain loop; returns what differs."""
    runs = {}
    for plan, net in {**nets, "cpu": nets[min(nets)]}.items():
        devices = jax.devices("cpu" if plan == "cpu" else None)[:1]
        simulation = run.Simulation(model, net, seed, plan, devices)
        runs[plan] = simulation.advance(steps)[0], simulation.values()
    spikes, values = runs["cpu"]
    faults = []
    for plan in nets:
        found = example.compare_spikes(runs[plan][0], spikes)
        found += example.compare_states(runs[plan][1], values)
        faults += [f"{plan}, {model.drive}: {fault}" for fault in found]
    print(f"checked: {steps} steps, {model.drive} drive, {spikes.steps.size:,} spikes", flush=True)
    return faults


def timed(
    model: p.Model,
    net: network.Network,
    seed: int,
    plan: str,
    steps: int,
    launch: run.Launch,
    discarded: int = 5000,
) -> tuple[float, np.ndarray]:
    """Return the us of a step, and the spikes of each neuron in the steps that were timed."""
    devices = jax.devices()[:1]
    chunk = min(10_000, steps)
    simulation = run.Simulation(
        model, net, seed, plan, devices, chunk=chunk, records_spikes=False, launch=launch
    )
    simulation.advance(discarded)
    simulation.compile(steps)
    before = simulation.values()["total"]
    _, seconds = simulation.advance(steps)
    return seconds / steps * 1e6, simulation.values()["total"] - before


def main() -> int:
    parser = argparse.ArgumentParser(description="The microcircuit on one GPU.")
    parser.add_argument("--threads", type=int, nargs="+", help="of a block (default: several)")
    parser.add_argument("--group", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--plan", choices=PLANS, nargs="+", default=PLANS)
    parser.add_argument("--parts", type=int, help="blocks (default: one or two for each SM)")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--quick", action="store_true", help="a small network and few steps")
    parser.add_argument("--json", type=Path)
    a = parser.parse_args()
    scale, checked, tuned = (0.01, 100, 100) if a.quick else (1.0, 1000, 10_000)
    steps = 200 if a.quick else round(a.seconds * 1000 / p.DT)
    model = p.Model(scale)
    device = jax.devices()[0]
    parts = {plan: a.parts or run.default_parts(model, device, 1, plan) for plan in a.plan}
    begin = time.perf_counter()
    nets = {plan: network.build(model, a.seeds[0], parts[plan]) for plan in a.plan}
    built = (time.perf_counter() - begin) / len(nets)
    sizes = [(net.records.nbytes + net.synapses.nbytes) / net.count for net in nets.values()]
    size, count = max(sizes), nets[a.plan[0]].count
    print(f"{device.device_kind}: {count:,} synapses of {size:.2f} B, built in {built:.1f} s")
    found: dict = {"device": device.device_kind, "built_s": built, "bytes": size, "tuned": []}

    faults = []
    for drive in ("dc", "poisson"):
        faults += check(p.Model(scale, drive=drive), nets, a.seeds[0], checked)
    best = {}
    for plan in a.plan:
        for n in [256] if a.quick else a.threads or THREADS[plan]:
            for group in a.group:
                launch = run.Launch(parts[plan], n, group)
                us, _ = timed(model, nets[plan], a.seeds[0], plan, tuned, launch, tuned)
                print(
                    f"{plan}: {parts[plan]} x {n} threads, {group} a spike: {us:.2f} us", flush=True
                )
                found["tuned"].append([plan, parts[plan], n, group, us])
                if plan not in best or us < best[plan][0]:
                    best[plan] = us, launch
    times: dict[str, list[float]] = {plan: [] for plan in a.plan}
    events = rates = 0.0
    for seed in a.seeds:
        targets = network.out_degrees(model, seed).sum(axis=1)
        for plan in a.plan:
            net = network.build(model, seed, parts[plan])
            us, total = timed(model, net, seed, plan, steps, best[plan][1], tuned // 2)
            times[plan].append(us)
            seconds = steps * p.DT / 1000
            events = float(total @ targets) / seconds
            rates = np.bincount(model.population_of(np.arange(model.neurons)), total, 8)
            rates = rates / model.sizes / seconds
            if not a.quick:
                of_neurons = np.split(total / seconds, model.starts[1:-1])
                named = example.check_rates(model, of_neurons, seconds)
                faults += [f"{plan}, seed {seed}: {fault}" for fault in named]
    for plan, us in times.items():
        median = statistics.median(us)
        found[plan] = {"launch": vars(best[plan][1]), "us": us, "real_time_factor": median / 100}
        print(
            f"{plan}: {median:.2f} us a step ({min(us):.2f} to {max(us):.2f}, {len(us)} seeds),"
            f" {median / (p.DT * 1000):.4f} of real time, {events / median * 100:.3g} events/s"
        )
    print("Hz:", " ".join(f"{name} {r:.2f}" for name, r in zip(p.NAMES, rates, strict=True)))
    if a.json:
        measure.write(a.json, found | {"rates": list(rates), "faults": faults})
    for fault in faults:
        print(f"Mismatch: {fault}", file=sys.stderr)
    print("All plans have the bits of the plain loop." if not faults else "FAILED")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
