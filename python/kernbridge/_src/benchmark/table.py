"""Formats benchmark records as a table, with or without rich."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernbridge._src.benchmark.records import BenchmarkRecord, getter, key_of, varying

Names = str | Sequence[str] | None
Line = tuple[str, str]  # its text and its style
_Getters = Sequence[Callable[[BenchmarkRecord], Any]]
_BEST = " *"
_TIMES = ("median", "iqr", "mean", "min")


def lines(
    title: str,
    records: Sequence[BenchmarkRecord],
    sort_by: Names = None,
    group_by: Names = "label",
    compare_by: Names = "backend",
    highlight_best: bool = True,
    order_by: Names = None,
    speedup_vs: Any = None,
    vary_by: Names = None,
) -> list[Line]:
    """Return the lines of a table; see `BenchmarkResult.print`."""
    titled = [(title, "italic")] if title else []
    if not records:
        return [*titled, ("no records", "bold")]
    group, compare = _list(group_by), _list("backend" if compare_by is None else compare_by)
    vary = [n for n in varying(records) if n not in compare] if vary_by is None else _list(vary_by)
    of_group, of_case, compared = (
        [getter(records, name, what) for name in dict.fromkeys(names)]
        for what, names in (
            ("group_by", group),
            ("vary_by", [*group, *vary]),
            ("compare_by", compare),
        )
    )
    shown = list(dict.fromkeys((*group, *vary, *compare)))
    named = [getter(records, name, "group_by") for name in shown]
    fastest = _fastest(records, of_case)
    base = {}
    if speedup_vs is not None:
        base = _fastest(_with_value(records, compared, speedup_vs), of_case)
    any_failed = not all(record.success for record in records)

    def row(record: BenchmarkRecord) -> list[str]:
        case = _key(of_case, record)
        median, *others = [duration(getattr(record, f"{name}_ms")) for name in _TIMES]
        if highlight_best:
            median += _BEST if fastest.get(case) is record else " " * len(_BEST)
        others.append(f"{record.throughput:,.0f}" if math.isfinite(record.throughput) else "-")
        if speedup_vs is not None:
            known = case in base and record.success and record.median_ms
            others.append(f"{base[case].median_ms / record.median_ms:.3g}" if known else "-")
        if any_failed:
            others.append("" if record.success else "failed")
        return [*(_text(get(record)) for get in named), median, *others]

    headers = [*shown, *_TIMES, "calls/s"]
    headers += [f"x {_text(speedup_vs)}"] if speedup_vs is not None else []
    headers += [""] if any_failed else []
    order, sort = _sorter(records, "order_by", order_by), _sorter(records, "sort_by", sort_by)
    groups: dict[Any, list[BenchmarkRecord]] = {}
    for record in order(records):
        groups.setdefault(_key(of_group, record), []).append(record)
    listed = [sort(members) for members in groups.values()]
    notes = [
        (f"{r.label}, {r.backend}: {r.error}", "red")
        for members in listed
        for r in members
        if not r.success
    ]
    sections = [[*map(row, members)] for members in listed]
    return [*titled, *_aligned(headers, sections, len(shown)), *notes]


def show(lines: Iterable[Line]) -> None:
    """Print the lines of a table, in colours if rich is there."""
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        print(as_text(lines))
        return
    console = Console()
    for text, style in lines:
        console.print(Text(text, style=style), soft_wrap=True)


def as_text(lines: Iterable[Line]) -> str:
    """Return the lines of a table in plain characters."""
    return "\n".join(text for text, _ in lines)


def _aligned(headers: list[str], sections: list[list[list[str]]], n_names: int) -> Iterable[Line]:
    """Align columns: those with names come first, and then those with figures."""
    rows = [headers, *(row for section in sections for row in section)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        names = map(str.ljust, cells[:n_names], widths[:n_names])
        figures = map(str.rjust, cells[n_names:], widths[n_names:])
        return "  ".join((*names, *figures)).rstrip()

    yield line(headers), "bold"
    for section in sections:
        yield "-" * (sum(widths) + 2 * (len(widths) - 1)), ""
        for row in section:
            yield line(row), "bold green" if row[n_names].endswith(_BEST) else ""


def duration(ms: float) -> str:
    """Write milliseconds in the unit that suits them."""
    if not math.isfinite(ms):
        return "-"
    for unit, size in (("s", 1e3), ("ms", 1.0), ("us", 1e-3)):
        if abs(ms) >= size:
            return f"{ms / size:.4g} {unit}"
    return f"{ms * 1e6:.4g} ns"


def _text(value: Any) -> str:
    return "-" if value is None else f"{value}"


def _list(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def _key(getters: _Getters, record: BenchmarkRecord) -> tuple[tuple[str, str], ...]:
    return tuple(key_of(get(record)) for get in getters)


def _fastest(records: Iterable[BenchmarkRecord], of_case: _Getters) -> dict[Any, BenchmarkRecord]:
    """Return the fastest success of each case."""
    found: dict[Any, BenchmarkRecord] = {}
    for record in sorted(records, key=lambda record: _order(record.median_ms)):
        if record.success:
            found.setdefault(_key(of_case, record), record)
    return found


def _with_value(
    records: Sequence[BenchmarkRecord], compared: _Getters, value: Any
) -> list[BenchmarkRecord]:
    """Return the records that have a value where records are compared."""
    wanted = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    values = [tuple(get(record) for get in compared) for record in records]
    chosen = [record for record, had in zip(records, values, strict=True) if had == wanted]
    if not chosen:
        known = dict.fromkeys(", ".join(map(_text, had)) for had in values)
        raise ValueError(
            f"`speedup_vs` is {value!r}, which no record has; there are {'; '.join(known)} [KB8009]"
        )
    return chosen


def _sorter(
    records: Sequence[BenchmarkRecord], what: str, names: Names
) -> Callable[[Iterable[BenchmarkRecord]], list[BenchmarkRecord]]:
    """Return what sorts records by names, downwards by "-name"; missing values come last."""
    keys = [(getter(records, n.removeprefix("-"), what), n[:1] == "-") for n in _list(names)]

    def ordered(chosen: Iterable[BenchmarkRecord]) -> list[BenchmarkRecord]:
        found = list(chosen)
        for get, down in reversed(keys):
            found.sort(key=lambda record: _order(get(record)), reverse=down)
            found.sort(key=lambda record: _order(get(record)) == _MISSING)
        return found

    return ordered


_MISSING = (2, 0.0, "")


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers come first, then everything else as text, and then what is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _MISSING
    try:
        return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")
    except (TypeError, ValueError):
        return 1, 0.0, f"{value}"
