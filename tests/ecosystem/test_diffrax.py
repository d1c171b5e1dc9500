"""Differential equations in Diffrax, with kernels as vector fields and conditions of events."""

import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import pytest
from references import assert_close, assert_differences

diffrax = pytest.importorskip("diffrax")
lineax = pytest.importorskip("lineax")
optimistix = pytest.importorskip("optimistix")


@kernbridge.kernel("y: f64[n], mu: f64 -> f64[n]", derivatives="enzyme")
@numba.njit
def oscillators(y, mu, out):
    """A ring of oscillators of van der Pol: positions first, then velocities."""
    half = y.size // 2
    for i in range(half):
        x, v = y[i], y[half + i]
        out[i] = v
        out[half + i] = mu * (1 - x * x) * v - x + 0.1 * (y[(i + 1) % half] - x)


def oscillators_in_jax(y, mu):
    x, v = jnp.split(y, 2)
    return jnp.concatenate([v, mu * (1 - x**2) * v - x + 0.1 * (jnp.roll(x, -1) - x)])


@kernbridge.kernel("v: f64[2], stimulus: f64 -> f64[2]", derivatives="enzyme")
@numba.njit
def fitzhugh_nagumo(v, stimulus, out):
    out[0] = v[0] - v[0] ** 3 / 3 - v[1] + stimulus
    out[1] = 0.08 * (v[0] + 0.7 - 0.8 * v[1])


def fitzhugh_nagumo_in_jax(v, stimulus):
    return jnp.array([v[0] - v[0] ** 3 / 3 - v[1] + stimulus, 0.08 * (v[0] + 0.7 - 0.8 * v[1])])


@kernbridge.kernel("v: f64[2] -> f64[]", derivatives="enzyme")
@numba.njit
def above_threshold(v, out):
    out[()] = v[0] - 1.0


RING = np.linspace(-2.0, 2.0, 6)


def energy(field, mu, start, solver, adjoint):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, mu: field(y, mu)),
        solver,
        *(0.0, 3.0, 0.01, start, mu),
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.5, 3.0, 6)),
        stepsize_controller=diffrax.PIDController(rtol=1e-7, atol=1e-9),
        adjoint=adjoint,
    )
    return jnp.sum(solution.ys**2)


@pytest.mark.parametrize(
    ("solver", "adjoint"),
    [
        ("Tsit5", "RecursiveCheckpointAdjoint"),
        ("Tsit5", "DirectAdjoint"),
        ("Kvaerno5", "RecursiveCheckpointAdjoint"),
    ],
)
def test_gradients_through_the_steps(solver, adjoint):
    solver, adjoint = getattr(diffrax, solver)(), getattr(diffrax, adjoint)()
    found, expected = (
        jax.jit(jax.value_and_grad(lambda mu, y, f=f: energy(f, mu, y, solver, adjoint), (0, 1)))(
            jnp.float64(1.5), RING
        )
        for f in (oscillators, oscillators_in_jax)
    )
    assert_close(found, expected, rtol=1e-6)  # the step size follows rounding, too
    loss = jax.jit(lambda mu: energy(oscillators, mu, RING, solver, adjoint))
    assert_differences(loss, found[1][0], jnp.float64(1.5))


def test_gradients_by_the_continuous_adjoint():
    found, expected = (
        jax.grad(lambda mu, f=f: energy(f, mu, RING, diffrax.Tsit5(), diffrax.BacksolveAdjoint()))(
            jnp.float64(1.5)
        )
        for f in (oscillators, oscillators_in_jax)
    )
    assert_close(found, expected, rtol=1e-4)


def test_forward_mode():
    found, expected = (
        jax.jvp(
            lambda mu, f=f: energy(f, mu, RING, diffrax.Tsit5(), diffrax.ForwardMode()),
            *((jnp.float64(1.5),), (jnp.float64(1.0),)),
        )
        for f in (oscillators, oscillators_in_jax)
    )
    assert_close(found, expected, rtol=1e-6)


def first_spike(stimulus, field, condition):
    """The time at which the voltage of a neuron crosses the threshold, by a root finder."""
    event = diffrax.Event(
        lambda t, y, args, **_: condition(y), optimistix.Newton(rtol=1e-9, atol=1e-9)
    )
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, v, stimulus: field(v, stimulus)),
        diffrax.Tsit5(),
        *(0.0, 50.0, 0.01, jnp.array([-1.0, 1.0]), stimulus),
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
        event=event,
    )
    return solution.ts[-1]


def test_the_time_of_an_event():
    def by_kernels(stimulus):
        return first_spike(stimulus, fitzhugh_nagumo, above_threshold)

    def by_jax(stimulus):
        return first_spike(stimulus, fitzhugh_nagumo_in_jax, lambda v: v[0] - 1.0)

    stimulus = jnp.float64(0.6)
    found, expected = (jax.jit(jax.value_and_grad(f))(stimulus) for f in (by_kernels, by_jax))
    assert 0 < found[0] < 50
    assert_close(found, expected, rtol=1e-5)
    assert_differences(jax.jit(by_kernels), found[1], stimulus, rtol=1e-3)


def test_many_neurons_at_once():
    stimuli = jnp.linspace(0.5, 0.9, 4)
    found = jax.vmap(lambda s: first_spike(s, fitzhugh_nagumo, above_threshold))(stimuli)
    alone = [first_spike(s, fitzhugh_nagumo, above_threshold) for s in stimuli]
    assert_close(found, jnp.stack(alone), rtol=1e-7)
    assert np.all(np.diff(found) < 0)  # the stronger the stimulus, the earlier the spike


def test_a_stochastic_equation():
    """The same path of Brownian motion for both; the noise is of a kernel, too."""

    @kernbridge.kernel("v: f64[2], scale: f64 -> f64[2]", derivatives="enzyme")
    @numba.njit
    def noise(v, scale, out):
        out[0] = scale * v[0] * v[0]
        out[1] = scale

    def noise_in_jax(v, scale):
        return jnp.array([scale * v[0] * v[0], scale])

    def loss(scale, field, noise):
        path = diffrax.VirtualBrownianTree(0.0, 10.0, 1e-3, (2,), jax.random.key(0))
        drift = diffrax.ODETerm(lambda t, v, scale: field(v, 0.5))
        diffusion = diffrax.ControlTerm(
            lambda t, v, scale: lineax.DiagonalLinearOperator(noise(v, scale)), path
        )
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(drift, diffusion),
            diffrax.Heun(),
            *(0.0, 10.0, 0.02, jnp.array([-1.0, 1.0]), scale),
            saveat=diffrax.SaveAt(ts=jnp.linspace(1.0, 10.0, 10)),
        )
        return jnp.sum(solution.ys**2)

    found, expected = (
        jax.jit(jax.value_and_grad(lambda s, f=f: loss(s, *f)))(jnp.float64(0.05))
        for f in ((fitzhugh_nagumo, noise), (fitzhugh_nagumo_in_jax, noise_in_jax))
    )
    assert_close(found, expected, rtol=1e-8)
