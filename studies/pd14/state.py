"""The arrays that the steps of all plans work on."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from . import draws, network, neuron, philox
from . import parameters as p


class State(NamedTuple):
    """What a step changes, in place. The axes of parts and of the log are split among devices."""

    clock: Any  # int32 (parts,), the next step
    v: Any  # float32 (parts, width), mV above the leak's potential
    current: Any  # float32 (parts, width), pA
    wait: Any  # int32 (parts, width), steps of the refractory period that are left
    ring: Any  # int32 (parts, SLOTS * width), what arrives in which step, in units
    total: Any  # int32 (parts, width), the spikes of each neuron
    log: Any  # uint32 (devices * room,), step and neuron of spikes, in any order
    logged: Any  # int32 (devices,)
    crowded: Any  # int32 (devices,), the most spikes of a step that the list had no room for


class Given(NamedTuple):
    """What a step reads. Parts, records and synapses are split among devices."""

    part: Any  # int32 (parts,), the number of each
    population: Any  # uint8 (parts, width)
    records: Any
    synapses: Any
    rises: Any  # float32 (8,)
    poisson: Any  # uint32 (8, POISSON_LIMIT)
    seed: Any  # uint32 (1,)


def start(model: p.Model, net: network.Network, seed: int, devices: int, room: int) -> State:
    """Draw the initial potentials."""
    rng = np.random.Generator(np.random.Philox(key=seed | philox.START << 64))
    population = model.population_of(np.arange(model.neurons))
    drawn = rng.normal(p.START_MEAN[population], p.START_DEVIATION[population]) - p.E_LEAK
    shape = (net.parts, net.width)
    v = np.zeros((net.width, net.parts), np.float32)
    v.reshape(-1)[: model.neurons] = drawn
    zeros = (np.zeros(shape, t) for t in (np.float32, np.int32, np.int32))
    current, wait, total = zeros
    ring = np.zeros((net.parts, p.SLOTS * net.width), np.int32)
    log, logged = np.zeros(devices * room, np.uint32), np.zeros(devices, np.int32)
    clock = np.zeros(net.parts, np.int32)
    v = np.ascontiguousarray(v.T)
    return State(clock, v, current, wait, ring, total, log, logged, logged.copy())


def given(model: p.Model, net: network.Network, seed: int) -> Given:
    population = np.zeros((net.width, net.parts), np.uint8)
    population.reshape(-1)[: model.neurons] = model.population_of(np.arange(model.neurons))
    return Given(
        np.arange(net.parts, dtype=np.int32),
        np.ascontiguousarray(population.T),
        net.records,
        net.synapses,
        neuron.rises(model),
        draws.poisson_table(model.external_rates * p.DT),
        np.array([seed], np.uint32),
    )


def shapes(values: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), values)


def by_neuron(values: np.ndarray, neurons: int) -> np.ndarray:
    """Order an array (parts, width) by neuron."""
    return np.ascontiguousarray(np.asarray(values).T).reshape(-1)[:neurons]
