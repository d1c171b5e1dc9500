"""libdevice on CPUs: functions that call one of LLVM, of the C library or of kernbridge.

In a signature, the letter `x` is the number that a function is about; `_KINDS` has the other
letters. The functions that follow no rule are written out in `_roots`, `_of_pairs` and `_of_words`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial, reduce
from itertools import product
from operator import mul, or_, truediv
from pathlib import Path

import halves
from expressions import arguments, call, returned

_REALS = (("double", "f64", ""), ("float", "f32", "f"))  # a type, its intrinsics, C's letter
_KINDS = {"i": "i32", "p": "ptr"}
_INFINITY = "0x7FF0000000000000"
_INTEGERS = {"int": (32, "s"), "uint": (32, "u"), "ll": (64, "s"), "ull": (64, "u")}

_INTRINSICS = {
    "x": "ceil fabs floor nearbyint rint round sqrt trunc",
    "xx": "copysign",
    "xxx": "fma",
}
_OF_C = {
    "x": "acos acosh asin asinh atan atanh cos erf erfc exp exp2 expm1 log log1p log2 logb sin "
    "sinh tan",
    "xx": "atan2 fdim fmod hypot nextafter pow remainder",
    "xp": "frexp modf",
    "xi": "ldexp",
    "xxp": "remquo",
}
_OF_C_FOR_FLOATS = ("cosh", "exp10", "log10", "tanh")  # doubles have kernbridge's
_FAST = "cos exp exp10 log log10 log2 sin sincos tan"
_OF_C_FOR_DOUBLES = {"x": "j0 j1 tgamma y0 y1"}  # floats round what it returns
_OURS = Path(__file__).parents[1] / "kb_libdevice.c"
_OF_DOUBLES = re.compile(r" X\((\w+), double, \(([^*)]+)\)")  # a row of SPECIAL there
_SPECIAL = Path(__file__).parents[4] / "include/ext/emulator/kernbridge/cuda_on_cpu/special.h"
_DIRECTED = re.compile(r" X\((\d), (\w+), (\w+), ([\w ]+),")  # a row of KB_ROUNDED there
_OF_C_KINDS = {"int": "i32", "unsigned": "i32", "long long": "i64", "unsigned long long": "i64"}
_WORDS = {"double": "double", "float": "float", "int": "i32", "longlong": "i64", "uint": "i32"}
_SAME_BITS = (
    "double_as_longlong longlong_as_double float_as_int float_as_uint int_as_float uint_as_float"
)


def _parameters(letters: str, real: str = "") -> str:
    kinds = (real if letter == "x" else _KINDS[letter] for letter in letters)
    return ", ".join(f"{kind} %{name}" for kind, name in zip(kinds, "xyzw", strict=False))


def _calling(called: str, result: str, letters: str) -> str:
    return returned(call(result, called, *arguments(_parameters(letters, result))))


def _rounded(called: str, letters: str) -> str:
    """A function of floats that rounds what a function of doubles returns."""
    given = arguments(_parameters(letters, "float"))
    wide = (x.to("double", "fpext") if x.kind == "float" else x for x in given)
    return returned(call("double", called, *wide).to("float", "fptrunc"))


def _each(table: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(letters, name) for letters, names in table.items() for name in names.split()]


def _roots() -> dict[str, str]:
    """What is one divided by a root; that of a double is as exact as CUDA's."""
    fma = partial(call, "double", "llvm.fma.f64")
    (given,) = arguments("double %given")
    tiny = given.compared("olt", "0x2000000000000000")
    up = tiny.choose("0x5FF0000000000000", 1.0, "double")
    back = tiny.choose("0x4FF0000000000000", 1.0, "double")
    x = given * up
    root = call("double", "llvm.sqrt.f64", x)
    inverse, minus = root.inverse(), -root
    lost, left = fma(minus, root, x), fma(minus, inverse, "double 1.0")
    better = fma(inverse, fma(lost, inverse * inverse * -0.5, left), inverse)
    usual = x.compared("ogt", 0.0) & x.compared("olt", _INFINITY)
    found = {"rsqrt": returned(usual.choose(better, inverse) * back)}
    found["rsqrtf"] = returned(call("float", "llvm.sqrt.f32", *arguments("float %x")).inverse())
    (x,) = arguments("float %x")
    root = call("double", "llvm.sqrt.f64", x.to("double", "fpext"))
    found["frsqrt_rn"] = returned(root.inverse().to("float", "fptrunc"))
    return found


def _of_pairs() -> dict[str, str]:
    """What approximates on GPUs, and powers of a whole number."""
    x, n = arguments("double %x, i32 %n")
    found = {"powi": returned(call("double", "pow", x, n.to("double", "sitofp")))}
    x, y = arguments("float %x, float %y")
    found["fast_powf"] = returned(call("float", "exp2f", y * call("float", "log2f", x)))
    # A divisor above 2^126 gives a zero, or NaN of what is infinite, as on GPUs.
    x, y = arguments("float %x, float %y")
    large = call("float", "llvm.fabs.f32", y).compared("ogt", "0x47D0000000000000")
    by_zero = x * y.made("float", f"call float @llvm.copysign.f32(float 0.0, {y})")
    found["fast_fdividef"] = returned(large.choose(by_zero, x / y))
    return found


def calls() -> dict[str, str]:
    found = {**_roots(), **_of_pairs(), "powif": _rounded("__nv_powi", "xi")}
    (x,) = arguments("float %x")
    low = x.compared("ogt", 0.0).choose(x, 0.0)
    found["saturatef"] = returned(low.compared("olt", 1.0).choose(low, 1.0))
    for real, suffix, f in _REALS:
        for letters, name in _each(_INTRINSICS):
            found[name + f] = _calling(f"llvm.{name}.{suffix}", real, letters)
        for letters, name in _each(_OF_C):
            found[name + f] = _calling(name + f, real, letters)
        found[f"scalbn{f}"] = _calling(f"ldexp{f}", real, "xi")
        (x,) = arguments(f"{real} %x")
        exponent = call("i32", f"ilogb{f}", x)
        found[f"ilogb{f}"] = returned(x.compared("ueq", 0.0).choose(-(2**31), exponent))
        kind = f"i{suffix[1:]}"
        for name, operation in (("min", "or"), ("max", "and")):
            x, y = arguments(f"{real} %x, {real} %y")
            number = call(real, f"llvm.{name}num.{suffix}", x, y)
            of_equal = x.to(kind).by(operation, y.to(kind)).to(real)
            found[f"f{name}{f}"] = returned(x.compared("oeq", y).choose(of_equal, number))
    for letters, name in _each(_OF_C_FOR_DOUBLES):
        found[name] = _calling(name, "double", letters)
        found[f"{name}f"] = _rounded(name, letters)
    for name, parameters in _OF_DOUBLES.findall(_OURS.read_text()):
        letters = "".join("i" if "int32_t" in p else "x" for p in parameters.split(", "))
        found[name] = _calling(f"kb_nv_{name}", "double", letters)
        if name in _OF_C_FOR_FLOATS:
            found[f"{name}f"] = _calling(f"{name}f", "float", letters)
        else:
            found[f"{name}f"] = _rounded(f"kb_nv_{name}", letters)
    for (real, suffix, f), pi in product(_REALS, ("", "pi")):
        called = f"__nv_{{}}pi{f}" if pi else f"llvm.{{}}.{suffix}"
        found[f"sincos{pi}{f}"] = f"""ptr ({real} %x, ptr %ps, ptr %pc) {{
            %s = call {real} @{called.format("sin")}({real} %x)
            %c = call {real} @{called.format("cos")}({real} %x)
            store {real} %s, ptr %ps store {real} %c, ptr %pc ret ptr null }}"""
    return found | {f"fast_{name}f": found[f"{name}f"] for name in _FAST.split()}


def conversions() -> dict[str, str]:
    found = {
        "half2float": "float (i16 %x) { %r = call float @kb.f16.widen(i16 %x) ret float %r }",
        "float2half_rn": "i16 (float %x) { %r = call i16 @kb.f16.rn(float %x) ret i16 %r }",
        "double2float_rn": "float (double %x) { %r = fptrunc double %x to float ret float %r }",
    }
    for real, suffix, f in _REALS:
        to_integers = {
            f"{real}2{word}_{mode}": (word, function)
            for word in _INTEGERS
            for mode, function in halves.MODES.items()
        }
        to_integers |= {f"llrint{f}": ("ll", "rint"), f"llround{f}": ("ll", "round")}
        for name, (word, function) in to_integers.items():
            bits, sign = _INTEGERS[word]
            whole = call(real, f"llvm.{function}.{suffix}", *arguments(f"{real} %x"))
            found[name] = returned(call(f"i{bits}", f"kb.fpto{sign}i.{suffix}.i{bits}", whole))
        for word, (bits, sign) in _INTEGERS.items():
            (x,) = arguments(f"i{bits} %x")
            found[f"{word}2{real}_rn"] = returned(x.to(real, f"{sign}itofp"))
        d, fence, two = real[0], f"llvm.arithmetic.fence.{suffix}", f"{real} %x, {real} %y"
        for name in ("add", "sub"):
            x, y = (call(real, fence, x) for x in arguments(two))
            found[f"{d}{name}_rn"] = returned(x.by(f"f{name}", y))
        found[f"{d}mul_rn"] = returned(call(real, fence, mul(*arguments(two))))
        found[f"{d}div_rn"] = returned(truediv(*arguments(two)))
        found[f"{d}rcp_rn"] = f"{real} ({real} %x) {{ %r = fdiv {real} 1.0, %x ret {real} %r }}"
        found[f"{d}sqrt_rn"] = _calling(f"llvm.sqrt.{suffix}", real, "x")
        found[f"fma{f}_rn"] = _calling(f"llvm.fma.{suffix}", real, "xxx")
    for n, name, result, kind in _DIRECTED.findall(_SPECIAL.read_text()):
        given = ", ".join(f"{_OF_C_KINDS.get(kind, kind)} %{x}" for x in "xyz"[: int(n)])
        for mode in ("rd", "ru", "rz"):
            called = call(result, f"kb_nv_{name}_{mode}", *arguments(given))
            found[f"{name}_{mode}"] = returned(called)
    return found


def _of_words() -> dict[str, str]:
    found = {}
    for name, shift in (("mul24", "ashr"), ("umul24", "lshr")):
        x, y = (n.by("shl", 8).by(shift, 8) for n in arguments("i32 %x, i32 %y"))
        found[name] = returned(x * y)
    for name, shift in (("double2loint", 0), ("double2hiint", 32)):
        (x,) = arguments("double %x")
        found[name] = returned(x.to("i64").by("lshr", shift).to("i32", "trunc"))
    x, y = (n.to("i64", "zext") for n in arguments("i32 %x, i32 %y"))
    found["hiloint2double"] = returned((x.by("shl", 32) | y).to("double"))
    x, y, z = (n.to("i64", "zext") for n in arguments("i32 %x, i32 %y, i32 %z"))
    both = y.by("shl", 32) | x
    eighths = (z.by("shl", 3), *(z.by("lshr", n) for n in (1, 5, 9)))  # eight times a digit of z
    picked = (both.by("lshr", n & 56) & 255 for n in eighths)
    placed = (byte.by("shl", 8 * i) for i, byte in enumerate(picked))
    found["byte_perm"] = returned(reduce(or_, placed).to("i32", "trunc"))
    return found


def integers() -> dict[str, str]:
    found = _of_words()
    for kind, ll in (("i32", ""), ("i64", "ll")):
        for name, called, *more in (
            (f"{ll}abs", "abs", "i1 false"),
            (f"brev{ll}", "bitreverse"),
            (f"clz{ll}", "ctlz", "i1 false"),
            (f"popc{ll}", "ctpop"),
        ):
            n = call(kind, f"llvm.{called}.{kind}", *arguments(f"{kind} %x"), *more)
            found[name] = returned(n.to("i32", "trunc") if ll and called.startswith("ct") else n)
        (x,) = arguments(f"{kind} %x")
        before = call(kind, f"llvm.cttz.{kind}", x, "i1 false")
        n = x.compared("eq", 0).choose(0, before + 1)
        found[f"ffs{ll}"] = returned(n.to("i32", "trunc") if ll else n)
    for word, (bits, sign) in _INTEGERS.items():
        for which in ("max", "min"):
            name = word.removesuffix("int") + which
            found[name] = _calling(f"llvm.{sign}{which}.i{bits}", f"i{bits}", "xx")
    for sign, u, extend, shift in (("s", "", "sext", "ashr"), ("u", "u", "zext", "lshr")):
        for bits, name in ((32, f"{u}mulhi"), (64, f"{u}mul64hi")):
            x, y = (n.to(f"i{2 * bits}", extend) for n in arguments(f"i{bits} %x, i{bits} %y"))
            found[name] = returned((x * y).by("lshr", bits).to(f"i{bits}", "trunc"))
        for name, first, last in ((f"{u}hadd", "and", "add"), (f"{u}rhadd", "or", "sub")):
            x, y = arguments("i32 %x, i32 %y")
            found[name] = returned(x.by(first, y).by(last, (x ^ y).by(shift, 1)))
        x, y, z = arguments("i32 %x, i32 %y, i32 %z")
        larger, smaller = (call("i32", f"llvm.{sign}{m}.i32", x, y) for m in ("max", "min"))
        found[f"{u}sad"] = returned(larger - smaller + z)
    for name in _SAME_BITS.split():
        before, after = (_WORDS[word] for word in name.split("_as_"))
        (x,) = arguments(f"{before} %x")
        found[name] = returned(x.to(after))
    for real, suffix, f in _REALS:
        d = f or "d"
        for name, order in ((f"isinf{d}", "oeq"), ("finitef" if f else "isfinited", "olt")):
            size = call(real, f"llvm.fabs.{suffix}", *arguments(f"{real} %x"))
            found[name] = returned(size.compared(order, _INFINITY).to("i32", "zext"))
        (x,) = arguments(f"{real} %x")
        found[f"isnan{d}"] = returned(x.compared("uno", 0.0).to("i32", "zext"))
        (x,) = arguments(f"{real} %x")
        sign = x.to(f"i{suffix[1:]}").compared("slt", 0)
        found[f"signbit{d}"] = returned(sign.to("i32", "zext"))
    return found


def _prefixed(functions: Callable[[], dict[str, str]]) -> dict[str, str]:
    return {f"__nv_{name}": text for name, text in functions().items()}


_CALLS = """\
; libdevice on the CPU: an intrinsic of LLVM or a function of the C library takes the place of one
; that means the same. Others are in src/ext/emulator/kb_libdevice.c as kb_nv_x.
; No error is larger than CUDA's documentation states.
;
; Of equal numbers, which the sign of zero may tell apart, the bits decide which is the smaller one.
; Numba-CUDA declares that the functions of pairs return a pointer, and uses none.
"""
_CONVERSIONS = """\
; libdevice on the CPU: conversions, and arithmetic with a direction of rounding.
;
; Numbers that do not fit into an integer saturate; NaN becomes 0 where neither type has 64 bits,
; else the number with the highest bit alone, as PTX has it. GPUs never fuse products and sums that
; are rounded to nearest here with others; compile.py, which fuses as NVVM and ptxas do, takes the
; fences away afterwards. src/ext/emulator/kb_libdevice.c has the other directions.
"""
_BITS = "; libdevice on the CPU: functions of integers and of the bits of a number.\n"

FILES = {
    "libdevice_calls.ll": (_CALLS, partial(_prefixed, calls)),
    "libdevice_conversions.ll": (_CONVERSIONS, partial(_prefixed, conversions)),
    "libdevice_integers.ll": (_BITS, partial(_prefixed, integers)),
}
