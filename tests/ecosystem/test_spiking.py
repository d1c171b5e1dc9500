"""A recurrent network of spiking neurons, 200 steps, trained by surrogate gradients with remat.

A kernel delivers spikes by events: it visits the synapses of neurons that spike. A surrogate
gradient also has to reach neurons that are silent, so the kernel has a rule of its own.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from references import assert_close

NEURONS, FAN_OUT, STEPS, TARGET = 60, 8, 200, 0.05
RNG = np.random.default_rng(0)
TARGETS = RNG.integers(0, NEURONS, (NEURONS, FAN_OUT)).astype(np.int32)
CURRENT = RNG.uniform(0.0, 0.35, (STEPS, NEURONS))


@numba.njit
def deliver_events(weights, targets, spikes, out):
    out[:] = 0
    for i in range(spikes.size):
        if spikes[i] != 0:
            for k in range(targets.shape[1]):
                out[targets[i, k]] += weights[i, k] * spikes[i]


@numba.njit
def gather_cotangents(weights, targets, spikes, ct, of_weights, of_spikes):
    for i in range(spikes.size):
        of_spikes[i] = 0
        for k in range(targets.shape[1]):
            of_weights[i, k] = spikes[i] * ct[targets[i, k]]
            of_spikes[i] += weights[i, k] * ct[targets[i, k]]


pull = kernbridge.numba_kernel(
    gather_cotangents, lambda weights, targets, spikes, ct: (weights, spikes), derivatives="enzyme"
)


def cotangents(ct, *, weights, targets, spikes):
    return dict(zip(("weights", "spikes"), pull(weights, targets, spikes, ct), strict=True))


def tangents(dots, *, weights, targets, spikes):
    """The product is linear in the weights and in the spikes."""

    def push(weights, spikes):
        return jnp.zeros(spikes.shape).at[targets].add(weights * spikes[:, None])

    return push(dots["weights"], spikes) + push(weights, dots["spikes"])


deliver = kernbridge.numba_kernel(
    deliver_events,
    signature="weights: f64[n, k], targets: i32[n, k], spikes: f64[n] -> f64[n]",
    vjp=cotangents,
    jvp=tangents,
)


def deliver_in_jax(weights, targets, spikes):
    return jnp.zeros(spikes.shape).at[targets].add(weights * spikes[:, None])


@jax.custom_jvp
def spike(u):
    return (u > 0).astype(u.dtype)


@spike.defjvp
def _(primals, tangents):
    return spike(*primals), tangents[0] / (1 + 5 * jnp.abs(primals[0])) ** 2


class Parameters(NamedTuple):
    weights: jax.Array
    threshold: jax.Array


PARAMETERS = Parameters(RNG.normal(0.1, 0.3, (NEURONS, FAN_OUT)), np.ones(NEURONS))


def loss(parameters, deliver, wrap=lambda step: step, current=CURRENT):
    """How far the mean rate of each neuron is from the target."""

    @wrap
    def step(state, current):
        v, s = state
        v = 0.9 * v * (1 - s) + current + deliver(parameters.weights, TARGETS, s)
        s = spike(v - parameters.threshold)
        return (v, s), s

    start = jnp.zeros(NEURONS), jnp.zeros(NEURONS)
    rates = jnp.mean(jax.lax.scan(step, start, current)[1], 0)
    return jnp.mean((rates - TARGET) ** 2)


WRAPS = {
    "stored": lambda step: step,
    "remat": jax.checkpoint,
    "results of kernels stored": functools.partial(
        jax.checkpoint, policy=lambda primitive, *_, **__: "kernbridge" in str(primitive)
    ),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_surrogate_gradients(wrap):
    found, expected = (
        jax.jit(jax.value_and_grad(lambda p, f=f: loss(p, f, wrap)))(PARAMETERS)
        for f in (deliver, deliver_in_jax)
    )
    assert_close(found, expected, rtol=1e-8)
    assert np.all(np.asarray(found[1].threshold) != 0)  # also of silent neurons


def test_forward_mode_and_second_derivatives():
    direction = jax.tree.map(jnp.ones_like, PARAMETERS)

    def both(f):
        gradient = jax.grad(lambda p: loss(p, f))
        tangent = jax.jvp(lambda p: loss(p, f), (PARAMETERS,), (direction,))
        return tangent, jax.jvp(gradient, (PARAMETERS,), (direction,))[1]

    found, expected = (jax.jit(lambda f=f: both(f))() for f in (deliver, deliver_in_jax))
    assert_close(found, expected, rtol=1e-7)


def test_an_ensemble_of_parameters_and_of_examples():
    scales = jnp.linspace(0.5, 1.5, 10)

    def of_scale(scale, f):
        return jax.grad(lambda p: loss(p._replace(weights=scale * p.weights), f))(PARAMETERS)

    def of_example(current, f):
        return jax.grad(lambda p: loss(p, f, current=current))(PARAMETERS)

    currents = np.stack([CURRENT, 0.8 * CURRENT, 1.2 * CURRENT])
    for one, many in (of_scale, scales), (of_example, currents):
        found, expected = (
            jax.jit(jax.vmap(functools.partial(one, f=f)))(many) for f in (deliver, deliver_in_jax)
        )
        assert_close(found, expected, rtol=1e-8)


def test_training():
    optax = pytest.importorskip("optax")
    optimizer = optax.adam(0.02)

    def trained(f):
        @jax.jit
        def step(p, state):
            value, gradient = jax.value_and_grad(lambda p: loss(p, f, jax.checkpoint))(p)
            updates, state = optimizer.update(gradient, state)
            return optax.apply_updates(p, updates), state, value

        p, state, losses = PARAMETERS, optimizer.init(PARAMETERS), []
        for _ in range(30):
            p, state, value = step(p, state)
            losses.append(float(value))
        return losses

    losses, expected = trained(deliver), trained(deliver_in_jax)
    assert losses[-1] < losses[0] / 2
    assert_close(losses[:3], expected[:3], rtol=1e-6)  # later, a spike may move to another step


def test_the_rules():
    """The product is differentiable, so its rules are compared with differences."""
    spikes = RNG.uniform(0.5, 1.0, NEURONS)
    kernbridge.check_rules(deliver, PARAMETERS.weights, TARGETS, spikes)
