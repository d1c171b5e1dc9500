"""Keeps what a branch guards behind the branch while LLVM optimises a kernel for Enzyme.

LLVM makes of `1 / x if x != 0 else 0` a division and a choice, since a division has no effects. The
derivative of a choice multiplies a cotangent of zero by the derivative of what is not chosen. If
that is infinite, the product is NaN. Operations whose derivative may be infinite or NaN are
therefore calls of unknown functions while LLVM optimises: it does not move such a call to where it
might not be reached.
"""

from __future__ import annotations

import itertools
import re

from kernbridge._ext.enzyme.function import with_declared

_VALUE = r'(%"[^"\n]*"|[^\s,()]+)'
_FLAGS = r"((?:(?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn) )*)"
_OPERATION = re.compile(rf" = (fmul|fdiv|frem) {_FLAGS}(double|float) {_VALUE}, {_VALUE}")
_HIDDEN = re.compile(
    rf" = (?:\w+ )?call {_FLAGS}(double|float) @kb\.hidden\.(f\w+)\.\2"
    rf"\(\2 (?:\w+ )*{_VALUE}, \2 (?:\w+ )*{_VALUE}\)(?: #\d+)?"
)
# Functions of LLVM whose derivative is somewhere infinite or NaN.
_FUNCTION = re.compile(
    r"@llvm\.((?:a?(?:sin|cos|tan)h?|atan2|exp(?:2|10)?|fma|fmuladd|ldexp|log(?:2|10)?|powi?|sqrt)"
    r"\.f(?:32|64))"
)
_DECLARED = re.compile(r"^(declare [^\n]*@kb\.hidden\.[^(\n]*\([^)\n]*\))[^\n]*\n", re.M)
_PURE = "readnone nounwind willreturn"


def hidden(text: str) -> str:
    """Return a module in which these operations are calls of unknown functions."""

    def call(found: re.Match[str]) -> str:
        name, flags, kind, a, b = found.groups()
        if not b.startswith("%") or (name == "fmul" and not a.startswith("%")):
            return found[0]  # its derivative is a constant
        return f" = call {flags}{kind} @kb.hidden.{name}.{kind}({kind} {a}, {kind} {b})"

    text = _FUNCTION.sub(r"@kb.hidden.llvm.\1", _OPERATION.sub(call, text))
    text = _DECLARED.sub(rf"\1 {_PURE}\n", text)
    for name, kind in itertools.product(("fmul", "fdiv", "frem"), ("double", "float")):
        text += f"declare {kind} @kb.hidden.{name}.{kind}({kind}, {kind}) {_PURE}\n"
    return text


def shown(text: str) -> str:
    """Return a module in which hidden operations are what they were."""
    declared = [found[1] for found in _DECLARED.finditer(text) if ".hidden.llvm." in found[1]]
    text = _HIDDEN.sub(r" = \3 \1\2 \4, \5", _DECLARED.sub("", text))
    text = text.replace("@kb.hidden.", "@")
    return with_declared(text, (d[len("declare ") :].replace("kb.hidden.", "") for d in declared))
