"""The network of examples/coba.py in pure JAX."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def models(c: Any, n_exc: int, net: Any, budget: int) -> dict[str, tuple[Any, Any]]:
    """Steps and their data, with three ways to sum what arrives at each neuron.

    `c` are the constants of the model. The event-driven form has room for `budget` spikes per step,
    and would lose any beyond it.
    """
    n = net.start.v.size
    weights = np.where(np.arange(n) < n_exc, c.w_exc, c.w_inh)
    dense = np.zeros((n, n), np.float32)
    dense[net.pre, net.indices] = weights[net.pre]

    def sum_dense(spiked: jax.Array, data: Any) -> tuple[jax.Array, jax.Array]:
        s = spiked.astype(jnp.float32)
        return s[:n_exc] @ data[0], s[n_exc:] @ data[1]

    # Sorted by target; the inhibitory targets lie n higher.
    target = np.where(net.pre < n_exc, net.indices, net.indices + np.int32(n))
    order = np.argsort(target, kind="stable")
    edges = (net.pre[order], target[order], weights[net.pre[order]])

    def sum_segments(spiked: jax.Array, data: Any) -> tuple[jax.Array, jax.Array]:
        pre, target, w = data
        both = jax.ops.segment_sum(spiked[pre] * w, target, 2 * n, indices_are_sorted=True)
        return both[:n], both[n:]

    # Rows of equal length, filled up with a target out of range.
    rows = np.full((n, int(np.diff(net.indptr).max())), 2 * n, np.int32)
    rows[net.pre, np.arange(net.pre.size) - net.indptr[net.pre]] = target

    def sum_events(spiked: jax.Array, data: Any) -> tuple[jax.Array, jax.Array]:
        rows, w = data
        hit, who = jax.lax.top_k(spiked.astype(jnp.float32), budget)  # faster than jnp.nonzero
        both = jnp.zeros(2 * n, jnp.float32).at[rows[who]].add((hit * w[who])[:, None], mode="drop")
        return both[:n], both[n:]

    def step(arriving: Callable[[jax.Array, Any], Any]) -> Callable[[Any, Any], Any]:
        def step(state: Any, data: Any) -> tuple[Any, jax.Array]:
            v, g_exc, g_inh, wait = state
            synaptic = g_exc * (c.e_exc - v) + g_inh * (c.e_inh - v)
            risen = v + c.dt_over_c * (c.g_leak * (c.e_leak - v) + synaptic + c.current)
            spiked = (wait == 0) & (risen > c.v_threshold)
            v = jnp.where((wait > 0) | spiked, c.v_reset, risen)
            wait = jnp.where(spiked, c.refractory, jnp.maximum(wait - 1, 0))
            exc, inh = arriving(spiked, data)
            g_exc, g_inh = g_exc * c.decay_exc + exc, g_inh * c.decay_inh + inh
            return type(state)(v, g_exc, g_inh, wait), spiked

        return step

    return {
        "JAX, dense": (step(sum_dense), (dense[:n_exc], dense[n_exc:])),
        "JAX, segment_sum": (step(sum_segments), edges),
        "JAX, event-driven": (step(sum_events), (rows, weights)),
    }
