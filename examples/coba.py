"""The COBA benchmark, a spiking network, with two Numba kernels inside one jitted lax.scan.

    python examples/coba.py --raster coba_raster.png
    python examples/coba.py --platform cuda
    python examples/coba.py --platform cuda --neurons 400000 --synapses 80 --no-compare

The network is benchmark 1 of [1], after [2]: 4,000 leaky integrate-and-fire neurons, of which 80 %
are excitatory, coupled at random by 2 % of all possible synapses with exponential conductances:

    C dV/dt = g_leak (E_leak - V) + g_exc (E_exc - V) + g_inh (E_inh - V) + I
    dg_exc/dt = -g_exc / tau_exc,   dg_inh/dt = -g_inh / tau_inh

V advances by Euler's method, as in the Brian script of [1], and g by its exact decay. A spike
reaches its targets one step later. In place of the 50 ms of random stimulation of [1], a constant
current keeps the network active, as in [3].

[1] Brette et al. 2007, J. Comput. Neurosci. 23:349-398, appendix on benchmarks; its scripts are
    ModelDB entry 83319
[2] Vogels & Abbott 2005, J. Neurosci. 25:10786-10795
[3] BrainPy's version of this benchmark, develop/benchmark/COBA/COBA_brian2.py in brainpy/BrainPy
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import drawing
import jax
import jax.numpy as jnp
import kernbridge as kb
import numba
import numpy as np
from coba_models import in_jax
from drawing import EXCITATORY, INHIBITORY
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

CHUNK = 500  # steps of one call of the jitted scan
SHORT_CHUNK = 25  # the same for the slow ones
FLAGS_MAX = 20_000_000  # bytes of recorded spikes of one call, in larger networks
SYNAPSES_MAX = 400_000_000


@dataclass(frozen=True)
class Params:
    """The model. Values without a mark are from [1]."""

    neurons: int = 4000
    exc_fraction: float = 0.8
    connectivity: float = 0.02  # probability of a synapse between two neurons
    dt: float = 0.1  # ms
    c_m: float = 200.0  # pF: 1 uF/cm2 on 20,000 um2
    g_leak: float = 10.0  # nS: 5e-5 S/cm2 on 20,000 um2, hence tau_m = c_m / g_leak = 20 ms
    e_leak: float = -60.0  # mV
    v_reset: float = -60.0  # mV
    v_threshold: float = -50.0  # mV
    t_refractory: float = 5.0  # ms
    e_exc: float = 0.0  # mV
    e_inh: float = -80.0  # mV
    tau_exc: float = 5.0  # ms
    tau_inh: float = 10.0  # ms
    w_exc: float = 6.0  # nS, the step of g_exc at a spike
    w_inh: float = 67.0  # nS, the step of g_inh at a spike
    drive: float = 20.0  # mV, the current I over g_leak [3]

    @property
    def n_exc(self) -> int:
        return round(self.neurons * self.exc_fraction)


def constants(p: Params) -> Any:
    """The numbers in float32, as a named tuple: Numba takes these as constants of a kernel."""
    values = asdict(p) | {"dt_over_c": p.dt / p.c_m, "current": p.drive * p.g_leak}
    values |= {"decay_exc": np.exp(-p.dt / p.tau_exc), "decay_inh": np.exp(-p.dt / p.tau_inh)}
    rounded: dict[str, Any] = {name: np.float32(value) for name, value in values.items()}
    rounded["refractory"] = np.int32(round(p.t_refractory / p.dt))  # steps
    return namedtuple("Constants", rounded)(**rounded)


class State(NamedTuple):
    v: Any  # float32 (neurons,), mV
    g_exc: Any  # float32 (neurons,), nS
    g_inh: Any  # float32 (neurons,), nS
    wait: Any  # int32 (neurons,), steps of the refractory period that are left


class Network(NamedTuple):
    """Synapses by presynaptic neuron: neuron i has indices[indptr[i]:indptr[i + 1]] as targets."""

    indptr: np.ndarray  # int32 (neurons + 1,)
    indices: np.ndarray  # int32 (synapses,), the postsynaptic neurons
    pre: np.ndarray  # int32 (synapses,), the presynaptic neurons
    start: State


class Model(NamedTuple):
    """`step(state, data)` gives the next state and who spikes; `data` are its constant arrays."""

    step: Callable[[State, Any], tuple[State, Any]]
    data: Any


class Run(NamedTuple):
    steps: int
    spikes: np.ndarray  # int64, ascending: step * neurons + neuron
    final: State
    us_per_step: float  # the median over the chunks of full length


def build_network(p: Params, seed: int) -> Network:
    """Draw the synapses and the initial state."""
    rng = np.random.default_rng(seed)
    pairs, mean = p.neurons**2, p.neurons**2 * p.connectivity
    # The gaps between the hits of independent trials are geometric: no need to draw every pair.
    hits = np.cumsum(rng.geometric(p.connectivity, int(mean + 10 * np.sqrt(mean) + 10))) - 1
    pre, post = np.divmod(hits[hits < pairs], p.neurons)
    pre, post = pre[pre != post].astype(np.int32), post[pre != post].astype(np.int32)
    indptr = np.searchsorted(pre, np.arange(p.neurons + 1)).astype(np.int32)
    v = rng.uniform(p.v_reset, p.v_threshold, p.neurons).astype(np.float32)
    g = np.zeros(p.neurons, np.float32)
    return Network(indptr, post, pre, State(v, g, g.copy(), np.zeros(p.neurons, np.int32)))


def kernel_model(p: Params, net: Network, cuda: bool = False) -> Model:
    """The network as two kernels that work in place: of Numba-CUDA, or of Numba for CPUs."""
    state = State(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in net.start))
    flags = jax.ShapeDtypeStruct((p.neurons,), jnp.bool_)
    if cuda:
        from coba_models import on_gpu

        update, deliver = on_gpu.operations(constants(p), p.n_exc, state, flags)
    else:
        update, deliver = cpu_operations(constants(p), p.n_exc, state, flags)

    def step(state: State, data: Any) -> tuple[State, jax.Array]:
        state, spiked = update(*state)
        g_exc, g_inh = deliver(spiked, *data, state.g_exc, state.g_inh)
        return state._replace(g_exc=g_exc, g_inh=g_inh), spiked

    return Model(step, (net.indptr, net.indices))


def cpu_operations(c: Any, n_exc: int, state: State, flags: Any) -> tuple[Any, Any]:
    """The update of all neurons, and the delivery of their spikes, as Numba kernels."""

    # An argument with an underscore is an input in the same memory as the output of that name.
    @numba.njit
    def neurons(_v, _g_exc, _g_inh, _wait, v, g_exc, g_inh, wait, spiked):
        for i in range(v.size):
            leak = c.g_leak * (c.e_leak - v[i])
            synaptic = g_exc[i] * (c.e_exc - v[i]) + g_inh[i] * (c.e_inh - v[i])
            risen = v[i] + c.dt_over_c * (leak + synaptic + c.current)
            rests = wait[i] > 0
            fires = (risen > c.v_threshold) & (not rests)
            v[i] = c.v_reset if rests | fires else risen
            wait[i] = c.refractory if fires else wait[i] - np.int32(rests)
            spiked[i] = fires
            g_exc[i] *= c.decay_exc
            g_inh[i] *= c.decay_inh

    @numba.njit
    def deliver(i, indptr, indices, g_exc, g_inh):
        for k in range(indptr[i], indptr[i + 1]):
            if i < n_exc:
                g_exc[indices[k]] += c.w_exc
            else:
                g_inh[indices[k]] += c.w_inh

    @numba.njit
    def synapses(spiked, indptr, indices, _g_exc, _g_inh, g_exc, g_inh):
        eights = spiked[: spiked.size // 8 * 8].view(np.uint64)  # few neurons spike in a step
        for k in range(eights.size):
            if eights[k]:
                for i in range(8 * k, 8 * k + 8):
                    if spiked[i]:
                        deliver(i, indptr, indices, g_exc, g_inh)
        for i in range(8 * eights.size, spiked.size):
            if spiked[i]:
                deliver(i, indptr, indices, g_exc, g_inh)

    aliases = {0: 0, 1: 1, 2: 2, 3: 3}
    update = kb.numba_kernel(neurons, (state, flags), input_output_aliases=aliases)
    return update, kb.numba_kernel(synapses, state[1:3], input_output_aliases={3: 0, 4: 1})


def simulate(model: Model, start: State, steps: int, chunk: int, bar: Progress, name: str) -> Run:
    """Run the model, in one call of a jitted scan per chunk; only these calls are timed."""

    # On a GPU, one turn of ten steps makes one CUDA graph of their kernels (docs/loops.md).
    unroll = 10 if jax.default_backend() == "gpu" else 1

    def scan(state: State, data: Any, length: int) -> Any:
        return jax.lax.scan(lambda s, _: model.step(s, data), state, length=length, unroll=unroll)

    task = bar.add_task(name, total=steps)
    state, data = jax.device_put((start, model.data))
    lengths = [chunk] * (steps // chunk) + [steps % chunk] * (steps % chunk > 0)
    jitted = jax.jit(scan, static_argnums=2)
    compiled = {k: jitted.lower(state, data, k).compile() for k in set(lengths)}
    spikes, us = [], []
    for i, length in enumerate(lengths):
        begin = time.perf_counter()
        state, flags = jax.block_until_ready(compiled[length](state, data))
        us.append((time.perf_counter() - begin) / length * 1e6)
        spikes.append(np.flatnonzero(np.asarray(flags)) + i * chunk * start.v.size)
        bar.advance(task, length)
    final = State(*map(np.asarray, state))
    return Run(steps, np.concatenate(spikes), final, float(np.median(us[: steps // chunk or 1])))


def reference(p: Params, net: Network, steps: int, bar: Progress) -> tuple[np.ndarray, State]:
    """The spikes and the final state by NumPy alone.

    Neither NumPy nor Numba without fastmath fuses, reorders or widens float32 operations, and the
    weights that meet in one sum are all equal: the same formulas must give the same bits.
    """
    c = constants(p)
    targets = np.split(net.indices, np.cumsum(np.bincount(net.pre, minlength=p.neurons))[:-1])
    v, g_exc, g_inh, wait = (x.copy() for x in net.start)
    spikes = []
    for k in bar.track(range(steps), description="NumPy reference"):
        current = c.g_leak * (c.e_leak - v) + (g_exc * (c.e_exc - v) + g_inh * (c.e_inh - v))
        v = np.where(wait > 0, c.v_reset, v + c.dt_over_c * (current + c.current))
        fired = np.flatnonzero(v > c.v_threshold)
        v[fired] = c.v_reset
        wait = np.maximum(wait - np.int32(1), np.int32(0))
        wait[fired] = c.refractory
        g_exc *= c.decay_exc
        g_inh *= c.decay_inh
        for i in fired:
            g, w = (g_exc, c.w_exc) if i < p.n_exc else (g_inh, c.w_inh)
            g[targets[i]] += w
        spikes.append(fired + k * p.neurons)
    return np.concatenate(spikes), State(v, g_exc, g_inh, wait)


def check_exact(run: Run, spikes: np.ndarray, final: State, neurons: int) -> list[str]:
    """What differs from the reference, in words."""
    faults = []
    different = np.setxor1d(run.spikes, spikes, assume_unique=True)
    if different.size:
        step = different[0] // neurons
        ours, theirs = ((s[s // neurons == step] % neurons).tolist() for s in (run.spikes, spikes))
        faults.append(f"in step {step} the kernels have spikes of {ours}, NumPy has {theirs}")
    for name, a, b in zip(State._fields, run.final, final, strict=True):
        if a.tobytes() != b.tobytes():
            faults.append(f"the final {name} differs in {np.count_nonzero(a != b)} neurons")
    return faults


def compare(p: Params, net: Network, kernels: Run, bar: Progress) -> dict[str, Run]:
    """Run pure JAX for 20 calls. Its event-driven form gets the most spikes of any step."""
    budget = max(1, int(np.bincount(kernels.spikes // p.neurons, minlength=1).max()))
    runs = {}
    for name, (step, data) in in_jax.models(constants(p), p.n_exc, net, budget).items():
        chunk = CHUNK if name == "JAX, event-driven" else SHORT_CHUNK
        steps = min(kernels.steps, 20 * chunk)
        runs[name] = simulate(Model(step, data), net.start, steps, chunk, bar, name)
    return runs


def check_loosely(p: Params, kernels: Run, others: dict[str, Run]) -> list[str]:
    """Compare counts only: XLA may fuse float32 operations, and the network is chaotic."""
    faults = []
    for name, run in others.items():
        ours = np.count_nonzero(kernels.spikes < run.steps * p.neurons)
        if abs(run.spikes.size - ours) > 10 + 0.1 * ours:
            faults.append(f"{name}: {run.spikes.size} spikes in {run.steps} steps, not {ours}")
    return faults


@drawing.in_our_look
def draw_raster(p: Params, run: Run, path: Path) -> list[Path]:
    """The spikes of a part of the neurons, and the rates of both populations, as PNG and PDF."""
    step, neuron = np.divmod(run.spikes, p.neurons)
    ms, every = run.steps * p.dt, max(1, p.neurons // 400)
    bins = max(2, round(ms / 5))
    edges = np.linspace(0, ms, bins + 1)
    kinds = (("excitatory", 0, p.n_exc), ("inhibitory", p.n_exc, p.neurons))
    figure = drawing.figure(7, 4.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.2))
    highest = volley = 0.0  # Hz
    for (name, low, high), color in zip(kinds, (EXCITATORY, INHIBITORY), strict=True):
        mine = (neuron >= low) & (neuron < high)
        shown = mine & (neuron % every == 0)
        top.plot(
            step[shown] * p.dt, neuron[shown], ".", ms=2.4, mew=0, color=color, rasterized=True
        )
        count, _ = np.histogram(step[mine] * p.dt, edges)
        rate = count / ((high - low) * np.diff(edges) / 1000)
        highest, volley = max(highest, *rate[1:]), max(volley, rate[0])  # at the start
        bottom.stairs(rate, edges, baseline=None, color=color, label=name, lw=1)
        top.text(
            1.01, (low + high) / 2 / p.neurons, f"{name}\n{high - low:,}", color=color, va="center",
            transform=top.transAxes,
        )  # fmt: skip
    part = f"one in {every} of the" if every > 1 else "all"
    drawing.title(top, "A", f"Spikes of {part} {p.neurons:,} neurons")
    drawing.title(bottom, "B", f"Mean rate of a neuron, in bins of {ms / bins:.3g} ms")
    top.set(ylabel="neuron", ylim=(0, p.neurons), yticks=(0, p.n_exc, p.neurons))
    top.yaxis.set_major_formatter("{x:,.0f}")
    bottom.set(xlabel="time (ms)", ylabel="rate (Hz)", xlim=(0, ms), ylim=(0, 1.2 * highest or 1))
    bottom.xaxis.set_major_formatter("{x:,.0f}")
    if volley > 1.2 * highest:
        bottom.text(
            edges[1] + ms / 200, 1.1 * highest, f"first bin: up to {volley:.0f} Hz", fontsize=8
        )
    bottom.legend(ncols=2, loc="lower right", borderaxespad=0.2)
    return drawing.save(figure, path)


def report(p: Params, net: Network, kernels: Run, others: dict[str, Run], out: Console) -> None:
    seconds, total = kernels.steps * p.dt / 1000, kernels.spikes.size
    exc = np.count_nonzero(kernels.spikes % p.neurons < p.n_exc)
    rates = (exc / p.n_exc, (total - exc) / (p.neurons - p.n_exc), total / p.neurons)
    out.print(f"Network: {p.neurons:,} neurons, {net.pre.size:,} synapses")
    out.print(f"Simulated: {seconds:g} s in {kernels.steps:,} steps of {p.dt} ms, {total:,} spikes")
    hz = "Mean rates: {:.2f} Hz excitatory, {:.2f} Hz inhibitory, {:.2f} Hz all"
    out.print(hz.format(*np.divide(rates, seconds)))

    table = Table("in one jitted lax.scan")
    for name in ("steps", "µs per step", "× real time", "time ratio"):
        table.add_column(name, justify="right")
    for name, run in {"Numba kernels": kernels, **others}.items():
        us, ratio = run.us_per_step, run.us_per_step / kernels.us_per_step
        table.add_row(
            name, f"{run.steps:,}", f"{us:,.1f}", f"{p.dt * 1000 / us:.3f}", f"{ratio:.1f}"
        )
    out.print(table)
    out.print("Medians over the calls. Not timed: building, compiling, recording the spikes.")
    if others:
        name = min(others, key=lambda name: others[name].us_per_step)
        ratio = others[name].us_per_step / kernels.us_per_step
        out.print(f"The fastest in pure JAX ({name}) takes {ratio:.1f} times as long per step.")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The COBA network with Numba kernels in JAX.")
    parser.add_argument("--neurons", type=int, default=4000, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="of biological time; default: 1")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--raster", type=Path, default=Path("coba_raster.png"), help="a PNG file; a PDF, too"
    )
    parser.add_argument("--no-compare", action="store_true", help="leave out pure JAX")
    parser.add_argument("--synapses", type=float, help="of a neuron in the mean; default: 2 %%")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    a = parser.parse_args(argv)
    largest = 1_000_000 if a.no_compare else 10_000  # dense weights take 4 n**2 bytes
    if not 50 <= a.neurons <= largest:
        limits = "50 to 10000, or to 1000000 with --no-compare"
        parser.error(f"--neurons is {a.neurons}, expected {limits}")
    a.synapses = a.neurons * Params.connectivity if a.synapses is None else a.synapses
    most = min(a.neurons, SYNAPSES_MAX / a.neurons)
    if not 1 <= a.synapses < most:
        parser.error(f"--synapses is {a.synapses:g}, expected 1 to {most:g} of each neuron")
    if not 0.001 <= a.seconds <= 100:
        parser.error(f"--seconds is {a.seconds}, expected 0.001 to 100")
    if a.seed < 0:
        parser.error(f"--seed is {a.seed}, expected 0 or more")
    if a.raster.suffix.lower() != ".png" or not a.raster.parent.is_dir():
        parser.error(f"--raster is {a.raster}, expected a name in .png in a directory that exists")
    return a


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    jax.config.update("jax_platforms", args.platform)
    p = Params(neurons=args.neurons, connectivity=args.synapses / args.neurons)
    net = build_network(p, args.seed)
    steps = round(args.seconds * 1000 / p.dt)
    out, err = Console(highlight=False, soft_wrap=True), Console(stderr=True, highlight=False)
    with Progress(console=err) as bar:
        model = kernel_model(p, net, cuda=args.platform == "cuda")
        chunk = max(10, min(CHUNK, FLAGS_MAX // p.neurons))
        kernels = simulate(model, net.start, steps, chunk, bar, "Numba kernels")
        spikes, final = reference(p, net, steps, bar)
        others = {} if args.no_compare else compare(p, net, kernels, bar)
    report(p, net, kernels, others, out)
    out.print("Raster:", *draw_raster(p, kernels, args.raster))
    faults = check_exact(kernels, spikes, final, p.neurons) + check_loosely(p, kernels, others)
    for fault in faults:
        err.print(f"Mismatch: {fault}", style="red", markup=False)
    if not faults:
        loose = "; spike counts of pure JAX within 10 %" if others else ""
        out.print(f"Exact: {spikes.size:,} spikes in {steps:,} steps equal plain NumPy's{loose}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
