"""Whether two backends returned the same results, and in words where they did not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def on_host(output: Any) -> Any:
    """A pytree of results as NumPy arrays, so that the device is free for the next backend."""
    return jax.tree.map(_array, output)


def _array(value: Any) -> Any:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def difference(got: Any, want: Any, reference: str, rtol: float, atol: float) -> str | None:
    """Say how results differ from those of the backend `reference`, or return None.

    Integers and bools must be equal. Of floats and complex numbers |got - want| may be at most
    atol + rtol |want|; NaN equals NaN, and infinity the same infinity.
    """
    named, tree = jax.tree_util.tree_flatten_with_path(got)
    wanted, expected = jax.tree.flatten(want)
    if tree != expected:
        return f"returned {tree}, {reference!r} returned {expected}"
    told = []
    for (path, a), b in zip(named, wanted, strict=True):
        name = f"output {jax.tree_util.keystr(path)}" if path else "the output"
        text = _leaf(a, b, reference, rtol, atol)
        if text:
            told.append(f"{name} {text}")
    return "; ".join(told) or None


def _leaf(a: Any, b: Any, reference: str, rtol: float, atol: float) -> str | None:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"is {a.dtype}{list(a.shape)}, that of {reference!r} is {b.dtype}{list(b.shape)}"
    if not jnp.issubdtype(a.dtype, np.inexact):
        rtol = atol = 0.0
        a, b = _exact(a), _exact(b)
        unequal = np.asarray(a != b)
    else:
        wide = np.complex128 if jnp.issubdtype(a.dtype, np.complexfloating) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        unequal = np.asarray(~close)
    if not unequal.any():
        return None
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        absolute = np.where(unequal, np.abs(a - b), -1)
        relative = np.where(unequal, np.abs(a - b) / np.abs(b), -1)
    return (
        f"differs from that of {reference!r} in {int(unequal.sum())} of {unequal.size} elements "
        f"(rtol={rtol:g}, atol={atol:g}); the largest difference is {_at(absolute, a, b)}, "
        f"the largest relative difference {_at(relative, a, b)}"
    )


def _exact(values: Any) -> Any:
    """Return integers whose differences do not overflow: Python's own for 64 bits."""
    return values.astype(object if values.dtype.itemsize == 8 else np.int64)


def _at(differences: Any, a: Any, b: Any) -> str:
    """The largest, where it is and what is there; one that is not a number comes first."""
    flat = differences.astype(np.float64).ravel()
    place = int(np.argmax(np.where(np.isnan(flat), np.inf, flat)))
    index = [int(i) for i in np.unravel_index(place, a.shape)]
    x, y = a.ravel()[place], b.ravel()[place]
    return f"{flat[place]:.6g} at {index} ({_text(x)} against {_text(y)})"


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (int, np.integer)) else f"{value:.9g}"
