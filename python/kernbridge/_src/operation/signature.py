"""What a function takes, as its annotation and its declaration say it.

Declared types of arrays, such as `f32[n, 3]`, have the notation of jaxprs, in which the extent of a
dimension may be a name: it means the same extent in all arrays of a call. `...` stands for any
number of dimensions, and `any` for any dtype. An attribute is a number that is fixed while a call
is traced, and that C reads as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kernbridge import _core
from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.base.struct import Struct

Sources = Sequence[tuple[str, str]]
"""Names of files, and their texts."""
Named = tuple[tuple[str, str | None], ...] | None
"""Names of functions, each with its tokens as one text; None for the functions in annotations."""
WRITTEN_OUT = "if a macro generates the name or the parameters of a function, write them out"
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


class DeclaredType(Struct):
    dtype: str  # NumPy's name; "" for any
    dims: tuple[str | int, ...]  # "..." at most once

    @staticmethod
    def parse(text: str) -> DeclaredType:
        """Read a type; ValueError says what is wrong with it, and what to write."""
        found = re.fullmatch(r"(\w+)(?:\[(.*)\])?", text.strip(), re.DOTALL)
        if found is None:
            raise ValueError(f"'{text}' is no type of an array; write for example f32[n]")
        dtype, dims = found.groups()
        known = [name for name in _core.dtypes() if name != "token"]
        # What each name stands for: NumPy's names, and the names in jaxprs.
        names = {short(name): name for name in known} | {name: name for name in known} | {ANY: ""}
        if dtype not in names:
            raise ValueError(
                f"'{dtype}' is no dtype; write any, or one of {', '.join(map(short, known))}"
            )
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
        return DeclaredType(names[dtype], tuple(int(d) if d.isdigit() else d for d in listed))

    def __str__(self) -> str:
        if not self.dtype and self.dims == (LEADING,):
            return ANY
        return _text(self.dtype, self.dims)

    def fits(self, dtype: str, rank: int, batched: bool = False) -> bool:
        """Whether an array of this dtype and rank can be of this type, perhaps with batch axes."""
        more = rank - len(self.dims) + (LEADING in self.dims)
        may_be_more = batched or LEADING in self.dims
        return self.dtype in ("", dtype) and (more >= 0 if may_be_more else more == 0)

    def difference(
        self, what: str, shape: tuple[Any, ...], dtype: str, extents: dict[str, tuple[Any, str]]
    ) -> str | None:
        """Return how an array differs, "input 0 'x'" in messages, and what to do.

        `extents` are what names mean in this call: the extent, and which dimension has it.
        """
        if self.dtype not in ("", dtype):
            remedy = f"convert it to {self.dtype}"
            if what.startswith("output"):
                remedy = f"change it in `outs` to {self.dtype}"
            if self.dtype in _WIDE and not jax.config.jax_enable_x64:
                remedy = f"enable 64-bit types with JAX_ENABLE_X64=1, and {remedy}"
            return f": its dtype differs; {remedy}"
        if not self.fits(dtype, len(shape)):
            return (
                ": its number of dimensions differs; reshape it, or declare ... for any number of "
                "them"
            )
        dims: tuple[Any, ...] = self.dims
        if LEADING in dims:
            at = dims.index(LEADING)
            dims = (*dims[:at], *[LEADING] * (len(shape) - len(dims) + 1), *dims[at + 1 :])
        for i, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            wanted, why = dim, ""
            if isinstance(dim, str) and dim != LEADING:
                wanted, where = extents.setdefault(dim, (extent, f"dimension {i} of {what}"))
                why = f", in which {dim} is {wanted}, as {where} is"
            if dim != LEADING and extent != wanted:
                return (
                    f"{why}: its dimension {i} is {extent}; pass arrays in which it is {wanted}, "
                    "or correct the declaration"
                )
        return None


def _text(dtype: str, dims: tuple[Any, ...]) -> str:
    return f"{short(dtype) or ANY}[{','.join(map(str, dims))}]"


class ScannedParameter(Struct):
    role: str  # "arg", "ret", "attr", "stream"
    name: str = ""
    type: str = ""  # of an attribute: "float32"; "" until the compiler has reported it
    ctype: str = ""  # as spelled in the source; "" if the scanner did not find the function
    array: DeclaredType | None = None  # of an array, if its type is declared

    @property
    def token(self) -> str:
        if self.role != "attr":
            return f"{self.role}:{self.array}" if self.array else self.role
        return f"attr.{self.name}:{self.type}" if self.type else f"attr.{self.name}"


class ScannedFunction(Struct):
    name: str
    qualified: str
    whole_call: bool
    parameters: tuple[ScannedParameter, ...]
    place: str  # of the function or of its annotation in a source, "file:line" in messages

    @staticmethod
    def of(parts: Any) -> ScannedFunction:
        """Return a function of its parts, as JSON has them."""
        name, qualified, whole_call, parameters, place = parts
        read = [
            ScannedParameter(*known)._replace(
                array=array and DeclaredType(array[0], tuple(array[1]))
            )
            for *known, array in parameters
        ]
        return ScannedFunction(name, qualified, whole_call, tuple(read), place)

    def check_arrays(self, label: str, inputs: Sequence[Any], call: Any) -> None:
        """Raise TypeError unless the arrays of a call are of the types that are declared.

        Those of each part must be too, where a sharding rule splits the call.
        """
        arrays, terms = (*inputs, *call.outs), call.terms
        shapes = [array.shape for array in arrays]
        self._check_shapes(f"{label}: ", len(inputs), arrays, shapes)
        if terms.declared:
            parts = [
                tuple(name if terms.can_split(name) else d for name, d in zip(*both, strict=True))
                for both in zip((*terms.ins, *terms.outs), shapes, strict=True)
            ]
            about = f"{label}: in each part that the sharding rule makes, "
            self._check_shapes(about, len(inputs), arrays, parts)

    def _check_shapes(self, about: str, n_inputs: int, arrays: Any, shapes: Any) -> None:
        extents: dict[str, tuple[Any, str]] = {}
        parameters = (*self.having("arg"), *self.having("ret"))
        for i, (p, array, shape) in enumerate(zip(parameters, arrays, shapes, strict=True)):
            what = f"input {i}" if i < n_inputs else f"output {i - n_inputs}"
            what += f" {p.name!r}" if p.name else ""
            dtype = array.dtype.name
            why = p.array.difference(what, shape, dtype, extents) if p.array else None
            if why is not None:
                raise TypeError(
                    f"{about}{what} is {_text(dtype, shape)}, but is declared as {p.array}{why} "
                    "[KB2007]"
                )

    @property
    def takes_any(self) -> bool:
        """Whether the function takes the whole call, with any number of arrays."""
        return self.whole_call and not self.parameters

    def having(self, role: str) -> tuple[ScannedParameter, ...]:
        return tuple(p for p in self.parameters if p.role == role)

    @property
    def declared(self) -> tuple[DeclaredType | None, ...]:
        return tuple(p.array for p in (*self.having("arg"), *self.having("ret")))

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its parameters for outputs, as far as it has any and they are named."""
        return tuple(p.name for p in self.having("ret"))

    def names_of(self, n_inputs: int, n_outputs: int) -> list[str]:
        """Return what messages call the inputs and outputs of a call."""
        if self.takes_any:
            return ["arg"] * n_inputs + ["ret"] * n_outputs
        return [p.name or p.role for p in (*self.having("arg"), *self.having("ret"))]

    @property
    def attributes(self) -> tuple[ScannedParameter, ...]:
        return self.having("attr")

    @property
    def tokens(self) -> str:
        return ANY if self.takes_any else " ".join(p.token for p in self.parameters)


def join_tokens(tokens: str | Sequence[str] | None) -> str | None:
    """Return tokens that a caller passes as one text for the scanner."""
    return tokens if tokens is None or isinstance(tokens, str) else " ".join(map(str, tokens))


# What an attribute can be, and the type of C that holds it.
TYPES = {
    "bool": "bool",
    **{f"{u}int{n}": f"{u}int{n}_t" for n in (8, 16, 32, 64) for u in ("", "u")},
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
# Python's numbers for a kind of dtypes; of any other kind, such as bfloat16, an int or a float.
_KINDS: dict[str, Any] = {"b": bool, "i": int, "u": int, "c": (int, float, complex)}


def size_of(type: str) -> int:
    return _core.dtypes()[type][1] // 8


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
    """Return the bytes of one attribute.

    TypeError is raised for a value that is traced or of another kind or dtype, ValueError for a
    number that does not fit into its type.
    """
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
