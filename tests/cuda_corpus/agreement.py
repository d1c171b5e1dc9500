"""How far the CPU's values of libdevice's functions lie from those that a GPU gave.

In tests/: `python -m cuda_corpus.agreement` prints the lists of docs/cuda-agreement.md.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from .keep_functions import kept, rows

VALUES = Path(__file__).with_name("functions.npz")
BITS = {4: np.int32, 8: np.int64}
SCALED = re.compile(r"[jy][01n]f?$|lgammaf?$")  # between their zeros, the last place says nothing


def ordered(values: np.ndarray) -> np.ndarray:
    """Return whole numbers that count the floats from zero: neighbours differ by one."""
    bits = values.view(BITS[values.itemsize])
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits).astype(np.longdouble)


def distance(got: np.ndarray, want: np.ndarray, scaled: bool) -> float:
    """Return the greatest distance in units of the last place; NaN equals NaN, and nothing else.

    `scaled`: the greatest difference, relative to the value where that is greater than 1.
    """
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    got, want = got[~same], want[~same]
    if not got.size:
        return 0
    lost = np.isnan if not scaled else lambda values: ~np.isfinite(values)
    if np.any(lost(got) | lost(want)):
        return float("inf")
    if scaled:
        return float(np.max(np.abs(got - want) / np.maximum(1, np.abs(want))))
    return float(np.max(np.abs(ordered(got) - ordered(want))))


def distances(run: Callable[[str, list[np.ndarray]], list[np.ndarray]]) -> dict[str, float]:
    """Return the greatest distance of each function; `run` computes one on the CPU."""
    found = {}
    for name, wanted in kept(VALUES).items():
        results = run(name, rows(name))
        short = name.removeprefix("__nv_")
        if short.startswith("remquo"):  # three bits of the quotient are defined
            results[1], wanted[1] = np.abs(results[1]) % 8, np.abs(wanted[1]) % 8
        found[short] = max(
            float(np.max(got != want))
            if got.dtype.kind == "i"
            else distance(got, want, SCALED.match(short) is not None)
            for got, want in zip(results, wanted, strict=True)
        )
    return found


def shown(value: float, scaled: bool) -> str:
    """Return a distance as the lists have it."""
    if value == 0:
        return "equal"
    if value == float("inf"):
        return "differs"
    if not scaled:
        return f"{value:,.0f}"
    digits, exponent = f"{value:.0e}".split("e")
    rounded_up = int(digits) + (float(f"{digits}e{exponent}") < value)
    return f"{rounded_up}e{int(exponent)}"


def lines(found: dict[str, float]) -> Iterator[str]:
    """Return the lists of the functions that differ, as Markdown: in units, then scaled."""
    differing = [n for n in found if found[n] and not n.startswith("fast_")]
    for wanted in (False, True):
        yield ""
        rows: dict[tuple[str, str], list[str]] = {}
        for name in sorted({_base(n, found) for n in differing}):
            if (SCALED.match(name) is not None) == wanted:
                both = (shown(found.get(n, 0), wanted) for n in (name, name + "f"))
                rows.setdefault(tuple(both), []).append(f"`{name}`")
        for (double, single), names in rows.items():
            line = f"- {double} in float64, {single} in float32: {', '.join(names)}"
            yield from textwrap.wrap(line, 120, subsequent_indent="  ")


def _base(name: str, found: dict[str, float]) -> str:
    """Return the name of the function of doubles."""
    return name[:-1] if name.endswith("f") and name[:-1] in found else name


def stated(text: str) -> dict[str, float]:
    """Return what a document with such lists says of each function that they name."""
    found = {}
    values = {"equal": 0.0, "differs": float("inf")}
    item = r"^- (\S+) in float64, (\S+) in float32: (`\w+`(?:,\s+`\w+`)*)$"
    for *cells, names in re.findall(item, text, re.MULTILINE):
        for name in re.findall(r"\w+", names):
            for short, cell in zip((name, name + "f"), cells, strict=True):
                found[short] = values[cell] if cell in values else float(cell.replace(",", ""))
    return found


def exceeding(found: dict[str, float], text: str, slack: float = 0) -> list[str]:
    """Return the functions that are farther off than a document states; others are equal.

    `slack` is added, in units of the last place, where another C library computes them.
    """
    said, wrong = stated(text), []
    for name, value in found.items():
        limit = said.get(name, float("inf") if "fast_" in name else 0.0)
        more = slack if limit >= 1 else slack * 1e-6 if limit else 0
        if value > limit + more:
            wrong.append(f"{name}: {value} where {limit} is stated")
    return wrong


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
    import libdevice_engine

    engine = libdevice_engine.make()
    print("\n".join(lines(distances(lambda name, rows: libdevice_engine.run(engine, name, rows)))))
