"""Keeps what a branch guards behind the branch while LLVM optimises a kernel for Enzyme.

LLVM makes of `1 / x if x != 0 else 0` a division and a choice, since a division has no effects. The
derivative of a choice multiplies a cotangent of zero by the derivative of what is not chosen. If
that is infinite, the product is NaN. Operations whose derivative may be infinite or NaN are
therefore calls of unknown functions while LLVM optimises: it does not move such a call to where it
might not be reached.
"""

from __future__ import annotations

import itertools

from kernbridge._src.llvm.text import Function, Instruction, Module, declared_once, renamed

_OPERATIONS = ("fmul", "fdiv", "frem")
_KINDS = ("double", "float")
_HIDDEN = "kb.hidden."
# Functions of LLVM whose derivative is somewhere infinite or NaN.
_FUNCTIONS = {f"{a}{f}{h}" for a in ("", "a") for f in ("sin", "cos", "tan") for h in ("", "h")}
_FUNCTIONS |= {"atan2", "exp", "exp2", "exp10", "fma", "fmuladd", "ldexp", "log", "log2", "log10"}
_FUNCTIONS |= {"pow", "powi", "sqrt"}
_PURE = "readnone nounwind willreturn"


def hidden(text: str) -> str:
    """Return a module in which these operations are calls of unknown functions."""
    module = Module(renamed(text, _hidden_name))
    for f in module.functions.values():
        if f.is_declaration and f.name.startswith(_HIDDEN):
            f.head = f"{signature(f)} {_PURE}"
    for i in module.instructions(*_OPERATIONS):
        if i.type in _KINDS and _is_guarded(i):
            (kind, a), (_, b) = i.operands
            flags = "".join(f"{flag} " for flag in i.flags)
            plain = f" = {i.opcode} {flags}{kind} {a}, {b}"
            call = f"{kind} @{_HIDDEN}{i.opcode}.{kind}({kind} {a}, {kind} {b})"
            i.text = i.text.replace(plain, f" = call {flags}{call}", 1)
    pairs = itertools.product(_OPERATIONS, _KINDS)
    calls = (f"declare {k} @{_HIDDEN}{name}.{k}({k}, {k}) {_PURE}\n" for name, k in pairs)
    return str(module) + "".join(calls)


def _hidden_name(name: str) -> str:
    library, function, kind, *_ = [*name.split("."), "", ""]
    is_one = library == "llvm" and function in _FUNCTIONS and kind in ("f32", "f64")
    return f"{_HIDDEN}{name}" if is_one else name


def _is_guarded(i: Instruction) -> bool:
    """Whether its derivative is no constant."""
    (_, a), (_, b) = i.operands
    return b.startswith("%") and (i.opcode != "fmul" or a.startswith("%"))


def signature(declaration: Function) -> str:
    """A declaration without its attributes."""
    head = declaration.head
    return head[: head.index(")", head.index("@")) + 1]


def shown(text: str) -> str:
    """Return a module in which hidden operations are what they were."""
    module = Module(text)
    declared = [f for name, f in module.functions.items() if name.startswith(_HIDDEN)]
    module.lines = [line for line in module.lines if line not in declared]
    for i in module.instructions("call"):
        if i.callee.startswith(f"{_HIDDEN}f"):
            operation = i.callee.split(".")[2]
            flags = "".join(f"{flag} " for flag in i.flags)
            (kind, a), (_, b) = i.operands
            metadata = "".join(f", !{name} {node}" for name, node in i.metadata.items())
            i.text = f"  {i.result} = {operation} {flags}{kind} {a}, {b}{metadata}"
    text = str(module).replace(f"@{_HIDDEN}", "@")
    of_llvm = (signature(f) for f in declared if f.name.startswith(f"{_HIDDEN}llvm."))
    return declared_once(text + "".join(f"{d.replace(_HIDDEN, '')}\n" for d in of_llvm))
