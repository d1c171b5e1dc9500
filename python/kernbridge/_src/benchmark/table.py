"""Records as a table: what is in its cells, and how it is written with and without rich."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kernbridge._src.benchmark.records import BenchmarkRecord, getter, key_of, names_of, varying

Names = str | Sequence[str] | None
BEST = "*"
_SHOWN = ("median_ms", "iqr_ms", "mean_ms", "min_ms", "throughput")


@dataclass(frozen=True)
class Table:
    """Cells of text, in sections; `best` holds the places of the fastest rows."""

    title: str
    headers: list[str]
    sections: list[list[list[str]]]
    best: set[tuple[int, int]]
    notes: list[str]
    n_names: int  # columns with names come first, then those with figures


@dataclass(frozen=True)
class Layout:
    """What a table is to show; see `BenchmarkResult.print`."""

    sort_by: Names = None
    group_by: Names = "label"
    compare_by: Names = "backend"
    highlight_best: bool = True
    order_by: Names = None
    speedup_vs: Any = None
    vary_by: Names = None


def build(title: str, records: Sequence[BenchmarkRecord], layout: Layout) -> Table:
    """Arrange records into a table.

    Raises
    ------
    ValueError
        A name is unknown, or nothing has the value that speeds are to be related to.
    """
    if not records:
        return Table(title, ["no records"], [], set(), [], 1)
    compare = names_of(layout.compare_by, ["backend"])
    vary = names_of(layout.vary_by, [n for n in varying(records) if n not in compare])
    group = names_of(layout.group_by)
    shown = list(dict.fromkeys((*group, *vary, *compare)))
    read = _reader(records, "group_by", group)
    grouped = _grouped(records, read)
    grouped = _sorted_groups(records, grouped, layout.order_by)
    cases = _reader(records, "vary_by", list(dict.fromkeys((*group, *vary))))
    compared = _reader(records, "compare_by", compare)
    fastest, base = _least(records, cases), {}
    if layout.speedup_vs is not None:
        base = _baseline(records, cases, compared, layout.speedup_vs)
    columns = _reader(records, "group_by", shown)
    sections, best, notes = [], set(), []
    any_failed = not all(record.success for record in records)
    for i, members in enumerate(grouped):
        rows = []
        for j, record in enumerate(_sorted(records, members, layout.sort_by)):
            row = [_text(value) for value in columns(record)]
            row += [_figure(name, getattr(record, name)) for name in _SHOWN]
            case = _hashed(cases(record))
            if layout.highlight_best:
                marked = fastest.get(case) is record
                best |= {(i, j)} if marked else set()
                row[len(shown)] += f" {BEST}" if marked else "  "
            if layout.speedup_vs is not None:
                row.append(_ratio(base.get(case), record))
            if any_failed:
                row.append("" if record.success else "failed")
            if not record.success:
                notes.append(f"{record.label}, {record.backend}: {record.error}")
            rows.append(row)
        sections.append(rows)
    headers = [*shown, *(name.removesuffix("_ms") for name in _SHOWN)]
    headers[headers.index("throughput")] = "calls/s"
    if layout.speedup_vs is not None:
        headers.append(f"x {_text(layout.speedup_vs)}")
    if any_failed:
        headers.append("")
    return Table(title, headers, sections, best, notes, len(shown))


def as_text(table: Table) -> str:
    """A table in plain characters, columns aligned."""
    rows = [table.headers, *(row for section in table.sections for row in section)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(width) if i < table.n_names else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(aligned).rstrip()

    rule = "-" * len("  ".join(" " * width for width in widths))
    lines = [table.title] if table.title else []
    lines.append(line(table.headers))
    for section in table.sections:
        lines += [rule, *(line(row) for row in section)]
    return "\n".join([*lines, *table.notes])


def show(table: Table) -> None:
    """Print a table: with rich in colours, without it in plain characters."""
    try:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text
    except ImportError:
        print(as_text(table))
        return
    drawn = RichTable(title=table.title and Text(table.title), title_justify="left")
    for i, header in enumerate(table.headers):
        justify: Any = "left" if i < table.n_names else "right"
        drawn.add_column(Text(header), justify=justify, no_wrap=True)
    for i, section in enumerate(table.sections):
        for j, row in enumerate(section):
            style = "bold green" if (i, j) in table.best else None
            drawn.add_row(*map(Text, row), style=style, end_section=j + 1 == len(section))
    console, needed = Console(), Console(width=10_000).measure(drawn).maximum
    if console.width < needed:  # whole cells, if need be in longer lines
        console = Console(width=needed)
    console.print(drawn)
    for note in table.notes:
        console.print(Text(note, style="red"))


def duration(ms: float) -> str:
    """Milliseconds in the unit that suits them."""
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
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value}"


def _hashed(values: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    return tuple(key_of(value) for value in values)


def _reader(
    records: Sequence[BenchmarkRecord], what: str, names: Sequence[str]
) -> Callable[[BenchmarkRecord], tuple[Any, ...]]:
    getters = [getter(records, name, what) for name in names]
    return lambda record: tuple(get(record) for get in getters)


def _grouped(
    records: Sequence[BenchmarkRecord], read: Callable[[BenchmarkRecord], tuple[Any, ...]]
) -> list[list[BenchmarkRecord]]:
    groups: dict[Any, list[BenchmarkRecord]] = {}
    for record in records:
        groups.setdefault(_hashed(read(record)), []).append(record)
    return list(groups.values())


def _sorted(
    records: Sequence[BenchmarkRecord],
    chosen: Sequence[BenchmarkRecord],
    names: Names,
) -> list[BenchmarkRecord]:
    ordered = list(chosen)
    for name in reversed(names_of(names)):
        get = getter(records, name.removeprefix("-"), "sort_by")
        ordered = _by(ordered, get, name.startswith("-"))
    return ordered


def _sorted_groups(
    records: Sequence[BenchmarkRecord], groups: list[list[BenchmarkRecord]], names: Names
) -> list[list[BenchmarkRecord]]:
    for name in reversed(names_of(names)):
        get = getter(records, name.removeprefix("-"), "order_by")
        down = name.startswith("-")

        def first(group: Sequence[BenchmarkRecord], get: Any = get, down: bool = down) -> Any:
            return get(_by(group, get, down)[0])

        groups = _by(groups, first, down)
    return groups


def _by(items: Sequence[Any], get: Callable[[Any], Any], down: bool) -> list[Any]:
    """Sorted by a value: numbers, then everything else as text; what is missing stays last."""
    known = [item for item in items if not _missing(get(item))]
    known.sort(key=lambda item: _order(get(item)), reverse=down)
    return [*known, *(item for item in items if _missing(get(item)))]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _order(value: Any) -> tuple[int, float, str]:
    try:
        return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")
    except (TypeError, ValueError):
        return 1, 0.0, f"{value}"


def _least(records: Sequence[BenchmarkRecord], cases: Any) -> dict[Any, BenchmarkRecord]:
    """The fastest record of each case."""
    found: dict[Any, BenchmarkRecord] = {}
    for record in records:
        case = _hashed(cases(record))
        least = found.get(case)
        if record.success and (least is None or record.median_ms < least.median_ms):
            found[case] = record
    return found


def _baseline(
    records: Sequence[BenchmarkRecord], cases: Any, compared: Any, value: Any
) -> dict[Any, BenchmarkRecord]:
    """The record of each case that has a value where records are compared."""
    wanted = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    chosen = [record for record in records if compared(record) == wanted]
    if not chosen:
        known = dict.fromkeys(", ".join(map(_text, compared(record))) for record in records)
        raise ValueError(
            f"`speedup_vs` is {value!r}, which no record has; there are {'; '.join(known)}"
        )
    return _least(chosen, cases)


def _ratio(base: BenchmarkRecord | None, record: BenchmarkRecord) -> str:
    if base is None or not record.success or not record.median_ms:
        return "-"
    return f"{base.median_ms / record.median_ms:.3g}"
