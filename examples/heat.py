"""Heat spreads in a square plate of copper: a five-point stencil inside lax.fori_loop.

    python examples/heat.py [--size 257] [--seconds 400] [--picture heat.png]
    python examples/heat.py --platform cuda

dT/dt = D (d2T/dx2 + d2T/dy2) with T = 0 on the border, by explicit Euler steps: a kernel of Numba
on CPUs, one of Numba-CUDA on GPUs. Two checks: the plate with hot bodies is compared with NumPy,
and a product of half sine waves, which keeps its form, must decay as the discrete equation says.
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
from matplotlib.colors import PowerNorm

LENGTH, DIFFUSIVITY = 1.0, 1.11e-4  # m, and m2/s of copper
RATIO = np.float32(0.2)  # D dt / dx**2; explicit steps are stable up to 0.25
COMPARED = 200  # steps, with NumPy


@numba.njit
def stencil(t, ratio, out):
    out[:] = t  # the border stays
    for i in range(1, t.shape[0] - 1):
        for j in range(1, t.shape[1] - 1):
            around = (t[i - 1, j] + t[i + 1, j]) + (t[i, j - 1] + t[i, j + 1])
            out[i, j] = t[i, j] + ratio * (around - np.float32(4) * t[i, j])


def operation(platform: str):
    if platform == "cpu":
        return kernbridge.numba_kernel(stencil, lambda t, ratio: t)
    from numba import cuda

    @cuda.jit
    def stencil_on_gpu(t, ratio, out):
        j, i = cuda.grid(2)
        if i < t.shape[0] and j < t.shape[1]:
            out[i, j] = t[i, j]
            if 0 < i < t.shape[0] - 1 and 0 < j < t.shape[1] - 1:
                around = (t[i - 1, j] + t[i + 1, j]) + (t[i, j - 1] + t[i, j + 1])
                out[i, j] += ratio * (around - np.float32(4) * t[i, j])

    return kernbridge.numba_cuda_kernel(
        stencil_on_gpu, lambda t, ratio: t, launch_dims=lambda t, ratio: t.shape[::-1]
    )


def fused(platform: str) -> bool:
    """Whether a product and a sum may be one operation, so that bits differ from NumPy's."""
    return platform == "cuda"


def in_numpy(t: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        inner, after = t[1:-1, 1:-1], t.copy()
        around = (t[:-2, 1:-1] + t[2:, 1:-1]) + (t[1:-1, :-2] + t[1:-1, 2:])
        after[1:-1, 1:-1] = inner + RATIO * (around - np.float32(4) * inner)
        t = after
    return t


def hot_bodies(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A disc, a ring and a bar of 100 degrees."""
    disc = (x - 0.3) ** 2 + (y - 0.7) ** 2 < 0.12**2
    ring = np.abs(np.hypot(x - 0.68, y - 0.62) - 0.15) < 0.03
    bar = (np.abs(x - 0.45) < 0.28) & (np.abs(y - 0.25) < 0.05)
    return np.float32(100) * (disc | ring | bar)


@drawing.in_our_look
def draw(plates: dict[float, np.ndarray], amplitudes: np.ndarray, path: Path) -> list[Path]:
    """Plates by time, and the amplitudes of the sine wave: seconds, of the kernel, exact."""
    figure = drawing.figure(7, 1.75)
    *maps, decay = figure.subplots(1, 4)
    for axes, letter, (seconds, plate) in zip(maps, "ABC", plates.items(), strict=True):
        extent = (0, LENGTH, 0, LENGTH)
        norm = PowerNorm(0.5, 0, 100)
        image = axes.imshow(plate, "inferno", norm, origin="lower", extent=extent)
        drawing.title(axes, letter, f"{seconds:.0f} s")
        axes.set(xlabel="x (m)", xticks=(0, 1), yticks=(0, 1))
        if letter == "A":
            axes.set_ylabel("y (m)")
        else:
            axes.set_yticklabels([])
    figure.colorbar(
        image, ax=maps, label="temperature (°C)", shrink=0.75, pad=0.01, ticks=(0, 5, 20, 50, 100)
    )
    seconds, found, exact = amplitudes
    decay.plot(seconds, exact, "-", color=drawing.BLACK, label="exact")
    decay.plot(seconds, found, "o", color=drawing.ORANGE, mfc="none", label="kernel")
    decay.set(xlabel="time (s)", ylim=(0, 1.05), box_aspect=1)
    decay.legend(loc="upper right", borderaxespad=0)
    drawing.title(decay, "D", "Decay of a sine")
    return drawing.save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=257, help="points of a side; default 257")
    parser.add_argument("--seconds", type=float, default=400, help="of the plate; default 400")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--picture", type=Path, default=Path("heat.png"))
    a = parser.parse_args(argv)
    if not 16 <= a.size <= 4096 or not 1 <= a.seconds <= 10_000:
        parser.error("expected 16 to 4096 for --size, and 1 to 10000 for --seconds")
    jax.config.update("jax_platforms", a.platform)
    dx = LENGTH / (a.size - 1)
    dt = float(RATIO) * dx**2 / DIFFUSIVITY
    op = operation(a.platform)

    @partial(jax.jit, static_argnums=1)
    def advance(t, steps: int):
        return jax.lax.fori_loop(0, steps, lambda _, t: op(t, ratio=RATIO), t)

    x, y = np.meshgrid(*[np.linspace(0, LENGTH, a.size)] * 2)
    start = hot_bodies(x, y)
    error = np.abs(advance(start, COMPARED) - in_numpy(start, COMPARED)).max()
    print(f"{COMPARED} steps of {a.size} x {a.size}: at most {error:.2g} degrees from NumPy")

    part = max(1, round(a.seconds / dt / 16))  # steps
    wave = jnp.asarray(np.sin(np.pi * x) * np.sin(np.pi * y), jnp.float32)
    factor = 1 - 8 * float(RATIO) * np.sin(np.pi / 2 / (a.size - 1)) ** 2  # of a step
    plates, t, amplitudes = {0.0: start}, jnp.asarray(start), []
    for i in range(17):
        amplitudes.append((i * part * dt, float(jnp.vdot(wave, wave)), factor ** (i * part)))
        if i in (2, 16):
            plates[i * part * dt] = np.asarray(t)
        if i < 16:
            t, wave = advance(t, part), advance(wave, part)
    columns = np.array(amplitudes).T
    columns[1] = np.sqrt(columns[1] / columns[1, 0])
    off = np.abs(columns[1] - columns[2]).max()
    print(f"{16 * part:,} steps of {dt:.3g} s: the sine is off by at most {off:.2g} of its start")
    print("Picture:", *draw(plates, columns, a.picture))
    return int(not (error <= (1e-3 if fused(a.platform) else 0) and off < 1e-3))


if __name__ == "__main__":
    sys.exit(main())
