"""Records as a figure: lines, bars or points; logarithmic where values span decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbridge._src.benchmark.records import BenchmarkRecord, getter, key_of, varying

KINDS = ("line", "bar", "scatter")
LOG_FROM = 1.5  # decades
_UNITS = {"throughput": "calls per second"}
_DASHES = ("-", "--", ":", "-.")
_MARKS = "os^Dv*PX"

Series = dict[Any, list[BenchmarkRecord]]


def draw(
    records: Sequence[BenchmarkRecord],
    title: str,
    *,
    ax: Any,
    x: str | None,
    y: str,
    hue: str | None,
    style: str | None,
    kind: str,
    show: bool,
    **kwargs: Any,
) -> Any:
    """Draw records; see `BenchmarkResult.plot`."""
    if kind not in KINDS:
        raise ValueError(f"`kind` is one of {', '.join(KINDS)}, got {kind!r}")
    try:
        from matplotlib import pyplot
    except ImportError as e:
        raise ImportError("plots need matplotlib: pip install matplotlib") from e
    x = x or _default_x(records, hue, style)
    readers = {"x": getter(records, x, "x"), "y": getter(records, y, "y")}
    readers |= {n: getter(records, v, n) for n, v in (("hue", hue), ("style", style)) if v}
    drawn = [r for r in records if r.success and _is_number(readers["y"](r))]
    if not drawn:
        raise ValueError(
            f"{title or 'these results'}: nothing to plot, as no record is a success with a number "
            f"as {y!r}"
        )
    if style is None and "label" not in (x, hue) and _overlap(drawn, readers):
        style, readers["style"] = "label", getter(records, "label", "style")
    if ax is None:
        ax = pyplot.subplots(layout="constrained")[1]
    chosen = _Drawing(ax, readers, [readers["x"](r) for r in drawn])
    getattr(chosen, kind)(drawn, **kwargs)
    ax.set_xlabel(x)
    ax.set_ylabel(_UNITS.get(y, f"{y.removesuffix('_ms')} (ms per call)" if "_ms" in y else y))
    ax.set_title(title)
    if _spans_decades([readers["y"](r) for r in drawn]):
        ax.set_yscale("log")
    if "hue" in readers or "style" in readers:
        ax.legend(title=", ".join(n for n in (hue, style) if n))
    if show:
        pyplot.show()
    return ax.figure


def _default_x(records: Sequence[BenchmarkRecord], hue: str | None, style: str | None) -> str:
    """The first key of the kwargs whose values are different numbers, or else the label."""
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


def _series_of(record: BenchmarkRecord, readers: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(key_of(readers[n](record)) for n in ("hue", "style") if n in readers)


def _overlap(records: Sequence[BenchmarkRecord], readers: dict[str, Any]) -> bool:
    places = [(key_of(readers["x"](r)), _series_of(r, readers)) for r in records]
    return len(set(places)) < len(places)


class _Drawing:
    """Axes, and where the records lie on x: at their number, or at that of their category."""

    def __init__(self, ax: Any, readers: dict[str, Any], xs: Sequence[Any]) -> None:
        self.ax, self.readers = ax, readers
        self.categories = list({key_of(v): v for v in xs}.values())
        self.numeric = all(_is_number(v) for v in xs)

    def _series(self, records: Sequence[BenchmarkRecord]) -> Series:
        found: Series = {}
        for record in records:
            found.setdefault(_series_of(record, self.readers), []).append(record)
        return found

    def _label(self, record: BenchmarkRecord) -> str | None:
        parts = [f"{self.readers[n](record)}" for n in ("hue", "style") if n in self.readers]
        return ", ".join(parts) or None

    def _look(self, record: BenchmarkRecord, records: Sequence[BenchmarkRecord]) -> tuple[int, int]:
        """Which colour and which dash: the places of its hue and style."""
        places = []
        for name in ("hue", "style"):
            get = self.readers.get(name)
            values = list(dict.fromkeys(key_of(get(r)) for r in records)) if get else []
            places.append(values.index(key_of(get(record))) if get else 0)
        return places[0], places[1]

    def _x(self, record: BenchmarkRecord) -> float:
        value = self.readers["x"](record)
        if self.numeric:
            return float(value)
        return [key_of(c) for c in self.categories].index(key_of(value))

    def _scale_x(self) -> None:
        if not self.numeric:
            self._name_categories()
        elif _spans_decades(self.categories):
            self.ax.set_xscale("log")

    def _name_categories(self) -> None:
        names = [f"{value}" for value in self.categories]
        long = sum(map(len, names)) > 60
        self.ax.set_xticks(
            range(len(names)), names, rotation=30 if long else 0, ha="right" if long else "center"
        )

    def _points(self, records: Sequence[BenchmarkRecord]) -> tuple[list[float], list[float]]:
        points = sorted((self._x(r), float(self.readers["y"](r))) for r in records)
        return [p[0] for p in points], [p[1] for p in points]

    def line(self, records: Sequence[BenchmarkRecord], **kwargs: Any) -> None:
        for members in self._series(records).values():
            colour, dash = self._look(members[0], records)
            look = {
                "color": f"C{colour % 10}",
                "linestyle": _DASHES[dash % len(_DASHES)],
                "marker": _MARKS[dash % len(_MARKS)],
            }
            self.ax.plot(*self._points(members), label=self._label(members[0]), **(look | kwargs))
        self._scale_x()

    def scatter(self, records: Sequence[BenchmarkRecord], **kwargs: Any) -> None:
        for members in self._series(records).values():
            colour, dash = self._look(members[0], records)
            look = {"color": f"C{colour % 10}", "marker": _MARKS[dash % len(_MARKS)]}
            self.ax.scatter(
                *self._points(members), label=self._label(members[0]), **(look | kwargs)
            )
        self._scale_x()

    def bar(self, records: Sequence[BenchmarkRecord], **kwargs: Any) -> None:
        """Bars side by side at each category; numbers are categories too, in their order."""
        if self.numeric:
            self.categories.sort()
            self.numeric = False
        if _overlap(records, self.readers):
            raise ValueError(
                "several records would be the same bar: give `style` what distinguishes them"
            )
        series = list(self._series(records).values())
        width = 0.8 / len(series)
        for i, members in enumerate(series):
            xs, ys = self._points(members)
            shifted = [x + (i - (len(series) - 1) / 2) * width for x in xs]
            look = {"width": width, "color": f"C{i % 10}"}
            self.ax.bar(shifted, ys, label=self._label(members[0]), **(look | kwargs))
        self._name_categories()
