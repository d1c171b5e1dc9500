"""The field's usual figure: spikes by population, rates, variation and correlations."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import drawing
from drawing import EXCITATORY, INHIBITORY

from . import parameters as p
from .measures import Measures
from .run import Spikes

COLORS = (EXCITATORY, INHIBITORY)
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
        style = {"ms": 1.8, "mew": 0, "color": COLORS[kind], "rasterized": True}
        axes.plot(ms[mine], neurons[mine], ".", **style)
    for layer in model.starts[2:-1:2]:
        axes.axhline(layer, color="0.8", lw=0.5, zorder=0)
    middles = (model.starts[:-1] + model.starts[1:]) / 2
    axes.set(xlabel="time (ms)", xlim=(0, SHOWN), ylim=(model.neurons, 0))
    _name_populations(axes, middles)
    axes.tick_params(axis="y", length=0)
    part = f"one in {every} of the" if every > 1 else "all"
    drawing.title(axes, "A", f"Spikes of {part} {model.neurons:,} neurons")


def _name_populations(axes, places) -> None:
    axes.set_yticks(places, p.NAMES)
    for i, label in enumerate(axes.get_yticklabels()):
        label.set_color(COLORS[i % 2])


def _draw_boxes(axes, letter: str, title: str, values: list[np.ndarray], mark=None) -> None:
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
    axes.plot(means, range(8), "o", ms=3.5, color="white", mec="black", mew=0.8, label="mean")
    if mark is not None:
        axes.plot(mark, range(8), "x", ms=5, color="black", mew=0.9, label="published mean")
        axes.legend(loc="upper right", borderaxespad=0)
    axes.set(ylim=(7.6, -0.6))
    _name_populations(axes, range(8))
    drawing.title(axes, letter, title)


@drawing.in_our_look
def draw(
    path: Path, model: p.Model, spikes: Spikes, end: int, found: Measures, reference
) -> list[Path]:
    """Draw spikes up to the step `end`, and write the figure as PNG and PDF."""
    figure = drawing.figure(7, 5.6)
    left, right = figure.subfigures(1, 2, width_ratios=(1.15, 1), wspace=0.04)
    raster = left.subplots()
    rates, cvs, correlations = right.subplots(3, 1)
    _draw_raster(raster, model, spikes, end)
    _draw_boxes(rates, "B", "Rates of neurons (Hz)", found.rates, reference)
    _draw_boxes(cvs, "C", "CV of inter-spike intervals", found.cvs)
    _draw_boxes(correlations, "D", "Correlation of pairs, counts in 2 ms", found.correlations)
    return drawing.save(figure, path)
