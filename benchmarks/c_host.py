"""What a step of the demo costs in the C host, and called from JAX.

    make c-host
    build/venv/bin/python benchmarks/c_host.py [--rounds N]

Both run the same program on the CPU: a step takes the state in place, and the host reads who
spiked. JAX calls a compiled function, which is the cheapest way to call it. The rounds take turns.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import coba
import jax
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
STEPS = 10_000
SPIKES = 77_906


def in_c(plugin: str, folder: Path) -> float:
    """Microseconds of a step in the C host."""
    command = [str(folder / "coba"), plugin, str(folder / "coba.bundle"), str(STEPS)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"^(\d+) spikes in \d+ steps, ([\d.]+) us", printed, re.M)
    spikes, us = found.groups() if found else (0, 0)
    assert int(spikes) == SPIKES, printed
    return float(us)


def in_jax() -> float:
    """Microseconds of a step that JAX calls."""
    params = coba.Params()
    network = coba.build_network(params, 1)
    model = coba.kernel_model(params, network)
    state, data = jax.device_put((network.start, model.data))
    step = jax.jit(model.step, donate_argnums=0).lower(state, data).compile()
    spikes = 0
    begin = time.perf_counter()
    for _ in range(STEPS):
        state, spiked = step(state, data)
        spikes += np.count_nonzero(np.asarray(spiked))
    took = time.perf_counter() - begin
    assert spikes == SPIKES, spikes
    return took / STEPS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "c_host")
    parser.add_argument("--plugin", help="default: that of the package xla-cpu-pjrt")
    arguments = parser.parse_args()
    plugin = arguments.plugin
    if plugin is None:
        import xla_plugins.xla_cpu_pjrt as package

        plugin = f"{package.__path__[0]}/xla_cpu_pjrt.so"
    rounds = [(in_c(plugin, arguments.folder), in_jax()) for _ in range(arguments.rounds)]
    for name, of in (("median", median), ("best", min)):
        c, python = (of(column) for column in zip(*rounds, strict=True))
        print(f"{name}: C host {c:.1f} us a step, JAX {python:.1f} us; ratio {c / python:.2f}")


if __name__ == "__main__":
    main()
