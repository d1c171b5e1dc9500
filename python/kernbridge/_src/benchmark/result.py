"""`BenchmarkResult`: the records of one operation, to be read, printed, plotted and saved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from kernbridge._src.base.reports import hides_frames
from kernbridge._src.benchmark import files, plot, table
from kernbridge._src.benchmark.files import PathLike
from kernbridge._src.benchmark.records import BenchmarkRecord, as_dict
from kernbridge._src.benchmark.table import Names


class BenchmarkResult:
    """The records of one operation. It prints as a table.

    Parameters
    ----------
    records : iterable of BenchmarkRecord
        One for each backend in each config.
    primitive_name : str
        The operation.

    Raises
    ------
    TypeError
        One of `records` is no record.

    Examples
    --------
    >>> from kernbridge.benchmark import BenchmarkRecord, BenchmarkResult
    >>> result = BenchmarkResult(
    ...     [
    ...         BenchmarkRecord("cpu", "jnp", "small", median_ms=0.25, data_kwargs={"n": 8}),
    ...         BenchmarkRecord("cpu", "numba", "small", median_ms=0.125, data_kwargs={"n": 8}),
    ...     ],
    ...     "decay",
    ... )
    >>> result.fastest("small").backend
    'numba'
    >>> "250 us" in str(result) and "125 us *" in str(result)
    True
    """

    __module__ = "kernbridge"

    def __init__(self, records: Iterable[BenchmarkRecord], primitive_name: str = "") -> None:
        self._records = list(records)
        self.primitive_name = primitive_name
        for i, record in enumerate(self._records):
            if not isinstance(record, BenchmarkRecord):
                raise TypeError(
                    f"record {i} is a {type(record).__name__}, not a BenchmarkRecord [KB8009]"
                )

    @property
    def records(self) -> list[BenchmarkRecord]:
        """The records, in a new list."""
        return list(self._records)

    def fastest(self, label: str | None = None) -> BenchmarkRecord | None:
        """Return the successful record with the smallest median time.

        Parameters
        ----------
        label : str or None
            The name of one config; by default, all configs are considered.

        Returns
        -------
        BenchmarkRecord or None
            None if nothing succeeded.

        Raises
        ------
        ValueError
            No record has this label.
        """
        labels = dict.fromkeys(record.label for record in self._records)
        if label is not None and label not in labels:
            raise ValueError(
                f"{self.primitive_name or 'these results'}: no config is named {label!r}; the "
                f"names are {', '.join(labels) or 'none'} [KB8009]"
            )
        succeeded = [r for r in self._records if r.success and label in (None, r.label)]
        return min(succeeded, key=lambda r: (math.isnan(r.median_ms), r.median_ms), default=None)

    @hides_frames
    def print(
        self,
        sort_by: Names = None,
        group_by: Names = "label",
        compare_by: Names = "backend",
        highlight_best: bool = True,
        order_by: Names = None,
        speedup_vs: Any = None,
        vary_by: Names = None,
    ) -> None:
        """Print the records as a table, which is coloured if rich is installed.

        Names refer to fields of a record, or to keys of its kernel_kwargs and data_kwargs
        ("data_kwargs.n" if both have an "n"). Each parameter takes one or several names.

        Parameters
        ----------
        sort_by : str or sequence of str, optional
            Names by which the rows of a group are sorted; "-name" sorts in descending order. NaN
            and missing values come last.
        group_by : str or sequence of str, optional
            Names whose values each get a section of the table; None makes one section.
        compare_by : str or sequence of str
            Names whose values are compared with each other within a case.
        highlight_best : bool
            Mark the fastest row of each case, by median.
        order_by : str or sequence of str, optional
            Names by which the groups are sorted, using the first value in each group.
        speedup_vs : value of `compare_by`, optional
            Add a column with the speedup of each row relative to the row of the same case with this
            value.
        vary_by : str or sequence of str, optional
            Names that distinguish the cases within a group, shown as columns; by default, every key
            of the kwargs that has more than one value.

        Raises
        ------
        ValueError
            A name is unknown, or no record has the value of `speedup_vs`.

        Examples
        --------
        >>> from kernbridge.benchmark import BenchmarkRecord, BenchmarkResult
        >>> result = BenchmarkResult([BenchmarkRecord("cpu", "jnp", "small")])
        >>> result.print(sort_by="size")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: `sort_by` names 'size', which is neither a field nor a key of ...
        """
        options = sort_by, group_by, compare_by, highlight_best, order_by, speedup_vs, vary_by
        table.show(table.lines(self.primitive_name, self._records, *options))

    def __str__(self) -> str:
        return table.as_text(table.lines(self.primitive_name, self._records))

    __repr__ = __str__

    @hides_frames
    def plot(
        self,
        ax: Any = None,
        x: str | None = None,
        y: str = "median_ms",
        hue: str | None = "backend",
        style: str | None = None,
        kind: str = "line",
        show: bool = False,
        errors: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Plot the successful records with matplotlib.

        An axis is logarithmic if its values are positive and span more than 1.5 decades. Times are
        drawn in milliseconds, and the axis is labelled in the unit that suits them, ns to s.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None
            The axes to draw into; a new figure by default.
        x : str, optional
            Field or key of the kwargs along x: by default the first key whose values are different
            numbers, or else the label.
        y : str
            Field or key along y. The median, unlike the mean, is not moved by one disturbed run.
        hue, style : str or None
            The names that are distinguished by colours, and by dashes and markers. Without a style,
            dashes and markers distinguish configs whose points would otherwise share a line.
        kind : {"line", "bar", "scatter"}
            Bars stand side by side, with numbers as categories.
        show : bool
            Open a window.
        errors : bool
            Draw vertical bars: the quartiles of the runs about medians and throughputs, the
            standard deviation about means. The label of the axis names them.
        **kwargs
            Passed to `Axes.plot`, `Axes.bar` or `Axes.scatter`.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            There is no matplotlib.
        ValueError
            A name or kind is unknown, or nothing can be plotted.
        """
        figure = plot.Figure(self._records, self.primitive_name, x, y, hue, style)
        return figure.draw(ax, kind, show, errors, kwargs)

    def save(self, path: PathLike, format: str | None = None) -> None:
        """Write every field of every record, without loss.

        Parameters
        ----------
        path : path
            Missing folders are made.
        format : {"json", "csv"} or None
            By default, the format is chosen by the suffix of `path`. Both formats contain the
            kwargs. Values that JSON does not have, such as tuples and dtypes, are written together
            with their type.

        Raises
        ------
        ValueError
            If the format is unknown. Nothing is pickled.
        TypeError
            If a value of the kwargs could not be restored exactly; the message names it.
        """
        files.save(path, self.primitive_name, self._records, format)

    @classmethod
    def load(cls, path: PathLike, format: str | None = None) -> BenchmarkResult:
        """Read what `save` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : path
        format : {"json", "csv"} or None
            By default, the format is chosen by the suffix of `path`.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        ValueError
            If the format is unknown, or the file has other content.
        """
        name, records = files.load(path, format)
        return cls(records, name)

    def to_dict(self) -> dict[str, Any]:
        """``{"primitive_name": ..., "records": [{field: value, ...}, ...]}``."""
        records = [as_dict(record) for record in self._records]
        return {"primitive_name": self.primitive_name, "records": records}


__test__ = {"BenchmarkResult": BenchmarkResult}  # doctest takes classes for those of `kernbridge`
