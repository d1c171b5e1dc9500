"""Compares the results of two backends, and describes the differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def on_host(output: Any) -> Any:
    """Return results as NumPy arrays, so that the device is free for the next backend."""

    def array(value: Any) -> Any:
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return np.asarray(value)

    return jax.tree.map(array, output)


def difference(got: Any, want: Any, reference: str, rtol: float, atol: float) -> str | None:
    """Return how results differ from those of the backend `reference`, or None.

    Integers and bools must be equal. Of floats and complex numbers |got - want| may be at most
    atol + rtol |want|; NaN equals NaN, and infinity the same infinity.
    """
    named, tree = jax.tree_util.tree_flatten_with_path(got)
    wanted, expected = jax.tree.flatten(want)
    if tree != expected:
        return f"returned {tree}, {reference!r} returned {expected}"
    found = []
    for (path, a), b in zip(named, wanted, strict=True):
        text = _leaf(a, b, reference, rtol, atol)
        if text:
            name = f"output {jax.tree_util.keystr(path)}" if path else "the output"
            found.append(f"{name} {text}")
    return "; ".join(found) or None


def _leaf(a: Any, b: Any, reference: str, rtol: float, atol: float) -> str | None:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"is {a.dtype}{list(a.shape)}, that of {reference!r} is {b.dtype}{list(b.shape)}"
    number = "{:.9g}"
    if jnp.issubdtype(a.dtype, np.inexact):
        wide: Any = np.complex128 if jnp.iscomplexobj(a) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            unequal = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    else:  # Python's own integers in place of those of 64 bits, whose differences overflow
        rtol, atol, number = 0.0, 0.0, "{}"
        wide = object if a.dtype.itemsize == 8 else np.int64
        a, b = a.astype(wide), b.astype(wide)
        unequal = np.asarray(a != b)
    if not unequal.any():
        return None

    def largest(differences: Any) -> str:
        """Return it with its place and values; one that is not a number comes first."""
        flat = np.where(unequal, differences, -1).ravel()
        place = int(np.argmax(np.where(np.isnan(flat), np.inf, flat)))
        index = [int(i) for i in np.unravel_index(place, a.shape)]
        x, y = (number.format(values.ravel()[place]) for values in (a, b))
        return f"{flat[place]:.6g} at {index} ({x} against {y})"

    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        absolute = np.abs(a - b).astype(np.float64)
        relative = absolute / np.abs(b).astype(np.float64)
    return (
        f"differs from that of {reference!r} in {int(unequal.sum())} of {unequal.size} elements "
        f"(rtol={rtol:g}, atol={atol:g}); the largest difference is {largest(absolute)}, "
        f"the largest relative difference {largest(relative)}"
    )
