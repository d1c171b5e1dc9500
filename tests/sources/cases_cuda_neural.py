"""CUDA: simulation of brains."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from corpus import F32, F64, I16, I32, I64, U8, call, case


def network(weight, index, offset, rows=37, columns=29, nnz=500):
    """Rows of uneven length, some of them long, some empty."""

    def make(rng):
        chances = rng.random(rows) ** 3
        chances[::9] = 0
        degree = rng.multinomial(nnz, chances / chances.sum())
        indptr = np.concatenate([[0], np.cumsum(degree)]).astype(offset)
        w = rng.normal(size=nnz).astype(weight)
        return (
            w,
            rng.integers(0, columns, nnz).astype(index),
            indptr,
            rng.normal(size=columns).astype(weight),
        )

    return make


def spmv(w, indices, indptr, x):
    a = sp.csr_matrix((w.astype(F64), indices, indptr), (37, 29))
    return (a @ x.astype(F64)).astype(w.dtype)


def tolerance(dtype):
    return 1e-4 if dtype is F32 else 1e-10


case(
    "csr_spmv",
    "cuda",
    "csr dispatch-index-pair csr-indptr nested-dispatch warp-shuffle shared-header check-csr-int32",
    [
        *(
            call("spmv_row", network(w, i, p), spmv, rtol=tolerance(w))
            for w, i, p in ((F32, I32, I32), (F32, I64, I32), (F64, I32, I64), (F64, I64, I64))
        ),
        *(
            call("spmv_warp", network(w, I32, p), spmv, rtol=tolerance(w))
            for w, p in ((F32, I32), (F64, I64))
        ),
    ],
    (
        "for (int offset = WARP / 2; offset > 0; offset /= 2)\n        value = op",
        "for (int offset = WARP / 2; offset > 1; offset /= 2)\n        value = op",
        "in the header: the last step of a warp's reduction",
    ),
    ("k += WARP)", "k += 2 * WARP)", "every other part of a long row"),
    (
        "P k = indptr[r]; k < indptr[r + 1]",
        "P k = indptr[r] + 1; k < indptr[r + 1]",
        "the first of a row",
    ),
    (
        "if (lane == 0)\n        y[r] = sum;",
        "if (lane == 0)\n        y[r] = sum + weights[r];",
        "what a warp writes",
    ),
)


def events(spike, one):
    def make(rng):
        _, indices, indptr, _ = network(F32, I32, I32)(rng)
        spikes = rng.integers(-1, 2, 37)
        spikes = spikes > 0 if spike is bool else spikes.astype(spike)
        weights = rng.integers(-16, 16, 1 if one else 500).astype(F32) / 8 + F32(1 / 16)
        before = rng.integers(-8, 8, 29).astype(F32)
        return spikes, weights, indices, indptr, before

    return make


def currents(accumulate):
    def reference(spikes, weights, indices, indptr, before):
        w = np.broadcast_to(weights, 500).astype(F64)
        a = sp.csr_matrix((w, indices, indptr), (37, 29))
        sums = a.T @ (spikes > 0)
        return (sums + (before if accumulate else 0)).astype(F32)

    return reference


case(
    "event_product",
    "cuda",
    "events float-atomics dispatch-all-types memset aliases homogeneous-weights bool-attribute",
    [
        call("event_currents", events(s, one), currents(a), aliases={4: 0}, accumulate=a, rtol=0)
        for s, one, a in (
            (bool, False, False),
            (F32, False, True),
            (I16, True, False),
            (F64, True, True),
        )
    ],
    ("return s > S(0);", "return s != S(0);", "negative numbers are events"),
    ("homogeneous ? weights[0] : weights[k]", "weights[0]", "every weight is the first"),
    ("k += blockDim.x)", "k += indptr[n_pre])", "synapses beyond the block"),
    ("if (!accumulate)", "if (false)", "sums do not begin with 0"),
)


def neurons(rng):
    n = 301
    return (
        rng.uniform(-70, -50, n).astype(F32),
        rng.integers(0, 3, n).astype(I32) * (rng.random(n) < 0.4),
        rng.uniform(0, 400, n).astype(F32),
    )


LIF = {
    "dt": 0.5,
    "tau": 10.0,
    "rest": -65.0,
    "reset": -71.0,
    "threshold": -49.0,
    "resistance": 1.5,
    "refractory": 4,
}


def lif(v, wait, current):
    target = LIF["rest"] + LIF["resistance"] * current.astype(F64)
    u = target + (v - target) * np.exp(-0.05)
    spike = (u >= LIF["threshold"]) & (wait == 0)
    v_next = np.where((wait > 0) | spike, LIF["reset"], u)
    wait_next = np.where(wait > 0, wait - 1, np.where(spike, LIF["refractory"], 0))
    return v_next.astype(F32), wait_next.astype(I32), spike


case(
    "lif_step",
    "cuda",
    "lif name-only cudaStream_t struct-parameter launch-bounds float32-attributes "
    "negative-defaults bool-output three-outputs",
    [call("lif_step", neurons, lif, **LIF, rtol=1e-5)],
    ("v_next[i] = fires ? p.reset : u;", "v_next[i] = u;", "no reset"),
    ("if (wait[i] > 0) {", "if (wait[i] > 1) {", "refractory one step less"),
    ("expf(-dt / tau)", "1.0f - dt / tau", "the integrator"),
    ("p.rest + p.resistance * current[i]", "p.rest + current[i]", "an attribute is ignored"),
    ("fires ? p.refractory : 0;", "fires ? 2 : 0;", "the default in place of an attribute"),
)

STDP = {"grow": 0.2, "shrink": 0.3, "most": 1.1, "decay_pre": 0.9, "decay_post": 0.7}


def synapses(rng):
    n, m = 45, 70
    spikes = rng.random(n) < 0.5, rng.random(m) < 0.4
    traces = rng.random(n).astype(F32), rng.random(m).astype(F32)
    return rng.random((n, m)).astype(F32), *traces, *spikes


def stdp(w, x, y, pre, post):
    w = w + 0.2 * x[:, None] * post[None] - 0.3 * y[None] * pre[:, None]
    new = w.clip(0, 1.1), x * 0.9 + pre, y * 0.7 + post
    return tuple(a.astype(F32) for a in new)


case(
    "stdp_inplace",
    "cuda",
    "stdp aliases several-launches 2d-grid tensor-references own-headers namespace-kernels",
    [call("stdp", synapses, stdp, aliases={0: 0, 1: 1, 2: 2}, **STDP, rtol=1e-5)],
    ("if (post[j])", "if (post[j] && !pre[i])", "neurons that spike together"),
    ("x -= shrink * trace_post[j]", "x -= shrink * trace_post[j] * trace_post[j]", "the shrinking"),
    ("fminf(fmaxf(x, 0.0f), most)", "fmaxf(x, 0.0f)", "the bound above"),
    (
        "pre.data_ptr<bool>(), n_pre, decay_pre);",
        "pre.data_ptr<bool>(), n_pre, decay_post);",
        "an attribute in place of another",
    ),
    ("(spike[i] ? 1.0f : 0.0f)", "(spike[i] ? 0.5f : 0.0f)", "what a spike adds to a trace"),
)


def ring(rng):
    slots, n, fan_out = 7, 50, 9
    return (
        rng.integers(-50, 50, (slots, n)).astype(I32),
        (rng.random(n) < 0.4).astype(U8),
        rng.integers(0, n, (n, fan_out)).astype(I32),
        rng.integers(0, slots, (n, fan_out)).astype(U8),
        rng.integers(-300, 300, (n, fan_out)).astype(I16),
    )


def exchange(step):
    def reference(ring, spikes, targets, delays, weights):
        slot = step % len(ring)
        to = (slot + delays.astype(int)) % len(ring)
        np.add.at(ring, (to, targets), weights.astype(I32) * (spikes[:, None] > 0))
        now = ring[slot].copy()
        ring[slot] = 0
        return ring, now

    return reference


case(
    "delay_ring",
    "cuda",
    "delays integer-atomics prototype-before-definition optional-alias launch-sync int64-attribute "
    "uint8 int16",
    [
        call("exchange", ring, exchange(5), aliases={0: 0}, step=5),
        call("exchange", ring, exchange(2**40 + 3), step=2**40 + 3),
    ],
    ("(slot + delays[k]) % slots", "(int)delays[k] % slots", "delays count from the first slot"),
    ("ring[slot * n + i] = 0;", "now[i] += 0;", "the slot is not cleared"),
    ("(int)(step % slots)", "(int)((int)step % slots)", "steps that an int does not hold"),
    (
        "ring + to * n + targets[k], int(weights[k])",
        "ring + to * n + targets[k], int(int8_t(weights[k]))",
        "weights are cut to 8 bits",
    ),
)
