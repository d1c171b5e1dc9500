"""The microcircuit of studies/microcircuit.py in NEST, for the comparison in docs/microcircuit.md.

    python studies/microcircuit_nest.py --out nest.npz --scale 0.1 --seeds 1 2 3

Needs nest-simulator (3.10.0 was used), and neither JAX nor kernbridge. The model is built with
NEST's own neurons, generators and connection rules from the parameters of studies/pd14, so that
nothing of our network, our random numbers or our kernels is used. The file has the spikes of each
seed: the neurons as `neurons_SEED`, and the times in steps of 0.1 ms as `steps_SEED`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nest
import numpy as np
from pd14 import parameters as p


def build(model: p.Model, seed: int, threads: int):
    """Build the network; returns its neurons and the recorder of their spikes."""
    nest.ResetKernel()
    nest.SetKernelStatus(
        {"resolution": p.DT, "rng_seed": seed, "local_num_threads": threads, "print_time": False}
    )
    populations = []
    for i in range(8):
        cell = {
            "C_m": p.C_M,
            "tau_m": p.TAU_M,
            "tau_syn_ex": p.TAU_SYN,
            "tau_syn_in": p.TAU_SYN,
            "t_ref": p.T_REFRACTORY,
            "E_L": p.E_LEAK,
            "V_reset": p.E_LEAK,
            "V_th": p.THRESHOLD,
            "I_e": float(model.currents[i]),
            "V_m": nest.random.normal(float(p.START_MEAN[i]), float(p.START_DEVIATION[i])),
        }
        populations.append(nest.Create("iaf_psc_exp", int(model.sizes[i]), params=cell))
    if model.drive == "poisson":
        external = {"weight": model.external_weight, "delay": p.DELAY_MEANS[0]}
        for population, rate in zip(populations, model.external_rates, strict=True):
            source = nest.Create("poisson_generator", params={"rate": float(rate) * 1000})
            nest.Connect(source, population, syn_spec=external)
    for t, target in enumerate(populations):
        for s, source in enumerate(populations):
            if model.synapses[t, s]:
                rule = {"rule": "fixed_total_number", "N": int(model.synapses[t, s])}
                nest.Connect(source, target, rule, synapse(model.weights[t, s], s % 2))
    recorder = nest.Create("spike_recorder")
    for population in populations:
        nest.Connect(population, recorder)
    return populations, recorder


def synapse(mean: float, kind: int) -> dict:
    """Describe synapses with normal weights that keep their sign, and normal delays."""
    weight = nest.random.normal(mean, abs(mean) * p.WEIGHT_DEVIATION)
    low, high = (0.0, np.inf) if mean > 0 else (-np.inf, 0.0)
    delay = p.DELAY_MEANS[kind]
    drawn = nest.random.normal(delay, delay * p.DELAY_DEVIATION)
    longest = (p.SLOTS - 0.5) * p.DT
    return {
        "weight": nest.math.redraw(weight, min=low, max=high),
        "delay": nest.math.redraw(drawn, min=p.DT / 2, max=longest),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="The microcircuit in NEST.")
    parser.add_argument("--out", type=Path, required=True, help="the file of the spikes")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--drive", choices=("poisson", "dc"), default="poisson")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)))
    parser.add_argument("--discard", type=float, default=500, help="ms before the spikes count")
    parser.add_argument("--seconds", type=float, default=5.0, help="of model time after that")
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    nest.set_verbosity("M_ERROR")
    model = p.Model(a.scale, drive=a.drive)
    found = {"seeds": np.array(a.seeds), "seconds": np.array(a.seconds), "scale": np.array(a.scale)}
    for seed in a.seeds:
        begin = time.perf_counter()
        populations, recorder = build(model, seed, a.threads)
        built = time.perf_counter()
        nest.Simulate(a.discard + a.seconds * 1000)
        done = time.perf_counter()
        events = recorder.events
        step = np.round(np.asarray(events["times"]) / p.DT).astype(np.int64) - 1
        kept = step >= round(a.discard / p.DT)
        first = populations[0].tolist()[0]
        found[f"neurons_{seed}"] = (np.asarray(events["senders"])[kept] - first).astype(np.int32)
        found[f"steps_{seed}"] = (step[kept] - round(a.discard / p.DT)).astype(np.int32)
        np.savez_compressed(a.out, **found)
        rates = np.bincount(model.population_of(found[f"neurons_{seed}"]), minlength=8)
        hz = " ".join(f"{r:.3f}" for r in rates / model.sizes / a.seconds)
        print(f"seed {seed}: built in {built - begin:.0f} s, ran in {done - built:.0f} s; Hz {hz}")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
