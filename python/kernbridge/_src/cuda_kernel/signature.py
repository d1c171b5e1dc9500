"""The types of a compiled kernel's parameters, as NVRTC itself understands them.

The text of a source only says what a kernel seems to take: conditions, macros, typedefs, namespaces
and templates decide what it does take. So NVRTC is asked for the name of one more variable, a
template whose arguments are numbers that describe the parameters of `decltype(&kernel)`. It works
for functions of C and for templates alike, and no mangled type has to be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernbridge._src.base.errors import KernelError
from kernbridge._src.scan.signature import ScannedParameter

HEADER_NAME = "kernbridge_signature.h"

_TYPES = {
    "bool": ("bool",),
    "int8": ("char", "signed char"),
    "uint8": ("unsigned char",),
    "int16": ("short",),
    "uint16": ("unsigned short",),
    "int32": ("int",),
    "uint32": ("unsigned int",),
    "int64": ("long", "long long"),
    "uint64": ("unsigned long", "unsigned long long"),
    "float32": ("float",),
    "float64": ("double",),
    "float16": ("::__half",),
    "bfloat16": ("::__nv_bfloat16",),
    "complex64": ("::float2",),
    "complex128": ("::double2",),
}
_DTYPES = ("", *_TYPES)
_POINTER, _CONST, _STRANGE = 64, 128, 256

_SPECIALIZATIONS = "\n".join(
    f"template <> struct scalar<{spelling}> {{ enum {{ value = {_DTYPES.index(dtype)} }}; }};"
    for dtype, spellings in _TYPES.items()
    for spelling in spellings
)

# It is read before the source, so that no macro of the source changes it. Enumerators, unlike
# static members, leave no variables in the code. A class counts as a complex number if it has
# `value_type` and `real()`, as those of thrust and of cuda::std do.
HEADER = f"""
#pragma once
struct __half;
struct __nv_bfloat16;
struct float2;
struct double2;
namespace kernbridge_signature {{
template <typename T, typename U> struct same {{ enum {{ value = 0 }}; }};
template <typename T> struct same<T, T> {{ enum {{ value = 1 }}; }};
template <typename T> __device__ T &made();
template <typename T, typename V = typename T::value_type, decltype(made<T>().real()) * = nullptr>
__device__ char (&complex_of(T *))[
    same<V, float>::value && sizeof(T) == 8 ? {_DTYPES.index("complex64") + 1}
    : same<V, double>::value && sizeof(T) == 16 ? {_DTYPES.index("complex128") + 1}
    : 1];
__device__ char (&complex_of(...))[1];
template <typename T> struct scalar {{ enum {{ value = sizeof(complex_of((T *)nullptr)) - 1 }}; }};
{_SPECIALIZATIONS}
template <typename T> struct code : scalar<T> {{}};
template <typename T> struct code<const T> : code<T> {{}};
template <typename T> struct code<volatile T> : code<T> {{}};
template <typename T> struct code<const volatile T> : code<T> {{}};
template <typename T> struct pointee {{ enum {{ value = scalar<T>::value }}; }};
template <typename T> struct pointee<volatile T> : pointee<T> {{}};
template <typename T> struct pointee<const T> {{
    enum {{ value = pointee<T>::value | {_CONST} }};
}};
template <typename T> struct pointee<const volatile T> : pointee<const T> {{}};
template <typename T> struct pointee<T *> {{ enum {{ value = {_STRANGE} }}; }};
template <typename T> struct code<T &> {{ enum {{ value = {_STRANGE} }}; }};
template <typename T> struct code<T &&> {{ enum {{ value = {_STRANGE} }}; }};
template <typename T> struct code<T *> {{ enum {{ value = pointee<T>::value | {_POINTER} }}; }};
template <int... codes> struct codes_of {{}};
template <typename F> struct parameters;
template <typename R, typename... P> struct parameters<R (*)(P...)> {{
    typedef codes_of<code<P>::value...> type;
}};
#if __cpp_noexcept_function_type
template <typename R, typename... P> struct parameters<R (*)(P...) noexcept> {{
    typedef codes_of<code<P>::value...> type;
}};
#endif
#if __cplusplus >= 201402L
template <typename Codes> __device__ char kept;
#else
template <typename Codes> __global__ void kept() {{}}
#endif
}}
"""


class Type(NamedTuple):
    """The type of one parameter of a compiled kernel.

    Attributes
    ----------
    dtype : str
        Of the value, or of what a pointer points to; "" where it is no number that arrays hold.
    pointer, constant : bool
        Whether it is a pointer, and whether that is to something const.
    strange : bool
        Whether it is a reference, or a pointer to pointers.
    """

    dtype: str
    pointer: bool
    constant: bool
    strange: bool = False

    def __str__(self) -> str:
        name = self.dtype or "a type that is no number"
        if self.strange:
            return "a pointer to pointers" if self.pointer else "a reference"
        if self.pointer:
            return f"a pointer to {'const ' if self.constant else ''}{name}"
        return name


def expression(name: str) -> str:
    """The name expression that makes NVRTC describe a kernel's parameters."""
    return f"&kernbridge_signature::kept<kernbridge_signature::parameters<decltype(&{name})>::type>"


def read(lowered: str) -> tuple[Type, ...]:
    """The parameters that a lowered name of `expression` describes.

    Examples
    --------
    >>> from kernbridge._src.cuda_kernel.signature import read
    >>> read("_ZN20kernbridge_signature4keptINS_8codes_ofIJLi202ELi6EEEEEE")
    (Type(dtype='float32', pointer=True, constant=True, strange=False), Type(dtype='int32', \
pointer=False, constant=False, strange=False))
    """
    codes = map(int, re.findall(r"Li(\d+)E", lowered.partition("codes_of")[2]))
    return tuple(
        Type(_DTYPES[c & (_POINTER - 1)], bool(c & _POINTER), bool(c & _CONST), c >= _STRANGE)
        for c in codes
    )


def check(
    label: str, name: str, parameters: Sequence[ScannedParameter], types: Sequence[Type] | None
) -> tuple[ScannedParameter, ...]:
    """The parameters with the types that the compiler knows.

    Parameters
    ----------
    types : sequence of Type or None
        Of the compiled kernel; None for one of a binary, whose types nobody knows.

    Raises
    ------
    KernelError
        If the compiled kernel takes other parameters than those that were read in its source.
    """
    if types is None:
        return tuple(parameters)
    if len(parameters) != len(types):
        raise KernelError(
            f"{label}: the compiled kernel takes {len(types)} parameters, and {len(parameters)} "
            f"are described; write out what a macro makes, or name each with params=. The compiler "
            f"says: {_listed(types)}"
        )
    refusals = [
        f"  parameter {i} {p.name!r} is {_described(p)}, and the compiled kernel's is {t}{why}"
        for i, (p, t) in enumerate(zip(parameters, types, strict=True), 1)
        if (why := _difference(p, t)) is not None
    ]
    if refusals:
        lines = "\n".join(refusals[:8])
        raise KernelError(
            f"{label}: the compiled kernel takes other parameters than those that were read:\n"
            f"{lines}\nThere may be several definitions of {name} in the source (behind #if, in "
            "namespaces, made by macros), or a macro or typedef hides a pointer: give each kernel "
            "a name of its own, and write its parameters out"
        )
    return tuple(
        p if p.type else p._replace(type=t.dtype) for p, t in zip(parameters, types, strict=True)
    )


def _difference(p: ScannedParameter, t: Type) -> str | None:
    """What is wrong, "" if the types speak for themselves; None if nothing is."""
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


def _listed(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"
