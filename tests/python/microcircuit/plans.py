"""What the tests of plans share; each of their programs imports it."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "studies"))
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import microcircuit as example
from pd14 import network, run

SEED = 5


def results(model, plan, steps, devices=1, chunk=100, **options):
    """Run a plan; returns its spikes and its final state."""
    net = network.build(model, SEED, 4, devices)
    on = jax.devices("cpu")[:devices]
    simulation = run.Simulation(model, net, SEED, plan, on, chunk=chunk, **options)
    spikes, _ = simulation.advance(steps)
    return spikes, simulation.values()


def differences(ours, theirs):
    """What differs between two results, in words."""
    return example.compare_spikes(ours[0], theirs[0]) + example.compare_states(ours[1], theirs[1])
