"""The COBA network of a file in kernbridge: prints one line of JSON. See studies/spiking.py.

    python coba_kernbridge.py NETWORK.npz MS cpu|cuda [--record]

With --record every spike is recorded while the time is taken. Without, nothing is, and the rate is
that of the 100 ms before.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import coba
import energy
from coba_report import report

CHUNK, LONG_CHUNK = 500, 5000  # steps of a call


def main() -> None:
    file, ms, platform = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    records = "--record" in sys.argv
    jax.config.update("jax_platforms", platform)
    stored = np.load(file)
    n = stored["v"].size
    p = coba.Params(neurons=n)
    zeros = np.zeros(n, np.float32)
    start = coba.State(stored["v"], zeros, zeros.copy(), np.zeros(n, np.int32))
    net = coba.Network(stored["indptr"], stored["indices"], np.zeros(0, np.int32), start)
    model = coba.kernel_model(p, net, cuda=platform == "cuda")
    unroll = 10 if platform == "cuda" else 1  # docs/loops.md
    short = max(10, min(CHUNK, coba.FLAGS_MAX // n))

    def recorded(state: Any, data: Any) -> Any:
        return jax.lax.scan(lambda s, _: model.step(s, data), state, length=short, unroll=unroll)

    def unrecorded(state: Any, data: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            return model.step(state, data)[0]

        return jax.lax.fori_loop(0, LONG_CHUNK, step, state, unroll=unroll), None

    def jitted(function: Any) -> Any:
        return jax.jit(function, donate_argnums=0).lower(state, data).compile()

    def count(flags: Any) -> int:
        return int(np.count_nonzero(flags))

    state, data = jax.device_put((start, model.data))
    with_spikes = jitted(recorded)
    spikes, before = 0, round(100 / p.dt) // short
    for _ in range(before):  # not timed
        state, flags = with_spikes(state, data)
        spikes += count(flags)
    rate = spikes / n / (before * short * p.dt / 1000)
    run, chunk = (with_spikes, short) if records else (jitted(unrecorded), LONG_CHUNK)
    calls = max(1, round(ms / p.dt / chunk))
    state, _ = jax.block_until_ready(run(state, data))  # not timed
    meter = energy.Meter()
    joules, wall, cpu, spikes = meter.joules(), 0.0, 0.0, 0
    for _ in range(calls):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        state, flags = jax.block_until_ready(run(state, data))
        wall += time.perf_counter() - begin
        cpu += time.process_time() - begin_cpu
        spikes += count(flags) if records else 0
    steps = calls * chunk
    if records:
        rate = spikes / n / (steps * p.dt / 1000)
    report(wall, cpu, steps, rate, energy.between(joules, meter.joules()))


if __name__ == "__main__":
    main()
