"""Determines the types of a compiled kernel's parameters with NVRTC.

The text of a source does not determine the parameters of a kernel: conditions, macros, typedefs,
namespaces and templates do. NVRTC is therefore asked for the name of an additional variable, a
template whose arguments are numbers that describe the parameters of `decltype(&kernel)`. This works
for C functions and for templates, and no mangled types have to be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.base.errors import KernelError
from kernbridge._src.scan.functions import ScannedFunction, ScannedParameter

HEADER_NAME = "kernbridge_signature.h"
HEADER = (Path(__file__).parent / "include" / HEADER_NAME).read_text()

_DTYPES = ("", *DTYPES)  # the header has their places here
_POINTER, _CONST, _STRANGE = 64, 128, 256  # bits beside the place in _DTYPES; as in the header


class Type(NamedTuple):
    dtype: str  # of the value, or of what a pointer points to; "" for what arrays do not hold
    pointer: bool
    constant: bool  # whether it is a pointer to something const
    strange: bool = False  # whether it is a reference, or a pointer to pointers

    def __str__(self) -> str:
        name = self.dtype or "a type that is not a number"
        if self.strange:
            return "a pointer to pointers" if self.pointer else "a reference"
        if self.pointer:
            return f"a pointer to {'const ' if self.constant else ''}{name}"
        return name


def expression(name: str) -> str:
    """Return the name expression that makes NVRTC describe a kernel's parameters."""
    return f"&kernbridge_signature::kept<kernbridge_signature::parameters<decltype(&{name})>::type>"


def read(lowered: str) -> tuple[Type, ...]:
    """Return the parameters that a lowered name of `expression` describes.

    Examples
    --------
    >>> from kernbridge._ext.nvrtc.signature import read
    >>> read("_ZN20kernbridge_signature4keptINS_8codes_ofIJLi202ELi6EEEEEE")
    (Type(dtype='float32', pointer=True, constant=True, strange=False), Type(dtype='int32', \
pointer=False, constant=False, strange=False))
    """
    return types_of(map(int, re.findall(r"Li(\d+)E", lowered.partition("codes_of")[2])))


def types_of(codes: Iterable[int]) -> tuple[Type, ...]:
    """Return the parameters that numbers of kernbridge_signature.h describe."""
    return tuple(
        Type(_DTYPES[c & (_POINTER - 1)], bool(c & _POINTER), bool(c & _CONST), c >= _STRANGE)
        for c in codes
    )


def check(label: str, function: ScannedFunction, types: Sequence[Type] | None) -> ScannedFunction:
    """Return the function with the types that the compiler reported for its parameters.

    `types` is None for a kernel of a binary, whose types are unknown. KernelError is raised if the
    compiled kernel takes other parameters than those that were read in its source.
    """
    if types is None:
        return function
    parameters = function.parameters
    if len(parameters) != len(types):
        raise KernelError(
            f"{label}: the compiled kernel takes {len(types)} parameters, but {len(parameters)} "
            "are described; write out parameters that come from a macro, or list all of them "
            f"with params=. The compiler reports: ({', '.join(map(str, types))}) [KB4007]"
        )
    refusals = [
        f"  parameter {i} {p.name!r} is {_described(p)}, and the compiled kernel's is {t}{why}"
        for i, (p, t) in enumerate(zip(parameters, types, strict=True), 1)
        if (why := _difference(p, t)) is not None
    ]
    if refusals:
        lines = "\n".join(refusals[:8])
        raise KernelError(
            f"{label}: the compiled kernel takes other parameters than those that were read: "
            "[KB4007]\n"
            f"{lines}\nThere may be several definitions of {function.name} in the source (behind "
            "#if, in namespaces, made by macros), or a macro or typedef hides a pointer: give each "
            "kernel a name of its own, and write its parameters out"
        )
    pairs = zip(parameters, types, strict=True)
    typed = tuple(p if p.type else p._replace(type=t.dtype) for p, t in pairs)
    return function._replace(parameters=typed)


def _difference(p: ScannedParameter, t: Type) -> str | None:
    """Return what is wrong, "" if the types show it already, None if nothing is wrong."""
    if t.strange:
        return ": a kernel's parameter is a pointer or a value"
    if p.role == "attr":
        if t.pointer:
            return ": an attribute is a value"
    elif not t.pointer:
        return f": {p.role!r} takes a pointer"
    elif p.role == "ret" and t.constant:
        return ": a result must not be const"
    if not p.type or p.type == t.dtype:
        return None
    # A struct of the user's may stand for a number that an annotation names.
    return None if not t.dtype or (p.type, t.dtype) in _BITS else ""


_BITS = {("float16", "uint16"), ("bfloat16", "uint16")}


def _described(p: ScannedParameter) -> str:
    known = f" ({p.type})" if p.type else ""
    return f"`{p.ctype}` in the source{known}" if p.ctype else f"{p.role!r}{known} in params"
