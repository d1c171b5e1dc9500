"""Arguments for every function of libdevice that Numba-CUDA can call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numba.cuda import libdevicefuncs

FUNCTIONS: dict[str, Any] = libdevicefuncs.functions

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, 2.5, -2.5, 3.0]


def floats(name: str, kind: str, n: int) -> np.ndarray:
    """Edges, numbers of every size, and numbers between bounds that suit the function."""
    rng = np.random.default_rng(len(name))
    info = np.finfo(kind)
    small = re.search("erf|norm|[jy][01n]|gamma", name) is not None
    bound = 27.0 if "erfcx" not in name and small else 8.0
    edges = EDGES if small else [*EDGES, info.max, -info.max, info.tiny, -info.smallest_subnormal]
    between = rng.uniform(-bound, bound, n)
    unit = rng.uniform(-1, 1, n)
    sizes = rng.normal(size=n) * 2.0 ** rng.uniform(info.minexp - 20, 4, n)
    if not small:
        sizes = np.concatenate([sizes, unit * 2.0 ** rng.uniform(0, info.maxexp - 1, n)])
        whole = rng.integers(-60, 60, n)
        edges = [*edges, *whole, *(whole / 2), *(2.0**31 + whole / 2), *(2.0**63 + whole * 2.0**11)]
    if "inv" in name:  # probabilities
        between = 2.0 ** rng.uniform(info.minexp, 0, n)
        edges = [e for e in edges if e == e]
    with np.errstate(all="ignore"):
        return np.concatenate([edges, between, unit, sizes]).astype(kind)


def whole(name: str, kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(len(name))
    if re.search("[jy]n|powi", name):
        return rng.integers(-3, 12, n).astype(kind)
    if re.search("ldexp|scalbn", name):
        return np.concatenate([rng.integers(-1100, 1100, n), [0, 1, -1, 2**31 - 1, -(2**31)]])
    info = np.iinfo(kind)
    edges = [0, 1, -1, 2, 255, 65536, info.max, info.min, info.max - 1, info.min + 1]
    near = rng.integers(info.min, info.max, n, dtype=kind)
    if kind == "int16":
        return np.arange(info.min, info.max + 1).astype(kind)
    return np.concatenate([edges, near, near >> rng.integers(0, info.bits, n)]).astype(kind)


def inputs(name: str) -> list[np.ndarray]:
    """The arguments of a function: a row for each parameter that is no pointer."""
    arguments = [a for a in FUNCTIONS[name][1] if not a.is_ptr]
    n = {1: 150, 2: 40, 3: 12}[len(arguments)]
    rows = []
    for i, a in enumerate(arguments):
        kind = str(a.ty)
        values = (floats if kind.startswith("float") else whole)(name + "x" * i, kind, n)
        rows.append(values.astype(kind))
    if len(rows) == 1:
        return rows
    rng = np.random.default_rng(7)
    rows = [rng.permutation(r)[:100] if len(rows) == 3 else r for r in rows]
    pairs = [np.meshgrid(*(r[: 30 if len(rows) == 2 else 12] for r in rows))]
    count = max(map(len, rows)) * 4
    pairs.append([rng.choice(r, count) for r in rows])
    return [
        np.concatenate([np.ravel(p[i]) for p in pairs]).astype(rows[i].dtype)
        for i in range(len(rows))
    ]
