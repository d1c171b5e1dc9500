"""Values as JSON and back, of the same type and equal; what cannot be is refused by name.

Numbers, texts, None, lists and dicts with names as keys are JSON's own. Everything else is an
object with the key "$type": tuples, integers of more than 53 bits, NaN and infinities, complex
numbers, bytes, dicts with other keys, NumPy's scalars and dtypes, and the scalar types of NumPy and
JAX. Nothing is evaluated.
"""

from __future__ import annotations

import json
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

TAG = "$type"


def encode(value: Any, name: str) -> Any:
    """What JSON writes for a value.

    Parameters
    ----------
    value : Any
    name : str
        What the value is, for the message.

    Raises
    ------
    TypeError
        The value, or one inside it, would not come back the same.
    """
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:  # other readers of JSON have 53 bits
        return value if abs(value) < 2**53 else {TAG: "int", "hex": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "value": repr(value)}
    if kind is list:
        return [encode(item, f"{name}[{i}]") for i, item in enumerate(value)]
    if kind is tuple:
        items = [encode(item, f"{name}[{i}]") for i, item in enumerate(value)]
        return {TAG: "tuple", "items": items}
    if kind is dict:
        return _encode_dict(value, name)
    if kind is complex:
        return {TAG: "complex", "value": [encode(value.real, name), encode(value.imag, name)]}
    if kind is bytes:
        return {TAG: "bytes", "hex": value.hex()}
    if isinstance(value, np.dtype):
        return {TAG: "dtype", "name": _dtype_name(value, name)}
    if kind is np.str_:
        return {TAG: "numpy.str_", "value": str(value)}
    if isinstance(value, np.generic):
        return _encode_scalar(value, name)
    if isinstance(value, type) and issubclass(value, np.generic):
        return _encode_scalar_type(value, name)
    dtype = str(getattr(value, "dtype", ""))
    if dtype and getattr(jnp, dtype, None) is value:
        return {TAG: "jax.numpy", "name": dtype}
    raise _refused(value, name)


def _refused(value: Any, name: str) -> TypeError:
    return TypeError(
        f"{name} is of type {type(value).__module__}.{type(value).__qualname__}, which cannot be "
        "saved without loss: use numbers, texts, None, NumPy scalars and dtypes, and lists, tuples "
        "and dicts of them"
    )


def _encode_dict(value: dict[Any, Any], name: str) -> Any:
    pairs = [(key, encode(item, f"{name}[{key!r}]")) for key, item in value.items()]
    if TAG not in value and all(type(key) is str for key in value):
        return dict(pairs)
    return {TAG: "dict", "items": [[encode(key, f"a key of {name}"), item] for key, item in pairs]}


def _dtype_name(dtype: np.dtype[Any], name: str) -> str:
    for text in (dtype.name, dtype.str):
        try:
            if dtype.names is None and np.dtype(text) == dtype:
                return text
        except TypeError:
            continue
    raise _refused(dtype, name)


def _encode_scalar(value: np.generic[Any], name: str) -> Any:
    data, dtype = value.tobytes(), _dtype_name(value.dtype, name)
    coded = {TAG: "scalar", "dtype": dtype, "hex": data.hex(), "text": str(value)}
    try:
        back = decode(coded)
    except ValueError:
        raise _refused(value, name) from None
    if type(back) is not type(value) or back.tobytes() != data:
        raise _refused(value, name)
    return coded


def _encode_scalar_type(value: type[Any], name: str) -> Any:
    try:
        dtype = np.dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or dtype.type is not value:
        raise _refused(value, name)
    return {TAG: "scalar type", "dtype": _dtype_name(dtype, name)}


def decode(coded: Any) -> Any:
    """The value that `encode` wrote.

    Raises
    ------
    ValueError
        It did not write this.
    """
    if isinstance(coded, list):
        return [decode(item) for item in coded]
    if not isinstance(coded, dict):
        return coded
    if TAG not in coded:
        return {key: decode(item) for key, item in coded.items()}
    try:
        return _DECODERS[coded[TAG]](coded)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise ValueError(f"{json.dumps(coded)[:200]} is not of kernbridge's: {e!r}") from e


def _decode_jax(coded: dict[str, Any]) -> Any:
    value = getattr(jnp, coded["name"])
    if str(value.dtype) != coded["name"]:
        raise ValueError("no scalar type of jax.numpy")
    return value


_DECODERS: dict[str, Any] = {
    "float": lambda c: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[c["value"]],
    "int": lambda c: int(c["hex"], 16),
    "numpy.str_": lambda c: np.str_(c["value"]),
    "tuple": lambda c: tuple(decode(item) for item in c["items"]),
    "dict": lambda c: {decode(key): decode(item) for key, item in c["items"]},
    "complex": lambda c: complex(*(decode(part) for part in c["value"])),
    "bytes": lambda c: bytes.fromhex(c["hex"]),
    "dtype": lambda c: np.dtype(c["name"]),
    "scalar": lambda c: np.frombuffer(bytes.fromhex(c["hex"]), np.dtype(c["dtype"]))[0],
    "scalar type": lambda c: np.dtype(c["dtype"]).type,
    "jax.numpy": _decode_jax,
}
