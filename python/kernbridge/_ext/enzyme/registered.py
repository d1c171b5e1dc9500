"""Functions of one real number whose derivatives are given to Enzyme, in LLVM IR.

Of each function that other code defines as NAME.plain, NAME calls one that has its derivatives as
metadata. No pass may inline that before Enzyme has run, so it is `weak` until then (`released`).
Enzyme ignores the derivative in forward mode if an argument is inactive, so there is only one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernbridge._src.llvm.text import Global, Module

_TYPES = {"float32": "float", "float64": "double"}
_CASTS = {("float", "double"): "fpext", ("double", "float"): "fptrunc"}
REGISTERED = "kb.registered."
_FUNCTION = """
declare {t} @{name}.plain({a})
define {t} @{name}({a} %x) alwaysinline {{
  %r = call {t} @{called}({a} %x)
  ret {t} %r
}}
"""
_DERIVATIVES = """
define weak {t} @{called}({a} %x) readnone nounwind willreturn nofree nosync \
!enzyme_derivative !{n}0 !enzyme_augment !{n}1 !enzyme_gradient !{n}2 {{
  %r = call {t} @{name}.plain({a} %x)
  ret {t} %r
}}
define internal {{ {t}, {t} }} @{called}.jvp({a} %x, {a} %d) alwaysinline {{
  %v = call {t} @{called}({a} %x)
  %p = call {t} @{partial}({a} %x)
  %e = {cast} {a} %d to {t}
  %m = fmul {t} %p, %e
  %r = insertvalue {{ {t}, {t} }} undef, {t} %v, 0
  %s = insertvalue {{ {t}, {t} }} %r, {t} %m, 1
  ret {{ {t}, {t} }} %s
}}
define internal {{ ptr, {t} }} @{called}.aug({a} %x) alwaysinline {{
  %v = call {t} @{called}({a} %x)
  %r = insertvalue {{ ptr, {t} }} {{ ptr null, {t} 0.0 }}, {t} %v, 1
  ret {{ ptr, {t} }} %r
}}
define internal {{ {a} }} @{called}.vjp({a} %x, {t} %ct, ptr %tape) alwaysinline {{
  %p = call {t} @{partial}({a} %x)
  %m = fmul {t} %p, %ct
  %e = {back} {t} %m to {a}
  %r = insertvalue {{ {a} }} undef, {a} %e, 0
  ret {{ {a} }} %r
}}
!{n}0 = !{{ptr @{called}.jvp}}
!{n}1 = !{{ptr @{called}.aug}}
!{n}2 = !{{ptr @{called}.vjp}}
"""


def text(functions: Iterable[tuple[str, str, str, str | None]]) -> str:
    """A module of functions: name, dtypes of result and argument, and the derivative's name."""
    made, used = "", []
    for n, (name, result, argument, partial) in enumerate(functions, 1):
        t, a = _TYPES[result], _TYPES[argument]
        called = f"{REGISTERED}{name}" if partial else f"{name}.plain"
        given = {"t": t, "a": a, "name": name, "called": called, "partial": partial, "n": n}
        given |= {"cast": _CASTS.get((a, t), "bitcast"), "back": _CASTS.get((t, a), "bitcast")}
        made += _FUNCTION.format(**given)
        if partial:
            made += _DERIVATIVES.format(**given)
            used += [f"ptr @{called}.{kind}" for kind in ("jvp", "aug", "vjp")]
    listed = f"[{len(used)} x ptr] [{', '.join(used)}]"
    return f'{made}\n@llvm.compiler.used = appending global {listed}, section "llvm.metadata"\n'


def released(module: str) -> str:
    """Let LLVM inline what Enzyme has differentiated."""
    read = Module(module)
    for function in read.functions.values():
        if function.name.startswith(REGISTERED):
            function.head = function.head.replace("define weak ", "define internal ")
    used = "llvm.compiler.used"
    kept = (li for li in read.lines if not (isinstance(li, Global) and li.name == used))
    return "\n".join(map(str, kept))
