"""`BenchmarkResult`: the fastest record, tables, plots, frames and files."""

import json
import math
import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from kernbridge.benchmark import BenchmarkRecord, BenchmarkResult

pytestmark = pytest.mark.once


def record(backend, label, ms, n=8, **more):
    given = {"median_ms": ms, "mean_ms": ms, "min_ms": ms, "iqr_ms": 0.0, "throughput": 1e3 / ms}
    return BenchmarkRecord("cpu", backend, label, data_kwargs={"n": n}, **(given | more))


FAILED = BenchmarkRecord(
    "cpu", "c", "small", success=False, error="ValueError: none", data_kwargs={"n": 8}
)
RECORDS = [
    record("a", "small", 0.2),
    record("b", "small", 0.1, q1_ms=0.05, q3_ms=0.2),
    FAILED,
    record("a", "large", 4.0, n=8000),
    record("b", "large", 8.0, n=8000, q1_ms=6.0, q3_ms=9.0),
]
result = BenchmarkResult(RECORDS, "decay")


def rows(text):
    """The cells of a plain table, of lines between rules."""
    title, _header, *lines = text.splitlines()
    assert title == "decay"
    return [line.split() for line in lines if not line.startswith("-") and ":" not in line]


@pytest.fixture
def printed(capsys):
    def show(result=result, **options):
        result.print(**options)
        return capsys.readouterr().out

    return show


def test_fastest():
    assert result.fastest() is RECORDS[1]
    assert result.fastest("large") is RECORDS[3]
    wrong = replace(RECORDS[1], median_ms=0.001, success=False)
    untimed = replace(RECORDS[1], median_ms=math.nan)
    assert BenchmarkResult([untimed, *RECORDS, wrong]).fastest() is RECORDS[1]
    assert BenchmarkResult([FAILED]).fastest() is None
    assert BenchmarkResult([]).fastest() is None
    with pytest.raises(ValueError, match=r"`label`.*'huge'.*\[KB8009\]"):
        result.fastest("huge")


def test_records_and_dicts_are_copies():
    result.records.clear()
    given = result.to_dict()
    assert given["primitive_name"] == "decay"
    assert [r["label"] for r in given["records"]] == ["small"] * 3 + ["large"] * 2
    assert BenchmarkRecord(**given["records"][0]) == RECORDS[0]
    given["records"][0]["data_kwargs"]["n"] = 0
    assert RECORDS[0].data_kwargs["n"] == 8


def test_the_text_of_a_result_is_a_table(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # which it does not need
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
    assert lines[-1] == "small, c: ValueError: none"
    assert lines[3].index(" us") == lines[4].index(" us *")  # columns are aligned
    assert str(BenchmarkResult([], "none")) == "none\nno records"
    assert str(BenchmarkResult([FAILED])).endswith("failed\nsmall, c: ValueError: none")


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(1234.5, "1.234 s"), (12.345, "12.35 ms"), (0.012345, "12.35 us"), (0.000069, "69 ns")],
)
def test_units(ms, shown):
    assert f" {shown} *" in str(BenchmarkResult([record("a", "l", ms)]))


def column(text, i=2):
    return [row[i] for row in rows(text)]


def test_rows_and_groups_are_sorted(printed):
    assert column(printed(sort_by="median_ms")) == ["b", "a", "c", "a", "b"]
    assert column(printed(sort_by="-median_ms")) == ["a", "b", "c", "b", "a"]
    assert column(printed(sort_by="-backend")) == ["c", "b", "a", "b", "a"]
    assert column(printed(order_by="-n"), 0) == ["large"] * 2 + ["small"] * 3
    assert column(printed(order_by="label"), 0) == ["large"] * 2 + ["small"] * 3
    assert column(printed(order_by="median_ms"), 0) == ["small"] * 3 + ["large"] * 2
    flat = printed(group_by=None, sort_by=["-n", "backend"])
    assert flat.splitlines()[1].split()[:2] == ["n", "backend"]
    assert column(flat, 0) == ["8000"] * 2 + ["8"] * 3
    assert column(flat, 1) == ["a", "b", "a", "b", "c"]


def test_speedup(printed):
    text = printed(speedup_vs="a")
    assert text.splitlines()[1].split()[-2:] == ["x", "a"]
    assert [row[-1] for row in rows(text)] == ["1", "2", "failed", "1", "0.5"]
    with pytest.raises(ValueError, match=r"`speedup_vs`.*'z'.*\[KB8009\]"):
        result.print(speedup_vs="z")
    assert printed(compare_by="n", speedup_vs="8") == printed(compare_by="n", speedup_vs=8)
    text = printed(compare_by="n", group_by="backend", speedup_vs=8)
    assert [(row[0], row[1], row[-1]) for row in rows(text)] == [
        ("a", "8", "1"),
        ("a", "8000", "0.05"),
        ("b", "8", "1"),
        ("b", "8000", "0.0125"),
        ("c", "8", "failed"),
    ]
    assert text.count("*") == 2


def test_the_best_of_each_case(printed):
    """Without a name for it, whatever varies makes a case; with one, only that does."""
    mixed = BenchmarkResult([record("a", "l", 1.0, n=1), record("a", "l", 2.0, n=2)], "decay")
    assert printed(mixed).count("*") == 2
    assert printed(mixed, vary_by=["platform"]).count("*") == 1
    assert "*" not in printed(mixed, highlight_best=False)
    untimed = BenchmarkResult([record("a", "l", math.nan), record("b", "l", 2.0)], "decay")
    assert [row[1] for row in rows(str(untimed)) if "*" in row] == ["b"]


@pytest.mark.parametrize("what", ["sort_by", "group_by", "compare_by", "order_by", "vary_by"])
def test_unknown_names(what):
    expected = rf"`{what}` is \"__import__\('os'\)\", expected .* label, .*, n \[KB8009\]"
    with pytest.raises(ValueError, match=expected):
        result.print(**{what: "__import__('os')"})


def test_names_in_both_kwargs(printed):
    both = BenchmarkResult([replace(record("a", "l", 1.0, n=5), kernel_kwargs={"n": 7})], "decay")
    for name, shown in (("n", "7"), ("data_kwargs.n", "5")):
        assert column(printed(both, group_by=name), 0) == [shown]


def test_frames(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.groupby("n").median_ms.min().to_dict() == {8: 0.1, 8000: 4.0}
    assert list(frame.backend[frame.success]) == ["a", "b", "a", "b"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"frame.*\[KB4016\]"):
        result.to_frame()


@pytest.fixture
def pyplot():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def drawn(ax):
    """The points of each line, by its label."""
    handles, labels = ax.get_legend_handles_labels()
    return {
        label: line.lines[0].get_xydata().tolist()
        for line, label in zip(handles, labels, strict=True)
    }


@pytest.mark.usefixtures("pyplot")
def test_a_plot():
    (ax,) = result.plot().axes
    texts = ax.get_xlabel(), ax.get_ylabel(), ax.get_title()
    assert texts == ("n", "median and quartiles (ms per call)", "decay")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert drawn(ax) == {"a": [[8, 0.2], [8000, 4.0]], "b": [[8, 0.1], [8000, 8.0]]}  # c failed
    bars = ax.collections[1].get_segments()
    np.testing.assert_allclose(bars, [[[8, 0.05], [8, 0.2]], [[8000, 6], [8000, 9]]])


@pytest.mark.usefixtures("pyplot")
def test_other_axes_of_a_plot():
    ax = result.plot(x="label", y="throughput", hue=None, style="backend").axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["small", "large"]
    assert ax.get_ylabel() == "throughput"
    assert drawn(ax)["a"] == [[0, 5000], [1, 250]]
    assert not ax.collections
    near = BenchmarkResult([record("a", "l", 1.0, n=0), record("a", "m", 30.0, n=2000)])
    ax = near.plot().axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")


@pytest.mark.usefixtures("pyplot")
def test_configs_that_would_share_a_line_are_told_apart():
    labels = BenchmarkResult([record("a", c, 1.0, n=n) for c in ("l", "m") for n in (2, 1)])
    ax = labels.plot().axes[0]
    assert drawn(ax) == {"a, l": [[1, 1], [2, 1]], "a, m": [[1, 1], [2, 1]]}
    assert list(drawn(labels.plot(hue="label").axes[0])) == ["l", "m"]


def test_on_axes_of_ones_own(pyplot, monkeypatch):
    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(True))
    figure, (left, right) = pyplot.subplots(1, 2)
    assert result.plot(right, hue=None, x="label", color="red") is figure
    assert not left.lines
    assert {line.get_color() for line in right.lines} == {"red"}
    assert not shown
    result.plot(left, show=True)
    assert shown


@pytest.mark.usefixtures("pyplot")
def test_what_cannot_be_plotted(monkeypatch):
    for name in ("x", "y", "hue", "style"):
        with pytest.raises(ValueError, match=r"`x, y, hue, style`.*'colour'.*\[KB8009\]"):
            result.plot(**{name: "colour"})
    for hopeless in (BenchmarkResult([FAILED], "decay"), BenchmarkResult([], "decay")):
        with pytest.raises(ValueError, match=r"decay.*\[KB8009\]"):
            hopeless.plot()
    with pytest.raises(ValueError, match=r"plot.*\[KB8009\]"):
        result.plot(y="backend")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib.*\[KB4016\]"):
        result.plot()


KWARGS = {
    "none": None,
    "true": True,
    "int": 2**70,
    "float": 5e-324,
    "text": 'nan, "a"\r\n\t{}é',
    "tuple": (1, (np.float32(0.1), np.int8(3))),
    "dict": {"a": [np.bool_(True)]},
    "dtypes": [jnp.bfloat16, np.dtype("int16"), np.float32],
}
LOADED = {
    **KWARGS,
    "tuple": [1, [float(np.float32(0.1)), 3]],
    "dict": {"a": [True]},
    "dtypes": ["bfloat16", "int16", "float32"],
}


@pytest.mark.parametrize("format", ["json", "csv"])
def test_files(format, tmp_path):
    if format == "csv":
        pytest.importorskip("pandas")
    odd = BenchmarkRecord(
        "nan", "null", "3", 0.1 + 0.2, success=False, error='a,\n\'"b"', kernel_kwargs=KWARGS
    )
    path = tmp_path / "deep" / f"r.{format}"
    BenchmarkResult([*RECORDS, odd], "a, b").save(path)
    back = BenchmarkResult.load(path)
    assert back.primitive_name == "a, b"
    want = [*RECORDS, replace(odd, kernel_kwargs=LOADED)]
    assert repr(back.records) == repr(want)  # NaN is unequal to itself
    path.rename(tmp_path / "r.txt")
    assert len(BenchmarkResult.load(tmp_path / "r.txt", format=format).records) == 6
    BenchmarkResult([]).save(path)
    assert BenchmarkResult.load(path).records == []


def test_files_are_read_by_others(tmp_path):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    result.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text(), parse_constant=refuse)
    assert document["records"][0]["mean_ms"] == 0.2
    assert document["records"][2]["median_ms"] is None
    pandas = pytest.importorskip("pandas")
    result.save(tmp_path / "r.csv")
    frame = pandas.read_csv(tmp_path / "r.csv")
    assert list(frame.median_ms.fillna(0)) == [0.2, 0.1, 0, 4, 8]
    assert list(frame.success) == [True, True, False, True, True]


@pytest.mark.parametrize(
    "value", [np.ones(3), jnp.ones(3), {1, 2}, lambda: 0, object, 1j, b"bytes", math.inf]
)
def test_what_json_does_not_have_is_refused(tmp_path, value):
    bad = BenchmarkRecord("cpu", "b", "l", data_kwargs={"a": {"b": [1, value]}})
    with pytest.raises((TypeError, ValueError), match=r"cannot be saved|not JSON compliant"):
        BenchmarkResult([bad]).save(tmp_path / "r.json")
    assert not list(tmp_path.iterdir())  # nothing half written


def test_files_that_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    for use in (result.save, BenchmarkResult.load):
        for name, options in (("r.pkl", {}), ("r", {}), ("r.json", {"format": "pkl"})):
            with pytest.raises(ValueError, match=r"saved.*csv.*\[KB8009\]"):
                use(tmp_path / name, **options)
    with pytest.raises(FileNotFoundError, match=r"json.*\[KB8009\]"):
        BenchmarkResult.load(path)
    for text in ("{", "[]", '{"format": "other"}', '{"format": "kernbridge benchmark"}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"json.*\[KB8009\]"):
            BenchmarkResult.load(path)
    result.save(path)
    path.write_text(path.read_text().replace("max_ms", "colour"))
    with pytest.raises(ValueError, match=r"'colour'.*\[KB8009\]"):
        BenchmarkResult.load(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for use in (result.save, BenchmarkResult.load):
        with pytest.raises(ImportError, match=r"CSV.*\[KB4016\]"):
            use(tmp_path / "r.csv")


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "", "primitive_name,platform\nop,cpu\n"])
def test_a_csv_file_with_something_else(tmp_path, text):
    pytest.importorskip("pandas")
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(ValueError, match=r"csv.*\[KB8009\]"):
        BenchmarkResult.load(tmp_path / "r.csv")
