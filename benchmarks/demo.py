"""The network of examples/coba.py in one jitted lax.scan: with two Numba kernels, and in pure JAX.

    python benchmarks/demo.py [--json FILE] [--rounds 5]

Each round runs every form again, in turn. A figure of a round is the median over the calls of a
jitted scan of some hundred steps, divided by its steps. All forms must have the same spikes, to
within 10 % for those in pure JAX, whose sums XLA may fuse.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.append(str(Path(__file__).parents[1] / "examples"))

import coba
import measure
from rich.console import Console
from rich.progress import Progress

NAME = "A step of the COBA network of 4,000 neurons"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--neurons", type=int, default=4000, help="default: %(default)s")
    options = parser.parse_args()
    p = coba.Params(neurons=options.neurons)
    net = coba.build_network(p, 1)
    times: dict[str, list[float]] = {}
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        for _ in range(options.rounds):
            model = coba.kernel_model(p, net)
            ours = coba.simulate(model, net.start, 10_000, coba.CHUNK, bar, "Numba kernels")
            others = coba.compare(p, net, ours, bar)
            faults = coba.check_loosely(p, ours, others)
            if faults:
                raise SystemExit("\n".join(faults))
            for name, run in {"two Numba kernels": ours, **others}.items():
                times.setdefault(name, []).append(run.us_per_step)
    floor = next(iter(times.values()))
    rows = [measure.row_of(name, values, floor, "µs") for name, values in times.items()]
    title = NAME.replace("4,000", f"{p.neurons:,}")
    measure.show(Console(), title, "us", rows)
    measure.save(options.json, {title: rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
