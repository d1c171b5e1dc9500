"""Draws benchmark records as lines, bars or points with error bars.

Axes are logarithmic if the values span several orders of magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbridge._src.benchmark.plot_axes import label_numbers, label_times, spans_decades
from kernbridge._src.benchmark.records import BenchmarkRecord, getter, key_of, varying

METHODS = {"line": "plot", "bar": "bar", "scatter": "scatter"}
# What the bars are, by what is drawn along y
ERRORS = {
    "median_ms": "median and quartiles",
    "throughput": "median and quartiles",
    "mean_ms": "mean ± standard deviation",
}
_DASHES = ("-", "--", ":", "-.")
_MARKS = "os^Dv*PX"


class Figure:
    """The records that can be drawn, and what lies along x and y and distinguishes them."""

    def __init__(
        self,
        records: Sequence[BenchmarkRecord],
        title: str,
        x: str | None,
        y: str,
        hue: str | None,
        style: str | None,
    ) -> None:
        x = x or _default_x(records, hue, style)
        self.title, self.names = title, {"x": x, "y": y, "hue": hue, "style": style}
        self.readers = {w: getter(records, name, w) for w, name in self.names.items() if name}
        self.records = [r for r in records if r.success and _is_number(self.readers["y"](r))]
        if style is None and "label" not in (x, hue) and self._overlap():
            self.names["style"] = "label"
            self.readers["style"] = getter(records, "label", "style")

    def draw(self, ax: Any, kind: str, show: bool, errors: bool, options: dict[str, Any]) -> Any:
        """Draw on axes, or on new ones; `options` are those of the method of the axes."""
        if kind not in METHODS:
            raise ValueError(f"`kind` must be one of {', '.join(METHODS)}, got {kind!r} [KB8009]")
        if not self.records:
            raise ValueError(
                f"{self.title or 'these results'}: nothing to plot, as no record is a success with "
                f"a number as {self.names['y']!r} [KB8009]"
            )
        try:
            from matplotlib import pyplot
        except ImportError as e:
            raise ImportError("plots need matplotlib: pip install matplotlib [KB4016]") from e
        ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        y = str(self.names["y"])
        limits = [_limits(record, y) if errors else None for record in self.records]
        self._draw_series(ax, kind, limits, options)
        values = [float(self.readers["y"](r)) for r in self.records]
        if spans_decades(values):
            ax.set_yscale("log")
        what = ERRORS[y] if any(limits) else ""
        if y.endswith("_ms"):
            label_times(ax.yaxis, what or y[:-3], values)
        else:
            label_numbers(ax.yaxis, values)
            calls = "calls per second" + (f", {what}" if what else "")
            ax.set_ylabel(calls if y == "throughput" else y)
        ax.set_xlabel(self.names["x"])
        ax.set_title(self.title)
        title = ", ".join(n for w in ("hue", "style") if (n := self.names[w]))
        if title:
            ax.legend(title=title)
        if show:
            pyplot.show()
        return ax.figure

    def _draw_series(
        self,
        ax: Any,
        kind: str,
        limits: Sequence[tuple[float, float] | None],
        options: dict[str, Any],
    ) -> None:
        """Draw each hue and style; bars stand side by side, with numbers as categories."""
        if kind == "bar" and self._overlap():
            raise ValueError(
                "several records would share a bar: pass the field that distinguishes them as "
                "`style` [KB8009]"
            )
        values = list({key_of(v): v for v in map(self.readers["x"], self.records)}.values())
        are_numbers = all(map(_is_number, values))
        if kind == "bar" and are_numbers:
            values.sort()
        as_categories = kind == "bar" or not are_numbers
        places = {key_of(v): i if as_categories else float(v) for i, v in enumerate(values)}
        series: dict[Any, list[tuple[BenchmarkRecord, tuple[float, float] | None]]] = {}
        for record, bar in zip(self.records, limits, strict=True):
            key = self._key("hue", record), self._key("style", record)
            series.setdefault(key, []).append((record, bar))
        hues, styles = (list(dict.fromkeys(keys)) for keys in zip(*series, strict=True))
        width = 0.8 / len(series)
        for i, ((hue, style), members) in enumerate(series.items()):
            dash = styles.index(style)
            look: dict[str, Any] = {"color": f"C{hues.index(hue) % 10}"}
            shift = 0.0
            if kind == "bar":
                shift = (i - (len(series) - 1) / 2) * width
                look = {"color": f"C{i % 10}", "width": width}
            else:
                look["marker"] = _MARKS[dash % len(_MARKS)]
            if kind == "line":
                look["linestyle"] = _DASHES[dash % len(_DASHES)]
            named = [self.readers[w](members[0][0]) for w in ("hue", "style") if w in self.readers]
            look["label"] = ", ".join(map(str, named)) or None
            points = sorted(
                (places[self._key("x", r)] + shift, float(self.readers["y"](r))) for r, _ in members
            )
            getattr(ax, METHODS[kind])(*zip(*points, strict=True), **(look | options))
            ends = [(places[self._key("x", r)] + shift, *bar) for r, bar in members if bar]
            if ends:
                color = "black" if kind == "bar" else options.get("color", look["color"])
                ax.vlines(*zip(*sorted(ends), strict=True), color=color, linewidth=1.2)
        if as_categories:
            names = [f"{value}" for value in values]
            long = sum(map(len, names)) > 60
            look = {"rotation": 30, "ha": "right"} if long else {}
            ax.set_xticks(range(len(names)), names, **look)
        else:
            if spans_decades(values):
                ax.set_xscale("log")
            label_numbers(ax.xaxis, values)

    def _key(self, what: str, record: BenchmarkRecord) -> Any:
        return key_of(self.readers[what](record)) if what in self.readers else None

    def _overlap(self) -> bool:
        """Return whether several records of one hue and style would be at one place along x."""
        places = [tuple(self._key(w, r) for w in ("x", "hue", "style")) for r in self.records]
        return len(set(places)) < len(places)


def _default_x(records: Sequence[BenchmarkRecord], hue: str | None, style: str | None) -> str:
    """Return the first key of the kwargs whose values are different numbers, or else the label."""
    for name in varying(records):
        get = getter(records, name, "x")
        if name not in (hue, style) and all(_is_number(get(record)) for record in records):
            return name
    return "label"


def _is_number(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return False
    return not isinstance(value, np.complexfloating) and math.isfinite(float(value))


def _limits(record: BenchmarkRecord, y: str) -> tuple[float, float] | None:
    """Return where the bar of a record begins and ends, or None if the record has none."""
    if y == "mean_ms":
        low, high = record.mean_ms - record.std_ms, record.mean_ms + record.std_ms
    elif y == "throughput" and record.q1_ms > 0:
        low, high = 1e3 / record.q3_ms, 1e3 / record.q1_ms
    elif y == "median_ms":
        low, high = record.q1_ms, record.q3_ms
    else:
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
