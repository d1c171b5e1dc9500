"""The COBA network of a file in NEST: prints one line of JSON. See studies/spiking.py.

    python coba_nest.py NETWORK.npz MS THREADS

`iaf_cond_exp`, in float64 with adaptive steps. 100 ms before are not timed. Needs nest-simulator,
and neither JAX nor kernbridge.
"""

from __future__ import annotations

import sys
import time

import nest
import numpy as np
from coba_report import report


def main() -> None:
    file, ms, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    nest.verbosity = nest.VerbosityLevel.ERROR
    nest.SetKernelStatus({"resolution": 0.1, "local_num_threads": threads, "print_time": False})
    stored = np.load(file)
    n = stored["v"].size
    n_exc = round(0.8 * n)
    cell = {
        "C_m": 200.0,
        "g_L": 10.0,
        "E_L": -60.0,
        "V_reset": -60.0,
        "V_th": -50.0,
        "t_ref": 5.0,
        "E_ex": 0.0,
        "E_in": -80.0,
        "tau_syn_ex": 5.0,
        "tau_syn_in": 10.0,
        "I_e": 200.0,
    }
    neurons = nest.Create("iaf_cond_exp", n, params=cell)
    neurons.V_m = stored["v"].astype(float)
    sources = np.repeat(np.arange(n), np.diff(stored["indptr"]))
    weights = np.where(sources < n_exc, 6.0, -67.0)
    nest.Connect(
        sources + 1,
        stored["indices"].astype(np.int64) + 1,
        "one_to_one",
        {"weight": weights, "delay": np.full(weights.size, 0.1)},
    )
    nest.Simulate(100.0)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    nest.Simulate(ms)
    wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    spikes = nest.GetKernelStatus("local_spike_counter")  # of the last call of Simulate
    steps = round(ms / 0.1)
    report(wall, cpu, steps, spikes / n / (ms / 1000))


if __name__ == "__main__":
    main()
