"""The inputs of drawn expressions: values of each dtype, half of them at its edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

N = 96  # values of each input
ROWS = 4  # inputs of each dtype

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float32", "float64")
DTYPES = {name: np.dtype(name) for name in (*INTEGERS, *FLOATS, "bool")}
KINDS = {"i": SIGNED, "u": UNSIGNED, "f": ("float32",), "d": ("float64",), "b": ("bool",)}


def _specials(name: str) -> np.ndarray:
    """The values of a dtype at which something changes."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([False, True])
    if dtype.kind == "f":
        info = np.finfo(dtype)
        edges = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5)]
        plain = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, 100.25, 1e10, 1e30, np.inf, info.max]
        plain += [info.tiny, info.smallest_subnormal, info.eps, 1 / 3]
        values = np.array([*plain, *edges], dtype)
        return np.concatenate((values, -values, np.array([np.nan], dtype)))
    info = np.iinfo(dtype)
    small = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127]
    values = [*small, info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
    if dtype.kind == "i":
        values += [-1, -2, -3, -7, -8, -64]
    return np.array(values, dtype)


def inputs(names: Sequence[str], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """One array of ROWS by N values per dtype, of which half are special."""
    found = []
    for name in names:
        dtype = DTYPES[name]
        special = rng.choice(_specials(name), (ROWS, N))
        if dtype.kind == "f":
            drawn = (rng.standard_normal((ROWS, N)) * 10.0 ** rng.integers(-3, 4)).astype(dtype)
        elif dtype.kind == "b":
            drawn = special
        else:
            info = np.iinfo(dtype)
            drawn = rng.integers(info.min, info.max, (ROWS, N), dtype=dtype, endpoint=True)
        values = np.where(rng.random((ROWS, N)) < 0.5, special, drawn)
        if dtype.kind in "iu":
            values[0::2, 0] = values[0::2, 1] = info.min  # by -1, and by 0
            values[1::2, 0] = np.array(-1).astype(dtype)
            values[1::2, 1] = 0
        elif dtype.kind == "f":
            values[0, 0] = values[1, 1] = values[2, 2] = values[3, 3] = np.nan
        found.append(values)
    return tuple(found)


def x_of(name: str, row: int = 0) -> str:
    """The name of one value."""
    return f"{name}_{row}"
