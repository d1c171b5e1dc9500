"""Two galaxies met: their orbit from one observation, by gradients through a published CUDA kernel.

    python examples/encounter.py [--steps 120] [--picture encounter.png]
    python examples/encounter.py --platform cuda

The tails of two galaxies tell how they passed each other [1]. Four numbers of the orbit are
unknown: the smallest distance and the eccentricity, if the galaxies were points, and the two angles
under which we see it. Maps of the brightness and of the velocity away from us are observed, with
noise. All bodies, two nuclei and the stars in discs around them, attract each other by the kernel
of "Fast N-Body Simulation with CUDA" [2], in a leapfrog in `lax.scan`. Enzyme differentiates the
kernel, so the least squares of Levenberg and Marquardt get their Jacobian from `jax.jacfwd`. They
fit blurred maps first, since sharp ones have many local minima.

The gradient is compared with the gradient of the same function in pure JAX and with central
differences, and the orbit with the true one. Units: G = 1, and each galaxy has the mass 1.

The CUDA C++ is written anew after the listings 31-1 to 31-3 of [2], with their functions, tiles and
barriers; NVIDIA's sample `nbody`, under the BSD license, is similar. Changed are the types (double
for float), the softening, which is an argument, and the result, which has no fourth number. On a
GPU, a warning says that the gradient keeps values in memory; the Jacobian keeps none.

Needs Enzyme; see docs/derivatives.md. On CPUs, it needs g++ or clang, too.

[1] Toomre & Toomre 1972, Astrophys. J. 178:623-666
[2] Nyland, Harris & Prins 2007, GPU Gems 3, chapter 31
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
import numpy as np

SOURCE = r"""
struct Body { double x, y, z, mass; };
struct Vector { double x, y, z; };

__device__ Vector bodyBodyInteraction(Body bi, Body bj, Vector ai, double softening)
{
    Vector r = {bj.x - bi.x, bj.y - bi.y, bj.z - bi.z};
    double distSqr = r.x * r.x + r.y * r.y + r.z * r.z + softening * softening;
    double s = bj.mass / (distSqr * sqrt(distSqr));
    return {ai.x + s * r.x, ai.y + s * r.y, ai.z + s * r.z};
}

__device__ Vector tile_calculation(Body mine, const Body *tile, Vector accel, double softening)
{
    for (int i = 0; i < blockDim.x; i++)
        accel = bodyBodyInteraction(mine, tile[i], accel, softening);
    return accel;
}

__global__ void calculate_forces(const double *bodies, double *accelerations, double softening)
{
    extern __shared__ Body shared[];
    const Body *body = (const Body *)bodies;
    Vector *result = (Vector *)accelerations;
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    Vector accel = {0, 0, 0};
    for (int tile = 0; tile < gridDim.x; tile++) {
        shared[threadIdx.x] = body[tile * blockDim.x + threadIdx.x];
        __syncthreads();
        accel = tile_calculation(body[index], shared, accel, softening);
        __syncthreads();
    }
    result[index] = accel;
}
"""
THREADS = 128  # of a block: the bodies of a tile
SOFTENING = 0.3
attraction = kernbridge.cuda_kernel(
    SOURCE,
    "calculate_forces",
    signature="bodies: f64[n, 4] -> accelerations: f64[n, 3]",
    launch_dims="n",
    threads_per_block=THREADS,
    shared_mem=THREADS * 4 * 8,
    attrs={"softening": SOFTENING},
    derivatives="enzyme",
)

NAMES = ("distance", "eccentricity", "tilt", "turn")
TRUE = np.array([1.2, 0.6, 0.61, 0.7])  # angles in radians
GUESS = np.array([1.45, 0.48, 0.36, 0.45])
TIME, APART = 6.0, 3.5  # of the simulation, and the distance at its start
STARS, DISC = 127, 0.02  # in each galaxy, and the mass of all of them
GRID = np.arange(-3.9, 4.0, 0.3)  # of the maps
SKIES = ("Brightness", "Velocity", "First guess", "Fitted")
NOISE = 0.005  # of the largest brightness
BLURS = (0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4)  # of the maps in each iteration


@jax.checkpoint
def in_jax(bodies):
    r = bodies[None, :, :3] - bodies[:, None, :3]
    square = (r**2).sum(-1) + SOFTENING**2
    return ((bodies[:, 3] / square**1.5)[..., None] * r).sum(1)


def turned(x, tilt, turn):
    """Vectors after a turn in their plane, and then a tilt of the plane."""
    a, b, c, s = jnp.cos(turn), jnp.sin(turn), jnp.cos(tilt), jnp.sin(tilt)
    return x @ jnp.array([[a, b * c, b * s], [-b, a * c, a * s], [0.0, -s, c]])


def disc(tilt, turn):
    """Positions and velocities of a nucleus and of stars in circular orbits around it."""
    i = np.arange(STARS)
    radius, angle = 0.3 + 0.6 * np.sqrt((i + 0.5) / STARS), i * np.pi * (3 - np.sqrt(5))
    inside = 1 - DISC + DISC * (radius / 0.9) ** 2
    speed = radius * np.sqrt(inside) / (radius**2 + SOFTENING**2) ** 0.75
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * radius], 1)
    v = np.stack([-speed * np.sin(angle), speed * np.cos(angle), 0 * radius], 1)
    return [turned(np.concatenate([np.zeros((1, 3)), y]), tilt, turn) for y in (x, v)]


def start(orbit):
    """Two galaxies in the orbit of two points of mass 1, before they are closest."""
    smallest, eccentricity, tilt, turn = orbit
    p = smallest * (1 + eccentricity)
    cosine = (p / APART - 1) / eccentricity
    sine = -jnp.sqrt(1 - cosine**2)
    x = APART * jnp.array([cosine, sine, 0.0])
    v = jnp.sqrt(2 / p) * jnp.array([-sine, eccentricity + cosine, 0.0])
    discs = zip(disc(0.52, 0.17), disc(-0.26, 1.05), strict=True)
    pairs = zip(discs, (turned(x, tilt, turn), turned(v, tilt, turn)), strict=True)
    return [jnp.concatenate([a - half / 2, b + half / 2]) for (a, b), half in pairs]


@partial(jax.jit, static_argnums=(1, 2))
def simulate(orbit, steps: int, force=attraction):
    """Positions after each step, and the last velocities."""
    h = TIME / steps
    galaxy = np.concatenate([[1 - DISC], np.full(STARS, DISC / STARS)])
    mass = jnp.asarray(np.concatenate([galaxy, galaxy]))[:, None]

    def step(state, _):
        x, v = state
        x = x + h / 2 * v
        v = v + h * force(jnp.concatenate([x, mass], 1))
        x = x + h / 2 * v
        return (x, v), x

    (_, v), path = jax.lax.scan(step, tuple(start(orbit)), length=steps)
    return path, v


def maps(orbit, blur, steps: int, force=attraction):
    """The brightness of the sky, and the brightness times the velocity away from us."""
    path, v = simulate(orbit, steps, force)
    x, y = (jnp.exp(-(((path[-1, :, i, None] - GRID) / blur) ** 2) / 2) for i in (0, 1))
    return jnp.einsum("nk,ny,nx->kyx", jnp.stack([jnp.ones(len(v)), v[:, 2]], 1), y, x)


def observe(steps: int, blur: float):
    """The maps with noise, and how large the noise is."""
    exact = maps(TRUE, blur, steps)
    size = NOISE * float(exact[0].max())
    return exact + size * np.random.default_rng(0).normal(size=exact.shape), size


def fit(steps: int):
    """The orbit and the root mean square of the residual, in parts of the noise, by iteration."""

    @jax.jit
    def both(orbit, blur, observed, noise):
        def residual(orbit):
            return ((maps(orbit, blur, steps) - observed) / noise).ravel()

        return residual(orbit), jax.jacfwd(residual)(orbit)

    orbit, damping, path, before = jnp.asarray(GUESS), 0.1, [], None
    for blur in BLURS:
        if blur != before:
            seen, before = observe(steps, blur), blur
            left, jacobian = both(orbit, blur, *seen)
        path.append((orbit, float(jnp.sqrt(jnp.mean(left**2)))))
        normal = jacobian.T @ jacobian
        change = jnp.linalg.solve(normal + damping * jnp.diag(jnp.diag(normal)), jacobian.T @ left)
        tried = both(orbit - change, blur, *seen)
        if jnp.sum(tried[0] ** 2) < jnp.sum(left**2):
            orbit, damping, (left, jacobian) = orbit - change, damping / 5, tried
        else:
            damping *= 4
    return [*path, (orbit, float(jnp.sqrt(jnp.mean(left**2))))]


def gradient_errors(steps: int) -> tuple[float, float]:
    """How much the gradient differs from the one of pure JAX, and from central differences."""
    observed, noise = observe(steps, BLURS[0])

    @partial(jax.jit, static_argnums=1)
    def loss(orbit, force):
        return jnp.mean(((maps(orbit, BLURS[0], steps, force) - observed) / noise) ** 2)

    ours, theirs = (jax.grad(loss)(GUESS, force) for force in (attraction, in_jax))
    pairs = [(loss(GUESS + d, attraction), loss(GUESS - d, attraction)) for d in 1e-5 * np.eye(4)]
    differences = jnp.array([(up - down) / 2e-5 for up, down in pairs])
    size = jnp.abs(theirs).max()
    errors = [float(jnp.abs(ours - others).max() / size) for others in (theirs, differences)]
    return errors[0], errors[1]


@drawing.in_our_look
def draw(observed, paths, path, file: Path) -> list[Path]:
    """Draw the observed maps, the galaxies of the guess and of the fit, and the residuals."""
    figure = drawing.figure(7, 1.75)
    *skies, residuals = figure.subplots(1, 5)
    extent = (GRID[0], GRID[-1], GRID[0], GRID[-1])
    most = np.abs(observed[1]).max()
    brightness = np.sqrt(np.maximum(observed[0], 0))
    skies[0].imshow(brightness, "Greys", origin="lower", extent=extent)
    skies[1].imshow(observed[1], "PuOr", vmin=-most, vmax=most, origin="lower", extent=extent)
    for sky, positions in zip(skies[2:], paths, strict=True):
        for first, color in ((0, drawing.BLUE), (1 + STARS, drawing.ORANGE)):
            stars = positions[-1, first : first + 1 + STARS]
            sky.plot(*stars[:, :2].T, ".", color=color, ms=1)
            sky.plot(*positions[:, first, :2].T, color=color, lw=0.7)
    for sky, letter, name in zip(skies, "ABCD", SKIES, strict=True):
        ticks = (-3, 0, 3)
        sky.set(xlim=extent[:2], ylim=extent[2:], aspect="equal", xticks=ticks, yticks=ticks)
        drawing.title(sky, letter, name)
    residuals.semilogy([size for _, size in path], "o-", color=drawing.BLACK, ms=3)
    residuals.axhline(1, color="0.7", lw=0.7)
    residuals.set(xlabel="iteration", xticks=range(len(path)), box_aspect=1)
    drawing.title(residuals, "E", "Residual / noise")
    return drawing.save(figure, file)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120, help="default: %(default)s")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--picture", type=Path, default=Path("encounter.png"))
    a = parser.parse_args(argv)
    if not 40 <= a.steps <= 10_000:
        parser.error(f"--steps is {a.steps}, expected 40 to 10000")
    jax.config.update("jax_platforms", a.platform)
    jax.config.update("jax_enable_x64", True)
    of_jax, of_differences = gradient_errors(a.steps)
    print(f"The gradient differs by {of_jax:.2g} of itself from the gradient of pure JAX,")
    print(f"and by {of_differences:.2g} from central differences")
    path = fit(a.steps)
    for i, (orbit, size) in enumerate(path):
        values = ", ".join(f"{n} {x:.3f}" for n, x in zip(NAMES, orbit, strict=True))
        print(f"iteration {i}: {values}; residual {size:.3g}")
    off = float(np.abs(path[-1][0] - TRUE).max())
    print(f"The four numbers are off by at most {off:.2g} from the true ones, {TRUE}")
    paths = [np.asarray(simulate(orbit, a.steps)[0]) for orbit in (jnp.asarray(GUESS), path[-1][0])]
    print("Picture:", *draw(np.asarray(observe(a.steps, 0.2)[0]), paths, path, a.picture))
    return int(not (of_jax < 1e-9 and of_differences < 1e-4 and off < 0.01))


if __name__ == "__main__":
    sys.exit(main())
