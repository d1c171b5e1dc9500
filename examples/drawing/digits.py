"""The figure of examples/digits.py: accuracy, what is mistaken for what, and learned weights."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import BLACK, figure, in_our_look, save, title

ROWS, COLUMNS = 4, 4  # neurons whose weights are shown


@in_our_look
def draw(
    accuracies: Sequence[float],
    images: np.ndarray,
    labels: np.ndarray,
    answers: np.ndarray,
    fields: np.ndarray,
    path: Path,
) -> list[Path]:
    """Draw accuracies by epoch; the answers to images; fields: the weights of pixels by neuron."""
    drawn = figure(7, 2.5)
    learning, confusion, weights = drawn.subplots(1, 3, width_ratios=(1, 1.2, 1.3))
    learning.plot(100 * np.array(accuracies), "o-", color=BLACK, ms=3)
    learning.axhline(10, color="0.6", lw=0.8, ls="--")
    learning.text(len(accuracies) - 1, 12, "chance", color="0.4", ha="right", fontsize=8)
    learning.set(xlabel="epoch", ylabel="right answers (%)", ylim=(0, 102))
    title(learning, "A", f"{len(labels)} test images")

    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, answers), 1)
    parts = 100 * counts / np.maximum(1, counts.sum(1, keepdims=True))
    confusion.imshow(parts, "Blues", vmin=0, vmax=100)
    for i, j in zip(*np.nonzero(counts), strict=True):
        color = "white" if parts[i, j] > 50 else "black"
        confusion.text(j, i, counts[i, j], ha="center", va="center", fontsize=6, color=color)
    confusion.set(xlabel="answer", ylabel="digit", xticks=range(10), yticks=range(10))
    confusion.tick_params(length=0)
    title(confusion, "B", "Images by answer")

    strongest = np.argsort(-np.abs(fields).sum(0))[: ROWS * COLUMNS]
    shown = np.full((9 * ROWS - 1, 9 * COLUMNS - 1), np.nan)  # a gap between neurons
    for place, neuron in enumerate(strongest):
        i, j = (9 * k for k in divmod(place, COLUMNS))
        shown[i : i + 8, j : j + 8] = fields[:, neuron].reshape(8, 8)
    most = np.nanmax(np.abs(shown))
    image = weights.imshow(shown, "PuOr", vmin=-most, vmax=most)
    weights.set_axis_off()
    title(weights, "C", f"Weights of pixels onto {len(strongest)} neurons")
    drawn.colorbar(image, ax=weights, pad=0.03, shrink=0.75)
    return save(drawn, path)
