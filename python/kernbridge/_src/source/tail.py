"""Generates the end of a module's source, through which kernbridge and XLA call its functions.

Each function gets a runner, which takes the call's tensors and attributes apart, and a handler,
which XLA calls and which hands the frame to the core. The runner also compares the types of the
function's parameters with the annotation, and exports what the compiler knows of them: see
`compiled_types.py` and include/kernbridge/module.h.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernbridge._src.scan.attributes import TYPES
from kernbridge._src.scan.signature import ScannedFunction, ScannedParameter

TAIL = "kernbridge"  # the file that the compiler takes the tail for

_IN_C = {"bool": "_Bool"}
_IN_CPP = {"complex64": "kernbridge::complex64_t", "complex128": "kernbridge::complex128_t"}
_HALVES = ("float16", "bfloat16")


def _numbered(function: ScannedFunction) -> list[tuple[ScannedParameter, int]]:
    """Return each parameter with its index among those of its role."""
    counts: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    return [(p, next(counts[p.role])) for p in function.parameters]


def _spelled(p: ScannedParameter) -> bool:
    """Whether a parameter's type is spelled so that C can use it as a type."""
    return bool(p.ctype) and "(" not in p.ctype


def _c_expected(p: ScannedParameter) -> str:
    """Return the type that a parameter must have in C."""
    if p.role == "arg":
        return f"KB_INPUT({p.ctype})" if _spelled(p) else "const kb_tensor *"
    if p.role == "ret":
        return "kb_tensor *"
    if p.type and not (p.type in _HALVES and _spelled(p)):
        return _IN_C.get(p.type) or TYPES[p.type][1]
    return f"__typeof__({p.ctype})" if _spelled(p) else "void *"


def _c_fits(p: ScannedParameter) -> str:
    """Return the letter of a parameter's type in C; negative if it is not the expected one."""
    if not p.ctype:  # the function's type as a whole decides
        return f"'A' + KB_TYPE_{p.type.upper()}" if p.role == "attr" else "'t'"
    if not _spelled(p):
        return "-'?'"
    if p.role in ("arg", "ret"):
        return f"KB_FITS_{'INPUT' if p.role == 'arg' else 'OUTPUT'}({p.ctype})"
    if not p.type:
        return f"KB_FITS_NUMBER({p.ctype})"
    if p.type in _HALVES:
        return f"KB_FITS_HALF({p.ctype})"
    return f"KB_FITS_TYPE({p.ctype}, KB_TYPE_{p.type.upper()})"


def _c_argument(p: ScannedParameter, i: int) -> str:
    if p.role == "arg":
        return f"({_c_expected(p)})&call->inputs[{i}]"
    if p.role == "ret":
        return f"(kb_tensor *)&call->outputs[{i}]"
    return f"*({_c_expected(p)} *)call->attributes[{i}]"


def _in_c(function: ScannedFunction) -> dict[str, str]:
    """Return what templates/runner.c holds of a function."""
    expected, arguments, types = ["const kb_call *"], ["call"], ["'p'"]
    if not function.whole_call:
        expected = [_c_expected(p) for p in function.parameters]
        arguments = [_c_argument(p, i) for p, i in _numbered(function)]
        types = [_c_fits(p) for p in function.parameters]
    return {
        "taken": ", ".join(expected),
        "given": ", ".join(arguments),
        "types": ", ".join(types),
    }


_DETAIL = "kernbridge::detail::"


def _cpp_role(p: ScannedParameter) -> str:
    """Return the class that holds what a call has for a parameter."""
    if p.role == "attr":
        if not p.type:
            return f"{_DETAIL}Attribute<-1, char>"
        holder = _IN_CPP.get(p.type) or TYPES[p.type][1]
        return f"{_DETAIL}Attribute<KB_TYPE_{p.type.upper()}, {holder}>"
    return _DETAIL + {"arg": "Input", "ret": "Output", "stream": "Stream"}[p.role]


def _cpp_value(p: ScannedParameter, i: int) -> str:
    if p.role == "attr":
        return f"{{call->attributes[{i}]}}"
    if p.role == "stream":
        return "{call->stream}"
    return f'(call->{"inputs" if p.role == "arg" else "outputs"}[{i}], "{p.name}")'


def _in_cpp(function: ScannedFunction) -> dict[str, str]:
    """Return what templates/runner.cpp holds of a function."""
    roles, values = [f"{_DETAIL}WholeCall"], ["{call}"]
    if not function.whole_call:
        roles = [_cpp_role(p) for p in function.parameters]
        values = [_cpp_value(p, i) for p, i in _numbered(function)]
    held = [
        f"{role} kb_{i}{value};" for i, (role, value) in enumerate(zip(roles, values, strict=True))
    ]
    address = f"&{function.qualified}"
    return {
        "taken": ", ".join([f"decltype({_DETAIL}signature_of({address}))", *roles]),
        "given": ", ".join(["call", address, *(f"kb_{i}" for i in range(len(roles)))]),
        "values": "\n".join(f"        {value}" for value in held),
    }


@functools.cache
def _template(name: str) -> string.Template:
    return string.Template((Path(__file__).parent / "templates" / name).read_text())


def generate(language: str, functions: Sequence[ScannedFunction]) -> str:
    """Return the end of a translation unit in `language` ("c", "c++", "cuda")."""
    name, describe = ("runner.c", _in_c) if language == "c" else ("runner.cpp", _in_cpp)
    template = _template(name)
    # The compiler's messages about a function's tail name it: see `compiled_types.explain`.
    runners = [
        template.substitute(describe(f), tail=TAIL, i=i, name=f.name)
        for i, f in enumerate(functions)
    ]
    exports = [
        f'{{"{f.name}", "{f.tokens}", kb_run_{i}, kb_handler_{i}, &kb_slot_{i}}}'
        for i, f in enumerate(functions)
    ]
    module = _template("module.c").substitute(
        tail=TAIL,
        exports=",\n    ".join(exports),
        types=", ".join(f"kb_types_{i}" for i in range(len(functions))),
        count=len(functions),
        last_error="kb_last_error" if language == "cuda" else "0",
    )
    return "".join([f'#line 1 "{TAIL}"\n#include "kernbridge/module.h"\n', *runners, module])
