"""Three bodies find their figure eight: gradients through a kernel, 2,000 steps deep.

    python examples/nbody.py [--steps 2000] [--picture nbody.png]

Equal masses attract each other (G = 1). A kernel has the accelerations, another one the cotangents
of the positions, and a leapfrog in lax.scan the orbit. The first velocities are off by some per
cent; Newton's method, with the Jacobian of the end of a period by those of the start, corrects them
until the bodies return to where they began. The solution is known [1]. The gradient is compared
with that of the same formulas in pure JAX, and the energy must be conserved.

[1] Chenciner & Montgomery 2000, Ann. Math. 152:881-901; numbers by C. Simo
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import drawing
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np

POSITION = np.array([[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]])
VELOCITY = np.array([0.93240737 / 2, 0.86473146 / 2])  # of two bodies; the third has -2 times that
PERIOD = 6.32591398
GUESS = VELOCITY * [1.05, 0.96]


@numba.njit
def attraction(x, out):
    out[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            if i != j:
                u, v = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1]
                cube = (u * u + v * v) ** 1.5
                out[i, 0] += u / cube
                out[i, 1] += v / cube


@numba.njit
def attraction_backward(x, ct, out):
    """The sum over j of J (ct[j] - ct[i]), where J is the derivative of d / |d|**3 by d."""
    out[:] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            if i != j:
                u, v = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1]
                square = u * u + v * v
                cube = square**1.5
                a, b = ct[j, 0] - ct[i, 0], ct[j, 1] - ct[i, 1]
                along = 3 * (u * a + v * b) / square
                out[i, 0] += (a - along * u) / cube
                out[i, 1] += (b - along * v) / cube


backward = kernbridge.numba_kernel(attraction_backward, lambda x, ct: x)
accelerations = kernbridge.numba_kernel(
    attraction, lambda x: x, vjp=lambda inputs, _, ct: (backward(*inputs, ct),)
)


def in_jax(x):
    d = x[None] - x[:, None]
    square = (d**2).sum(-1, keepdims=True) + jnp.eye(len(x))[..., None]
    return (d / square**1.5).sum(1)


def start(velocity):
    return jnp.asarray(POSITION), jnp.stack([velocity, velocity, -2 * velocity])


def energy(x, v):
    distances = [jnp.linalg.norm(x[i] - x[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    return (v**2).sum() / 2 - sum(1 / d for d in distances)


@partial(jax.jit, static_argnums=(1, 2, 3))
def orbit(velocity, steps: int, periods: int = 1, force=accelerations, euler=False):
    """Positions and energies after each step, and the final state."""
    h = PERIOD / steps

    def step(state, _):
        x, v, a = state
        after_euler = x + h * v, v + h * a
        v = v + h / 2 * a
        x = x + h * v
        a = force(x)
        v = v + h / 2 * a
        x, v = (jnp.where(euler, e, y) for e, y in zip(after_euler, (x, v), strict=True))
        return (x, v, jnp.where(euler, force(x), a)), (x, energy(x, v))

    x, v = start(velocity)
    (x, v, _), path = jax.lax.scan(step, (x, v, force(x)), length=steps * periods)
    return *path, (x, v)


def miss(velocity, steps: int, force=accelerations):
    """How far the bodies are after a period from where they began, and by how much slower."""
    ends, begins = orbit(velocity, steps, 1, force)[2], start(velocity)
    return jnp.concatenate([(a - b).ravel() for a, b in zip(ends, begins, strict=True)])


@drawing.in_our_look
def draw(guess, found, misses, leapfrog, euler, path: Path) -> list[Path]:
    """Draw the orbits of one period, the misses, and the errors of the energy over periods."""
    figure = drawing.figure(7, 2.5)
    eight, steps, energies = figure.subplots(1, 3, width_ratios=(1.3, 1, 1))
    for i, color in enumerate((drawing.BLUE, drawing.ORANGE, drawing.GREEN)):
        third = len(found) // 3
        eight.plot(*guess[:, i].T, color="0.7", lw=0.7, label="first guess" if i == 0 else None)
        eight.plot(*found[: third + 1, i].T, color=color, lw=1.4)
        eight.plot(*POSITION[i], "o", color=color, ms=6)
    eight.set(xlabel="x", ylabel="y")
    eight.set_aspect("equal", adjustable="datalim")
    eight.legend(loc="upper left", borderaxespad=0)
    drawing.title(eight, "A", "A third of the period of each body")
    steps.semilogy(misses, "o-", color=drawing.BLACK)
    steps.set(xlabel="Newton iteration", xticks=range(len(misses)))
    drawing.title(steps, "B", "Distance after a period")
    for name, errors, color in (("Euler", euler, "0.55"), ("leapfrog", leapfrog, drawing.BLUE)):
        size = np.maximum.accumulate(np.abs(errors))
        periods = np.arange(1, len(size) + 1) / len(found)
        energies.loglog(periods, size, color=color)
        energies.text(periods[-1], size[-1] * 2, name, color=color, ha="right", fontsize=8)
    energies.set(xlabel="periods", ylim=(None, energies.get_ylim()[1] * 10))
    energies.xaxis.set_major_formatter("{x:g}")
    drawing.title(energies, "C", "Relative energy error")
    return drawing.save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="of a period; default: %(default)s")
    parser.add_argument("--periods", type=int, default=100, help="for the energy; default 100")
    parser.add_argument("--picture", type=Path, default=Path("nbody.png"))
    a = parser.parse_args(argv)
    if not 200 <= a.steps <= 100_000 or not 1 <= a.periods <= 1000:
        parser.error("expected 200 to 100000 for --steps, and 1 to 1000 for --periods")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    jacobian = jax.jit(jax.jacrev(miss), static_argnums=(1, 2))
    ours, theirs = (jacobian(GUESS, a.steps, f) for f in (accelerations, in_jax))
    difference = float(jnp.abs(ours / theirs - 1).max())
    print(f"Relative difference from the Jacobian of pure JAX: at most {difference:.2g}")

    velocity, misses = jnp.asarray(GUESS), []
    for i in range(7):
        left = miss(velocity, a.steps)
        misses.append(float(jnp.linalg.norm(left[: POSITION.size])))
        print(f"iteration {i}: velocity {velocity}, distance after a period {misses[-1]:.2g}")
        velocity = velocity - jnp.linalg.lstsq(jacobian(velocity, a.steps), left)[0]
    error = float(jnp.abs(velocity - VELOCITY).max())
    print(f"The velocity is off by {error:.2g} from the published one")
    paths, first = [orbit(u, a.steps)[0] for u in (GUESS, velocity)], energy(*start(velocity))
    leapfrog, euler = (
        np.asarray(orbit(velocity, a.steps, a.periods, accelerations, e)[1] / first - 1)
        for e in (False, True)
    )
    kept = np.abs(leapfrog).max()
    print(f"The energy is conserved to {kept:.2g} over {a.periods} periods of {a.steps} steps")
    print("Picture:", *draw(*paths, misses, leapfrog, euler, a.picture))
    step = (2000 / a.steps) ** 2  # the error of a leapfrog
    return int(not (difference < 1e-6 and error < 1e-4 * step and kept < 1e-4 * step))


if __name__ == "__main__":
    sys.exit(main())
