"""Points with bars on an axis of times or ratios: what the figures of plots.py are made of."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import drawing
from matplotlib.ticker import FuncFormatter, LogLocator

SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
LOG_FROM = 8.0  # times the least value


@dataclass(frozen=True)
class Point:
    """A median, in seconds if it is a time, and the quartiles where they are known."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    is_time: bool = False

    @classmethod
    def of_row(cls, row: Mapping[str, Any], name: str = "") -> Point:
        """The time of a row of measure.py or chain.py; old files have no quartiles and no unit."""
        unit = SECONDS.get(row.get("unit", "µs"), 1.0)
        low, high = (q * unit for q in row.get("quartiles") or (math.nan, math.nan))
        known = math.isfinite(low)
        median = row["median"] * unit
        is_time = row.get("unit", "µs") in SECONDS
        return cls(name or row["name"], median, *((low, high) if known else (None, None)), is_time)

    @classmethod
    def of_ratio(cls, row: Mapping[str, Any], name: str) -> Point:
        low, high = row.get("ratio_quartiles") or (None, None)
        return cls(name, row["ratio"], low, high)

    @classmethod
    def of_values(cls, name: str, values: Sequence[float], unit: float) -> Point:
        """Median and quartiles of values in a unit of seconds, or of plain numbers for 0."""
        scaled = [value * (unit or 1.0) for value in values]
        ends = statistics.quantiles(scaled, n=4, method="inclusive") if len(scaled) > 1 else None
        low, high = (ends[0], ends[2]) if ends else (None, None)
        return cls(name, statistics.median(scaled), low, high, bool(unit))

    def text(self) -> str:
        return duration(self.value) if self.is_time else f"{self.value:.3g}"

    def bar(self) -> str:
        if self.low is None or self.high is None:
            return ""
        if not self.is_time:
            return f"{self.low:.3g} to {self.high:.3g}"
        return f"{duration(self.low)} to {duration(self.high)}"


def points(rows: Iterable[Mapping[str, Any]], name: str = "") -> list[Point]:
    return [Point.of_row(row, name) for row in rows]


def unit_of(seconds: float) -> str:
    return next((u for u, size in SECONDS.items() if seconds >= 0.9995 * size), "ns")


def duration(seconds: float) -> str:
    """Three digits in the unit that suits them."""
    unit = unit_of(seconds)
    number = seconds / SECONDS[unit]
    return f"{float(f'{number:.3g}'):,.15g} {unit}"


def show(
    axes: Any,
    letter: str,
    title: str,
    found: Sequence[Point],
    values: str = "",
    color: str = drawing.BLUE,
    label: str | None = None,
    shift: float = 0.0,
) -> None:
    """Draw points from top to bottom, each with its name at the left and its value beside it.

    `values` formats the values of ratios; times are written in the unit that suits each. Where
    there are several series, a label names each in place of values, and a shift separates them.
    """
    if letter:
        drawing.title(axes, letter, title)
    else:
        axes.set_title(title)
    if not found:
        return
    ends = [x for p in found for x in (p.low, p.value, p.high) if x is not None]
    low, high = min(ends), max(ends)
    is_log = high > LOG_FROM * low
    unit = 1.0
    if found[0].is_time:
        name = unit_of(math.sqrt(low * high) if is_log else high)
        unit = SECONDS[name]
        axes.set_xlabel(f"time ({name})")
    places = [place + shift for place in range(len(found))]
    for place, p in zip(places, found, strict=True):
        if p.low is not None:
            axes.hlines(place, p.low / unit, p.high / unit, color=color, lw=2.5, alpha=0.45)
    axes.plot([p.value / unit for p in found], places, "o", color=color, ms=4, label=label)
    if label is None:
        for place, p in zip(places, found, strict=True):
            text = p.text() if p.is_time else values.format(p.value)
            beside = max(p.value, p.high or 0) / unit
            axes.annotate(
                text, (beside, place), (6, 0), textcoords="offset points", va="center", fontsize=7,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
    if is_log:
        axes.set_xscale("log")
        axes.set_xlim(low / unit / 1.6, high / unit * (high / low) ** 0.28)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 40 else (1,)))
    else:
        low = min(low, 0.9 * low) if not found[0].is_time else 0.0
        axes.set_xlim(low / unit, (high + 0.3 * (high - low)) / unit)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.set_yticks(places, [p.name for p in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
