"""Counts what the tests hold, for docs/testing.md.

    python tests/figures.py            # prints the table
    python tests/figures.py --write    # puts it into the page

The page says "at least", and tests/python/test_documents.py proves that it is true, so the table
need not change with every test. It needs Numba-CUDA, since it imports the corpus.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PAGE = ROOT / "docs" / "testing.md"
_ROW = re.compile(r"^\| (?P<what>[^|]+) \| at least (?P<count>[\d,]+) \|$", re.M)


def _matches(pattern: str, folder: Path, files: str) -> int:
    found = re.compile(pattern, re.M)
    return sum(len(found.findall(path.read_text())) for path in folder.rglob(files))


def _corpus() -> tuple[int, int, int]:
    from cuda_corpus import bugs, case, faults

    return len(case.cases()), len(faults.FAULTS), len(bugs.BUGS)


def _plants() -> int:
    from cuda_corpus import plants

    return sum(len(plants.plants(kind)) for kind in plants.KINDS)


def _pairs() -> int:
    sys.path.insert(0, str(TESTS / "python" / "pairs"))
    import pair_table

    return len(pair_table.pairs())


def _blocks() -> int:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return sum(page.read_text().count("```python\n") for page in pages)


_TEST = r"^ *def test_"
FIGURES: dict[str, Callable[[], int]] = {
    "test functions in Python, many of them with dozens of parameters": lambda: _matches(
        _TEST, TESTS / "python", "*.py"
    ),
    "test functions in Python for machines with a GPU": lambda: _matches(
        _TEST, TESTS / "gpu", "*.py"
    ),
    "test programs in C": lambda: len(list((TESTS / "core").rglob("test_*.c"))),
    "fuzzers of the core": lambda: len(list((TESTS / "core").rglob("fuzz_*.c"))),
    "blocks of Python in the documents, which run, and whose output is compared": _blocks,
    "examples in docstrings": lambda: _matches(r"^ *>>> ", ROOT / "python", "*.py"),
    "CUDA kernels whose values on an H200 are kept, and compared on the CPU": lambda: _corpus()[0],
    "faults in kernels, described one by one, that the checked mode must report": lambda: _corpus()[
        1
    ],
    "bugs in our code generator, planted one by one, that the kernels must find": lambda: _corpus()[
        2
    ],
    "pairs of features that meet in drawn programs": _pairs,
    "faults that rules plant in the kernels, for the checked mode": _plants,
}
SLOW = {"faults that rules plant in the kernels, for the checked mode"}


def stated() -> dict[str, int]:
    """Return what the page says."""
    rows = _ROW.findall(PAGE.read_text())
    return {what: int(count.replace(",", "")) for what, count in rows}


def table() -> str:
    """Return the rows of the table, counts rounded down to two digits."""
    rows = []
    for what, count in FIGURES.items():
        n = count()
        unit = 10 ** max(len(str(n)) - 2, 0)
        rows.append(f"| {what} | at least {n // unit * unit:,} |")
    return "\n".join(rows)


def main() -> None:
    sys.path.insert(0, str(TESTS))
    rows = table()
    print(rows)
    if "--write" in sys.argv[1:]:
        old = re.compile(r"(?<=\|---\|---\|\n)(\|.*\n)*")
        PAGE.write_text(old.sub(rows + "\n", PAGE.read_text(), count=1))


if __name__ == "__main__":
    main()
