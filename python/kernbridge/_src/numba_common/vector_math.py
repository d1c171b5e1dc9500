"""Lets LLVM vectorise math functions in loops with glibc's libmvec.

LLVM vectorises a loop with a call of `expf` if the call says which function takes a vector. Those
of libmvec are within 4 ulp of the exact value, for subnormal arguments and results too, and agree
with the ones for single numbers on infinities, NaN and zeros; tests/core/test_vector_math.c
measures that.

Works on the text of LLVM IR, since llvmlite cannot give a call an attribute.
"""

from __future__ import annotations

import functools
import re
import struct
from typing import Any

from kernbridge import _core

LIBRARY = "libmvec.so.1"

_ONE = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc"),
    *("exp", "exp10", "exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan"),
    "tanh",
)
_TWO = ("atan2", "hypot", "pow")
_NOT_NEGATIVE = ("cosh", "erfc", "exp", "exp10", "exp2", "fabs", "sqrt")
_LEFT_OUT = {"_ZGVeN16v_erff"}  # beyond 4 ulp

# The letter of a vector function, bits of its vectors, and what the processor must have for it.
_WIDTHS = (
    ("b", 128, ()),
    ("d", 256, ("avx2", "fma")),
    ("e", 512, ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma")),
)

_TYPES = {"float": 32, "double": 64}
_CALL = re.compile(
    r"\bcall [^\n@]*?\b(?P<type>float|double) @(?P<callee>(?:llvm\.)?[a-z0-9]+(?:\.f32|\.f64)?)"
    r"\([^()\n]*\)"
)
_CUBE_ROOT = re.compile(
    r"(?P<given>.*?(?P<type>float|double) )@llvm\.pow\.(?:f32|f64)\((?P<x>[^,]*), "
    r"(?:float 0x3FD5555560000000|double 0x3FD5555555555555)\)"
)
_ALLOW_CUBE_ROOT = frozenset(("nnan", "ninf", "nsz", "afn"))
_DECLARATION = re.compile(
    r"^declare [^\n@]*?(?P<type>float|double) @(?P<callee>[a-z0-9]+)\((?P<given>[^()\n]*)\)[^\n]*$",
    flags=re.M,
)
_DEFINED = re.compile(r"^ +(%\S+) = ([^\n]*)$", flags=re.M)
_FUNCTION = re.compile(r"^define [^\n]*\{\n.*?^\}$", flags=re.M | re.S)
_IS_ZERO = re.compile(
    r"^( +%\S+ = fcmp )((?:[a-z]+ )*?)oeq (float|double) (%[^\s,]+), (-?0\.0+e\+00)", flags=re.M
)
_VALUE = r"(%[^\s,]+|-?[0-9][^\s,]*)"
_SUM = re.compile(rf"(fadd|fmul) (?:[a-z]+ )*?(?:float|double) {_VALUE}, {_VALUE}")
_CONVERTED = re.compile(
    r"(?:fpext|fptrunc) (?:[a-z]+ )*?(?:float|double) (%\S+) to (?:float|double)"
)


@functools.cache
def _variants(scalar: str, bits: int) -> tuple[tuple[str, int, str], ...]:
    """Of a function of libm: letter, elements and name of each that takes vectors and is here."""
    base = scalar.removesuffix("f") if bits == 32 else scalar
    if base not in _ONE + _TWO:
        return ()
    found = []
    for letter, width, _ in _WIDTHS:
        name = f"_ZGV{letter}N{width // bits}{'vv' if base in _TWO else 'v'}_{scalar}"
        if name not in _LEFT_OUT and _core.host_code_provides(name):
            found.append((letter, width // bits, name))
    return tuple(found)


def provided() -> tuple[str, ...]:
    """The names of all vector functions that this machine has; empty without libmvec."""
    scalars = ((base + "f" * (bits == 32), bits) for base in _ONE + _TWO for bits in (32, 64))
    return tuple(name for each in scalars for _, _, name in _variants(*each))


def is_default(kernel: Any) -> bool:
    """Whether the `fastmath` of a dispatcher lets functions be approximated."""
    flags = kernel.targetoptions.get("fastmath", False)
    return flags is True or (not isinstance(flags, bool) and bool({"afn", "fast"} & {*flags}))


def with_vectors(text: str, features: str) -> str:
    """A module whose loops LLVM can vectorise with what libmvec has for a processor's features.

    `features` are LLVM's, "+avx2,-avx512f"; what is not in them is taken for absent. The module
    must be optimised afterwards. It is the same text if nothing can be gained.
    """
    present = {part[1:] for part in features.split(",") if part.startswith("+")}
    letters = {letter for letter, _, needed in _WIDTHS if present.issuperset(needed)}
    if '"min-legal-vector-width"' in text:  # which may halve the vectors of a call
        letters.discard("e")
    used: dict[str, tuple[str, int, int]] = {}

    def marked(call: re.Match[str]) -> str:
        kind, callee, written = call["type"], call["callee"], call[0]
        scalar = _of_libm(callee, kind)
        # LLVM replaces this pow, as which Numba computes `np.cbrt`, by cbrt, after it has
        # vectorised loops. The cube root of x differs from the power by up to 120 ulp.
        root, flags = _CUBE_ROOT.fullmatch(written), written.split("@")[0].split()
        if root and ("fast" in flags or _ALLOW_CUBE_ROOT.issubset(flags)):
            scalar = callee = "cbrt" + "f" * (kind == "float")
            written = f"{root['given']}@{callee}({root['x']})"
        fitting = [v for v in _variants(scalar, _TYPES[kind]) if v[0] in letters]
        if not fitting:
            return call[0]
        n_operands = 2 if "vv_" in fitting[0][2] else 1
        used.update((name, (kind, size, n_operands)) for _, size, name in fitting)
        names = (f"_ZGV_LLVM_N{n}{'v' * n_operands}_{callee}({name})" for _, n, name in fitting)
        return f'{written} "vector-function-abi-variant"="{",".join(names)}"'

    marked_text = _CALL.sub(marked, text)
    if not used:
        return text
    for kind, name in (("double", "cbrt"), ("float", "cbrtf")):
        if f"@{name}(" in marked_text and f"@{name}(" not in text:
            marked_text += f"\ndeclare {kind} @{name}({kind})\n"
    pure = "nounwind willreturn speculatable memory(none)"  # may be called where it need not be

    def declared(found: re.Match[str]) -> str:  # the `errno` of a function of libm is not read
        kind, callee, given = found.group("type", "callee", "given")
        known = _variants(callee, _TYPES[kind])
        return f"declare {kind} @{callee}({given}) {pure}" if known else found[0]

    marked_text = _DECLARATION.sub(declared, marked_text)
    marked_text = _FUNCTION.sub(lambda f: _without_tests_for_zero(f[0]), marked_text)
    for name, (kind, size, n_operands) in used.items():
        operands = ", ".join([f"<{size} x {kind}>"] * n_operands)
        marked_text += f"\ndeclare <{size} x {kind}> @{name}({operands})"
    kept = ", ".join(f"ptr @{name}" for name in used)  # until loops are vectorised
    return (
        f"{marked_text}\n@llvm.compiler.used = appending global [{len(used)} x ptr] [{kept}], "
        'section "llvm.metadata"\n'
    )


def _of_libm(callee: str, kind: str) -> str:
    """The function of libm that an intrinsic is, or the name itself."""
    if not callee.startswith("llvm."):
        return callee
    name = callee.split(".")[1]
    return name + "f" if kind == "float" else name


def _without_tests_for_zero(function: str) -> str:
    """A function without tests whether a sum such as 1 + exp(-x) is zero, which it never is.

    Numba makes one of each division. A loop that may be left there is not vectorised.
    """
    if not _IS_ZERO.search(function):
        return function
    made = dict(_DEFINED.findall(function))
    return _IS_ZERO.sub(
        lambda m: f"{m[1]}{m[2]}false {m[3]} {m[4]}, {m[5]}" if _is_positive(made, m[4]) else m[0],
        function,
    )


def _is_positive(made: dict[str, str], value: str) -> bool:
    """Whether a value is above zero or NaN: a positive constant, and what is not negative."""
    found = _SUM.match(made.get(value, ""))
    if found is None or found[1] != "fadd":
        return False
    constants = [c for c in map(_constant, found.group(2, 3)) if c is not None]
    smallest = 2.0**-126  # a float of at least this is not zero, whatever is added
    if not any(c >= smallest for c in constants):
        return False
    return all(_is_not_negative(made, operand, 8) for operand in found.group(2, 3))


def _is_not_negative(made: dict[str, str], value: str, depth: int) -> bool:
    """Whether a value is zero of any sign, positive, or NaN."""
    constant = _constant(value)
    if constant is not None:
        return constant >= 0
    how = made.get(value, "")
    if depth == 0:
        return False
    if (converted := _CONVERTED.match(how)) is not None:
        return _is_not_negative(made, converted[1], depth - 1)
    if (both := _SUM.match(how)) is not None:
        if both[1] == "fmul" and both[2] == both[3]:  # a square
            return True
        return all(_is_not_negative(made, operand, depth - 1) for operand in both.group(2, 3))
    call = _CALL.search(how)
    if call is None:
        return False
    scalar = _of_libm(call["callee"], call["type"])
    return scalar in _NOT_NEGATIVE or scalar.removesuffix("f") in _NOT_NEGATIVE


def _constant(value: str) -> float | None:
    if value.startswith("%"):
        return None
    if value.startswith("0x"):
        return struct.unpack(">d", bytes.fromhex(value[2:]))[0] if len(value) == 18 else None
    try:
        return float(value)
    except ValueError:
        return None
