"""The conductances of a Hodgkin-Huxley neuron from a noisy recording, by derivatives of its kernel.

    python examples/fit_neuron.py [--milliseconds 25] [--picture fit_neuron.png]

One Numba kernel integrates the neuron's equations [1], 100 steps for a millisecond. Enzyme derives
its tangents and cotangents, so the least squares of Levenberg and Marquardt [2, 3] get their
Jacobian from `jax.jacfwd`. The gradient is compared with central differences, and the conductances
found with those that made the recording. Units: ms, mV, mS/cm^2, uA/cm^2, uF/cm^2.

Needs Enzyme; see docs/derivatives.md.

[1] Hodgkin & Huxley 1952, J. Physiol. 117:500-544, with the resting potential at -65 mV
[2] Levenberg 1944, Quart. Appl. Math. 2:164-168  [3] Marquardt 1963, J. SIAM 11:431-441
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import drawing
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np

NAMES = ("sodium", "potassium", "leak")
TRUE = np.array([120.0, 36.0, 0.3])
GUESS = TRUE * [0.9, 1.15, 1.5]
STEP = 0.01
CURRENT = 10.0
NOISE = 2.0


@numba.njit
def ratio(u):
    """u / (1 - exp(-u)), the voltage dependence of two of the rates."""
    return 1 + u / 2 if abs(u) < 1e-6 else u / (1 - math.exp(-u))


@numba.njit
def hodgkin_huxley(conductances, current, voltage):
    sodium, potassium, leak = conductances[0], conductances[1], conductances[2]
    v, m, h, n = -65.0, 0.05293, 0.59612, 0.31768
    for t in range(voltage.size):
        voltage[t] = v
        opening, closing = ratio((v + 40) / 10), 4 * math.exp(-(v + 65) / 18)
        m_change = opening * (1 - m) - closing * m
        opening, closing = 0.07 * math.exp(-(v + 65) / 20), 1 / (1 + math.exp(-(v + 35) / 10))
        h_change = opening * (1 - h) - closing * h
        opening, closing = 0.1 * ratio((v + 55) / 10), 0.125 * math.exp(-(v + 65) / 80)
        n_change = opening * (1 - n) - closing * n
        ionic = sodium * m**3 * h * (v - 50) + potassium * n**4 * (v + 77) + leak * (v + 54.4)
        v += STEP * (current[t] - ionic)
        m, h, n = m + STEP * m_change, h + STEP * h_change, n + STEP * n_change


neuron = kernbridge.numba_kernel(hodgkin_huxley, lambda g, current: current, derivatives="enzyme")


def fit(recorded, current, iterations: int = 12):
    """Conductances and root mean square of the residual in each iteration."""

    def residual(logarithms):
        return neuron(jnp.exp(logarithms), current) - recorded

    both = jax.jit(lambda x: (residual(x), jax.jacfwd(residual)(x)))
    x, damping, path = jnp.log(jnp.asarray(GUESS)), 1.0, []
    left, jacobian = both(x)
    for _ in range(iterations):
        path.append((np.exp(x), float(jnp.sqrt(jnp.mean(left**2)))))
        normal = jacobian.T @ jacobian
        step = jnp.linalg.solve(normal + damping * jnp.diag(jnp.diag(normal)), jacobian.T @ left)
        tried = both(x - step)
        if jnp.sum(tried[0] ** 2) < jnp.sum(left**2):
            x, damping, (left, jacobian) = x - step, damping / 5, tried
        else:
            damping *= 4
    return path


def gradient_error(recorded, current) -> float:
    """How much the gradient differs from central differences, in parts of it."""

    def loss(g):
        return jnp.mean((neuron(g, current) - recorded) ** 2)

    g, found = jnp.asarray(GUESS), jax.grad(loss)(jnp.asarray(GUESS))
    moves = 1e-5 * jnp.diag(g)
    differences = [(loss(g + d) - loss(g - d)) / (2 * d.sum()) for d in moves]
    return float(jnp.abs(jnp.stack(differences) / found - 1).max())


@drawing.in_our_look
def draw(times, recorded, first, last, path, file: Path) -> list[Path]:
    """Draw the recording with the first and the last voltages, and the way of the conductances."""
    figure = drawing.figure(7, 2.5)
    traces, residuals, ways = figure.subplots(1, 3, width_ratios=(1.6, 1, 1))
    traces.plot(times[::20], recorded[::20], ".", color="0.7", ms=3, label="recorded")
    traces.plot(times, first, color=drawing.ORANGE, lw=1, label="first guess")
    traces.plot(times, last, color=drawing.BLUE, lw=1.2, label="fitted")
    traces.set(xlabel="time (ms)", ylabel="voltage (mV)", ylim=(-85, 90))
    traces.legend(loc="upper right", ncols=3, borderaxespad=0, fontsize=6)
    drawing.title(traces, "A", "A neuron with a constant current")
    residuals.plot([size for _, size in path], "o-", color=drawing.BLACK, ms=3)
    residuals.axhline(NOISE, color="0.7", lw=0.7)
    residuals.set(xlabel="iteration", ylabel="residual (mV)", ylim=(0, None))
    drawing.title(residuals, "B", "Root mean square")
    for i, (name, color) in enumerate(
        zip(NAMES, (drawing.BLUE, drawing.ORANGE, drawing.GREEN), strict=True)
    ):
        ways.plot([g[i] / TRUE[i] for g, _ in path], "o-", color=color, ms=3, label=name)
    ways.axhline(1, color="0.7", lw=0.7)
    ways.set(xlabel="iteration", ylabel="conductance / true one")
    ways.legend(fontsize=6)
    drawing.title(ways, "C", "Conductances")
    return drawing.save(figure, file)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--milliseconds", type=int, default=25, help="default: %(default)s")
    parser.add_argument("--picture", type=Path, default=Path("fit_neuron.png"))
    a = parser.parse_args(argv)
    if not 5 <= a.milliseconds <= 1000:
        parser.error("expected 5 to 1000 for --milliseconds")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    times = np.arange(round(a.milliseconds / STEP)) * STEP
    current = jnp.where(times < 1, 0.0, CURRENT)
    exact = neuron(jnp.asarray(TRUE), current)
    recorded = exact + NOISE * np.random.default_rng(0).normal(size=times.size)

    difference = gradient_error(recorded, current)
    print(f"The gradient differs from central differences by at most {difference:.2g} of itself")
    path = fit(recorded, current)
    for i, (g, size) in enumerate(path):
        print(f"iteration {i}: conductances {np.round(g, 3)}, residual {size:.3g} mV")
    off = float(np.abs(path[-1][0] / TRUE - 1).max())
    print(f"The conductances are off by at most {off:.2%}")
    first, last = (np.asarray(neuron(jnp.asarray(g), current)) for g in (GUESS, path[-1][0]))
    print("Picture:", *draw(times, recorded, first, last, path, a.picture))
    return int(difference > 1e-4 or off > 0.02)


if __name__ == "__main__":
    sys.exit(main())
