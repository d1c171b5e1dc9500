"""Exact keys: values that Python calls equal although a kernel distinguishes them.

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
    """A hashable key that equals another one only if types and bits are the same.

    Parameters
    ----------
    value : hashable
        Numbers, texts, NumPy scalars, and tuples, named tuples, frozen sets and frozen dataclasses
        of them are compared by type and bits, at every depth. Anything else is compared by its own
        ``==``, and by its type.

    Raises
    ------
    TypeError
        If the value, or a part of it, cannot be hashed.

    Examples
    --------
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        compared = [f.name for f in dataclasses.fields(value) if f.compare]
        return (kind, value, tuple(exact(getattr(value, name)) for name in compared))
    return (kind, value)


def exact_items(values: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """An exact key of named values, whatever their order."""
    return tuple((name, exact(values[name])) for name in sorted(values))
