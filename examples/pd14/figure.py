"""The field's usual figure: spikes by population, rates, variation and correlations."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from . import parameters as p
from .measures import Measures
from .run import Spikes

COLORS = ("#2b5c8a", "#c0392b")  # excitatory, inhibitory
SHOWN = 400.0  # ms of the raster, its last ones
DOTS = 2000  # neurons of the raster


def _draw_raster(axes, model: p.Model, spikes: Spikes, end: int) -> None:
    """Draw the spikes of every k-th neuron, layer 2/3 on top."""
    first = end - round(SHOWN / p.DT)
    every = max(1, model.neurons // DOTS)
    shown = (spikes.steps >= first) & (spikes.neurons % every == 0)
    neurons, ms = spikes.neurons[shown], (spikes.steps[shown] - first) * p.DT
    population = model.population_of(neurons)
    for kind in (0, 1):
        mine = population % 2 == kind
        axes.plot(ms[mine], neurons[mine], ".", ms=2.2, mew=0, color=COLORS[kind])
    middles = (model.starts[:-1] + model.starts[1:]) / 2
    axes.set(xlabel="time (ms)", xlim=(0, SHOWN), ylim=(model.neurons, 0))
    axes.set_yticks(middles, p.NAMES, fontsize="small")
    axes.tick_params(axis="y", length=0)
    part = f"every {every}th neuron" if every > 3 else "all neurons" if every == 1 else "a part"
    axes.set_title(f"A   spikes of {part}", loc="left")


def _draw_boxes(axes, title: str, label: str, values: list[np.ndarray], mark=None) -> None:
    boxes = axes.boxplot(
        [v if v.size else [np.nan] for v in values],
        orientation="horizontal",
        positions=range(8),
        widths=0.6,
        showfliers=False,
        patch_artist=True,
        medianprops={"color": "black"},
    )
    for i, box in enumerate(boxes["boxes"]):
        box.set(facecolor=COLORS[i % 2], alpha=0.75, linewidth=0.6)
    means = [v.mean() if v.size else np.nan for v in values]
    axes.plot(means, range(8), "o", ms=4, color="white", mec="black", label="mean")
    if mark is not None:
        axes.plot(mark, range(8), "x", ms=6, color="black", label="reference")
        axes.legend(frameon=False, fontsize="small", loc="upper right")
    axes.set(xlabel=label, ylim=(7.6, -0.6))
    axes.set_yticks(range(8), p.NAMES, fontsize="small")
    axes.set_title(title, loc="left")


def draw(
    path: Path, model: p.Model, spikes: Spikes, end: int, found: Measures, reference
) -> list[Path]:
    """Draw spikes up to the step `end`, and write the figure as PNG and PDF."""
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    raster = left.subplots()
    rates, cvs, correlations = right.subplots(3, 1)
    _draw_raster(raster, model, spikes, end)
    _draw_boxes(rates, "B   rates", "Hz", found.rates, reference)
    _draw_boxes(cvs, "C   variation", "CV of inter-spike intervals", found.cvs)
    _draw_boxes(correlations, "D   correlations", "of counts in 2 ms", found.correlations)
    for axes in (raster, rates, cvs, correlations):
        axes.spines[["top", "right"]].set_visible(False)
    written = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    for name in written:
        figure.savefig(name, dpi=150)
    return written
