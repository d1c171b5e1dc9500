"""Writes the `.ll` files of kernbridge, which define the functions that kernels call on CPUs.

    python src/ext/emulator/ll/generate.py FOLDER

CMake runs it, and installs the files in kernbridge/_ext/emulator/compiler/ll. Every definition is
linkonce_odr, so that LLVM links those that a kernel needs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import half_names
import libdevice
import threads
from expressions import arguments, call, returned

_NOTE = "; Written by src/ext/emulator/ll/generate.py.\n"
_WIDTHS = (8, 16, 32, 64)
_REALS = (("half", "f16"), ("float", "f32"), ("double", "f64"))


def arithmetic() -> dict[str, str]:
    functions: dict[str, str] = {}
    for bits in _WIDTHS:
        kind = f"i{bits}"
        for name in ("shl", "lshr", "ashr"):
            x, count = arguments(f"{kind} %x, {kind} %count")
            n = count & 0xFFFFFFFF if bits == 64 else count  # a GPU reads 32 bits of the count
            fits = n.compared("ult", bits)
            if name == "ashr":
                shifted = x.by(name, fits.choose(n, bits - 1))
            else:
                shifted = fits.choose(x.by(name, n), 0)
            functions[f"kb.{name}.{kind}"] = returned(shifted)
        for name in ("udiv", "urem", "sdiv", "srem"):
            x, y = arguments(f"{kind} %x, {kind} %y")
            zero, minus = y.compared("eq", 0), y.compared("eq", -1)
            q = x.by(name, (zero | minus if name[0] == "s" else zero).choose(1, y))
            if name == "sdiv":
                q = minus.choose(-x, q)
            functions[f"kb.{name}.{kind}"] = returned(zero.choose(-1, q))
    for (real, suffix), sign, bits in ((r, s, b) for r in _REALS for s in "su" for b in _WIDTHS):
        wide = max(bits, 16)
        (x,) = arguments(f"{real} %x")
        n = call(f"i{wide}", f"llvm.fpto{sign}i.sat.i{wide}.{suffix}", x)
        if real == "double" or bits == 64:
            n = x.compared("uno", x).choose(-(2 ** (wide - 1)), n)
        if bits == 8:
            n = n.to("i8", "trunc")
        functions[f"kb.fpto{sign}i.{suffix}.i{bits}"] = returned(n)
    for real, suffix in _REALS[1:]:
        x, y = arguments(f"{real} %x, {real} %y")
        functions[f"kb.frem.{suffix}"] = returned(x - call(real, f"llvm.floor.{suffix}", x / y) * y)
    return functions


def atomics() -> dict[str, str]:
    functions: dict[str, str] = {}
    for bits, real in ((32, "float"), (64, "double")):
        functions[f"kb.atomic.load.add.f{bits}.p0f{bits}"] = _atomic(real, "fadd")
        for name in ("add", "sub"):
            functions[f"___numba_atomic_{real}_{name}"] = _atomic(real, f"f{name}")
        for name in ("inc", "dec"):
            function = _atomic(f"i{bits}", f"u{name}_wrap")
            functions[f"kb.atomic.load.{name}.{bits}.p0i{bits}"] = function
            functions[f"___numba_atomic_u{bits}_{name}"] = function
        # The number stays where either is NaN; the forms with "nan" put one in the place of a NaN.
        for nan, name in ((n, m) for n in ("", "nan") for m in ("max", "min")):
            order = ("u" if nan else "o") + ("lt" if name == "max" else "gt")
            functions[f"___numba_atomic_{real}_{nan}{name}"] = f"""{real} (ptr %at, {real} %v) {{
entry:
  %is_nan = fcmp uno {real} %v, %v
  %new = bitcast {real} %v to i{bits}
  %first = load atomic i{bits}, ptr %at monotonic, align {bits // 8}
  br i1 %is_nan, label %done, label %again
again:
  %old = phi i{bits} [ %first, %entry ], [ %seen, %swap ]
  %number = bitcast i{bits} %old to {real}
  %replaces = fcmp {order} {real} %number, %v
  br i1 %replaces, label %swap, label %done
swap:
  %pair = cmpxchg ptr %at, i{bits} %old, i{bits} %new monotonic monotonic
  %seen = extractvalue {{ i{bits}, i1 }} %pair, 0
  %swapped = extractvalue {{ i{bits}, i1 }} %pair, 1
  br i1 %swapped, label %done, label %again
done:
  %last = phi i{bits} [ %first, %entry ], [ %old, %again ], [ %old, %swap ]
  %result = bitcast i{bits} %last to {real}
  ret {real} %result }}"""
    return functions


def _atomic(kind: str, operation: str) -> str:
    return f"""{kind} (ptr %at, {kind} %v) {{
        %old = atomicrmw {operation} ptr %at, {kind} %v monotonic ret {kind} %old }}"""


def _formatted(name: str, function: str) -> str:
    """A definition with one instruction a line."""
    function = " ".join(function.split())
    statement = r"%[\w.]+ = |ret |store |br |fence |call void |unreachable|[\w.]+: "
    function = re.sub(rf" (?={statement})", "\n  ", function)
    function = re.sub(r"\n  ([\w.]+:)(?=\n)", r"\n\1", function)
    head, body = function.replace(" (", f" @{name}(", 1)[:-2].split(" {", 1)
    return f"define linkonce_odr {head} alwaysinline {{{body}\n}}\n"


def _declared(text: str) -> Iterable[str]:
    """Declarations of what the text calls and does not define."""
    defined = set(re.findall(r"^define [^@]*@([\w.]+)", text, flags=re.M))
    heads = {}
    for result, name, given in re.findall(
        r"call (\{[^}]*\}|\w+) @([\w.]+)\((.*)\)$", text, flags=re.M
    ):
        kinds = ", ".join(argument.split()[0] for argument in given.split(", ") if argument)
        heads[name] = f"declare {result} @{name}({kinds}){_attributes(name, kinds)}\n"
    return (heads[name] for name in sorted(heads) if name not in defined)


def _attributes(name: str, kinds: str) -> str:
    """What LLVM cannot know of functions of C, such as that they read nothing but arguments."""
    if name in ("kb_assert", "kb_raise", "kb_write_outside"):
        return " noreturn cold"
    if name == "kb_barrier":
        return " convergent"  # see phases.py
    if name.startswith(("kb_", "NRT_")) and not name.startswith("kb_nv_"):
        return " cold" if name in ("kb_check_ask", "kb_check_wrong") else ""
    if name.startswith(("llvm.", "kb.", "__nv_")):
        return ""
    return f" nounwind willreturn memory({'argmem: readwrite' if 'ptr' in kinds else 'none'})"


_ARITHMETIC = """\
; What LLVM leaves undefined and a GPU defines, as functions in place of the instructions.
;
; - A number that does not fit becomes the nearest integer that does when it is converted. NaN
;   becomes 0 if it was a float, and the number with the highest bit alone if it was a double or the
;   integer has 64 bits. Conversions to 8 bits pass through 16 bits.
; - A shift by the width or more leaves zeros, or copies of the sign.
; - Division by zero makes all bits 1, and the smallest number divided by -1 is itself; x86
;   processors end the process instead.
; - The remainder of floats is made of a division that is rounded: it is not exact.
"""
_ATOMICS = "; Atomic operations that no instruction has as Numba-CUDA calls them.\n"

FILES = {
    "arithmetic.ll": (_ARITHMETIC, arithmetic),
    "atomics.ll": (_ATOMICS, atomics),
    **half_names.FILES,
    **libdevice.FILES,
    **threads.FILES,
}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file, (head, functions) in FILES.items():
        text = "\n".join(_formatted(name, function) for name, function in functions().items())
        (folder / file).write_text(f"{_NOTE}\n{head}\n{text}\n{''.join(_declared(text))}")
