"""`BenchmarkResult`: the fastest record, tables with and without rich, plots."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from kernbridge.benchmark import BenchmarkRecord, BenchmarkResult

pytestmark = pytest.mark.once


def record(backend, label, ms, n=8, **more):
    given = {"median_ms": ms, "mean_ms": ms, "min_ms": ms, "iqr_ms": 0.0, "throughput": 1e3 / ms}
    return BenchmarkRecord("cpu", backend, label, data_kwargs={"n": n}, **(given | more))


FAILED = BenchmarkRecord(
    "cpu",
    "c",
    "small",
    success=False,
    error="ValueError: no [bold]such[/bold]",
    data_kwargs={"n": 8},
)
RECORDS = [
    record("a", "small", 0.2),
    record("b", "small", 0.1),
    FAILED,
    record("a", "large", 4.0, n=8000),
    record("b", "large", 8.0, n=8000),
]
result = BenchmarkResult(RECORDS, "decay")


def rows(text):
    """The cells of a plain table, of lines between rules."""
    title, _header, *lines = text.splitlines()
    assert title == "decay"
    return [line.split() for line in lines if not line.startswith("-") and ":" not in line]


def printed(capsys, monkeypatch, shown=result, **options):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    shown.print(**options)
    return capsys.readouterr().out


def test_records_are_a_copy():
    records = result.records
    records.clear()
    assert len(result.records) == 5
    with pytest.raises(TypeError, match="record 1 is a dict, not a BenchmarkRecord"):
        BenchmarkResult([RECORDS[0], {}])


def test_fastest():
    assert result.fastest() is RECORDS[1]
    assert result.fastest("large") is RECORDS[3]
    wrong = replace(RECORDS[1], median_ms=0.001, success=False)
    assert BenchmarkResult([*RECORDS, wrong]).fastest() is RECORDS[1]
    assert BenchmarkResult([FAILED]).fastest() is None
    assert BenchmarkResult([]).fastest() is None
    with pytest.raises(
        ValueError, match="decay: no config is named 'huge'; the names are small, large"
    ):
        result.fastest("huge")


def test_to_dict():
    given = result.to_dict()
    assert given["primitive_name"] == "decay"
    assert [r["label"] for r in given["records"]] == ["small"] * 3 + ["large"] * 2
    assert BenchmarkRecord(**given["records"][0]) == RECORDS[0]
    given["records"][0]["data_kwargs"]["n"] = 0
    assert RECORDS[0].data_kwargs["n"] == 8


def test_the_text_of_a_result_is_a_table():
    text = str(result)
    assert repr(result) == text
    lines = text.splitlines()
    assert lines[1].split() == ["label", "n", "backend", "median", "iqr", "mean", "min", "calls/s"]
    assert rows(text) == [
        ["small", "8", "a", "200", "us", "0", "ns", "200", "us", "200", "us", "5,000"],
        ["small", "8", "b", "100", "us", "*", "0", "ns", "100", "us", "100", "us", "10,000"],
        ["small", "8", "c", "-", "-", "-", "-", "-", "failed"],
        ["large", "8000", "a", "4", "ms", "*", "0", "ns", "4", "ms", "4", "ms", "250"],
        ["large", "8000", "b", "8", "ms", "0", "ns", "8", "ms", "8", "ms", "125"],
    ]
    assert [i for i, line in enumerate(lines) if set(line) == {"-"}] == [2, 6]
    assert lines[-1] == "small, c: ValueError: no [bold]such[/bold]"
    assert lines[3].index(" us") == lines[4].index(" us *")  # columns are aligned
    assert str(BenchmarkResult([], "none")) == "none\nno records"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(1234.5, "1.234 s"), (12.345, "12.35 ms"), (0.012345, "12.35 us"), (0.000069, "69 ns")],
)
def test_units(ms, shown):
    assert f" {shown} *" in str(BenchmarkResult([record("a", "l", ms)]))


def order(text, column=2):
    return [row[column] for row in rows(text)]


def test_rows_and_groups_are_sorted(capsys, monkeypatch):
    show = lambda **options: printed(capsys, monkeypatch, **options)  # noqa: E731
    assert order(show(sort_by="median_ms")) == ["b", "a", "c", "a", "b"]
    assert order(show(sort_by="-median_ms")) == ["a", "b", "c", "b", "a"]
    assert order(show(sort_by="-backend")) == ["c", "b", "a", "b", "a"]
    assert order(show(order_by="-n"), 0) == ["large"] * 2 + ["small"] * 3
    assert order(show(order_by="label"), 0) == ["large"] * 2 + ["small"] * 3
    assert order(show(order_by="median_ms"), 0) == ["small"] * 3 + ["large"] * 2
    flat = show(group_by=None, sort_by=["-n", "backend"])
    assert flat.splitlines()[1].split()[:2] == ["n", "backend"]
    assert order(flat, 0) == ["8000"] * 2 + ["8"] * 3
    assert order(flat, 1) == ["a", "b", "a", "b", "c"]


def test_speedup(capsys, monkeypatch):
    text = printed(capsys, monkeypatch, speedup_vs="a")
    assert text.splitlines()[1].split()[-2:] == ["x", "a"]
    assert [row[-1] for row in rows(text)] == ["1", "2", "failed", "1", "0.5"]
    with pytest.raises(
        ValueError, match="`speedup_vs` is 'z', which no record has; there are a; b; c"
    ):
        result.print(speedup_vs="z")


def test_comparing_something_else_than_backends(capsys, monkeypatch):
    text = printed(capsys, monkeypatch, compare_by="n", group_by="backend", speedup_vs=8)
    assert [(row[0], row[1], row[-1]) for row in rows(text)] == [
        ("a", "8", "1"),
        ("a", "8000", "0.05"),
        ("b", "8", "1"),
        ("b", "8000", "0.0125"),
        ("c", "8", "failed"),
    ]
    assert text.count("*") == 2


def test_the_best_of_each_case(capsys, monkeypatch):
    """Without a name for it, whatever varies makes a case; with one, only that does."""
    mixed = BenchmarkResult([record("a", "l", 1.0, n=1), record("a", "l", 2.0, n=2)], "decay")
    assert printed(capsys, monkeypatch, mixed).count("*") == 2
    assert printed(capsys, monkeypatch, mixed, vary_by=["platform"]).count("*") == 1
    assert "*" not in printed(capsys, monkeypatch, mixed, highlight_best=False)


@pytest.mark.parametrize("what", ["sort_by", "group_by", "compare_by", "order_by", "vary_by"])
def test_unknown_names(what):
    expected = r"names \"__import__\('os'\)\", .* label, .*, n \[KB8009\]$"
    with pytest.raises(ValueError, match=expected):
        result.print(**{what: "__import__('os')"})


def test_a_success_without_a_time_is_not_the_fastest():
    untimed, timed = record("a", "l", math.nan), record("b", "l", 2.0)
    mixed = BenchmarkResult([untimed, timed], "decay")
    assert mixed.fastest() is mixed.fastest("l") is timed
    assert [row[1] for row in rows(str(mixed)) if "*" in row] == ["b"]


def test_names_in_both_kwargs(capsys, monkeypatch):
    both = BenchmarkResult([replace(record("a", "l", 1.0, n=5), kernel_kwargs={"n": 7})], "decay")
    for name, shown in (("n", "7"), ("kernel_kwargs.n", "7"), ("data_kwargs.n", "5")):
        assert order(printed(capsys, monkeypatch, both, group_by=name), 0) == [shown]


def test_with_rich(capsys, monkeypatch):
    pytest.importorskip("rich")
    result.print(speedup_vs="a")
    plain = capsys.readouterr().out
    assert "small, c: ValueError: no [bold]such[/bold]" in plain  # no markup
    assert plain == printed(capsys, monkeypatch, speedup_vs="a")
    monkeypatch.undo()
    monkeypatch.setenv("FORCE_COLOR", "1")
    result.print()
    coloured = capsys.readouterr().out.splitlines()
    assert [i for i, line in enumerate(coloured) if "32m" in line] == [4, 7]  # the fastest


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.usefixtures("pyplot")
def test_lines():
    figure = result.plot()
    (ax,) = figure.axes
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == (
        "n",
        "median (µs per call)",
        "decay",
    )
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert legend(ax) == ["a", "b"]  # c failed
    a, b = ax.lines
    np.testing.assert_array_equal(a.get_xydata(), [[8, 0.2], [8000, 4.0]])
    np.testing.assert_array_equal(b.get_xydata(), [[8, 0.1], [8000, 8.0]])
    assert a.get_color() != b.get_color()


def drawn_ticks(axis):
    """The texts of the major ticks that lie within the limits."""
    low, high = axis.get_view_interval()
    axis.figure.canvas.draw()
    return [t.label1.get_text() for t in axis.get_major_ticks() if low <= t.get_loc() <= high]


def with_quartiles(ms, n, **more):
    return record("a", "l", ms, n, **{"q1_ms": 0.5 * ms, "q3_ms": 2 * ms, **more})


@pytest.mark.usefixtures("pyplot")
def test_bars_of_medians_are_quartiles():
    spread = BenchmarkResult([with_quartiles(1.0, 10), with_quartiles(4.0, 20), FAILED], "decay")
    ax = spread.plot().axes[0]
    (bars,) = ax.collections
    np.testing.assert_allclose(bars.get_segments(), [[[10, 0.5], [10, 2]], [[20, 2], [20, 8]]])
    np.testing.assert_array_equal(bars.get_color()[0, :3], matplotlib_rgb(ax.lines[0].get_color()))
    assert ax.get_ylabel() == "median and quartiles (ms per call)"
    ax = spread.plot(y="throughput", kind="bar").axes[0]
    np.testing.assert_allclose(ax.collections[0].get_segments()[0], [[0, 500], [0, 2000]])
    assert ax.get_ylabel() == "calls per second, median and quartiles"
    assert not spread.plot(errors=False).axes[0].collections
    assert not spread.plot(y="min_ms").axes[0].collections
    assert not result.plot().axes[0].collections  # records of earlier versions have none


@pytest.mark.usefixtures("pyplot")
def test_bars_of_means_are_standard_deviations():
    ax = BenchmarkResult([record("a", "l", 3e-3, std_ms=1e-3)]).plot(x="n", y="mean_ms").axes[0]
    np.testing.assert_allclose(ax.collections[0].get_segments(), [[[8, 2e-3], [8, 4e-3]]])
    assert ax.get_ylabel() == "mean ± standard deviation (µs per call)"


def matplotlib_rgb(color):
    from matplotlib.colors import to_rgb

    return to_rgb(color)


@pytest.mark.usefixtures("pyplot")
@pytest.mark.parametrize(
    ("ms", "unit", "ticks"),
    [
        ((1e-4, 1e-2), "µs", ["0.1", "1", "10"]),
        ((5e-5, 4e-4), "ns", ["100", "200", "300", "400"]),
        ((30.0, 5e4), "s", ["0.1", "1", "10"]),
        ((0.01, 1e4), "ms", ["0.01", "0.1", "1", "10", "100", "1,000", "10,000"]),
    ],
)
def test_units_suit_the_values_and_ticks_are_plain_numbers(ms, unit, ticks):
    times = [record("a", "l", t, n=10**i) for t, i in zip(ms, (3, 6), strict=True)]
    ax = BenchmarkResult(times).plot().axes[0]
    assert ax.get_ylabel() == f"median ({unit} per call)"
    assert set(ticks) <= set(drawn_ticks(ax.yaxis))
    assert {"1,000", "1,000,000"} <= set(drawn_ticks(ax.xaxis))


@pytest.mark.usefixtures("pyplot")
def test_axes_are_linear_where_values_are_near_or_not_positive():
    near = BenchmarkResult([record("a", "l", 1.0, n=10), record("a", "m", 30.0, n=20)])
    assert (near.plot().axes[0].get_xscale(), near.plot().axes[0].get_yscale()) == (
        "linear",
        "linear",
    )
    far = BenchmarkResult([record("a", "l", 1.0, n=10), record("a", "m", 32.0, n=20)])
    assert far.plot().axes[0].get_yscale() == "log"
    zero = BenchmarkResult([record("a", "l", 1.0, n=0), record("a", "m", 1.0, n=2000)])
    assert zero.plot().axes[0].get_xscale() == "linear"


@pytest.mark.usefixtures("pyplot")
def test_categories_and_other_figures():
    ax = result.plot(x="label", y="throughput", kind="scatter").axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["small", "large"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("label", "calls per second")
    assert ax.get_xscale() == "linear"
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[0, 5000], [1, 250]])


@pytest.mark.usefixtures("pyplot")
def test_bars():
    ax = result.plot(kind="bar", alpha=0.5).axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["8", "8000"]
    assert ax.get_yscale() == "log"
    assert legend(ax) == ["a", "b"]
    bars = [(round(p.get_x() + p.get_width() / 2, 6), p.get_height()) for p in ax.patches]
    assert bars == [(-0.2, 0.2), (0.8, 4.0), (0.2, 0.1), (1.2, 8.0)]
    assert ax.patches[0].get_alpha() == 0.5


@pytest.mark.usefixtures("pyplot")
def test_configs_that_would_share_a_line_are_told_apart():
    labels = BenchmarkResult([record("a", c, 1.0, n=n) for c in ("l", "m") for n in (1, 2)])
    ax = labels.plot().axes[0]
    assert legend(ax) == ["a, l", "a, m"]
    assert ax.lines[0].get_color() == ax.lines[1].get_color()
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
    assert legend(labels.plot(hue="label").axes[0]) == ["l", "m"]
    same = BenchmarkResult([record("a", "l", 1.0, n=1), record("a", "l", 2.0, n=1)])
    with pytest.raises(ValueError, match="would share a bar: pass the field that distinguishes"):
        same.plot(kind="bar")


def test_on_axes_of_ones_own(pyplot, monkeypatch):
    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(True))
    figure, (left, right) = pyplot.subplots(1, 2)
    assert result.plot(right, hue=None, x="label", color="red") is figure
    assert not left.lines
    assert [line.get_color() for line in right.lines] == ["red"] * len(right.lines)
    assert not shown
    result.plot(left, show=True)
    assert shown


@pytest.mark.usefixtures("pyplot")
def test_what_cannot_be_plotted():
    with pytest.raises(ValueError, match="`kind` must be one of line, bar, scatter, got 'pie'"):
        result.plot(kind="pie")
    for name in ("x", "y", "hue", "style"):
        with pytest.raises(ValueError, match=f"`{name}` names 'colour'"):
            result.plot(**{name: "colour"})
    for hopeless in (BenchmarkResult([FAILED], "decay"), BenchmarkResult([], "decay")):
        with pytest.raises(ValueError, match="decay: nothing to plot"):
            hopeless.plot()
    with pytest.raises(ValueError, match="nothing to plot"):
        result.plot(y="backend")


def test_plots_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        result.plot()


def test_failed_times_are_not_numbers():
    assert math.isnan(FAILED.median_ms)
    assert math.isnan(FAILED.throughput)
