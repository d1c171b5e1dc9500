"""How near the event-driven sparse product of examples/digits.py comes to the memory's bandwidth.

    python examples/roofline.py [--size 6000] [--picture roofline.png]

`spikes @ W`, where W has 10 % of all synapses in compressed sparse rows, reads the rows of neurons
that spike: 8 bytes for each of their synapses, for two operations. Such work is bound by bandwidth.
The roofs are measured in the same rounds, on all cores, as a batch with an array for each: sums of
arrays that no cache holds, and of arrays that the second-level caches hold, and multiply-adds in
registers. The kernel uses one core, and JAX's dense product, whose operations are counted for
neurons that spike alone, uses all. The products are compared with NumPy's.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import digits
import drawing
import jax
import kernbridge
import numba
import numpy as np

DENSITY = 0.1
ACTIVE = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # part of the neurons that spikes
SMALL = 16_384  # elements of arrays that fit into the second-level cache
SWEEPS = 200  # over them
VECTORS = 10  # of spikes, in one call
CORES = os.cpu_count() or 1
NUMBER = jax.ShapeDtypeStruct((1,), np.float32)


@numba.njit(fastmath=True)
def total(x, sweeps, out):
    out[0] = 0
    for _ in range(sweeps[0]):
        s = np.float32(0)
        for i in range(x.size):
            s += x[i]
        out[0] = np.float32(0.5) * out[0] + s


@numba.njit(fastmath=True)
def arithmetic(x, sweeps, out):
    a = x.copy()  # 64 sums that wait for nothing but themselves
    for _ in range(sweeps[0]):
        for i in range(64):
            a[i] = a[i] * np.float32(0.999) + np.float32(0.001)
    out[:] = a


class Work(NamedTuple):
    """A call that is timed, and what one product of it does, or what the call does at a roof."""

    call: Callable[[], Any]
    operations: float = 0.0
    bytes: float = 0.0
    products: int = 1


def roofs(large: int) -> dict[str, Work]:
    read = kernbridge.numba_kernel(total, lambda x, sweeps: NUMBER)
    add = kernbridge.numba_kernel(arithmetic, lambda x, sweeps: x)
    found = {}
    for name, kernel, size, sweeps in (
        ("memory", read, large // CORES, 1),
        ("cache", read, SMALL, SWEEPS),
        ("arithmetic", add, 64, SWEEPS * 1000),
    ):
        x, n = jax.device_put((np.ones((CORES, size), np.float32), np.array([sweeps], np.int32)))
        call = partial(jax.jit(jax.vmap(kernel, (0, None))), x, n)
        done = float(x.size * sweeps)
        found[name] = Work(call, 2 * done) if kernel is add else Work(call, bytes=4 * done)
    return found


def products(size: int) -> tuple[dict[str, Work], float]:
    """Work by its kind and the part that spikes, and the largest error of all products."""
    rng = np.random.default_rng(0)
    synapses = digits.connect(rng, size, size, DENSITY)
    weights = rng.normal(size=synapses.indices.size).astype(np.float32)
    degrees = np.diff(synapses.indptr)
    dense = np.zeros((size, size), np.float32)
    dense[np.repeat(np.arange(size), degrees), synapses.indices] = weights
    rows = jax.device_put((weights, synapses.indices, synapses.indptr))
    matrix = jax.device_put(dense)

    @jax.jit
    def event_driven(spikes, w, i, p):
        return jax.lax.map(lambda s: digits.currents(w, digits.Synapses(i, p, size), s), spikes)

    @jax.jit
    def in_jax(spikes, m):
        return jax.lax.map(lambda s: s @ m, spikes)

    found, error = {}, 0.0
    for active in ACTIVE:
        spikes = np.zeros((VECTORS, size), np.float32)
        for row in spikes:
            row[rng.choice(size, max(1, round(active * size)), replace=False)] = 1
        wanted = spikes.astype(float) @ dense
        placed = jax.device_put(spikes)
        ours = event_driven(placed, *rows)
        error = max(error, float(np.abs(ours - wanted).max() / np.abs(wanted).max()))
        touched = float((spikes @ degrees).mean())  # synapses of neurons that spike
        # Synapses; the limits of their rows; spikes; currents, which are zeroed and written
        moved = 8 * touched + 8 * active * size + 4 * size + 8 * size
        calls = {"event-driven": partial(event_driven, placed, *rows)}
        calls["dense"] = partial(in_jax, placed, matrix)
        for kind, call in calls.items():
            all_bytes = moved if kind == "event-driven" else 4.0 * size**2
            found[f"{kind} {active}"] = Work(call, 2 * touched, all_bytes, VECTORS)
    return found, error


def measure(works: dict[str, Work], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of each product or roof in each round; all of them take turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for i in range(rounds + 1):  # the first warms up
        for name, work in works.items():
            begin = time.perf_counter()
            jax.block_until_ready(work.call())
            times[name] += [(time.perf_counter() - begin) / work.products] * (i > 0)
    return {name: np.array(values) for name, values in times.items()}


def bars(axes, x, samples: list[np.ndarray], **look) -> None:
    """Medians of samples with their quartiles."""
    low, middle, high = np.array([np.percentile(s, (25, 50, 75)) for s in samples]).T
    axes.errorbar(x, middle, (middle - low, high - middle), ms=4, capsize=2, **look)


@drawing.in_our_look
def draw(times, peaks, found, size: int, rounds: int, path: Path) -> list[Path]:
    memory, cache, peak = peaks.values()
    figure = drawing.figure(7, 2.9)
    roofline, by_part = figure.subplots(1, 2)
    per_byte = np.geomspace(min(w.operations / w.bytes for w in found.values()) / 2, 40, 200)
    for roof, text, dash in ((cache, "second-level cache", "--"), (memory, "memory", "-")):
        text = f"{text}: {roof / 1e9:.0f} GB/s"
        roofline.plot(
            per_byte, np.minimum(per_byte * roof, peak) / 1e9, "k", ls=dash, lw=1, label=text
        )
    roofline.legend(loc="upper left", borderaxespad=0)
    roofline.text(38, peak / 1e9 * 0.45, f"{peak / 1e9:.0f}", ha="right", fontsize=8)
    kinds = {"event-driven": (drawing.BLUE, "o"), "dense": (drawing.ORANGE, "s")}
    for kind, (color, mark) in kinds.items():
        names = [f"{kind} {active}" for active in ACTIVE]
        label = "event-driven kernel" if kind == "event-driven" else "JAX, dense"
        look = {"color": color, "fmt": mark, "mfc": "white", "lw": 1, "label": label}
        rates = [found[name].operations / times[name] / 1e9 for name in names]
        intensity = [found[name].operations / found[name].bytes for name in names]
        bars(roofline, intensity, rates, **look | {"label": None})
        bars(by_part, 100 * np.array(ACTIVE), [times[n] * 1e6 for n in names], **look | {"ls": "-"})
    least = [found[f"event-driven {active}"].bytes / memory * 1e6 for active in ACTIVE]
    by_part.plot(100 * np.array(ACTIVE), least, "k-", lw=1, label="bytes / memory's bandwidth")
    for axes in (roofline, by_part):
        axes.set(xscale="log", yscale="log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:,g}")
    roofline.set(xlabel="operations per byte", ylabel="useful Gflop/s")
    by_part.set(xlabel="neurons that spike (%)", ylabel="time of a product (µs)")
    by_part.legend(loc="upper left", borderaxespad=0)
    for axes in (roofline, by_part):
        axes.set_ylim(None, axes.get_ylim()[1] * 12)
    drawing.title(roofline, "A", f"Roofline, W of {size:,} x {size:,}, {DENSITY:.0%}")
    drawing.title(by_part, "B", f"Medians and quartiles of {rounds} rounds")
    return drawing.save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=6000, help="neurons; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("--picture", type=Path, default=Path("roofline.png"))
    a = parser.parse_args(argv)
    if not 100 <= a.size <= 20_000 or a.rounds < 2:
        parser.error("expected 100 to 20000 for --size, and 2 or more for --rounds")
    jax.config.update("jax_platforms", "cpu")
    found, error = products(a.size)
    measured = roofs(a.size**2)
    times = measure(measured | found, a.rounds)
    peaks = {}
    for name, work in measured.items():
        peaks[name] = (work.bytes + work.operations) / np.median(times[name])
        print(f"{name}: {peaks[name] / 1e9:,.1f} {'Gflop/s' if work.operations else 'GB/s'}")
    for name, work in found.items():
        seconds = np.median(times[name])
        rates = f"{work.operations / seconds / 1e9:.3f} Gflop/s, {work.bytes / seconds / 1e9:.1f}"
        print(f"{name}: {seconds * 1e6:,.1f} us, {rates} GB/s")
    print(f"The products are off by at most {error:.2g} of the largest current")
    print("Picture:", *draw(times, peaks, found, a.size, a.rounds, a.picture))
    return int(not error < 1e-4)


if __name__ == "__main__":
    sys.exit(main())
