"""The dtypes that kernels take, in one table: what each language and each compiler calls them.

`CODES` and `BITS` are of all dtypes that XLA passes; others than these are read by C alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernbridge import _core


class Dtype(NamedTuple):
    """What stands for a dtype; an empty text if nothing does."""

    name: str  # NumPy's
    number: int  # in KB_TYPE_LIST of include/kernbridge/kernbridge.h
    dlpack: int  # the code of its kind
    c: str  # the type that holds it
    llvm: str
    enzyme: str  # what Enzyme's analysis of types calls memory that holds it
    takers: tuple[str, ...]  # which of Numba, Warp and inline take it; the others take all


_ALL = ("Numba", "Warp", "inline")
_NUMBA = ("Numba",)

DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("bool", 12, 6, "bool", "i1", "Integer", _ALL),
        Dtype("int8", 4, 0, "int8_t", "i8", "Integer", _ALL),
        Dtype("uint8", 8, 1, "uint8_t", "i8", "Integer", _ALL),
        Dtype("int16", 5, 0, "int16_t", "i16", "Integer", _ALL),
        Dtype("uint16", 9, 1, "uint16_t", "i16", "Integer", _ALL),
        Dtype("int32", 6, 0, "int32_t", "i32", "Integer", _ALL),
        Dtype("uint32", 10, 1, "uint32_t", "i32", "Integer", _ALL),
        Dtype("int64", 7, 0, "int64_t", "i64", "Integer", _ALL),
        Dtype("uint64", 11, 1, "uint64_t", "i64", "Integer", _ALL),
        Dtype("float32", 1, 2, "float", "float", "Float@float", _ALL),
        Dtype("float64", 2, 2, "double", "double", "Float@double", _ALL),
        Dtype("float16", 0, 2, "uint16_t", "half", "", ("Warp",)),
        Dtype("bfloat16", 3, 4, "uint16_t", "bfloat", "", ()),
        Dtype("complex64", 13, 5, "float _Complex", "{float, float}", "Float@float", _NUMBA),
        Dtype("complex128", 14, 5, "double _Complex", "{double, double}", "Float@double", _NUMBA),
    )
}
CODES = {name: code for name, (code, *_) in _core.dtypes().items()}
"""XLA's codes."""
BITS = {name: bits for name, (_, bits, *_) in _core.dtypes().items()}
"""The bits of one element."""
HALVES = frozenset(("bfloat16", "float16"))


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which a kernel computes that cannot take this one: float32 for halves."""
    return np.dtype("float32") if dtype.name in HALVES else dtype


def taken_by(who: str) -> frozenset[str]:
    """The dtypes that Numba takes on CPUs, that Warp takes, or that inlined functions take."""
    return frozenset(dtype.name for dtype in DTYPES.values() if who in dtype.takers)
