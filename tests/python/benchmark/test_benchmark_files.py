"""Benchmark results on disk: nothing is lost or executed; what cannot be kept is refused."""

import csv
import enum
import json
import math
from collections import namedtuple
from dataclasses import fields

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernbridge.benchmark import BenchmarkRecord, BenchmarkResult

pytestmark = pytest.mark.once

FIELDS = [f.name for f in fields(BenchmarkRecord)]


def same(a, b):
    """Equal, of the same type, all the way down, NaN and signs of zeros included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(map(repr, a)) == list(map(repr, b)) and all(
            same(x, y) and same(p, q) for (x, p), (y, q) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return a == b


def round_trip(result, folder, format):
    path = folder / "deep" / f"result.{format}"
    result.save(path)
    back = BenchmarkResult.load(path)
    assert same(back.primitive_name, result.primitive_name)
    assert len(back.records) == len(result.records)
    for got, want in zip(back.records, result.records, strict=True):
        for name in FIELDS:
            assert same(getattr(got, name), getattr(want, name)), name
    return back


texts = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    [
        "",
        "nan",
        "-inf",
        "null",
        "3",
        "3.0",
        "true",
        '"',
        "[1]",
        '{"$type": "x"}',
        "a,b\r\n",
        "\0",
        "\ud800",
        " 1",
    ]
)
floats = st.floats() | st.sampled_from([-0.0, math.nan, math.inf, 5e-324])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | floats
    | texts
    | st.sampled_from(
        [
            np.dtype("float32"),
            np.dtype(">i2"),
            np.dtype("U3"),
            np.dtype("datetime64[ns]"),
            jnp.dtype("bfloat16"),
            jnp.dtype("float8_e4m3fn"),
            np.float32,
            np.bool_,
            np.complex128,
            jnp.float32,
            jnp.bfloat16,
            jnp.int4,
            np.str_("text"),
            np.bytes_(b"bytes"),
            np.longdouble("0.1"),
            np.datetime64("2024-01-02"),
            np.complex64(1 - 2j),
            np.bool_(True),
            np.float16("nan"),
            jnp.bfloat16(1.5).dtype.type(2.5),
        ]
    )
    | floats.map(np.float64)
    | st.floats(width=32).map(np.float32)
    | st.integers(-128, 127).map(np.int8)
    | st.integers(0, 2**64 - 1).map(np.uint64)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=6,
)
kwargs = st.dictionaries(texts, values, max_size=3)
records = st.builds(
    BenchmarkRecord,
    platform=texts,
    backend=texts,
    label=texts,
    success=st.booleans(),
    error=st.none() | texts,
    kernel_kwargs=kwargs,
    data_kwargs=kwargs,
    n_runs=st.integers(0),
    **{name: floats | st.integers() for name in FIELDS if name.endswith("_ms")},
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(records=st.lists(records, max_size=3), name=texts, format=st.sampled_from(["json", "csv"]))
def test_nothing_is_lost(records, name, format, tmp_path):
    round_trip(BenchmarkResult(records, name), tmp_path, format)


@pytest.mark.parametrize("format", ["json", "csv"])
def test_long_texts(tmp_path, format):
    record = BenchmarkRecord("cpu", "b", "l", error="x" * 300_000, success=False)
    limit = csv.field_size_limit()
    round_trip(BenchmarkResult([record]), tmp_path, format)
    assert csv.field_size_limit() == limit


def test_json_is_json(tmp_path):
    path = tmp_path / "r.json"
    BenchmarkResult([BenchmarkRecord("cpu", "b", "l", mean_ms=2.5)], "op").save(path)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads(path.read_text(), parse_constant=refuse)
    assert document["primitive_name"] == "op"
    assert document["records"][0]["mean_ms"] == 2.5
    assert document["records"][0]["median_ms"] == {"$type": "float", "value": "nan"}


def test_csv_is_read_by_others(tmp_path):
    path = tmp_path / "r.csv"
    record = BenchmarkRecord("cpu", "b", "l", 2.5, kernel_kwargs={"n": 3, "t": True})
    BenchmarkResult([record], "op").save(path)
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["primitive_name"] == "op"
    assert float(row["mean_ms"]) == 2.5
    assert math.isnan(float(row["median_ms"]))
    assert (row["success"], row["error"], row["label"]) == ("true", "", "l")
    assert json.loads(row["kernel_kwargs"]) == {"n": 3, "t": True}


Point = namedtuple("Point", "x y")
Colour = enum.IntEnum("Colour", "RED")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.ones(3), "numpy.ndarray"),
        (jnp.ones(3), "ArrayImpl"),
        (Point(1, 2), "Point"),
        (Colour.RED, "Colour"),
        ({1, 2}, "builtins.set"),
        (lambda: 0, "builtins.function"),
        (int, "builtins.type"),
        (1j, "builtins.complex"),
        (b"bytes", "builtins.bytes"),
        ({1: 2}, "builtins.dict"),
        ({"$type": 2}, "builtins.dict"),
        (np.floating, "builtins.type"),
        (np.dtype([("a", "f4")]), "numpy.dtypes.VoidDType"),
        (np.zeros(1, [("a", "f4")])[0], "numpy.void"),
    ],
)
@pytest.mark.parametrize("format", ["json", "csv"])
def test_what_cannot_be_kept_is_refused_by_name(tmp_path, value, kind, format):
    good = BenchmarkRecord("cpu", "b", "l")
    bad = BenchmarkRecord("cpu", "b", "l", data_kwargs={"a": {"b": [1, value]}})
    with pytest.raises(TypeError) as told:
        BenchmarkResult([good, bad]).save(tmp_path / f"r.{format}")
    assert str(told.value).startswith("record 1: data_kwargs['a']['b'][1] is of type ")
    assert kind in str(told.value)
    assert not list(tmp_path.iterdir())  # nothing half written


@pytest.mark.parametrize(
    ("name", "format", "shown"),
    [
        ("r.pkl", None, "the file name 'r.pkl'"),
        ("r", None, "the file name 'r'"),
        ("r.json", "pkl", "format='pkl'"),
        ("r.json", "pickle", "format='pickle'"),
    ],
)
def test_other_formats_are_refused(tmp_path, name, format, shown):
    path = tmp_path / name
    for use in (BenchmarkResult([]).save, BenchmarkResult.load):
        with pytest.raises(ValueError, match=f"saved as json or csv, got {shown}"):
            use(path, format=format)
    assert not path.exists()


def test_the_format_may_be_given(tmp_path):
    path = tmp_path / "results.txt"
    BenchmarkResult([BenchmarkRecord("cpu", "b", "l")], "op").save(path, format="csv")
    assert BenchmarkResult.load(path, format="csv").records[0].label == "l"
    assert path.read_text().startswith("primitive_name,platform")


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no benchmark results at .*r.json"):
        BenchmarkResult.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("r.json", "{", "Expecting"),
        ("r.json", "[]", "does not contain benchmark results"),
        ("r.json", '{"format": "other"}', "format and version"),
        ("r.json", '{"format": "kernbridge benchmark", "version": 2}', "format and version"),
        ("r.csv", "a,b\n1,2\n", "first column"),
        ("r.csv", "", "does not contain benchmark results"),
        ("r.csv", "primitive_name,platform\nop,cpu\n", "backend"),
        ("r.csv", "primitive_name," + ",".join(FIELDS) + "\nop,cpu\n", "zip"),
    ],
)
def test_a_file_with_something_else(tmp_path, name, text, why):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=why) as told:
        BenchmarkResult.load(path)
    assert name in str(told.value)


@pytest.mark.parametrize(
    "coded",
    [
        {"$type": "os.system", "value": "true"},
        {"$type": "dtype", "name": "os"},
        {"$type": "scalar", "dtype": "O", "hex": "0000000000000000"},
        {"$type": "jax.numpy", "name": "sin"},
        {"$type": ["list"]},
        {"$type": "tuple"},
        {"$type": "float", "value": "__import__('os')"},
    ],
)
def test_unknown_types_are_refused(tmp_path, coded):
    path = tmp_path / "r.json"
    BenchmarkResult([BenchmarkRecord("cpu", "b", "l")]).save(path)
    document = json.loads(path.read_text())
    document["records"][0]["data_kwargs"] = {"x": coded}
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is not of kernbridge's"):
        BenchmarkResult.load(path)


def test_unknown_fields_are_named(tmp_path):
    path = tmp_path / "r.json"
    BenchmarkResult([BenchmarkRecord("cpu", "b", "l")]).save(path)
    document = json.loads(path.read_text())
    document["records"][0]["colour"] = document["records"][0].pop("max_ms")
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="unexpected keyword argument 'colour'"):
        BenchmarkResult.load(path)
