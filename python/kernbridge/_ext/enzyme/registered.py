"""Functions of one real number, or a vector, whose derivatives are given to Enzyme, in LLVM IR.

Of each function that other code defines as NAME.plain, NAME calls one that has its derivatives as
metadata. No pass may inline that before Enzyme has run, so it is `weak` until then (`released`).
Enzyme ignores the derivative in forward mode if an argument is inactive, so there is only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kernbridge._src.llvm.text import Module

_TYPES = {"float32": "float", "float64": "double"}
_CASTS = {("float", "double"): "fpext", ("double", "float"): "fptrunc"}
REGISTERED = "kb.registered."
_FUNCTION = """
declare {t} @{name}.plain({a}){bound}
define {t} @{name}({a} %x) alwaysinline{bound} {{
  %r = call {t} @{called}({a} %x)
  ret {t} %r
}}
"""
_DERIVATIVES = """
define weak {t} @{called}({a} %x) {effects}{bound} nounwind willreturn nofree \
!enzyme_derivative !{n}0 !enzyme_augment !{n}1 !enzyme_gradient !{n}2 {{
  %r = call {t} @{name}.plain({a} %x)
  ret {t} %r
}}
define {{ {t}, {t} }} @{called}.jvp({a} %x, {a} %d) alwaysinline{bound} {{
  %v = call {t} @{called}({a} %x){forward}
  %r = insertvalue {{ {t}, {t} }} undef, {t} %v, 0
  %s = insertvalue {{ {t}, {t} }} %r, {t} %m, 1
  ret {{ {t}, {t} }} %s
}}
define {{ ptr, {t} }} @{called}.aug({a} %x) alwaysinline{bound} {{
  %v = call {t} @{called}({a} %x)
  %r = insertvalue {{ ptr, {t} }} {{ ptr null, {t} 0.0 }}, {t} %v, 1
  ret {{ ptr, {t} }} %r
}}
define {{ {a} }} @{called}.vjp({a} %x, {t} %ct, ptr %tape) alwaysinline{bound} {{{backward}
  %r = insertvalue {{ {a} }} undef, {a} %m, 0
  ret {{ {a} }} %r
}}
!{n}0 = !{{ptr @{called}.jvp}}
!{n}1 = !{{ptr @{called}.aug}}
!{n}2 = !{{ptr @{called}.vjp}}
"""
_FORWARD = """
  %p = call {t} @{partial}({a} %x)
  %e = {cast} {a} %d to {t}
  %m = fmul {t} %p, %e"""
_BACKWARD = """
  %p = call {t} @{partial}({a} %x)
  %e = fmul {t} %p, %ct
  %m = {back} {t} %e to {a}"""


def text(functions: Iterable[tuple[str, str, str, str | None]]) -> str:
    """A module of functions: name, dtypes of result and argument, and the derivative's name."""
    described = []
    for name, result, argument, partial in functions:
        t, a = _TYPES[result], _TYPES[argument]
        given = {"t": t, "a": a, "name": name, "partial": partial}
        given |= {"cast": _CASTS.get((a, t), "bitcast"), "back": _CASTS.get((t, a), "bitcast")}
        if partial:
            given |= {"forward": _FORWARD.format(**given), "backward": _BACKWARD.format(**given)}
        described.append(given | {"effects": "readnone nosync", "bound": ""})
    return module(described)


def module(functions: Iterable[Mapping[str, str | None]]) -> str:
    """A module of functions.

    Each has a `name`, and types of result (`t`) and argument (`a`). Unless it is constant, the
    instructions `forward` make the tangent `%m` of `%x` and `%d`, and `backward` the cotangent `%m`
    of `%x` and `%ct`. `bound` has attributes that also the calls of derivatives need.
    """
    made = ""
    for n, given in enumerate(functions, 1):
        has_derivative = "forward" in given
        called = f"{REGISTERED}{given['name']}" if has_derivative else f"{given['name']}.plain"
        template = _FUNCTION + _DERIVATIVES * has_derivative
        made += template.format(called=called, n=n, **given)
    return made


def released(module: str) -> str:
    """Let LLVM inline what Enzyme has differentiated."""
    read = Module(module)
    for function in read.functions.values():
        if function.name.startswith(REGISTERED):
            function.head = re.sub("^define (?:weak )?", "define internal ", function.head)
    return str(read)
