"""What a function takes, as its annotation and its declaration say it.

Declared types of arrays, such as `f32[n, 3]`, have the notation of jaxprs, in which the extent of a
dimension may be a name: it means the same extent in all arrays of a call. Sums and products of
names and numbers, such as `rows + 1`, are extents, too. `...` stands for any number of dimensions,
`any` for any dtype, and a name that begins with a capital letter, such as `T`, for the same dtype
in all arrays of a call, one of real numbers for `Float`. An attribute is a number that is fixed
while a call is traced, and that C reads as bytes.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from kernbridge._src.base.dtypes import CODES
from kernbridge._src.base.errors import short, typed
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.call import Types

ANY = "any"
LEADING = "..."
_KINDS_OF_DTYPES = {  # what a name for a dtype may stand for, if it is one of jaxtyping's
    "Float": jax.numpy.floating,
    "Int": jax.numpy.signedinteger,
    "UInt": jax.numpy.unsignedinteger,
    "Integer": jax.numpy.integer,
    "Complex": jax.numpy.complexfloating,
    "Inexact": jax.numpy.inexact,
    "Num": jax.numpy.number,
}
_WIDE = ("int64", "uint64", "float64", "complex128")


class DeclaredType(Struct):
    dtype: str  # NumPy's name, the name of a variable, or "" for any
    dims: tuple[str | int, ...]  # names, expressions and numbers; "..." at most once

    @staticmethod
    def parse(text: str) -> DeclaredType:
        """Read a type; ValueError says what is wrong with it, and what to write."""
        found = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text.strip(), re.DOTALL)
        if found is None:
            raise ValueError(f"'{text}' is no type of an array; write for example f32[n]")
        dtype, dims = found.groups()
        name = dtype if is_variable(dtype) else named_dtype(dtype)
        if dims is None and dtype != ANY:
            raise ValueError(
                f"'{text}' declares no shape; write {dtype}[n] for one dimension, {dtype}[] for a "
                f"scalar, or {dtype}[...] for any shape"
            )
        listed = [d.strip() for d in (LEADING if dims is None else dims).split(",")]
        listed = [] if listed == [""] else listed
        read = tuple(LEADING if d == LEADING else read_dim(d, text) for d in listed)
        if read.count(LEADING) > 1:
            raise ValueError(f"'{text}' has ... twice; write it once")
        return DeclaredType(name, read)

    def __str__(self) -> str:
        if not self.dtype and self.dims == (LEADING,):
            return ANY
        return typed(self.dtype or ANY, self.dims)

    @property
    def names(self) -> list[str]:
        """The names of dimensions and of dtypes that occur in it, and "..."."""
        dims = [d for d in self.dims if isinstance(d, str)]
        names = [n for d in dims for n in ([d] if d == LEADING else names_in(d))]
        return [*names, *([self.dtype] if is_variable(self.dtype) else [])]

    def fits(self, dtype: str, rank: int, batched: bool = False) -> bool:
        """Whether an array of this dtype and rank can be of this type, perhaps with batch axes."""
        more = rank - len(self.dims) + (LEADING in self.dims)
        may_be_more = batched or LEADING in self.dims
        is_dtype = self.dtype in ("", dtype) or is_variable(self.dtype)
        return is_dtype and (more >= 0 if may_be_more else more == 0)


def is_variable(dtype: str) -> bool:
    """Whether a name stands for a dtype that a call determines; refuse what looks like a dtype."""
    if dtype[:1].isupper() and (dtype == "Bool" or dtype.lower() in DTYPE_NAMES):
        raise ValueError(f"'{dtype}' is no dtype; write {dtype.lower()}, or T for any dtype")
    return dtype[:1].isupper()


_KNOWN = [name for name in CODES if name != "token"]
DTYPE_NAMES = {short(name): name for name in _KNOWN} | {name: name for name in _KNOWN} | {ANY: ""}
"""NumPy's names of dtypes by their names in NumPy and in jaxprs; "" for any."""


def named_dtype(name: str) -> str:
    """The dtype that has this name, see `DTYPE_NAMES`; ValueError lists the names."""
    if name not in DTYPE_NAMES:
        listed = ", ".join(map(short, _KNOWN))
        raise ValueError(f"'{name}' is no dtype; write any, or one of {listed}")
    return DTYPE_NAMES[name]


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_NODES = (ast.BinOp, ast.Name, ast.expr_context, *_OPERATORS)


def read_dim(text: str, where: str) -> str | int:
    """Read an extent of a type; ValueError says what to write."""
    try:
        tree = ast.parse(text, mode="eval").body
        for node in ast.walk(tree):  # operators are nodes, too
            is_extent = isinstance(node, ast.Constant) and type(node.value) is int
            if not (is_extent or isinstance(node, _NODES)):
                raise SyntaxError
    except SyntaxError:
        raise ValueError(
            f"'{text}' in '{where}' is no dimension; write a name, a number, a sum or a product of "
            "these, or ... for any number of dimensions"
        ) from None
    return tree.value if isinstance(tree, ast.Constant) else ast.unparse(tree)  # type: ignore


@functools.lru_cache(maxsize=256)
def names_in(dim: str) -> tuple[str, ...]:
    tree = ast.parse(dim, mode="eval")
    return tuple(dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)))


def evaluate(dim: str, extents: Mapping[str, Any]) -> Any:
    """The value of an extent; KeyError is raised for a name without a value."""

    def value(node: Any) -> Any:
        if isinstance(node, ast.Name):
            return extents[node.id]
        if isinstance(node, ast.Constant):
            return node.value
        return _OPERATORS[type(node.op)](value(node.left), value(node.right))

    return value(ast.parse(dim, mode="eval").body)


class Extents:
    """What the names of dimensions and of dtypes mean in one call.

    Names that are dimensions of their own are found first, then names of which one is missing in a
    sum or a product.
    """

    def __init__(
        self,
        about: str,
        n_inputs: int,
        declared: Sequence[tuple[str, DeclaredType | None]],
        arrays: Types,
        ties_leading: bool = False,
    ) -> None:
        """Match inputs and outputs with their declarations, which are names and types.

        TypeError is raised for the first array that differs. If it `ties_leading`, `...` means the
        same dimensions in all arrays.
        """
        self._about, self._declared, self._arrays = about, declared, arrays
        self._places = [place_of(i, n_inputs, name) for i, (name, _) in enumerate(declared)]
        self._found: dict[str, tuple[Any, str]] = {}  # the value, and where it was found
        expressions: list[tuple[int, int, str]] = []
        for i, ((_, t), array) in enumerate(zip(declared, arrays, strict=False)):
            if t is None:
                continue
            rank, dims = len(array.shape), t.dims
            self._match_dtype(i, t.dtype)
            if not t.fits(array.dtype.name, rank):
                raise self._mismatch(
                    i,
                    ": its number of dimensions differs; use jax.vmap for a batch, reshape it, or "
                    "declare ... for any number of them",
                )
            if LEADING in dims:
                at, n = dims.index(LEADING), rank - len(dims) + 1
                if ties_leading:
                    self._match_leading(i, array.shape[at : at + n])
                dims = (*dims[:at], *[LEADING] * n, *dims[at + 1 :])
            for d, dim in enumerate(dims):
                if isinstance(dim, int) or dim.isidentifier():
                    self._match_dim(i, d, dim)
                elif dim != LEADING:
                    expressions.append((i, d, dim))
        while expressions:
            left = [e for e in expressions if not self._match_expression(*e)]
            if len(left) == len(expressions):
                i, d, dim = left[0]
                unknown = ", ".join(n for n in names_in(dim) if n not in self._found)
                raise self._mismatch(
                    i,
                    f": its dimension {d} does not determine {unknown}; declare an array with "
                    "each of these names as a dimension",
                )
            expressions = left

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, (value, _) in self._found.items()}

    def _mismatch(self, index: int, why: str) -> TypeError:
        _, declared = self._declared[index]
        return TypeError(
            f"{self._about}{self._places[index]} is {self._arrays[index]}, but is declared as "
            f"{declared}{why} [KB2007]"
        )

    def _match_dtype(self, i: int, declared: str) -> None:
        dtype, what = self._arrays[i].dtype.name, self._places[i]
        wanted, why = declared, ""
        if is_variable(declared):
            kind = _KINDS_OF_DTYPES.get(declared)
            if kind is not None and not jax.numpy.issubdtype(dtype, kind):
                raise self._mismatch(i, f": its dtype is none of {declared}; convert it")
            wanted, where = self._found.setdefault(declared, (dtype, f"that of {what}"))
            why = f", in which {declared} is {wanted}, as {where}"
        if wanted in ("", dtype):
            return
        remedy = f"convert it to {wanted}"
        if what.startswith("output"):
            remedy = f"change it in `outs` to {wanted}"
        if wanted in _WIDE and not jax.config.jax_enable_x64:
            remedy = f"enable 64-bit types with JAX_ENABLE_X64=1, and {remedy}"
        raise self._mismatch(i, f"{why}: its dtype differs; {remedy}")

    def _match_leading(self, i: int, extents: tuple[Any, ...]) -> None:
        first, where = self._found.setdefault(LEADING, (extents, self._places[i]))
        if first != extents:
            raise self._mismatch(
                i,
                f", in which ... is {list(first)}, as in {where}: it is {list(extents)}; pass "
                "arrays in which they are equal, or declare `any`",
            )

    def _match_dim(self, i: int, d: int, dim: str | int) -> None:
        extent, wanted, why = self._arrays[i].shape[d], dim, ""
        if isinstance(dim, str):
            place = f"dimension {d} of {self._places[i]}"
            wanted, where = self._found.setdefault(dim, (extent, place))
            why = f", in which {dim} is {wanted}, as {where} is"
        if extent != wanted:
            raise self._mismatch(
                i,
                f"{why}: its dimension {d} is {extent}; pass arrays in which it is {wanted}, "
                "or correct the declaration",
            )

    def _match_expression(self, i: int, d: int, dim: str) -> bool:
        """Match an extent with an expression, of which one name may be unknown."""
        extent, known = self._arrays[i].shape[d], self.values
        unknown = [name for name in names_in(dim) if name not in known]
        if any(isinstance(n, str) for n in (extent, *map(known.get, names_in(dim)))):
            written = re.sub(r"[A-Za-z_]\w*", lambda m: str(known.get(m[0])), dim)
            if written.replace(" ", "") == extent:
                return True
            raise self._mismatch(
                i,
                f": it has parts along its dimension {d}, {dim}; name only dimensions in the "
                "sharding rule whose parts have extents of this form",
            )
        if len(unknown) > 1:
            return False
        if unknown:
            (name,) = unknown
            at = [evaluate(dim, {**known, name: x}) for x in range(3)]
            slope = at[1] - at[0]
            if at[2] - at[1] != slope or slope == 0:
                return False
            found = (extent - at[0]) // slope
            self._found[name] = found, f"by dimension {d} of {self._places[i]}, {dim},"
        wanted = evaluate(dim, self.values)
        if wanted != extent or (unknown and found < 0):
            parts = ", ".join(
                f"{n} is {known[n]}, as {self._found[n][1]} is"
                for n in names_in(dim)
                if n not in unknown
            )
            why = f", in which {parts}" if parts else ""
            raise self._mismatch(
                i,
                f"{why}: its dimension {d} is {extent}, which "
                + (f"{dim} cannot be" if unknown else f"is not {dim} = {wanted}")
                + "; pass arrays that agree, or correct the declaration",
            )
        return True


def place_of(index: int, n_inputs: int, name: str) -> str:
    """What messages call an input, or an output after so many inputs."""
    what = f"input {index}" if index < n_inputs else f"output {index - n_inputs}"
    return f"{what} {name!r}" if name else what
