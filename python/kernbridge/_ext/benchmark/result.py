"""The results of a benchmark: records, which are printed as a table, plotted and saved."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from kernbridge._src.base.html import table
from kernbridge._src.base.reports import hides_frames

_Names = str | Sequence[str] | None
_Row = dict[str, Any]


@dataclass(frozen=True)
class BenchmarkRecord:
    """The result of one backend for one config, with times in milliseconds per call, or NaN.

    `label` and the kwargs come from the config. The statistics are over `n_runs` timed runs of
    `n_batch_per_run` calls each; `q1_ms` and `q3_ms` are the quartiles, `iqr_ms` is their distance,
    and `throughput` is calls per second at the median time. A record is a success if the backend
    ran and agrees with the first one that ran; else `error` is "Type: message".
    """

    __module__ = "kernbridge"

    platform: str
    backend: str
    label: str
    mean_ms: float = math.nan
    std_ms: float = math.nan
    min_ms: float = math.nan
    throughput: float = math.nan
    success: bool = True
    error: str | None = None
    kernel_kwargs: dict[str, Any] = field(default_factory=dict)
    data_kwargs: dict[str, Any] = field(default_factory=dict)
    median_ms: float = math.nan
    iqr_ms: float = math.nan
    max_ms: float = math.nan
    n_runs: int = 0
    n_batch_per_run: int = 1
    q1_ms: float = math.nan
    q3_ms: float = math.nan

    def __str__(self) -> str:
        what = self.error or centre(self.median_ms, self.iqr_ms / 2)
        return f"{self.label}, {f'{self.backend} on ' * bool(self.backend)}{self.platform}: {what}"

    __repr__ = __str__


_FIELDS = tuple(f.name for f in fields(BenchmarkRecord))
KWARGS = ("kernel_kwargs", "data_kwargs")
_NAME = "primitive_name"
_TEXTS = (_NAME, "platform", "backend", "label", "error")
UNITS = (("s", 1e3), ("ms", 1.0), ("us", 1e-3), ("ns", 1e-6))
_KIND = {"format": "kernbridge benchmark", "version": 1}


class BenchmarkResult:
    """Records of one operation, for each backend in each config; it prints as a table."""

    __module__ = "kernbridge"

    def __init__(self, records: Iterable[BenchmarkRecord], primitive_name: str = "") -> None:
        self._records = list(records)
        self.primitive_name = primitive_name

    @property
    def records(self) -> list[BenchmarkRecord]:
        """The records, in a new list."""
        return list(self._records)

    def fastest(self, label: str | None = None) -> BenchmarkRecord | None:
        """Return the successful record with the smallest median time, or None.

        With a `label`, only records of that config are considered.
        """
        _known([record.label for record in self._records], "label", [] if label is None else label)
        succeeded = [r for r in self._records if r.success and label in (None, r.label)]
        return min(succeeded, key=lambda r: (math.isnan(r.median_ms), r.median_ms), default=None)

    @hides_frames
    def print(
        self,
        sort_by: _Names = None,
        group_by: _Names = "label",
        compare_by: _Names = "backend",
        highlight_best: bool = True,
        order_by: _Names = None,
        speedup_vs: Any = None,
        vary_by: _Names = None,
    ) -> None:
        """Print the records as a table.

        Parameters
        ----------
        sort_by, order_by : str or sequence of str, optional
            Columns of `to_frame` by which the rows of a group are sorted, and the groups by their
            first rows; "-name" sorts in descending order. NaN and missing values come last.
        group_by, compare_by, vary_by : str or sequence of str, optional
            Columns whose values each get a section of the table; whose values are compared with
            each other; and which distinguish the cases of a group, by default all kwargs that vary.
        highlight_best : bool
            Mark the fastest row of each case, by median, with an asterisk.
        speedup_vs : value of the first column of `compare_by`, optional
            Add a column with the speedup over the row of the same case with this value.
        """
        options = sort_by, group_by, compare_by, highlight_best, order_by, speedup_vs, vary_by
        print(self._table(*options))

    def __str__(self) -> str:
        return self._table(None, "label", "backend", True, None, None, None)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [
            (r.label, r.backend, r.error or centre(r.median_ms, r.iqr_ms / 2), f"{r.min_ms:.4g}")
            for r in self._records
        ]
        return table(self.primitive_name, ("label", "backend", "median", "least ms"), rows)

    def _table(self, *options: Any) -> str:
        sort_by, group_by, compare_by, highlight_best, order_by, speedup_vs, vary_by = options
        rows, text = self._rows(), [self.primitive_name] if self.primitive_name else []
        if not rows:
            return "\n".join([*text, "no records"])
        group = _known(rows[0], "group_by", group_by)
        compare = _known(rows[0], "compare_by", compare_by or "backend")
        vary = [n for n in _varying(rows) if n not in compare] if vary_by is None else vary_by
        case = [*group, *_known(rows[0], "vary_by", vary)]
        shown = list(dict.fromkeys((*case, *compare)))
        fastest, base, n = _fastest(rows, case), dict[Any, _Row](), len(shown)
        headers = [*shown, "median", "iqr", "mean", "min", "calls/s"]
        if speedup_vs is not None:
            headers.append(f"x {speedup_vs}")
            _known([f"{row[compare[0]]}" for row in rows], "speedup_vs", f"{speedup_vs}")
            base = _fastest([r for r in rows if f"{r[compare[0]]}" == f"{speedup_vs}"], case)
        groups = _grouped(_sorted(rows, order_by, "order_by"), group)
        listed = [row for g in groups.values() for row in _sorted(g, sort_by, "sort_by")]
        cells = [[*headers, ""]]  # the last column has no header
        for row in listed:
            line = ["-" if row[name] is None else f"{row[name]}" for name in shown]
            line += [duration(row[f"{name}_ms"]) for name in ("median", "iqr", "mean", "min")]
            if highlight_best:
                line[n] += " *" if fastest.get(_key(row, case)) is row else "  "
            line.append(f"{row['throughput']:,.0f}" if math.isfinite(row["throughput"]) else "-")
            if speedup_vs is not None:
                ms = base.get(_key(row, case), {}).get("median_ms", math.nan)
                is_known = row["success"] and row["median_ms"] and math.isfinite(ms)
                line.append(f"{ms / row['median_ms']:.3g}" if is_known else "-")
            cells.append([*line, "" if row["success"] else "failed"])
        lines = iter(aligned(cells, n))
        text.append(head := next(lines))
        for members in groups.values():
            text += ["-" * len(head), *itertools.islice(lines, len(members))]
        failed = [row for row in listed if not row["success"]]
        return "\n".join([*text, *map("{label}, {backend}: {error}".format_map, failed)])

    @hides_frames
    def plot(
        self,
        ax: Any = None,
        x: str | None = None,
        y: str = "median_ms",
        hue: str | None = "backend",
        style: str | None = None,
        show: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Plot the successful records as lines, with matplotlib.

        Vertical bars about medians are the quartiles of the runs. An axis is logarithmic if its
        values are positive and span more than 1.5 decades. Returns the figure.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None
            The axes to draw into; a new figure by default, which `show` opens in a window.
        x, y : str
            Columns of `to_frame`; x is by default the first key of the kwargs whose values are
            different numbers, or else the label.
        hue, style : str or None
            Columns whose values get a line each, as do configs that would share a line.
        **kwargs
            Passed to `Axes.errorbar`; ``linestyle="none"`` draws points alone.
        """
        rows = self._rows()
        numbers = [n for n in _varying(rows) if all(_is_number(row[n]) for row in rows)]
        x = x or next((name for name in numbers if name not in (hue, style)), "label")
        lines = [name for name in (hue, style) if name]
        _known(rows[0] if rows else [x, y, *lines], "x, y, hue, style", [x, y, *lines])
        rows = [row for row in rows if row["success"] and _is_number(row[y])]
        if not rows:
            raise ValueError(
                f"{self.primitive_name or 'these results'}: nothing to plot, as no record is a "
                f"success with a number as {y!r} [KB8009]"
            )
        pyplot = _package("matplotlib.pyplot", "a plot")
        ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        if style is None and len({_key(row, [x, *lines]) for row in rows}) < len(rows):
            lines = list(dict.fromkeys([*lines, "label"]))
        are_numbers = all(_is_number(row[x]) for row in rows)
        series = _grouped(_sorted(rows, x) if are_numbers else rows, lines)
        for i, members in enumerate(series.values()):
            places = [row[x] if are_numbers else f"{row[x]}" for row in members]
            bars = [(r["median_ms"] - r["q1_ms"], r["q3_ms"] - r["median_ms"]) for r in members]
            spread = np.maximum(bars, 0).T if y == "median_ms" else None  # not negative by rounding
            label = ", ".join(f"{members[0][name]}" for name in lines) or None
            look = {"marker": "os^Dv*PX"[i % 8], "label": label, **kwargs}
            ax.errorbar(places, [row[y] for row in members], spread, **look)
        for axis, name in (("xscale", x), ("yscale", y)):
            values = [row[name] for row in rows]
            is_positive = all(_is_number(value) and value > 0 for value in values)
            if is_positive and max(values) > 10**1.5 * min(values):
                ax.set(**{axis: "log"})
        what = "median and quartiles (ms per call)" if y == "median_ms" else y
        ax.set(xlabel=x, ylabel=what, title=self.primitive_name)
        if lines:
            ax.legend(title=", ".join(lines))
        if show:
            pyplot.show()
        return ax.figure

    def _rows(self) -> list[_Row]:
        """Return a dict for each record: its fields, and the keys of its kwargs."""
        rows = [{n: getattr(r, n) for n in _FIELDS if n not in KWARGS} for r in self._records]
        taken = {*_FIELDS}
        for where in KWARGS:
            keys = dict.fromkeys(key for r in self._records for key in getattr(r, where))
            names = {key: f"{where}.{key}" if key in taken else key for key in keys}
            taken |= {*keys}
            for row, record in zip(rows, self._records, strict=True):
                row |= {name: getattr(record, where).get(key) for key, name in names.items()}
        return rows

    def to_frame(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each record.

        The columns are its fields, and the keys of its kernel_kwargs and data_kwargs; a key whose
        name is taken is called "kernel_kwargs.key" or "data_kwargs.key".
        """
        return _package("pandas", "a frame").DataFrame(self._rows())

    def to_dict(self) -> dict[str, Any]:
        """``{"primitive_name": ..., "records": [{field: value, ...}, ...]}``."""
        records = [asdict(record) for record in self._records]
        return {_NAME: self.primitive_name, "records": records}

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write every field of every record; nothing is pickled.

        `format` is "json" or "csv", by default the suffix of `path`; CSV needs pandas. Missing
        folders are made. Kwargs are written as JSON: tuples become lists, dtypes their names, and
        NumPy's scalars Python's numbers. Values that JSON does not have are a TypeError.
        """
        file, document = Path(path), encoded(self)
        if pandas := _pandas_for(file, format):
            rows = [{_NAME: self.primitive_name, **row} for row in document["records"]]
            for row in rows:
                numbers = [n for n in row if row[n] is not None and n not in _TEXTS]
                row |= {n: json.dumps(row[n]) for n in numbers}
            frame = pandas.DataFrame(rows, columns=[_NAME, *_FIELDS])
            text = frame.to_csv(index=False, lineterminator="\n")
        else:
            text = json.dumps({**_KIND, **document}, indent=2) + "\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")

    @classmethod
    def load(cls, path: str | os.PathLike[str], format: str | None = None) -> BenchmarkResult:
        """Read what `save` wrote; nothing in the file is executed.

        A missing file is a FileNotFoundError, and one with other content a ValueError.
        """
        file = Path(path)
        pandas = _pandas_for(file, format)
        if not file.is_file():
            raise FileNotFoundError(f"there are no benchmark results at {str(file)!r} [KB8009]")
        try:
            if pandas:
                rows = pandas.read_csv(file, dtype=str, keep_default_na=False).to_dict("records")
                name = rows[0][_NAME] if rows else ""
                for row in rows:
                    del row[_NAME]
                    row |= {n: json.loads(row[n] or "null") for n in row if n not in _TEXTS}
                    row["error"] = row["error"] or None
            else:
                document = json.loads(file.read_text(encoding="utf-8"))
                if not _KIND.items() <= document.items():
                    raise ValueError(f"expected {_KIND}")
                name, rows = document[_NAME], document["records"]
            for row in rows:  # a time that is NaN is null
                row |= {n: math.nan for n in row if row[n] is None and n != "error"}
            return cls([BenchmarkRecord(**row) for row in rows], name)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise ValueError(
                f"{str(file)!r} does not contain benchmark results of kernbridge: {e} [KB8009]"
            ) from e


def _known(known: Iterable[str], what: str, names: _Names) -> list[str]:
    listed = [names] if isinstance(names, str) else list(names or ())
    for name in listed:
        if name not in known:
            texts = ", ".join(dict.fromkeys(known))
            raise ValueError(f"`{what}` is {name!r}, expected some of: {texts} [KB8009]")
    return listed


def _varying(rows: list[_Row]) -> list[str]:
    """Return the keys of the kwargs that have more than one value."""
    keys = [name for name in (rows[0] if rows else ()) if name not in _FIELDS]
    return [name for name in keys if len({_key(row, [name]) for row in rows}) > 1]


def _key(row: _Row, names: list[str]) -> tuple[tuple[str, str], ...]:
    """Return a key that is equal for values of the same types that look the same."""
    return tuple((type(row[name]).__name__, repr(row[name])) for name in names)


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, (int, float, np.integer, np.floating))
    return is_real and not isinstance(value, bool) and math.isfinite(value)


def _order(value: Any) -> tuple[bool, Any]:
    return (False, value) if _is_number(value) else (True, f"{value}")


def _sorted(rows: list[_Row], names: _Names, what: str = "") -> list[_Row]:
    """Sort rows by columns, downwards by "-name": numbers, then texts, and last what is missing."""
    for name in reversed([names] if isinstance(names, str) else list(names or ())):
        (column,) = _known(rows[0], what, name.removeprefix("-"))
        rows = sorted(rows, key=lambda row: _order(row[column]), reverse=name != column)
        rows.sort(key=lambda row: f"{row[column]}" in ("None", "nan"))
    return list(rows)


def _grouped(rows: list[_Row], names: list[str]) -> dict[Any, list[_Row]]:
    groups: dict[Any, list[_Row]] = {}
    for row in rows:
        groups.setdefault(_key(row, names), []).append(row)
    return groups


def _fastest(rows: list[_Row], case: list[str]) -> dict[Any, _Row]:
    succeeded = [row for row in _sorted(rows, "median_ms") if row["success"]]
    return {key: members[0] for key, members in _grouped(succeeded, case).items()}


def aligned(rows: Sequence[Sequence[str]], n: int) -> list[str]:
    """Return the lines of a table, whose columns from the nth on are aligned at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = [(*map(str.ljust, r[:n], widths), *map(str.rjust, r[n:], widths[n:])) for r in rows]
    return ["  ".join(cells).rstrip() for cells in columns]


def duration(ms: float) -> str:
    unit, size = next((u for u in UNITS if abs(ms) >= u[1]), UNITS[-1])
    return f"{ms / size:.4g} {unit}" if math.isfinite(ms) else "-"


def centre(ms: float, around: float) -> str:
    """Write a time in milliseconds and its spread, such as "73 us +- 2"."""
    unit, size = next((u for u in UNITS if abs(ms) >= u[1]), UNITS[-1])
    if not math.isfinite(ms):
        return "-"
    value, spread = ms / size, around / size
    last = spread if spread > 0 else value / 100
    digits = min(2, max(0, -math.floor(math.log10(last)))) if last > 0 else 0
    return f"{value:.{digits}f} {unit} +- {spread:.{digits}f}"


def _pandas_for(file: Path, format: str | None) -> Any:
    """Return pandas for CSV, and None for JSON."""
    found = file.suffix.lstrip(".").lower() if format is None else format
    if found not in ("json", "csv"):
        raise ValueError(
            f"benchmark results are saved as json or csv, got {found!r} for {file.name!r}: change "
            "the name of the file, or pass format= [KB8009]"
        )
    return _package("pandas", "a CSV file") if found == "csv" else None


def _package(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        package = name.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install {package} [KB4016]") from e


def encoded(result: BenchmarkResult) -> dict[str, Any]:
    """Return a result as JSON has it: a time that is NaN is null."""
    document = result.to_dict()
    for row in document["records"]:
        row |= {n: None for n, v in row.items() if isinstance(v, float) and math.isnan(v)}
    return json.loads(json.dumps(document, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks as one that it has."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.dtype, type)) and np.dtype(value) != object:
        return np.dtype(value).name
    raise TypeError(
        f"{value!r:.60} cannot be saved: in kernel_kwargs and data_kwargs, use numbers, strings, "
        "None, dtypes, and lists and dicts of these [KB8009]"
    )
