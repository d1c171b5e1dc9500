"""An epidemic in a network of towns, fitted by Diffrax and Optax, with a kernel as its equations.

    python examples/epidemic.py [--days 90] [--iterations 40] [--picture epidemic.png]

Each town has the equations of Kermack and McKendrick [1] for the susceptible s and the infected i,
both as parts of its people. A part m of the contacts is with people of the towns nearby:

    f = (r + gamma) ((1 - m) i + m <i of the towns nearby>)
    ds/dt = -f s,   di/dt = f s - gamma i

where r is the rate at which an epidemic begins to grow, and 1 / gamma the time for which people
infect others.

One Numba kernel loops over the towns and the roads of each. Diffrax [2] solves the equations and
differentiates its own steps, Enzyme differentiates the kernel, and Optax's L-BFGS [3] finds r,
gamma and m from the reported cases, which are drawn from Poisson's distribution. The gradient is
compared with central differences and with the same equations in `jax.numpy`, and what was found
with what made the cases.

Needs Enzyme (docs/derivatives.md) and

    pip install diffrax optax

[1] Kermack & McKendrick 1927, Proc. R. Soc. Lond. A 115:700-721
[2] Kidger 2021, PhD thesis, University of Oxford (arXiv:2202.02435)
[3] Liu & Nocedal 1989, Math. Program. 45:503-528
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import diffrax
import drawing
import jax
import jax.numpy as jnp
import kernbridge
import numba
import numpy as np
import optax

NAMES = ("r (1/day)", "gamma (1/day)", "m")
TRUE = np.array([0.24, 0.16, 0.12])
GUESS = np.array([0.30, 0.30, 0.30])
TOWNS, PEOPLE = 120, 5000  # of each town
FIRST = 1e-3  # the infected in the first town at the start


@kernbridge.kernel(
    "y: f64[2, n], parameters: f64[3], ends: i32[n + 1], roads: i32[k] -> f64[2, n]",
    derivatives="enzyme",
)
@numba.njit
def spread(y, parameters, ends, roads, out):
    r, gamma, m = parameters[0], parameters[1], parameters[2]
    for town in range(y.shape[1]):
        nearby = 0.0
        for k in range(ends[town], ends[town + 1]):
            nearby += y[1, roads[k]]
        nearby /= ends[town + 1] - ends[town]
        new = (r + gamma) * ((1 - m) * y[1, town] + m * nearby) * y[0, town]
        out[0, town] = -new
        out[1, town] = new - gamma * y[1, town]


def spread_in_jax(y, parameters, ends, roads):
    r, gamma, m = parameters
    degree = jnp.diff(ends)
    town = jnp.repeat(jnp.arange(TOWNS), degree, total_repeat_length=roads.size)
    nearby = jax.ops.segment_sum(y[1][roads], town, TOWNS) / degree
    new = (r + gamma) * ((1 - m) * y[1] + m * nearby) * y[0]
    return jnp.stack([-new, new - gamma * y[1]])


def map_of_towns():
    """Places, and for each town the five nearest ones and all towns that have it among theirs."""
    places = np.random.default_rng(4).uniform(size=(TOWNS, 2))
    places[0] = 0.5
    distance = np.hypot(*(places[:, None] - places).T)
    near = np.zeros((TOWNS, TOWNS), bool)
    np.put_along_axis(near, distance.argsort(1)[:, 1:6], True, 1)
    near |= near.T
    ends = np.concatenate([[0], near.sum(1).cumsum()]).astype(np.int32)
    return places, ends, near.nonzero()[1].astype(np.int32)


def daily_cases(parameters, network, days: int, equations=spread):
    """The expected number of new cases [day, town]."""
    start = jnp.zeros((2, TOWNS)).at[0].set(1.0)
    start = start.at[:, 0].add(jnp.array([-FIRST, FIRST]))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, parameters: equations(y, parameters, *network)),
        diffrax.Tsit5(),
        *(0.0, days, 0.5, start, parameters),
        saveat=diffrax.SaveAt(ts=jnp.arange(days + 1.0)),
    )
    return -PEOPLE * jnp.diff(solution.ys[:, 0], axis=0)


def surprise(logarithms, cases, network, equations=spread):
    """The negative logarithm of the likelihood of the cases, for each of them."""
    expected = daily_cases(jnp.exp(logarithms), network, len(cases), equations) + 1e-6
    return jnp.sum(expected - cases * jnp.log(expected)) / cases.sum()


def gradient_errors(cases, network) -> tuple[float, float]:
    """How much the gradient differs from the one in JAX and from differences, in parts of it."""
    x = jnp.log(jnp.asarray(GUESS))
    found = jax.grad(surprise)(x, cases, network)
    in_jax = jax.grad(surprise)(x, cases, network, spread_in_jax)
    value = jax.jit(lambda x: surprise(x, cases, network))
    moves = 1e-4 * jnp.eye(3)
    differences = jnp.stack([(value(x + d) - value(x - d)) / 2e-4 for d in moves])
    errors = (jnp.abs(found - other).max() for other in (in_jax, differences))
    a, b = (float(e / jnp.abs(found).max()) for e in errors)
    return a, b


def fit(cases, network, iterations: int):
    """The parameters in each iteration of L-BFGS, and the standard errors of the last ones."""
    gradient = jax.jit(jax.grad(lambda x: surprise(x, cases, network)))
    optimizer = optax.lbfgs(0.5, linesearch=None)
    x = jnp.log(jnp.asarray(GUESS))
    path, state = [np.exp(x)], optimizer.init(x)
    for _ in range(iterations):
        updates, state = optimizer.update(gradient(x), state, x)
        x = optax.apply_updates(x, updates)
        path.append(np.exp(x))
    hessian = jnp.stack([gradient(x + d) - gradient(x - d) for d in 1e-4 * jnp.eye(3)]) / 2e-4
    variance = np.linalg.inv(hessian * cases.sum())
    return path, path[-1] * np.sqrt(variance.diagonal())


@drawing.in_our_look
def draw(places, network, cases, first, last, path, file: Path) -> list[Path]:
    """Draw the map with the day of the peak, the cases of all towns, and the parameters' way."""
    figure = drawing.figure(7, 2.6)
    towns, curves, ways = figure.subplots(1, 3, width_ratios=(1.25, 1.1, 1))
    ends, roads = network
    for town in range(TOWNS):
        for other in roads[ends[town] : ends[town + 1]]:
            towns.plot(*places[[town, other]].T, color="0.85", lw=0.4, zorder=0)
    dots = towns.scatter(*places.T, c=last.argmax(0), s=14, cmap="viridis_r")
    figure.colorbar(dots, ax=towns, label="day of most cases", pad=0.02)
    towns.set(xticks=[], yticks=[], aspect="equal")
    towns.spines[:].set_visible(False)
    drawing.title(towns, "A", "The epidemic spreads")
    curves.plot(cases.sum(1), ".", color="0.6", ms=3, label="reported")
    curves.plot(first.sum(1), color=drawing.ORANGE, lw=1, label="first guess")
    curves.plot(last.sum(1), color=drawing.BLUE, lw=1.2, label="fitted")
    curves.set(xlabel="day", ylabel="cases in a day", ylim=(0, None))
    curves.legend(fontsize=6)
    drawing.title(curves, "B", "All towns")
    for i, (name, color) in enumerate(
        zip(NAMES, (drawing.BLUE, drawing.ORANGE, drawing.GREEN), strict=True)
    ):
        ways.plot([p[i] / TRUE[i] for p in path], "o-", color=color, ms=2, label=name.split()[0])
    ways.axhline(1, color="0.7", lw=0.7)
    ways.set(xlabel="iteration", ylabel="parameter / true one")
    ways.legend(fontsize=6)
    drawing.title(ways, "C", "Parameters")
    return drawing.save(figure, file)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=90, help="default: %(default)s")
    parser.add_argument("--iterations", type=int, default=40, help="default: %(default)s")
    parser.add_argument("--picture", type=Path, default=Path("epidemic.png"))
    a = parser.parse_args(argv)
    if not 30 <= a.days <= 365 or a.iterations < 1:
        parser.error("expected 30 to 365 for --days, and 1 or more for --iterations")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    places, *network = map_of_towns()
    expected = daily_cases(jnp.asarray(TRUE), network, a.days)
    cases = np.random.default_rng(0).poisson(expected).astype(float)
    print(f"{cases.sum():,.0f} cases are reported in {TOWNS} towns with {network[1].size} roads")

    of_jax, of_differences = gradient_errors(cases, network)
    print(f"The gradient differs from JAX's by {of_jax:.1g} of itself,", end=" ")
    print(f"from central differences by {of_differences:.1g}")
    path, errors = fit(cases, network, a.iterations)
    found, off = path[-1], float(np.max(np.abs(path[-1] - TRUE) / errors))
    for i, name in enumerate(NAMES):
        print(f"{name}: guessed {GUESS[i]:.2f}, true {TRUE[i]:.2f},", end=" ")
        print(f"fitted {found[i]:.4f} +- {errors[i]:.4f}")
    first, last = (np.asarray(daily_cases(jnp.asarray(p), network, a.days)) for p in (GUESS, found))
    print("Picture:", *draw(places, network, cases, first, last, path, a.picture))
    return int(of_jax > 1e-6 or of_differences > 1e-3 or off > 4)


if __name__ == "__main__":
    sys.exit(main())
