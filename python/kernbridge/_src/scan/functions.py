"""Functions of sources as the scanner finds them, their parameters, and values of attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kernbridge._src.base.private_jax import Tracer
from kernbridge._src.base.struct import Struct
from kernbridge._src.calls.batch_axes import Arrays
from kernbridge._src.calls.call import ArrayType
from kernbridge._src.signatures.array_types import ANY, DeclaredType, Extents

Sources = Sequence[tuple[str, str]]
"""Names of files, and their texts."""
Named = tuple[tuple[str, str | None], ...] | None
"""Names of functions, each with its tokens as one text; None for the functions in annotations."""
WRITTEN_OUT = "if a macro generates the name or the parameters of a function, write them out"
# Python's numbers for a kind of dtypes; of any other kind, such as bfloat16, an int or a float.
_KINDS: dict[str, Any] = {"b": bool, "i": int, "u": int, "c": (int, float, complex)}


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
    signature: str = ""  # its arrays and numbers, if the annotation is a signature
    passed: tuple[Any, ...] = ()  # what each parameter of C receives: see scan/plain.py

    @staticmethod
    def of(parts: Any) -> ScannedFunction:
        """Return a function of its parts, as JSON has them."""
        name, qualified, whole_call, parameters, *others = parts
        read = [
            ScannedParameter(*known)._replace(
                array=array and DeclaredType(array[0], tuple(array[1]))
            )
            for *known, array in parameters
        ]
        return ScannedFunction(name, qualified, whole_call, tuple(read), *others)

    def check_arrays(self, label: str, inputs: Arrays, call: Any) -> None:
        """Raise TypeError unless the arrays of a call are of the types that are declared.

        Those of each part must be too, where a sharding rule splits the call.
        """
        arrays, terms, n = (*inputs, *call.outs), call.terms, len(inputs)
        declared = [(p.name, p.array) for p in self.arrays]
        Extents(f"{label}: ", n, declared, arrays)
        if not terms.suggested:  # there is a rule
            parts = []
            for array, term in zip(arrays, (*terms.ins, *terms.outs), strict=True):
                shape = (
                    name if terms.can_split(name.partition("+")[0]) else d  # or rows+1
                    for name, d in zip(term, array.shape, strict=True)
                )
                parts.append(ArrayType(tuple(shape), array.dtype))
            Extents(f"{label}: in each part that the sharding rule makes, ", n, declared, parts)

    @property
    def takes_any(self) -> bool:
        """Whether the function takes the whole call, with any number of arrays."""
        return self.whole_call and not self.parameters

    def having(self, role: str) -> tuple[ScannedParameter, ...]:
        return tuple(p for p in self.parameters if p.role == role)

    @property
    def arrays(self) -> tuple[ScannedParameter, ...]:
        return (*self.having("arg"), *self.having("ret"))

    @property
    def declared(self) -> tuple[DeclaredType | None, ...]:
        return tuple(p.array for p in self.arrays)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.arrays)

    def buffer_names(self, n_operands: int) -> tuple[str, ...]:
        """The names of the operands of a call, empty where there is none, and of its outputs."""
        inputs = [p.name for p in self.having("arg")][:n_operands]
        outputs = [p.name for p in self.having("ret")]
        return (*inputs, *[""] * (n_operands - len(inputs)), *outputs)

    def names_of(self, n_inputs: int, n_outputs: int) -> list[str]:
        """Return what messages call the inputs and outputs of a call."""
        if self.takes_any:
            return ["arg"] * n_inputs + ["ret"] * n_outputs
        return [p.name or p.role for p in self.arrays]

    @property
    def attributes(self) -> tuple[ScannedParameter, ...]:
        return self.having("attr")

    @property
    def tokens(self) -> str:
        declared = self.signature or " ".join(p.token for p in self.parameters)
        return ANY if self.takes_any else declared


def join_tokens(tokens: str | Sequence[str] | None) -> str | None:
    """Return tokens that a caller passes as one text for the scanner."""
    return tokens if tokens is None or isinstance(tokens, str) else " ".join(map(str, tokens))


def check_attributes(
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


def encode_attribute(label: str, attribute: ScannedParameter, value: Any) -> bytes:
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


def plain_attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are numbers, as numbers of Python, which can be hashed."""
    return {n: v.item() if hasattr(v, "item") else v for n, v in values.items() if not callable(v)}
