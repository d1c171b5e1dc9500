"""The Mandelbrot set by a CUDA kernel of Numba's, on a GPU or on a CPU.

    python examples/mandelbrot.py [--width 700] [--picture mandelbrot.png]
    python examples/mandelbrot.py --platform cuda

A thread iterates z -> z**2 + c for its pixel until |z| > 2, and writes the number of iterations.
The numbers are compared with NumPy's. Points of the main cardioid and of the disc beside it, which
are known to belong to the set, must never escape.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import drawing
import jax
import jax.numpy as jnp
import kernbridge
import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # numba-cuda 0.30 reads what numpy 2.5 removed

from numba import cuda

MOST = 1000  # iterations
WHOLE = (-2.2, 0.8, -1.0, 1.0)  # left, right, bottom, top
VALLEY = (-0.7530, -0.7410, 0.1060, 0.1140)
DIFFERENT = 5e-3  # part of the pixels: the kernel fuses products and sums, and borders are chaotic


@cuda.jit
def escape(x, y, out):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        a = b = aa = bb = 0.0
        n = 0
        while n < MOST and aa + bb <= 4.0:
            b = 2.0 * a * b + y[i]
            a = aa - bb + x[j]
            aa, bb = a * a, b * b
            n += 1
        out[i, j] = n


count = kernbridge.numba_cuda_kernel(
    escape,
    lambda x, y: jax.ShapeDtypeStruct((y.size, x.size), jnp.int32),
    launch_dims=lambda x, y: (x.size, y.size),
)


def in_numpy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    c_x, c_y = (c.ravel() for c in np.meshgrid(x, y))
    counts, place = np.full(c_x.size, MOST, np.int32), np.arange(c_x.size)
    a, b, aa, bb = (np.zeros(c_x.size) for _ in range(4))
    for n in range(1, MOST + 1):
        b = 2.0 * a * b + c_y
        a = aa - bb + c_x
        aa, bb = a * a, b * b
        out = aa + bb > 4.0
        counts[place[out]] = n
        place, a, b, aa, bb, c_x, c_y = (v[~out] for v in (place, a, b, aa, bb, c_x, c_y))
    return counts.reshape(y.size, x.size)


def belong(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Which points lie in the main cardioid, or in the disc of period two."""
    x, y = np.meshgrid(x, y)
    q = (x - 0.25) ** 2 + y**2
    return (q * (q + x - 0.25) < 0.249 * y**2) | ((x + 1) ** 2 + y**2 < 0.0624)


@drawing.in_our_look
def draw(counts: Sequence[np.ndarray], path: Path) -> list[Path]:
    figure = drawing.figure(7, 2.45)
    panels = figure.subplots(1, 2)
    colours = colormaps["cividis"].with_extremes(over="black")
    norm = LogNorm(1, MOST)
    names = "The Mandelbrot set", "Its valley of the seahorses"
    for axes, letter, name, found, part in zip(
        panels, "AB", names, counts, (WHOLE, VALLEY), strict=True
    ):
        found = np.where(found < MOST, found, MOST + 1)
        image = axes.imshow(found, colours, norm, origin="lower", extent=part)
        axes.set(xlabel="Re c", ylabel="Im c")
        axes.locator_params(nbins=4)
        drawing.title(axes, letter, name)
    left, right, bottom, top = VALLEY
    panels[0].plot((left + right) / 2, (bottom + top) / 2, "s", ms=6, mfc="none", mec="white")
    panels[0].annotate("B", (right, top), (6, 3), textcoords="offset points", color="white")
    bar = figure.colorbar(
        image, ax=panels, extend="max", pad=0.01, label="iterations until |z| > 2"
    )
    bar.ax.yaxis.set_major_formatter("{x:,.0f}")
    return drawing.save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=700, help="pixels; default: %(default)s")
    parser.add_argument("--platform", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--picture", type=Path, default=Path("mandelbrot.png"))
    a = parser.parse_args(argv)
    if not 30 <= a.width <= 10_000:
        parser.error(f"--width is {a.width}, expected 30 to 10000")
    jax.config.update("jax_platforms", a.platform)
    jax.config.update("jax_enable_x64", True)
    counts, faults = [], []
    for name, part in (("whole", WHOLE), ("valley", VALLEY)):
        x = np.linspace(*part[:2], a.width)
        y = np.linspace(*part[2:], a.width * 2 // 3)
        call = jax.jit(count).lower(x, y).compile()
        begin = time.perf_counter()
        found = np.asarray(call(x, y))
        seconds = time.perf_counter() - begin
        different = np.mean(found != in_numpy(x, y))
        escaped = np.count_nonzero(found[belong(x, y)] < MOST)
        print(
            f"{name}: {found.sum() / seconds / 1e6:,.0f} million iterations a second; "
            f"{different:.3%} of {found.size:,} pixels differ from NumPy's"
        )
        faults += [name] * bool(different > DIFFERENT or escaped)
        counts.append(found)
    print("Picture:", *draw(counts, a.picture))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
