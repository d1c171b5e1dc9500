"""Attributes: numbers that are fixed while a call is traced, and that C reads as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.scan.functions import ScannedParameter

# Python's numbers for a kind of dtypes; of any other kind, such as bfloat16, an int or a float.
_KINDS: dict[str, Any] = {"b": bool, "i": int, "u": int, "c": (int, float, complex)}


def check_names(
    label: str, attributes: Sequence[ScannedParameter], values: Mapping[str, Any]
) -> None:
    """Raise TypeError unless there is a value for each attribute, and no other."""
    names = [a.name for a in attributes]
    unknown = [name for name in values if name not in names]
    missing = [name for name in names if name not in values]
    if unknown or missing:
        expected = ", ".join(f"{a.name}: {a.type}".rstrip(": ") for a in attributes) or "none"
        what = f"has no attribute {unknown[0]!r}; " if unknown else ""
        what = what or f"needs attribute {missing[0]!r}: pass {missing[0]}=; "
        raise TypeError(f"{label} {what}its attributes are {expected} [KB2006]")


def encode(label: str, attribute: ScannedParameter, value: Any) -> bytes:
    """Return the bytes of one attribute."""
    name, kind = attribute.name, attribute.type
    if isinstance(value, Tracer):
        raise TypeError(
            f"{label}: attribute {name!r} is traced, but attributes are static: pass a number "
            f"that is known while tracing (jax.jit(..., static_argnames={name!r})), or make it an "
            "input [KB2006]"
        )
    if isinstance(value, (jax.Array, np.ndarray)) and value.ndim == 0:
        value = np.asarray(value)[()]
    if kind in ("float16", "bfloat16") and isinstance(value, np.uint16):
        return value.tobytes()  # its bits
    dtype = np.dtype(jax.numpy.dtype(kind))
    if isinstance(value, np.generic):
        if value.dtype != dtype:
            raise TypeError(
                f"{label}: attribute {name!r} is {value!r} of dtype {value.dtype.name}, expected "
                f"{kind}; pass a Python number, or convert it [KB2006]"
            )
        return value.tobytes()
    is_bool = isinstance(value, bool)
    kinds = _KINDS.get(dtype.kind, (int, float))
    if not isinstance(value, kinds) or is_bool != (dtype.kind == "b"):
        raise TypeError(
            f"{label}: attribute {name!r} is {value!r} of type {type(value).__name__}, expected "
            f"{'True or False' if dtype.kind == 'b' else f'a number for {kind}'} [KB2006]"
        )
    fits, limits = True, ""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        fits, limits = info.min <= value <= info.max, f" ({info.min} to {info.max})"
    try:
        with np.errstate(over="ignore"):
            converted = np.array(value if fits else 0, dtype)
        fits = fits and bool(np.isfinite(converted) or not np.isfinite(complex(value)))
    except OverflowError:
        fits = False
    if not fits:
        raise ValueError(
            f"{label}: attribute {name!r} is {value!r}, which is out of range for {dtype.name}"
            f"{limits} [KB2006]"
        )
    return converted.tobytes()


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are numbers, as numbers of Python, which can be hashed."""
    return {n: v.item() if hasattr(v, "item") else v for n, v in values.items() if not callable(v)}
