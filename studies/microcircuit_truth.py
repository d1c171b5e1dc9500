"""The microcircuit at a tenth of its size beside NEST's: the table of docs/microcircuit.md.

    python studies/microcircuit_nest.py --out nest_spikes.npz      # hours of one core; or not:
    python studies/microcircuit_truth.py --nest nest_spikes.npz

Without --nest, NEST's side comes from microcircuit_nest.npz beside this file, which --keep writes:
of each seed, population and measure the mean and 101 quantiles. Our side runs each seed, which
draws the network, the drive and the initial potentials again, unless --ours names spikes that a run
before has written there.

For each population and measure: means and standard deviations over the seeds; the p-value of
Welch's test that the means are equal; and the mean Kolmogorov-Smirnov distance of the
distributions over neurons or pairs, between seeds of both simulators, of NEST, and of ours.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
from itertools import combinations, product
from pathlib import Path

import jax
import numpy as np
from pd14 import measures, network, run
from pd14 import parameters as p
from rich.progress import Progress
from scipy import stats

KEPT = Path(__file__).with_name("microcircuit_nest.npz")
MEASURES = ("rate (Hz)", "CV", "correlation")
DISCARDED = 5000  # steps
Summaries = np.ndarray  # (seeds, measures, populations, mean and quantiles)


def summarise(found: measures.Measures) -> np.ndarray:
    """Keep the mean and 101 quantiles of each measure and population."""
    quantiles = np.linspace(0, 1, 101)
    return np.array(
        [[[x.mean(), *np.quantile(x, quantiles)] for x in of_measure] for of_measure in found],
        np.float32,  # on both sides, as equal rates are to be equal
    )


def of_spikes(path: Path, model: p.Model) -> Summaries:
    """Summarise a file of spikes, which has `neurons_SEED` and `steps_SEED` for each seed."""
    with np.load(path) as spikes:
        seconds = float(spikes["seconds"])
        return np.array(
            [
                summarise(
                    measures.measure(
                        spikes[f"neurons_{seed}"],
                        spikes[f"steps_{seed}"] * p.DT,
                        model.starts,
                        seconds,
                    )
                )
                for seed in spikes["seeds"]
                if f"neurons_{seed}" in spikes  # the run may not have come to the last ones
            ]
        )


def simulate(path: Path, model: p.Model, plan: str, seeds: list[int], seconds: float) -> None:
    """Run our side, and write its spikes."""
    device, steps = jax.devices()[0], round(seconds * 1000 / p.DT)
    found: dict = {"seeds": np.array(seeds), "seconds": np.array(seconds)}
    with Progress() as bar:
        task = bar.add_task("Seeds", total=len(seeds) * (steps + DISCARDED))
        for seed in seeds:
            net = network.build(model, seed, run.default_parts(model, device, 1, plan))
            simulation = run.Simulation(model, net, seed, plan, [device])
            simulation.advance(DISCARDED, lambda n: bar.advance(task, n))
            spikes, _ = simulation.advance(steps, lambda n: bar.advance(task, n))
            found[f"neurons_{seed}"] = spikes.neurons
            found[f"steps_{seed}"] = (spikes.steps - DISCARDED).astype(np.int32)
            np.savez_compressed(path, **found)


def distances(ours: Summaries, theirs: Summaries, pairs) -> float:
    return float(np.mean([measures.ks_distance(ours[a], theirs[b]) for a, b in pairs]))


def compare(ours: Summaries, nest: Summaries) -> list[list[str]]:
    """Return the rows of the table."""
    n, k = len(ours), len(nest)
    rows = []
    for m, what in enumerate(MEASURES):
        for i, name in enumerate(p.NAMES):
            a, b = ours[:, m, i], nest[:, m, i]
            digits = 3 if m < 2 else 4
            means = [
                f"{x[:, 0].mean():.{digits}f} ± {x[:, 0].std(ddof=1):.{digits}f}" for x in (a, b)
            ]
            equal = stats.ttest_ind(a[:, 0], b[:, 0], equal_var=False).pvalue
            a, b = a[:, 1:], b[:, 1:]
            ks = (
                distances(a, b, product(range(n), range(k))),
                distances(b, b, combinations(range(k), 2)),
                distances(a, a, combinations(range(n), 2)),
            )
            rows.append([what, name, *means, f"{equal:.2f}", *(f"{x:.3f}" for x in ks)])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="The microcircuit at a tenth beside NEST's.")
    parser.add_argument("--nest", type=Path, help="spikes that microcircuit_nest.py has written")
    parser.add_argument("--keep", action="store_true", help=f"write NEST's side to {KEPT.name}")
    parser.add_argument("--ours", type=Path, default=Path("microcircuit_spikes.npz"))
    parser.add_argument("--plan", choices=run.PLANS, default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)))
    parser.add_argument("--seconds", type=float, default=10.0)
    a = parser.parse_args()
    model = p.Model(0.1)
    if not a.ours.exists():
        simulate(a.ours, model, a.plan, a.seeds, a.seconds)
    ours = of_spikes(a.ours, model)
    if a.nest:
        nest = of_spikes(a.nest, model)
        if a.keep:
            np.savez_compressed(KEPT, nest=nest)
    else:
        nest = np.load(KEPT)["nest"]
    titles = ["", "", f"kernbridge, {len(ours)} seeds", f"NEST, {len(nest)} seeds", "p"]
    titles += ["KS to NEST", "KS in NEST", "KS in kernbridge"]
    for row in (titles, ["---"] * len(titles), *compare(ours, nest)):
        print("|", " | ".join(row), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
