"""A spiking network on 1, 2 and 4 devices, with the same spikes on all: CPU devices, or GPUs.

    python examples/sharded_network.py --devices 1 2 4
    python examples/sharded_network.py --devices 1 2 --platform gpu --neurons 4000000

The model is that of examples/coba.py: leaky integrate-and-fire neurons with exponential
conductances, of which 80 % are excitatory. Here each neuron has 80 targets, whatever the size of
the network. A device owns a part of the neurons, and the synapses that end at these. In each step
it advances its neurons, gathers who has fired from all devices, and adds what arrives at its own:

    spikes of a device  ->  all_gather, one bit a neuron  ->  synapses of each device

What reaches a neuron in one step is a number of equal weights, so that its sum does not depend on
the order in which they arrive, and every number of devices gives the same bits.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import kernbridge as kb
import numba
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

F32 = np.float32
TARGETS = 80  # of each neuron
EXC_FRACTION = 0.8

# The numbers are those of examples/coba.py: mV, ms, nS and pF.
G_LEAK, CURRENT, DT_OVER_C = F32(10), F32(20 * 10), F32(0.1 / 200)
E_LEAK, E_EXC, E_INH = F32(-60), F32(0), F32(-80)
V_RESET, V_THRESHOLD = F32(-60), F32(-50)
DECAY_EXC, DECAY_INH = F32(np.exp(-0.1 / 5)), F32(np.exp(-0.1 / 10))
W_EXC, W_INH = F32(6), F32(67)
REFRACTORY = np.int32(50)  # steps

WHOLE_WARP = 0xFFFFFFFF


class State(NamedTuple):
    """The neurons of all devices, or of one."""

    v: Any  # float32, mV
    g_exc: Any  # float32, nS
    g_inh: Any  # float32, nS
    wait: Any  # int32, steps of the refractory period that are left


class Synapses(NamedTuple):
    """A row for each device: from neuron i to targets[indptr[i]:indptr[i + 1]] of its neurons."""

    indptr: np.ndarray  # int32 (devices, neurons + 1)
    targets: np.ndarray  # int32 (devices, synapses of the device that has most)


def draw(neurons: int, seed: int) -> tuple[State, np.ndarray]:
    """Draw the initial state, and the targets of each neuron."""
    rng = np.random.default_rng(seed)
    v = rng.uniform(V_RESET, V_THRESHOLD, neurons).astype(F32)
    g = np.zeros(neurons, F32)
    targets = rng.integers(0, neurons, (neurons, TARGETS), dtype=np.int32)
    return State(v, g, g.copy(), np.zeros(neurons, np.int32)), targets


def split(targets: np.ndarray, devices: int) -> Synapses:
    """Give each device the synapses that end at its neurons."""
    neurons = len(targets)
    own = neurons // devices
    indptr = np.zeros((devices, neurons + 1), np.int32)
    rows = []
    for d in range(devices):
        here = (targets >= d * own) & (targets < (d + 1) * own)
        np.cumsum(here.sum(axis=1), out=indptr[d, 1:])
        rows.append(targets[here] - np.int32(d * own))
    table = np.zeros((devices, max(map(len, rows))), np.int32)
    for d, row in enumerate(rows):
        table[d, : len(row)] = row
    return Synapses(indptr, table)


def advance(v, g_exc, g_inh, wait):
    """One step of one neuron; the kernels of both platforms are made of it."""
    synaptic = g_exc * (E_EXC - v) + g_inh * (E_INH - v)
    risen = v + DT_OVER_C * (G_LEAK * (E_LEAK - v) + synaptic + CURRENT)
    rests = wait > 0
    fires = (risen > V_THRESHOLD) & (not rests)
    return (
        V_RESET if rests | fires else risen,
        g_exc * DECAY_EXC,
        g_inh * DECAY_INH,
        REFRACTORY if fires else wait - np.int32(rests),
        fires,
    )


def whole_warps(first, *_):
    """As many threads as the first argument has elements, and those that fill up the last warp."""
    return -(-first.size // 32) * 32


Operations = tuple[Callable[..., Any], Callable[..., Any]]

# An argument with an underscore is an input in the same memory as the output of that name.
IN_PLACE = {0: 0, 1: 1, 2: 2, 3: 3}
CONDUCTANCES_IN_PLACE = {3: 0, 4: 1}


def state_and_spikes(v, g_exc, g_inh, wait):
    state = State(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (v, g_exc, g_inh, wait)))
    return state, jax.ShapeDtypeStruct((v.size // 8,), np.uint8)  # a bit for each neuron


def conductances(spiked, indptr, targets, g_exc, g_inh):
    return [jax.ShapeDtypeStruct(g.shape, g.dtype) for g in (g_exc, g_inh)]


def kernels_for_cpu(n_exc: int) -> Operations:
    """Two Numba kernels, each of which runs on one core."""
    next_of = numba.njit(advance)

    @numba.njit
    def neurons(_v, _g_exc, _g_inh, _wait, v, g_exc, g_inh, wait, spiked):
        for i in range(v.size):
            v[i], g_exc[i], g_inh[i], wait[i], _ = next_of(v[i], g_exc[i], g_inh[i], wait[i])
        for k in range(spiked.size):
            bits = 0
            for bit in range(8):
                bits |= (wait[8 * k + bit] == REFRACTORY) << bit
            spiked[k] = bits

    @numba.njit
    def synapses(spiked, indptr, targets, _g_exc, _g_inh, g_exc, g_inh):
        for k in range(spiked.size):
            if spiked[k] == 0:
                continue
            for i in range(8 * k, 8 * k + 8):
                if spiked[k] >> (i - 8 * k) & 1:
                    for j in range(indptr[i], indptr[i + 1]):
                        if i < n_exc:
                            g_exc[targets[j]] += W_EXC
                        else:
                            g_inh[targets[j]] += W_INH

    return (
        kb.numba_kernel(neurons, state_and_spikes, input_output_aliases=IN_PLACE),
        kb.numba_kernel(synapses, conductances, input_output_aliases=CONDUCTANCES_IN_PLACE),
    )


def kernels_for_gpu(n_exc: int) -> Operations:
    """The same as Numba-CUDA kernels."""
    from numba import cuda

    next_of = cuda.jit(device=True)(advance)

    @cuda.jit
    def neurons(_v, _g_exc, _g_inh, _wait, v, g_exc, g_inh, wait, spiked):
        i = cuda.grid(1)
        fires = False
        if i < v.size:
            v[i], g_exc[i], g_inh[i], wait[i], fires = next_of(v[i], g_exc[i], g_inh[i], wait[i])
        of_warp = cuda.ballot_sync(WHOLE_WARP, fires)
        if i < v.size and i % 8 == 0:
            spiked[i // 8] = of_warp >> cuda.laneid & 255

    # A thread looks at eight neurons. Where one has fired, the whole warp delivers its spike.
    @cuda.jit
    def synapses(spiked, indptr, targets, _g_exc, _g_inh, g_exc, g_inh):
        k = cuda.grid(1)
        bits = np.int32(spiked[k]) if k < spiked.size else np.int32(0)
        lanes = cuda.ballot_sync(WHOLE_WARP, bits != 0) & WHOLE_WARP
        while lanes != 0:
            lane = cuda.ffs(lanes) - 1
            lanes &= lanes - 1
            fired = cuda.shfl_sync(WHOLE_WARP, bits, lane)
            while fired != 0:
                i = 8 * (k - cuda.laneid + lane) + cuda.ffs(fired) - 1
                fired &= fired - 1
                for j in range(indptr[i] + cuda.laneid, indptr[i + 1], 32):
                    if i < n_exc:
                        cuda.atomic.add(g_exc, targets[j], W_EXC)
                    else:
                        cuda.atomic.add(g_inh, targets[j], W_INH)

    return (
        kb.numba_cuda_kernel(
            neurons, state_and_spikes, launch_dims=whole_warps, input_output_aliases=IN_PLACE
        ),
        kb.numba_cuda_kernel(
            synapses,
            conductances,
            launch_dims=whole_warps,
            input_output_aliases=CONDUCTANCES_IN_PLACE,
        ),
    )


class Run(NamedTuple):
    spikes: np.ndarray  # int64, ascending: step * neurons + neuron
    us: list[float]  # of a step, in each timed call

    @property
    def us_per_step(self) -> float:
        return statistics.median(self.us)


def simulate(
    start: State,
    targets: np.ndarray,
    devices: Sequence[jax.Device],
    steps: int,
    chunk: int,
    unroll: int,
) -> Run:
    """Run the network on these devices; only the calls of the jitted scan are timed."""
    neurons = start.v.size
    mesh = Mesh(np.array(devices), ("device",))
    own = NamedSharding(mesh, P("device"))
    make = kernels_for_gpu if devices[0].platform == "gpu" else kernels_for_cpu
    update, deliver = make(round(neurons * EXC_FRACTION))

    def scan(state, synapses):  # on each device, with its part of the arrays
        indptr, targets = synapses.indptr[0], synapses.targets[0]

        def step(state, _):
            state, spiked = update(*state)
            everywhere = jax.lax.all_gather(spiked, "device", tiled=True)
            g_exc, g_inh = deliver(everywhere, indptr, targets, state.g_exc, state.g_inh)
            return state._replace(g_exc=g_exc, g_inh=g_inh), spiked

        return jax.lax.scan(step, state, length=chunk, unroll=unroll)

    sharded = jax.shard_map(
        scan,
        mesh=mesh,
        in_specs=(P("device"), P("device")),
        out_specs=(P("device"), P(None, "device")),
    )
    state = jax.device_put(start, own)
    synapses = jax.device_put(split(targets, len(devices)), own)
    compiled = jax.jit(sharded, donate_argnums=0).lower(state, synapses).compile()
    spikes, us = [], []
    for first in range(0, steps, chunk):
        begin = time.perf_counter()
        state, bits = jax.block_until_ready(compiled(state, synapses))
        us.append((time.perf_counter() - begin) / chunk * 1e6)
        fired = np.unpackbits(np.asarray(bits), axis=1, bitorder="little")
        spikes.append(np.flatnonzero(fired) + first * neurons)
    timed = us[1:] or us  # the first call starts what moves data between GPUs
    return Run(np.concatenate(spikes), timed)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2], help="numbers of them")
    parser.add_argument("--platform", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--neurons", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=1000, help="of 0.1 ms")
    parser.add_argument("--chunk", type=int, default=100, help="steps of one call of the scan")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    a = parser.parse_args(argv)
    for devices in a.devices:
        if devices < 1 or a.neurons % (8 * devices):
            parser.error(f"{a.neurons} neurons are no multiple of 8 for each of {devices} devices")
    if a.steps < 1 or a.chunk < 1 or a.steps % a.chunk:
        parser.error(f"{a.steps} steps are no multiple of the {a.chunk} of one call")
    return a


def figures(a: argparse.Namespace, devices: Sequence[jax.Device], runs: dict[int, Run]):
    """What was measured, on what, and how."""
    return {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "device": devices[0].device_kind,
            "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 1),  # processes that ran, this one too
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "kernbridge": kb.__version__,
        },
        "options": {name: value for name, value in vars(a).items() if name != "json"},
        "results": [
            {"devices": n, "us_per_step": run.us_per_step, "us": run.us, "spikes": run.spikes.size}
            for n, run in runs.items()
        ],
    }


def main(argv: Sequence[str] | None = None) -> int:
    a = parse(argv)
    if a.platform == "cpu":
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", max(a.devices))
    devices = jax.devices(a.platform)
    if len(devices) < max(a.devices):
        print(f"There are {len(devices)} devices of this platform: {devices}", file=sys.stderr)
        return 2
    start, targets = draw(a.neurons, a.seed)
    unroll = min(10, a.chunk) if a.platform == "gpu" else 1  # longer bodies become CUDA graphs
    print(f"{a.neurons:,} neurons, {targets.size:,} synapses, {a.steps:,} steps of 0.1 ms")
    runs: dict[int, Run] = {}
    for n in a.devices:
        runs[n] = run = simulate(start, targets, devices[:n], a.steps, a.chunk, unroll)
        first = next(iter(runs.values()))
        print(
            f"{n} {devices[0].device_kind} device{'s' * (n > 1)}: {run.us_per_step:,.1f} us a step,"
            f" {first.us_per_step / run.us_per_step:.2f} x; {run.spikes.size:,} spikes"
        )
    if a.json:
        a.json.write_text(json.dumps(figures(a, devices, runs), indent=1) + "\n")
    different = [n for n, run in runs.items() if not np.array_equal(run.spikes, first.spikes)]
    if different:
        print(f"Mismatch: the spikes of {different} devices differ from those of {a.devices[0]}")
        return 1
    print(f"Exact: {first.spikes.size:,} spikes are the same on {a.devices} devices")
    return 0


if __name__ == "__main__":
    sys.exit(main())
