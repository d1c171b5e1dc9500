"""Records as a figure: lines, bars or points; logarithmic where values span decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbridge._src.benchmark.records import BenchmarkRecord, getter, key_of, varying

METHODS = {"line": "plot", "bar": "bar", "scatter": "scatter"}
LOG_FROM = 1.5  # decades
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

    def draw(self, ax: Any, kind: str, show: bool, options: dict[str, Any]) -> Any:
        """Draw on axes, or on new ones; `options` are those of the method of the axes."""
        if kind not in METHODS:
            raise ValueError(f"`kind` is one of {', '.join(METHODS)}, got {kind!r}")
        if not self.records:
            raise ValueError(
                f"{self.title or 'these results'}: nothing to plot, as no record is a success with "
                f"a number as {self.names['y']!r}"
            )
        try:
            from matplotlib import pyplot
        except ImportError as e:
            raise ImportError("plots need matplotlib: pip install matplotlib") from e
        ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        self._draw_series(ax, kind, options)
        y = str(self.names["y"])
        units = {"throughput": "calls per second"}
        ax.set_xlabel(self.names["x"])
        ax.set_ylabel(f"{y[:-3]} (ms per call)" if y.endswith("_ms") else units.get(y, y))
        ax.set_title(self.title)
        if _spans_decades([self.readers["y"](r) for r in self.records]):
            ax.set_yscale("log")
        title = ", ".join(n for w in ("hue", "style") if (n := self.names[w]))
        if title:
            ax.legend(title=title)
        if show:
            pyplot.show()
        return ax.figure

    def _draw_series(self, ax: Any, kind: str, options: dict[str, Any]) -> None:
        """Draw each hue and style; bars stand side by side, with numbers as categories."""
        if kind == "bar" and self._overlap():
            raise ValueError(
                "several records would be the same bar: give `style` what distinguishes them"
            )
        values = list({key_of(v): v for v in map(self.readers["x"], self.records)}.values())
        are_numbers = all(map(_is_number, values))
        if kind == "bar" and are_numbers:
            values.sort()
        as_categories = kind == "bar" or not are_numbers
        places = {key_of(v): i if as_categories else float(v) for i, v in enumerate(values)}
        series: dict[Any, list[BenchmarkRecord]] = {}
        for record in self.records:
            series.setdefault((self._key("hue", record), self._key("style", record)), []).append(
                record
            )
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
            named = [self.readers[w](members[0]) for w in ("hue", "style") if w in self.readers]
            look["label"] = ", ".join(map(str, named)) or None
            points = sorted(
                (places[self._key("x", r)] + shift, float(self.readers["y"](r))) for r in members
            )
            getattr(ax, METHODS[kind])(*zip(*points, strict=True), **(look | options))
        if as_categories:
            names = [f"{value}" for value in values]
            long = sum(map(len, names)) > 60
            look = {"rotation": 30, "ha": "right"} if long else {}
            ax.set_xticks(range(len(names)), names, **look)
        elif _spans_decades(values):
            ax.set_xscale("log")

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


def _spans_decades(values: Sequence[Any]) -> bool:
    numbers = [float(value) for value in values]
    return min(numbers) > 0 and math.log10(max(numbers) / min(numbers)) > LOG_FROM
