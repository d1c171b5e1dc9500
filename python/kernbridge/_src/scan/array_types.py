"""Declared types of arrays, such as `f32[n, 3]`, and the check of a call's arrays against them.

The notation is that of jaxprs, in which the extent of a dimension may be a name: it means the same
extent in all arrays of a call. `...` stands for any number of dimensions, and `any` for any dtype.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax

from kernbridge import _core

ANY = "any"
LEADING = "..."
_SHORT = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"}
_WIDE = ("int64", "uint64", "float64", "complex128")


def short(dtype: str) -> str:
    """Return a dtype's name as jaxprs print it, such as "f32" for "float32"."""
    for name, letters in _SHORT.items():
        if dtype.startswith(name):
            return letters + dtype[len(name) :]
    return dtype


_KNOWN = [name for name in _core.dtypes() if name != "token"]
# What each name stands for: NumPy's names, and those of jaxprs.
_NAMES = {short(name): name for name in _KNOWN} | {name: name for name in _KNOWN} | {ANY: ""}


class DeclaredType(NamedTuple):
    """The declared type of an array."""

    dtype: str  # NumPy's name; "" for any
    dims: tuple[str | int, ...]  # "..." at most once

    @staticmethod
    def parse(text: str) -> DeclaredType:
        """Read a type; ValueError says what is wrong with it, and what to write."""
        found = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text.strip(), re.DOTALL)
        if found is None:
            raise ValueError(f"'{text}' is no type of an array; write for example f32[n]")
        dtype, dims = found.groups()
        if dtype not in _NAMES:
            known = ", ".join(map(short, _KNOWN))
            raise ValueError(f"'{dtype}' is no dtype; write any, or one of {known}")
        if dims is None and dtype != ANY:
            raise ValueError(
                f"'{text}' declares no shape; write {dtype}[n] for one dimension, {dtype}[] for a "
                f"scalar, or {dtype}[...] for any shape"
            )
        listed = [d.strip() for d in (LEADING if dims is None else dims).split(",")]
        listed = [] if listed == [""] else listed
        for d in listed:
            if not re.fullmatch(r"\d+|[A-Za-z_]\w*|\.\.\.", d, re.ASCII):
                raise ValueError(
                    f"'{d}' in '{text}' is no dimension; write a name, a number, or ... for any "
                    "number of dimensions"
                )
        if listed.count(LEADING) > 1:
            raise ValueError(f"'{text}' has ... twice; write it once")
        return DeclaredType(_NAMES[dtype], tuple(int(d) if d.isdigit() else d for d in listed))

    def __str__(self) -> str:
        if not self.dtype and self.dims == (LEADING,):
            return ANY
        return _text(self.dtype, self.dims)

    @property
    def with_leading(self) -> DeclaredType:
        """This type with any number of further dimensions, as batches have them."""
        return self._replace(dims=(LEADING, *(d for d in self.dims if d != LEADING)))

    def fits(self, dtype: str, rank: int) -> bool:
        """Whether an array of this dtype and rank can be of this type."""
        named = len(self.dims) - (LEADING in self.dims)
        return self.dtype in ("", dtype) and (
            rank >= named if LEADING in self.dims else rank == named
        )


def _text(dtype: str, dims: tuple[Any, ...]) -> str:
    return f"{short(dtype) or ANY}[{','.join(map(str, dims))}]"


class Extents:
    """What the names of dimensions mean in one call, whose arrays are compared one by one.

    `about` is what messages begin with.
    """

    def __init__(self, about: str) -> None:
        self.about = about
        self._bound: dict[str, tuple[Any, str]] = {}  # the extent of each name, and whose it is

    def take(self, what: str, declared: DeclaredType, shape: tuple[Any, ...], dtype: str) -> None:
        """Raise TypeError if an array, "input 0 'x'" in messages, is not of its type."""
        differs = self._difference(what, declared, shape, dtype)
        if differs is not None:
            raise TypeError(
                f"{self.about}{what} is {_text(dtype, shape)}, but is declared as {declared}"
                f"{differs} [KB2007]"
            )

    def _difference(
        self, what: str, declared: DeclaredType, shape: tuple[Any, ...], dtype: str
    ) -> str | None:
        """Return what differs, and what to do."""
        if declared.dtype not in ("", dtype):
            remedy = f"convert it to {declared.dtype}"
            if what.startswith("output"):
                remedy = f"change it in `outs` to {declared.dtype}"
            if declared.dtype in _WIDE and not jax.config.jax_enable_x64:
                remedy = f"enable 64-bit types with JAX_ENABLE_X64=1, and {remedy}"
            return f": its dtype differs; {remedy}"
        if not declared.fits(dtype, len(shape)):
            return (
                ": its number of dimensions differs; reshape it, or declare ... for any number of "
                "them"
            )
        dims: tuple[Any, ...] = declared.dims
        if LEADING in dims:
            at = dims.index(LEADING)
            dims = (*dims[:at], *[LEADING] * (len(shape) - len(dims) + 1), *dims[at + 1 :])
        for i, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            wanted, why = dim, ""
            if isinstance(dim, str) and dim != LEADING:
                wanted, where = self._bound.setdefault(dim, (extent, f"dimension {i} of {what}"))
                why = f", in which {dim} is {wanted}, as {where} is"
            if dim != LEADING and extent != wanted:
                return (
                    f"{why}: its dimension {i} is {extent}; pass arrays in which it is {wanted}, "
                    "or correct the declaration"
                )
        return None
