"""Results on disk, as JSON or CSV, without loss; nothing that is read is executed."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.benchmark.codec import decode, encode
from kernbridge._src.benchmark.records import FIELDS, BenchmarkRecord, as_dict

FORMATS = ("json", "csv")
JSON_KIND = "kernbridge benchmark"
NAME = "primitive_name"
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

PathLike = str | os.PathLike[str]


def save(
    path: PathLike, name: str, records: Sequence[BenchmarkRecord], format: str | None = None
) -> None:
    """Write results; makes the folders that are missing. See `BenchmarkResult.save`."""
    file = Path(path)
    text = {"json": _to_json, "csv": _to_csv}[_format_of(file, format)](name, records)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))


def load(path: PathLike, format: str | None = None) -> tuple[str, list[BenchmarkRecord]]:
    """Name and records that `save` wrote. See `BenchmarkResult.load`."""
    file = Path(path)
    read = {"json": _from_json, "csv": _from_csv}[_format_of(file, format)]
    if not file.is_file():
        raise FileNotFoundError(f"there are no benchmark results at {str(file)!r}")
    try:
        return read(file.read_bytes().decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, KeyError, AttributeError, csv.Error) as e:
        raise ValueError(f"{str(file)!r} does not hold benchmark results of kernbridge: {e}") from e


def _format_of(file: Path, format: str | None) -> str:
    found = file.suffix.lstrip(".").lower() if format is None else format
    if found not in FORMATS:
        raise ValueError(
            f"benchmark results are saved as {' or '.join(FORMATS)}, got "
            + (f"the file name {file.name!r}" if format is None else f"format={format!r}")
            + ": name the file so, or give format="
        )
    return found


def encoded(name: str, records: Sequence[BenchmarkRecord]) -> dict[str, Any]:
    """What JSON writes for a result."""
    rows = [
        {field: encode(value, f"record {i}: {field}") for field, value in as_dict(record).items()}
        for i, record in enumerate(records)
    ]
    return {NAME: encode(name, NAME), "records": rows}


def _to_json(name: str, records: Sequence[BenchmarkRecord]) -> str:
    document = {"format": JSON_KIND, "version": 1, **encoded(name, records)}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _from_json(text: str) -> tuple[str, list[BenchmarkRecord]]:
    document = json.loads(text)
    kind = (document.get("format"), document.get("version"))
    if kind != (JSON_KIND, 1):
        raise ValueError(f"its format and version are {kind}, expected {(JSON_KIND, 1)}")
    rows = [{field: decode(value) for field, value in row.items()} for row in document["records"]]
    return decode(document[NAME]), [_record(row) for row in rows]


def _record(row: dict[str, Any]) -> BenchmarkRecord:
    _check_fields(row)
    return BenchmarkRecord(**row)


def _check_fields(found: Sequence[str] | dict[str, Any]) -> None:
    wrong = sorted(set(found) ^ set(FIELDS))
    if wrong:
        raise ValueError(f"the fields {', '.join(wrong)} are missing, or unknown")


def _to_csv(name: str, records: Sequence[BenchmarkRecord]) -> str:
    """One row a record. Without any, one row holds the name alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([NAME, *FIELDS])
    for row in encoded(name, records)["records"]:
        writer.writerow([_to_cell(name), *(_to_cell(row[field]) for field in FIELDS)])
    if not records:
        writer.writerow([_to_cell(name)])
    return text.getvalue()


def _from_csv(text: str) -> tuple[str, list[BenchmarkRecord]]:
    limit = csv.field_size_limit(2**31 - 1)  # an error can be longer than the default allows
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    finally:
        csv.field_size_limit(limit)
    if header[:1] != [NAME]:
        raise ValueError(f"its first column is {header[:1]}, expected {NAME!r}")
    fields = header[1:]
    _check_fields(fields)
    records = [
        _record({f: _from_cell(cell) for f, cell in zip(fields, row[1:], strict=True)})
        for row in rows
        if len(row) > 1
    ]
    return str(_from_cell(rows[0][0])), records


def _to_cell(coded: Any) -> str:
    """A text as it is, if it cannot be taken for anything else; everything else is JSON.

    None is an empty cell; NaN and infinities are nan, inf and -inf, as other programs read them.
    """
    if coded is None:
        return ""
    if isinstance(coded, str) and _is_plain(coded):
        return coded
    if isinstance(coded, dict) and coded.get("$type") == "float":
        return str(coded["value"])
    return json.dumps(coded)


def _is_plain(text: str) -> bool:
    """Whether a text comes back from a cell that holds it as it is."""
    try:
        return _from_cell(text) == text and "\0" not in text and "\r" not in text
    except ValueError:
        return False


def _from_cell(cell: str) -> Any:
    if cell == "":
        return None
    if cell in _NUMBERS:
        return _NUMBERS[cell]
    try:
        coded = json.loads(cell)
    except (ValueError, RecursionError):
        return cell
    return decode(coded)
