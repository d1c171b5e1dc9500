"""The inputs to which kept values belong, bit for bit, on every machine.

They are drawn with NumPy, whose last places depend on the processor and on the C library: the
floats among them are kept in inputs.npz. In tests/: `python -m cuda_corpus.kept_inputs` adds those
that are not there yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("inputs.npz")
NEAR = 0.95  # of the elements: those of another machine are, those of other draws are not


@cache
def _kept() -> dict[str, tuple[str, int]]:
    """Of each input by name: its dtype, and its place in all that is kept of this dtype."""
    if not FILE.exists():
        return {}
    with np.load(FILE) as archive:
        columns = (archive[column].tolist() for column in ("names", "dtypes", "at"))
        return {name: (dtype, at) for name, dtype, at in zip(*columns, strict=True)}


@cache
def _values(dtype: str) -> np.ndarray:
    with np.load(FILE) as archive:
        return archive[dtype]


def is_kept(name: str, drawn: np.ndarray) -> bool:
    """Whether this input is kept, or needs not be, since no other machine draws other values."""
    return drawn.dtype.kind != "f" or _found(name, drawn) is not None


def _found(name: str, drawn: np.ndarray) -> np.ndarray | None:
    dtype, at = _kept().get(name, ("", 0))
    if dtype != drawn.dtype.name or at + drawn.size > len(_values(dtype)):
        return None
    found = _values(dtype)[at : at + drawn.size].reshape(drawn.shape)
    near = np.isclose(found, drawn, rtol=1e-5, atol=0, equal_nan=True)
    return found.copy() if np.mean(near) >= NEAR else None


def settled(owner: str, drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Replace floats that were drawn for a kernel or a function by those that are kept of it.

    What is not kept, or was drawn otherwise since, stays as it is.
    """
    found = []
    for i, x in enumerate(drawn):
        kept = _found(f"{owner}/{i}", x) if x.dtype.kind == "f" else None
        found.append(x if kept is None else kept)
    return found


def every() -> Iterator[tuple[str, np.ndarray]]:
    """All inputs to which kept values belong, with their names."""
    from . import case, expressions, keep_functions

    everything = [*case.cases(), *(found for found, _ in expressions.cases())]
    for one in everything:
        yield from ((f"{one.name}/{i}", np.asarray(x)) for i, x in enumerate(one.arguments()))
    for name in sorted(keep_functions.FUNCTIONS):
        yield from ((f"{name}/{i}", x) for i, x in enumerate(keep_functions.rows(name)))


def keep() -> None:
    """Write inputs.npz, with what is in it already, and without what nothing reads any more."""
    places: dict[tuple[str, bytes], int] = {}
    stored: dict[str, list[np.ndarray]] = {}
    index = []
    for name, x in every():
        if x.dtype.kind != "f":
            continue
        kind = x.dtype.name
        known = stored.setdefault(kind, [])
        place = (kind, x.tobytes())
        if place not in places:
            places[place] = sum(map(len, known))
            known.append(np.ravel(x))
        index.append((name, kind, places[place]))
    names, dtypes, at = zip(*index, strict=True)
    archive = {kind: np.concatenate(arrays) for kind, arrays in stored.items()}
    np.savez_compressed(
        FILE, names=np.array(names), dtypes=np.array(dtypes), at=np.array(at, np.int32), **archive
    )
    print(f"{len(names)} inputs, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    keep()
