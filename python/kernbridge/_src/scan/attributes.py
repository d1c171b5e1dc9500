"""Encodes attributes of kernels in C, C++ or CUDA as the bytes that C reads.

An attribute is a number that is fixed while a call is traced, not an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.scan.signature import ScannedParameter

# What an attribute can be: its size in bytes, and the type of C that holds it.
TYPES = {
    "bool": (1, "bool"),
    "int8": (1, "int8_t"),
    "uint8": (1, "uint8_t"),
    "int16": (2, "int16_t"),
    "uint16": (2, "uint16_t"),
    "int32": (4, "int32_t"),
    "uint32": (4, "uint32_t"),
    "int64": (8, "int64_t"),
    "uint64": (8, "uint64_t"),
    "float32": (4, "float"),
    "float64": (8, "double"),
    "float16": (2, "uint16_t"),
    "bfloat16": (2, "uint16_t"),
    "complex64": (8, "float _Complex"),
    "complex128": (16, "double _Complex"),
}
_KINDS: dict[str, tuple[type, ...]] = {
    "b": (bool,),
    "i": (int,),
    "u": (int,),
    "f": (int, float),
    "V": (int, float),  # such as bfloat16
    "c": (int, float, complex),
}


def encode_all(
    label: str, attributes: Sequence[ScannedParameter], values: Mapping[str, Any]
) -> tuple[bytes, ...]:
    """Return the bytes of every attribute, in the function's order.

    TypeError is raised for one that is missing, unknown, traced, or of another kind or dtype,
    ValueError for a number that does not fit into its type.
    """
    check_names(label, attributes, values)
    return tuple(encode(label, a, values[a.name]) for a in attributes)


def check_names(
    label: str, attributes: Sequence[ScannedParameter], values: Mapping[str, Any]
) -> None:
    """Raise TypeError unless there is a value for each attribute, and no other."""
    names = [a.name for a in attributes]
    unknown = [name for name in values if name not in names]
    missing = [name for name in names if name not in values]
    if unknown or missing:
        expected = ", ".join(f"{a.name}: {a.type}".rstrip(": ") for a in attributes) or "none"
        what = f"has no attribute {unknown[0]!r}" if unknown else f"needs attribute {missing[0]!r}"
        raise TypeError(f"{label} {what}; its attributes are {expected} [KB2006]")


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
                f"{kind}; pass a Python number, or convert it"
                " [KB2006]"
            )
        return value.tobytes()
    is_bool = isinstance(value, bool)
    if not isinstance(value, _KINDS[dtype.kind]) or is_bool != (dtype.kind == "b"):
        raise TypeError(
            f"{label}: attribute {name!r} is {value!r} of type {type(value).__name__}, expected "
            f"{'True or False' if dtype.kind == 'b' else f'a number for {kind}'} [KB2006]"
        )
    return _convert(label, name, dtype, value)


def _convert(label: str, name: str, dtype: np.dtype[Any], value: Any) -> bytes:
    refusal = f"{label}: attribute {name!r} is {value!r}, which is out of range for {dtype.name}"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{refusal} ({limits.min} to {limits.max}) [KB2006]")
        return np.array(value, dtype).tobytes()
    with np.errstate(over="ignore"):
        try:
            converted = np.array(value, dtype)
        except OverflowError:
            raise ValueError(f"{refusal} [KB2006]") from None
    if dtype.kind != "b" and np.isfinite(complex(value)) and not np.isfinite(converted):
        raise ValueError(f"{refusal} [KB2006]")
    return converted.tobytes()


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are numbers, as numbers of Python, which can be hashed."""
    return {n: v.item() if hasattr(v, "item") else v for n, v in values.items() if not callable(v)}
