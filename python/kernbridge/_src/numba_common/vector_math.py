"""Lets LLVM vectorise math functions in loops with glibc's libmvec.

LLVM vectorises a loop with a call of `expf` if the call says which function takes a vector. Those
of libmvec are within 4 ulp of the exact value, for subnormal arguments and results too, and agree
with the ones for single numbers on infinities, NaN and zeros; tests/core/test_vector_math.c
measures that.

Works on the text of LLVM IR, since llvmlite cannot give a call an attribute.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

from kernbridge import _core
from kernbridge._src.llvm.text import Function, Module, declared_once

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
_THIRD = {"float 0x3FD5555560000000", "double 0x3FD5555555555555"}
_ALLOW_CUBE_ROOT = frozenset(("nnan", "ninf", "nsz", "afn"))


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
    module = Module(text)
    for i in module.instructions("call"):
        callee, written, kind = i.callee, i.text, i.type
        if kind not in _TYPES:
            continue
        scalar = _of_libm(callee, kind)
        # LLVM replaces this pow, as which Numba computes `np.cbrt`, by cbrt, after it has
        # vectorised loops. The cube root of x differs from the power by up to 120 ulp.
        if scalar.removesuffix("f") == "pow" and callee != scalar:
            x, third = (" ".join(operand) for operand in i.operands)
            may = "fast" in i.flags or _ALLOW_CUBE_ROOT.issubset(i.flags)
            if may and third in _THIRD:
                scalar = "cbrt" + "f" * (kind == "float")
                written = written.replace(f"{callee}({x}, {third})", f"{scalar}({x})")
                callee = scalar
        fitting = [v for v in _variants(scalar, _TYPES[kind]) if v[0] in letters]
        if not fitting:
            continue
        n_operands = 2 if "vv_" in fitting[0][2] else 1
        used.update((name, (kind, size, n_operands)) for _, size, name in fitting)
        names = (f"_ZGV_LLVM_N{n}{'v' * n_operands}_{callee}({name})" for _, n, name in fitting)
        called, end, rest = written.rpartition(")")
        i.text = f'{called}{end} "vector-function-abi-variant"="{",".join(names)}"{rest}'
    if not used:
        return text
    pure = "nounwind willreturn speculatable memory(none)"  # may be called where it need not be
    for f in module.functions.values():
        if f.is_declaration and f.result in _TYPES and _variants(f.name, _TYPES[f.result]):
            # The `errno` of a function of libm is not read.
            f.head = f"declare {f.result} @{f.name}({', '.join(f.parameters)}) {pure}"
        _drop_tests_for_zero(f)
    added = [f"declare {t} @cbrt{f}({t}) {pure}" for t, f in (("double", ""), ("float", "f"))]
    for name, (kind, size, n_operands) in used.items():
        operands = ", ".join([f"<{size} x {kind}>"] * n_operands)
        added.append(f"declare <{size} x {kind}> @{name}({operands})")
    kept = ", ".join(f"ptr @{name}" for name in used)  # until loops are vectorised
    added.append(
        f"@llvm.compiler.used = appending global [{len(used)} x ptr] [{kept}], "
        'section "llvm.metadata"\n'
    )
    return declared_once("\n".join((f"{module}", *added)))


def _of_libm(callee: str, kind: str) -> str:
    """The function of libm that an intrinsic is, or the name itself."""
    if not callee.startswith("llvm."):
        return callee
    name = callee.split(".")[1]
    return name + "f" if kind == "float" else name


def _drop_tests_for_zero(function: Function) -> None:
    """Let no test ask whether a sum such as 1 + exp(-x) is zero, which it never is.

    Numba makes one of each division. A loop that may be left there is not vectorised.
    """
    for i in (i for i in function.instructions if i.opcode == "fcmp" and i.flags[-1] == "oeq"):
        (_, value), (_, zero) = i.operands
        if _constant(zero) == 0 and _is_positive(function, value):
            i.text = i.text.replace(" oeq ", " false ", 1)


def _is_positive(function: Function, value: str) -> bool:
    """Whether a value is above zero or NaN: a positive constant, and what is not negative."""
    found = function.defined.get(value)
    if found is None or found.opcode != "fadd":
        return False
    constants = [c for c in (_constant(v) for _, v in found.operands) if c is not None]
    smallest = 2.0**-126  # a float of at least this is not zero, whatever is added
    if not any(c >= smallest for c in constants):
        return False
    return all(_is_not_negative(function, v, 8) for _, v in found.operands)


def _is_not_negative(function: Function, value: str, depth: int) -> bool:
    """Whether a value is zero of any sign, positive, or NaN."""
    constant = _constant(value)
    if constant is not None:
        return constant >= 0
    how = function.defined.get(value)
    if depth == 0 or how is None:
        return False
    if how.opcode == "call":
        scalar = _of_libm(how.callee, how.type)
        return scalar in _NOT_NEGATIVE or scalar.removesuffix("f") in _NOT_NEGATIVE
    if how.opcode == "fmul" and how.operands[0] == how.operands[1]:  # a square
        return True
    return how.opcode in ("fadd", "fmul", "fpext", "fptrunc") and all(
        _is_not_negative(function, v, depth - 1) for _, v in how.operands
    )


def _constant(value: str) -> float | None:
    if value.startswith("%"):
        return None
    if value.startswith("0x"):
        return struct.unpack(">d", bytes.fromhex(value[2:]))[0] if len(value) == 18 else None
    try:
        return float(value)
    except ValueError:
        return None
