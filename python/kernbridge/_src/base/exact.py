"""Exact keys for values that Python compares as equal although a kernel distinguishes them.

Python compares 1, 1.0 and True as equal, 0.0 and -0.0 as equal, and a NaN as unequal to itself. A
kernel that was made for one of them computes something else for another. `exact` returns a key that
compares by type and by bits; every cache whose keys hold values of users goes through it. Holds no
state; any thread may enter.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

_PLAIN = frozenset((bool, int, str, bytes, type(None)))


def exact(value: Any) -> Any:
    """Return a hashable key that equals another one only if types and bits are the same.

    Numbers, texts, NumPy scalars, and tuples, named tuples, frozen sets and frozen dataclasses of
    them are compared by type and bits, at every depth, anything else by its own ``==`` and its
    type. What cannot be hashed is a TypeError.

    >>> exact(0.0) == exact(-0.0), exact(1) == exact(True), exact((1, 2.0)) == exact((1, 2))
    (False, False, False)
    >>> exact(float("nan")) == exact(float("nan"))
    True
    """
    kind = type(value)
    if kind in _PLAIN:
        return (kind, value)
    if isinstance(value, np.generic):
        return (kind, value.dtype, value.tobytes())
    if isinstance(value, float):
        return (kind, struct.pack("<d", value))
    if isinstance(value, complex):
        return (kind, struct.pack("<dd", value.real, value.imag))
    if isinstance(value, tuple):
        return (kind, *map(exact, value))
    if kind is frozenset:
        return (kind, frozenset(map(exact, value)))
    hash(value)
    if hasattr(kind, "__dataclass_fields__"):
        fields = [f for f in dataclasses.fields(value) if f.compare]
        return (kind, value, tuple(exact(getattr(value, f.name)) for f in fields))
    return (kind, value)


def exact_items(values: Mapping[str, Any]) -> tuple[Hashable, ...]:
    return tuple((name, exact(values[name])) for name in sorted(values))
