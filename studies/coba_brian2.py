"""The COBA network of a file in Brian2: prints one line of JSON. See studies/spiking.py.

    python coba_brian2.py NETWORK.npz MS THREADS FOLDER

A C++ program of its own (standalone mode) in float32 with -O3 -march=native -ffast-math; with
several threads, by OpenMP. It is in FOLDER, and is generated if it does not exist. The loop
over the steps times itself: making the synapses and writing the results are left out. Spikes
are counted, not recorded. Needs Brian2 2.10, and neither JAX nor kernbridge.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import brian2 as b2
import numpy as np
from coba_report import report

BEFORE = """
struct timespec kb_wall_0, kb_cpu_0;
clock_gettime(CLOCK_MONOTONIC, &kb_wall_0);
clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &kb_cpu_0);
"""
AFTER = """
struct timespec kb_wall_1, kb_cpu_1;
clock_gettime(CLOCK_MONOTONIC, &kb_wall_1);
clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &kb_cpu_1);
FILE *kb_file = fopen("kb_times.txt", "w");
fprintf(kb_file, "%.9f %.9f\\n",
        (kb_wall_1.tv_sec - kb_wall_0.tv_sec) + (kb_wall_1.tv_nsec - kb_wall_0.tv_nsec) * 1e-9,
        (kb_cpu_1.tv_sec - kb_cpu_0.tv_sec) + (kb_cpu_1.tv_nsec - kb_cpu_0.tv_nsec) * 1e-9);
fclose(kb_file);
"""
EQUATIONS = """
dv/dt = (g_leak * (e_leak - v) + ge * (e_exc - v) + gi * (e_inh - v) + current) / c_m
    : volt (unless refractory)
dge/dt = -ge / tau_exc : siemens
dgi/dt = -gi / tau_inh : siemens
"""


def build(file: str, ms: float, threads: int, folder: Path) -> None:
    b2.set_device("cpp_standalone", directory=str(folder), build_on_run=False)
    b2.prefs.core.default_float_dtype = np.float32
    b2.prefs.devices.cpp_standalone.openmp_threads = 0 if threads == 1 else threads
    flags = ["-w", "-O3", "-ffast-math", "-march=native", "-std=c++11"]
    b2.prefs.codegen.cpp.extra_compile_args_gcc = flags
    b2.defaultclock.dt = 0.1 * b2.ms
    stored = np.load(file)
    n = stored["v"].size
    n_exc = round(0.8 * n)
    degrees = np.diff(stored["indptr"])
    sources, targets = np.repeat(np.arange(n), degrees), stored["indices"]
    constants = {
        "g_leak": 10 * b2.nS,
        "e_leak": -60 * b2.mV,
        "e_exc": 0 * b2.mV,
        "e_inh": -80 * b2.mV,
        "tau_exc": 5 * b2.ms,
        "tau_inh": 10 * b2.ms,
        "current": 200 * b2.pA,
        "c_m": 200 * b2.pF,
        "w_exc": 6 * b2.nS,
        "w_inh": 67 * b2.nS,
    }
    neurons = b2.NeuronGroup(
        n,
        EQUATIONS,
        threshold="v > -50*mV",
        reset="v = -60*mV",
        refractory=5 * b2.ms,
        method="euler",
        namespace=constants,
    )
    neurons.v = stored["v"] * b2.mV
    excitatory = sources < n_exc
    exc = b2.Synapses(neurons[:n_exc], neurons, on_pre="ge += w_exc", namespace=constants)
    exc.connect(i=sources[excitatory], j=targets[excitatory])
    inh = b2.Synapses(neurons[n_exc:], neurons, on_pre="gi += w_inh", namespace=constants)
    inh.connect(i=sources[~excitatory] - n_exc, j=targets[~excitatory])
    monitor = b2.SpikeMonitor(neurons, record=False)
    network = b2.Network(neurons, exc, inh, monitor)
    b2.device.insert_code("before_network_run", BEFORE)
    b2.device.insert_code("after_network_run", AFTER)
    network.run(ms * b2.ms)
    b2.device.build(directory=str(folder), compile=True, run=False, debug=False)


def main() -> None:
    file, ms, threads, folder = (
        sys.argv[1],
        float(sys.argv[2]),
        int(sys.argv[3]),
        Path(sys.argv[4]),
    )
    if not (folder / "main").exists():
        build(file, ms, threads, folder)
    subprocess.run([str(folder / "main")], cwd=folder, check=True, capture_output=True)
    wall, cpu = map(float, (folder / "kb_times.txt").read_text().split())
    (counts,) = (folder / "results").glob("_array_spikemonitor_count_*")
    spikes = int(np.fromfile(counts, np.int32).sum())
    steps, n = round(ms / 0.1), np.load(file)["v"].size
    report(wall, cpu, steps, spikes / n / (ms / 1000))


if __name__ == "__main__":
    main()
