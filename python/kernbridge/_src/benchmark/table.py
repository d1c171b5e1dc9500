"""Records as a table: what is in its cells, and how it is written with and without rich."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge._src.benchmark.records import BenchmarkRecord, getter, key_of, names_of, varying

Names = str | Sequence[str] | None
Records = Iterable[BenchmarkRecord]
BEST = " *"
_SHOWN = ("median_ms", "iqr_ms", "mean_ms", "min_ms", "throughput")


@dataclass(frozen=True)
class Table:
    """Cells of text, in sections. Columns with names come first, then those with figures."""

    title: str
    headers: list[str]
    sections: list[list[list[str]]]
    notes: list[str]
    n_names: int


def build(
    title: str,
    records: Sequence[BenchmarkRecord],
    *,
    sort_by: Names = None,
    group_by: Names = "label",
    compare_by: Names = "backend",
    highlight_best: bool = True,
    order_by: Names = None,
    speedup_vs: Any = None,
    vary_by: Names = None,
) -> Table:
    """Arrange records into a table; see `BenchmarkResult.print`."""
    if not records:
        return Table(title, ["no records"], [], [], 1)
    group, compare = names_of(group_by), names_of(compare_by, ["backend"])
    vary = names_of(vary_by, [n for n in varying(records) if n not in compare])
    shown = list(dict.fromkeys((*group, *vary, *compare)))
    group_of = _reader(records, "group_by", group)
    case_of = _reader(records, "vary_by", [*group, *vary])
    compared = _reader(records, "compare_by", compare)
    fastest = _fastest(records, case_of)
    base = _baseline(records, case_of, compared, speedup_vs) if speedup_vs is not None else {}
    any_failed = not all(record.success for record in records)

    def row(record: BenchmarkRecord) -> list[str]:
        names = [_text(getter(records, name, "group_by")(record)) for name in shown]
        median, *others = [_figure(name, getattr(record, name)) for name in _SHOWN]
        case = _hashed(case_of(record))
        if highlight_best:
            median += BEST if fastest.get(case) is record else " " * len(BEST)
        if speedup_vs is not None:
            others.append(_ratio(base.get(case), record))
        if any_failed:
            others.append("" if record.success else "failed")
        return [*names, median, *others]

    order, sort = _sorter(records, "order_by", order_by), _sorter(records, "sort_by", sort_by)
    groups: dict[Any, list[BenchmarkRecord]] = {}
    for record in order(records):
        groups.setdefault(_hashed(group_of(record)), []).append(record)
    listed = [sort(members) for members in groups.values()]
    headers = [*shown, "median", "iqr", "mean", "min", "calls/s"]
    headers += [f"x {_text(speedup_vs)}"] if speedup_vs is not None else []
    headers += [""] if any_failed else []
    notes = [
        f"{r.label}, {r.backend}: {r.error}" for members in listed for r in members if not r.success
    ]
    return Table(title, headers, [[*map(row, members)] for members in listed], notes, len(shown))


def as_text(table: Table) -> str:
    """Return a table in plain characters."""
    return "\n".join(line for line, _ in _lines(table))


def show(table: Table) -> None:
    """Print a table, in colours if rich is there."""
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        print(as_text(table))
        return
    console = Console()
    for line, style in _lines(table):
        console.print(Text(line, style=style), soft_wrap=True)


def _lines(table: Table) -> Iterator[tuple[str, str]]:
    """Return the lines, columns aligned, each with its style."""
    rows = [table.headers, *(row for section in table.sections for row in section)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(width) if i < table.n_names else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(aligned).rstrip()

    if table.title:
        yield table.title, "italic"
    yield line(table.headers), "bold"
    for section in table.sections:
        yield "-" * (sum(widths) + 2 * (len(widths) - 1)), ""
        for row in section:
            yield line(row), "bold green" if row[table.n_names].endswith(BEST) else ""
    yield from ((note, "red") for note in table.notes)


def duration(ms: float) -> str:
    """Write milliseconds in the unit that suits them."""
    if not math.isfinite(ms):
        return "-"
    for unit, size in (("s", 1e3), ("ms", 1.0), ("us", 1e-3)):
        if abs(ms) >= size:
            return f"{ms / size:.4g} {unit}"
    return f"{ms * 1e6:.4g} ns"


def _figure(name: str, value: float) -> str:
    if name == "throughput":
        return f"{value:,.0f}" if math.isfinite(value) else "-"
    return duration(value)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value}"


def _hashed(values: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    return tuple(key_of(value) for value in values)


def _reader(
    records: Sequence[BenchmarkRecord], what: str, names: Sequence[str]
) -> Callable[[BenchmarkRecord], tuple[Any, ...]]:
    getters = [getter(records, name, what) for name in dict.fromkeys(names)]
    return lambda record: tuple(get(record) for get in getters)


def _sorter(
    records: Sequence[BenchmarkRecord], what: str, names: Names
) -> Callable[[Records], list[BenchmarkRecord]]:
    """Return what sorts some of the records by names, downwards by "-name"."""
    keys = [(getter(records, n.removeprefix("-"), what), n[:1] == "-") for n in names_of(names)]

    def ordered(chosen: Records) -> list[BenchmarkRecord]:
        for get, down in reversed(keys):
            known = [record for record in chosen if not _is_missing(get(record))]
            known.sort(key=lambda record: _order(get(record)), reverse=down)
            chosen = [*known, *(record for record in chosen if _is_missing(get(record)))]
        return list(chosen)

    return ordered


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers come first, then everything else as text."""
    try:
        return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")
    except (TypeError, ValueError):
        return 1, 0.0, f"{value}"


def _fastest(records: Records, case_of: Any) -> dict[Any, BenchmarkRecord]:
    """Return the fastest record of each case."""
    found: dict[Any, BenchmarkRecord] = {}
    for record in records:
        least = found.setdefault(_hashed(case_of(record)), record) if record.success else None
        if least is not None and record.median_ms < least.median_ms:
            found[_hashed(case_of(record))] = record
    return found


def _baseline(
    records: Sequence[BenchmarkRecord], case_of: Any, compared: Any, value: Any
) -> dict[Any, BenchmarkRecord]:
    """Return the record of each case that has a value where records are compared."""
    wanted = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    chosen = [record for record in records if compared(record) == wanted]
    if not chosen:
        known = dict.fromkeys(", ".join(map(_text, compared(record))) for record in records)
        raise ValueError(
            f"`speedup_vs` is {value!r}, which no record has; there are {'; '.join(known)}"
        )
    return _fastest(chosen, case_of)


def _ratio(base: BenchmarkRecord | None, record: BenchmarkRecord) -> str:
    if base is None or not record.success or not record.median_ms:
        return "-"
    return f"{base.median_ms / record.median_ms:.3g}"
