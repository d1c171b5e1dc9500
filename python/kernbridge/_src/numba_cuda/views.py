"""The option `view=`: arrays of words that a Numba-CUDA kernel takes as arrays of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernbridge._src.operation.spec import ArrayType


def read_views(label: str, view: Mapping[str | int, Any]) -> tuple[tuple[str | int, Any], ...]:
    """The argument `view` of an operation, as pairs of place and NumPy dtype."""
    views = []
    for place, dtype in view.items():
        try:
            views.append((place, np.dtype(dtype)))
        except TypeError:
            raise TypeError(
                f"{label}: view contains {dtype!r} for {place!r}, expected a NumPy dtype [KB1103]"
            ) from None
    return tuple(views)


def views_of(
    label: str,
    parameters: Any,
    views: Sequence[tuple[str | int, Any]],
    names: Sequence[str],
    arrays: Sequence[ArrayType],
) -> dict[int, np.dtype[Any]]:
    """The dtypes of records as which a call's buffers are passed, by buffer.

    `names` are those of the buffers' parameters.
    """
    found = {}
    for place, dtype in views:
        if isinstance(place, str) and place not in names:
            raise ValueError(
                f"{label}: view contains {place!r}, but the kernel {parameters} has no array "
                "parameter of that name [KB1103]"
            )
        b = names.index(place) if isinstance(place, str) else int(place)
        if not 0 <= b < len(arrays):
            raise ValueError(f"{label}: view names parameter {b}, of {len(arrays)} [KB1103]")
        t = arrays[b]
        if not t.shape or t.shape[-1] * t.dtype.itemsize != dtype.itemsize:
            raise ValueError(
                f"{label}: view describes {names[b]!r} as records of {dtype.itemsize} bytes, but "
                f"it is {t}; its last axis must contain the {dtype.itemsize // t.dtype.itemsize} "
                "words of one record [KB1103]"
            )
        found[b] = dtype
    return found
