"""Saves benchmark results as JSON or CSV without loss, and loads them without executing anything.

Numbers, strings, None, lists, and dicts with strings as keys are stored as JSON. Other values are
stored as an object with the key "$type": tuples, NaN and infinities, and the scalars, dtypes and
scalar types of NumPy and JAX. Any other value is refused, and the error names it.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from kernbridge._src.base.exact import exact
from kernbridge._src.benchmark.records import FIELDS, BenchmarkRecord, as_dict

JSON_KIND = ("kernbridge benchmark", 1)  # format and version
NAME = "primitive_name"
TAG = "$type"

PathLike = str | os.PathLike[str]


def save(
    path: PathLike, name: str, records: Sequence[BenchmarkRecord], format: str | None = None
) -> None:
    """Write results, and make the folders that are missing. See `BenchmarkResult.save`."""
    file = Path(path)
    write, _ = _FORMATS[_format_of(file, format)]
    text = write(encoded(name, records))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))


def load(path: PathLike, format: str | None = None) -> tuple[str, list[BenchmarkRecord]]:
    """Read the name and the records that `save` wrote. See `BenchmarkResult.load`."""
    file = Path(path)
    _, read = _FORMATS[_format_of(file, format)]
    if not file.is_file():
        raise FileNotFoundError(f"there are no benchmark results at {str(file)!r} [KB8009]")
    try:
        document = read(file.read_bytes().decode("utf-8", "surrogatepass"))
        return document[NAME], [BenchmarkRecord(**decode(row)) for row in document["records"]]
    except (ValueError, TypeError, KeyError, AttributeError, csv.Error) as e:
        raise ValueError(
            f"{str(file)!r} does not contain benchmark results of kernbridge: {e} [KB8009]"
        ) from e


def _format_of(file: Path, format: str | None) -> str:
    found = file.suffix.lstrip(".").lower() if format is None else format
    if found not in _FORMATS:
        raise ValueError(
            "benchmark results are saved as json or csv, got "
            + (f"the file name {file.name!r}" if format is None else f"format={format!r}")
            + ": change the name of the file, or pass format= [KB8009]"
        )
    return found


def encoded(name: str, records: Sequence[BenchmarkRecord]) -> dict[str, Any]:
    """Return what JSON writes for a result."""
    rows = [
        {field: encode(value, f"record {i}: {field}") for field, value in as_dict(record).items()}
        for i, record in enumerate(records)
    ]
    return {NAME: name, "records": rows}


def _to_json(result: dict[str, Any]) -> str:
    kind, version = JSON_KIND
    document = {"format": kind, "version": version, **result}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _from_json(text: str) -> Any:
    document = json.loads(text)
    kind = (document.get("format"), document.get("version"))
    if kind != JSON_KIND:
        raise ValueError(f"its format and version are {kind}, expected {JSON_KIND}")
    return document


def _to_csv(result: dict[str, Any]) -> str:
    """Write one row for each record. Without any, one row holds the name alone."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([NAME, *FIELDS])
    for row in result["records"] or [{}]:
        writer.writerow(map(_to_cell, [result[NAME], *row.values()]))
    return text.getvalue()


def _from_csv(text: str) -> dict[str, Any]:
    limit = csv.field_size_limit(2**31 - 1)  # an error can be longer than the default allows
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    finally:
        csv.field_size_limit(limit)
    if header[:1] != [NAME]:
        raise ValueError(f"its first column is {header[:1]}, expected {NAME!r}")
    records = [
        dict(zip(header[1:], map(_from_cell, cells), strict=True)) for _, *cells in rows if cells
    ]
    return {NAME: str(_from_cell(rows[0][0])), "records": records}


_FORMATS = {"json": (_to_json, _from_json), "csv": (_to_csv, _from_csv)}


def _to_cell(coded: Any) -> str:
    """Write a text as it is, if it cannot be taken for anything else, and other values as JSON.

    None is an empty cell; NaN and infinities are nan, inf and -inf, as other programs read them.
    """
    if coded is None:
        return ""
    if isinstance(coded, dict) and coded.get(TAG) == "float":
        return str(coded["value"])
    if isinstance(coded, str) and "\0" not in coded and _from_cell(coded) == coded:
        return coded
    return json.dumps(coded)


def _from_cell(cell: str) -> Any:
    """Return what `_to_cell` wrote, which `decode` has still to read."""
    if cell in _NOT_FINITE:
        return {TAG: "float", "value": cell}
    try:
        return json.loads(cell) if cell else None
    except (ValueError, RecursionError):
        return cell


def encode(value: Any, name: str) -> Any:
    """Return what JSON writes for a value that comes back the same, or raise TypeError.

    The message calls the value `name`.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "value": repr(value)}
    if kind in (list, tuple):
        items = [encode(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return items if kind is list else {TAG: "tuple", "items": items}
    if kind is dict and TAG not in value and all(type(key) is str for key in value):
        return {key: encode(item, f"{name}[{key!r}]") for key, item in value.items()}
    coded = _code_of_numpy(value)
    try:
        if exact(decode(coded)) == exact(value):
            return coded
    except (ValueError, TypeError):  # it is no type of kernbridge, or cannot be hashed
        pass
    raise TypeError(
        f"{name} is of type {kind.__module__}.{kind.__qualname__}, which cannot be saved without "
        "loss: use ints, floats, strings, None, NumPy scalars, dtypes, and lists, tuples and "
        "dicts (with strings as keys) of these [KB8009]"
    )


def _code_of_numpy(value: Any) -> dict[str, str]:
    """Return a code that holds for scalars, dtypes and scalar types; others come back changed."""

    def name_of(dtype: np.dtype[Any]) -> str:
        return dtype.name if dtype.kind == "V" else dtype.str  # those of JAX are V, and have a name

    if isinstance(value, np.dtype):
        return {TAG: "dtype", "name": name_of(value)}
    if isinstance(value, np.generic):
        data, text = value.tobytes().hex(), str(value)
        return {TAG: "scalar", "dtype": name_of(value.dtype), "hex": data, "text": text}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {TAG: "scalar type", "dtype": value.__name__}
    return {TAG: "jax.numpy", "name": str(getattr(value, "dtype", ""))}


def decode(coded: Any) -> Any:
    """Return the value that `encode` wrote, or raise ValueError if it did not write this."""
    if isinstance(coded, list):
        return [decode(item) for item in coded]
    if not isinstance(coded, dict):
        return coded
    if TAG not in coded:
        return {key: decode(item) for key, item in coded.items()}
    try:
        return _DECODERS[coded[TAG]](coded)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise ValueError(f"{json.dumps(coded)[:200]} is not of kernbridge's: {e!r}") from e


def _decode_jax(coded: dict[str, Any]) -> Any:
    value = getattr(jnp, coded["name"])
    if str(value.dtype) != coded["name"]:
        raise ValueError("it is not a scalar type of jax.numpy")
    return value


_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DECODERS: dict[str, Any] = {
    "float": lambda c: _NOT_FINITE[c["value"]],
    "tuple": lambda c: tuple(decode(item) for item in c["items"]),
    "dtype": lambda c: np.dtype(c["name"]),
    "scalar": lambda c: np.frombuffer(bytes.fromhex(c["hex"]), np.dtype(c["dtype"]))[0],
    "scalar type": lambda c: np.dtype(c["dtype"]).type,
    "jax.numpy": _decode_jax,
}
