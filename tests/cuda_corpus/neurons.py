"""Spiking neurons, synapses and plasticity."""

import math

import numba
import numpy as np
from numba import cuda

from .case import Cases

CASES = Cases()
F32, F64, I32 = np.float32, np.float64, np.int32
FMA = "fused multiply-add"


def _lif(v, left, current, decay):
    spikes = np.zeros((12, v.size), bool)
    v, left = v.copy(), left.copy()
    for step in range(12):
        v = np.where(left > 0, F32(-65), F32(-65) + decay * (v + F32(65)) + current)
        left = np.maximum(left - 1, 0)
        spikes[step] = v > -50
        left = np.where(spikes[step], 3, left)
        v = np.where(spikes[step], F32(-65), v)
    return v, left, spikes


@CASES.case(
    covers="thresholds and silence after a spike, several steps a launch, bool output",
    bug="floats compare the other way round",
    inputs=lambda rng: (
        rng.uniform(-65, -51, 203).astype(F32),
        rng.integers(-2, 4, 203).astype(I32),
        rng.uniform(0, 8, 203).astype(F32),
    ),
    outs=[((203,), F32), ((203,), I32), ((12, 203), bool)],
    launch_dims=203,
    scalars={"decay": F32(0.875)},
    reference=_lif,
    rtol=1e-5,
    why=FMA,
)
@cuda.jit
def lif_steps(v, left, current, v_out, left_out, spikes, decay):
    i = cuda.grid(1)
    if i >= v.size:
        return
    u = v[i]
    wait = left[i]
    for step in range(spikes.shape[0]):
        if wait > 0:
            u = np.float32(-65)
        else:
            u = np.float32(-65) + decay * (u + np.float32(65)) + current[i]
        wait = max(wait - 1, 0)
        fired = u > -50
        if fired:
            wait = 3
            u = np.float32(-65)
        spikes[step, i] = fired
    v_out[i] = u
    left_out[i] = wait


def _stdp(w, pre, post, before, after, rate):
    traces = before * F32(0.9) + pre, after * F32(0.8) + post
    change = rate * (np.outer(traces[0], post) - F32(1.05) * np.outer(pre, traces[1]))
    return np.clip(w + change, 0, 1), *traces


@CASES.case(
    covers="plasticity of pairs by spikes as bools, a thread for each synapse, clipped in place",
    bug="loaded bytes are zero",
    inputs=lambda rng: (
        rng.random((33, 27)).astype(F32),
        rng.random(33) < 0.3,
        rng.random(27) < 0.3,
        rng.random(33).astype(F32),
        rng.random(27).astype(F32),
    ),
    outs=[((33, 27), F32), ((33,), F32), ((27,), F32)],
    grid=(4, 3),
    block=(8, 12),
    scalars={"rate": F32(0.25)},
    aliases={0: 0},
    reference=_stdp,
    rtol=1e-5,
    atol=1e-6,
    why=FMA,
)
@cuda.jit
def stdp_pairs(w, pre, post, before, after, w_out, before_out, after_out, rate):
    j, i = cuda.grid(2)
    if i >= pre.size or j >= post.size:
        return
    x = before[i] * np.float32(0.9)
    y = after[j] * np.float32(0.8)
    if pre[i]:
        x += np.float32(1)
    if post[j]:
        y += np.float32(1)
    change = np.float32(0)
    if post[j]:
        change += x
    if pre[i]:
        change -= np.float32(1.05) * y
    w_out[i, j] = min(max(w[i, j] + rate * change, np.float32(0)), np.float32(1))
    if j == 0:
        before_out[i] = x
    if i == 0:
        after_out[j] = y


def _network(rng):
    lengths = rng.integers(0, 40, 90)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(I32)
    target = rng.integers(0, 64, start[-1]).astype(I32)
    weight = rng.integers(-8, 9, start[-1]).astype(F64)
    return rng.random(90) < 0.25, start, target, weight


def _delivered(spike, start, target, weight):
    current = np.zeros(64)
    fired = np.repeat(spike, np.diff(start))
    np.add.at(current, target[fired], weight[fired])
    return current, fired.sum()


@CASES.case(
    covers="events: a block for each neuron, its synapses scattered if it fired (atomics)",
    bug="an atomic add adds zero",
    inputs=_network,
    outs=[((64,), F64), ((1,), np.uint64)],
    grid=90,
    block=20,
    zero_outputs=True,
    reference=_delivered,
)
@cuda.jit
def deliver_spikes(spike, start, target, weight, current, events):
    neuron = cuda.blockIdx.x
    if spike[neuron]:
        for k in range(start[neuron] + cuda.threadIdx.x, start[neuron + 1], cuda.blockDim.x):
            cuda.atomic.add(current, target[k], weight[k])
            cuda.atomic.add(events, 0, np.uint64(1))


def _gates(v, gate):
    v, gate = v.astype(F64), gate.astype(F64)
    s = (v + 40) / 10
    rate = np.stack([s / (1 - np.exp(-s)), 0.07 * np.exp(-(v + 65) / 20),
                     0.1 * (v + 55.5) / 10 / (1 - np.exp(-(v + 55.5) / 10))])  # fmt: skip
    back = np.stack([4 * np.exp(-(v + 65) / 18), 1 / (1 + np.exp(-(v + 35) / 10)),
                     0.125 * np.exp(-(v + 65) / 80)])  # fmt: skip
    steady = rate / (rate + back)
    return steady + (gate - steady) * np.exp(-0.025 * (rate + back))


@cuda.jit(device=True)
def vtrap(x):
    """x / (1 - exp(-x)), and its limit at zero."""
    if abs(x) < np.float32(1e-4):
        return np.float32(1) + x * np.float32(0.5)
    return x / (np.float32(1) - math.exp(-x))


@CASES.case(
    covers="gates of Hodgkin and Huxley: exponentials and a branch in a device function",
    bug="exp is cosh",
    inputs=lambda rng: (
        np.append(rng.uniform(-90, 30, 150), -40.0).astype(F32),
        rng.random((3, 151)).astype(F32),
    ),
    outs=[((3, 151), F32)],
    grid=(5, 1, 1),
    block=(32, 1, 1),
    reference=lambda v, gate: _gates(np.where(v == -40, v + F32(1e-3), v), gate),
    rtol=2e-5,
    atol=2e-6,
    why="libm against libdevice, and fused multiply-add",
)
@cuda.jit
def gate_steps(v, gate, out):
    i = cuda.grid(1)
    if i >= v.size:
        return
    u = v[i]
    for k in range(3):
        if k == 0:
            rate = vtrap((u + np.float32(40)) / np.float32(10))
            back = np.float32(4) * math.exp(-(u + np.float32(65)) / np.float32(18))
        elif k == 1:
            rate = np.float32(0.07) * math.exp(-(u + np.float32(65)) / np.float32(20))
            back = np.float32(1) / (1 + math.exp(-(u + np.float32(35)) / np.float32(10)))
        else:
            rate = np.float32(0.1) * vtrap((u + np.float32(55.5)) / np.float32(10))
            back = np.float32(0.125) * math.exp(-(u + np.float32(65)) / np.float32(80))
        steady = rate / (rate + back)
        out[k, i] = steady + (gate[k, i] - steady) * math.exp(-np.float32(0.025) * (rate + back))


def _delayed(spikes, delay, gain):
    rows, columns = spikes.shape
    out = np.zeros((rows, columns), I32)
    for t in range(rows):
        for i in range(columns):
            for back in range(delay.shape[1]):
                then = t - int(delay[i, back])
                source = (i + 7 * back) % columns
                if then >= 0:
                    out[t, i] += gain[back] * spikes[then, source]
    return out


@CASES.case(
    covers="delays through a ring of past steps in shared memory, one barrier a step",
    bug="the first barrier does nothing",
    inputs=lambda rng: (
        rng.integers(0, 2, (25, 46)).astype(np.int8),
        rng.integers(0, 6, (46, 3)).astype(np.uint8),
        np.array([3, -5, 11], np.int16),
    ),
    outs=[((25, 46), I32)],
    grid=1,
    block=46,
    reference=_delayed,
)
@cuda.jit
def delay_ring(spikes, delay, gain, out):
    ring = cuda.shared.array((12, 46), numba.int8)
    i = cuda.threadIdx.x
    for k in range(12):
        ring[k, i] = 0
    for t in range(spikes.shape[0]):
        ring[t % 12, i] = spikes[t, i]
        cuda.syncthreads()
        total = 0
        for back in range(3):
            source = (i + 7 * back) % 46
            total += gain[back] * ring[(t - np.int64(delay[i, back])) % 12, source]
        out[t, i] = total
