"""The look of all figures here, and how they are written: as PNG with 300 dpi, and as PDF.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
Sizes are in inches, as on the page of a journal: 7 inches are the width of two columns.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, GREY, BLACK = "#E69F00", "#56B4E9", "#767676", "#000000"
EXCITATORY, INHIBITORY = BLUE, ORANGE
DPI = 300

LOOK = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "image.interpolation": "nearest",
    "pdf.fonttype": 42,  # texts stay texts
    "svg.hashsalt": "kernbridge",  # the same drawing is the same file
}
in_our_look = matplotlib.rc_context(LOOK)  # a decorator of functions that draw


def figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def title(axes, letter: str, text: str) -> None:
    """Name a panel by a letter in bold, left of its axis, and by a title."""
    axes.annotate(
        letter,
        (0, 1),
        (-22, 6),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=11,
        fontweight="bold",
        annotation_clip=False,
    )
    axes.set_title(text, pad=6)


def save(drawn: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF beside each other; returns both names."""
    png, pdf = path.with_suffix(".png"), path.with_suffix(".pdf")
    drawn.savefig(png, dpi=DPI)
    drawn.savefig(pdf, metadata={"CreationDate": None})
    return [png, pdf]
