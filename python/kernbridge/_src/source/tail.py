"""The generated end of a module built from source: what lets kernbridge and XLA call its functions.

Each function gets a runner, which takes the call's tensors and attributes apart, and a handler,
which XLA calls and which hands the frame to the core. The runner also compares the types of the
function's parameters with the annotation, and exports what the compiler knows of them: see
`compiled_types.py` and include/kernbridge/module.h.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from kernbridge import _core
from kernbridge._src.scan.signature import ScannedFunction, ScannedParameter

TAIL = "kernbridge"  # the file that the compiler takes the tail for

_IN_C = {"bool": "_Bool"}
_IN_CPP = {"complex64": "kernbridge::complex64_t", "complex128": "kernbridge::complex128_t"}
_HALVES = ("float16", "bfloat16")


def _c_type(type_name: str) -> str:
    return _core.attribute_types()[type_name][2]


def _numbered(function: ScannedFunction) -> list[tuple[ScannedParameter, int]]:
    """Each parameter with its index among those of its role."""
    counts: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
    return [(p, next(counts[p.role])) for p in function.parameters]


def _spelled(p: ScannedParameter) -> bool:
    """Whether a parameter's type is spelled so that C can use it as a type."""
    return bool(p.ctype) and "(" not in p.ctype


def _c_expected(p: ScannedParameter) -> str:
    """The type that a parameter must have in C."""
    if p.role == "arg":
        return f"KB_INPUT({p.ctype})" if _spelled(p) else "const kb_tensor *"
    if p.role == "ret":
        return "kb_tensor *"
    if p.type and not (p.type in _HALVES and _spelled(p)):
        return _IN_C.get(p.type) or _c_type(p.type)
    return f"__typeof__({p.ctype})" if _spelled(p) else "void *"


def _c_fits(p: ScannedParameter) -> str:
    """The letter of a parameter's type in C; negative if it is not the expected one."""
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


def _c_runner(index: int, function: ScannedFunction) -> str:
    expected, arguments, types = ["const kb_call *"], ["call"], ["'p'"]
    if not function.whole_call:
        expected = [_c_expected(p) for p in function.parameters]
        arguments = [_c_argument(p, i) for p, i in _numbered(function)]
        types = [_c_fits(p) for p in function.parameters]
    name, taken, given = function.name, ", ".join(expected), ", ".join(arguments)
    result = f"KB_RESULT({name}, kb_nothing_{index}, kb_status_{index})"
    # The casts let a function of another type compile too; it is refused before anybody calls it.
    return (
        f"typedef void kb_nothing_{index}({taken});\n"
        f"typedef int kb_status_{index}({taken});\n"
        f"static const signed char kb_types_{index}[] = {{{', '.join([result, *types, '0'])}}};\n"
        f"static int kb_run_{index}(const kb_call *call)\n{{\n"
        f"    kb_nothing_{index} *nothing = (kb_nothing_{index} *)(void (*)(void))&{name};\n"
        f"    kb_status_{index} *status = (kb_status_{index} *)(void (*)(void))&{name};\n"
        f"    if (kb_types_{index}[0] == 'v') {{\n        nothing({given});\n        return 0;\n"
        f"    }}\n    return status({given});\n}}\n"
    )


_DETAIL = "kernbridge::detail::"


def _cpp_role(p: ScannedParameter) -> str:
    """The class that holds what a call has for a parameter."""
    if p.role == "attr":
        if not p.type:
            return f"{_DETAIL}Attribute<-1, char>"
        holder = _IN_CPP.get(p.type) or _c_type(p.type)
        return f"{_DETAIL}Attribute<KB_TYPE_{p.type.upper()}, {holder}>"
    return _DETAIL + {"arg": "Input", "ret": "Output", "stream": "Stream"}[p.role]


def _cpp_value(p: ScannedParameter, i: int) -> str:
    if p.role == "attr":
        return f"{{call->attributes[{i}]}}"
    if p.role == "stream":
        return "{call->stream}"
    return f'(call->{"inputs" if p.role == "arg" else "outputs"}[{i}], "{p.name}")'


def _cpp_runner(index: int, function: ScannedFunction) -> str:
    roles, values = [f"{_DETAIL}WholeCall"], ["{call}"]
    if not function.whole_call:
        roles = [_cpp_role(p) for p in function.parameters]
        values = [_cpp_value(p, i) for p, i in _numbered(function)]
    lines = [
        f"        {role} kb_{i}{value};\n"
        for i, (role, value) in enumerate(zip(roles, values, strict=True))
    ]
    address = f"&{function.qualified}"
    given = ", ".join([f"call, {address}", *(f"kb_{i}" for i in range(len(roles)))])
    taken = ", ".join([f"decltype({_DETAIL}signature_of({address}))", *roles])
    return (
        f"using kb_runner_{index} = {_DETAIL}Runner<{taken}>;\n"
        f"static const signed char *const kb_types_{index} = "
        f"kb_runner_{index}::agreement::types;\n"
        f"static int kb_run_{index}(const kb_call *call)\n{{\n"
        f"    return {_DETAIL}guard(call, [&]() -> int {{\n{''.join(lines)}"
        f"        return kb_runner_{index}::run({given});\n    }});\n}}\n"
    )


def generate(language: str, functions: Sequence[ScannedFunction]) -> str:
    """The end of a translation unit in `language` ("c", "c++", "cuda")."""
    runner = _c_runner if language == "c" else _cpp_runner
    parts = [f'#line 1 "{TAIL}"\n#include "kernbridge/module.h"\n']
    for i, function in enumerate(functions):
        # The compiler's messages about the function's tail name it: see `compiled_types.explain`.
        parts += [f'#line 1 "{TAIL}:{function.name}"\nKB_HANDLER({i})\n', runner(i, function)]
    exports = ",\n    ".join(
        f'{{"{f.name}", "{f.tokens}", kb_run_{i}, kb_handler_{i}, &kb_slot_{i}}}'
        for i, f in enumerate(functions)
    )
    last_error = "kb_last_error" if language == "cuda" else "0"
    types = ", ".join(f"kb_types_{i}" for i in range(len(functions)))
    parts.append(
        f'#line 1 "{TAIL}"\nstatic const kb_export kb_exports[] = {{\n    {exports}}};\n'
        f"static const signed char *const kb_types[] = {{{types}}};\n"
        "KB_MODULE_DESCRIPTION = {sizeof(kb_module), KB_ABI, "
        f"{len(functions)}, kb_exports, {last_error}, kb_types}};\n"
    )
    return "".join(parts)
