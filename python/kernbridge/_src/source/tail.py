"""The generated end of a module built from source: what lets kernbridge and XLA call its functions.

Each function gets a runner, which takes the call's tensors and attributes apart, and a handler,
which XLA calls and which hands the frame to the core. See include/kernbridge/module.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernbridge import _core
from kernbridge._src.scan.signature import Function, Parameter

_IN_C = {"bool": "_Bool", "complex64": "float _Complex", "complex128": "double _Complex"}


def _c_type(type_name: str) -> str:
    return _core.attribute_types()[type_name][2]


def _numbered(function: Function) -> list[tuple[Parameter, int]]:
    """Each parameter with its index among those of its role."""
    seen: dict[str, int] = {}
    numbered = []
    for p in function.parameters:
        numbered.append((p, seen.get(p.role, 0)))
        seen[p.role] = seen.get(p.role, 0) + 1
    return numbered


def _c_argument(p: Parameter, i: int) -> str:
    if p.role == "arg":
        return f"&call->inputs[{i}]"
    if p.role == "ret":
        return f"(kb_tensor *)&call->outputs[{i}]"
    c_type = _IN_C.get(p.type) or _c_type(p.type)
    return f"*(const {c_type} *)call->attributes[{i}]"


def _c_runner(index: int, function: Function) -> str:
    arguments = (
        "call"
        if function.whole_call
        else ", ".join(_c_argument(p, i) for p, i in _numbered(function))
    )
    call = f"{function.name}({arguments})"
    body = f"return {call};" if function.returns == "int" else f"{call};\n    return 0;"
    return f"static int kb_run_{index}(const kb_call *call)\n{{\n    {body}\n}}\n"


def _cpp_argument(p: Parameter, i: int) -> str:
    if p.role in ("arg", "ret"):
        return f"{p.role}{i}"
    if p.role == "stream":
        return "stream"
    if p.type.startswith("complex"):
        size = 8 if p.type == "complex64" else 16
        return f"kernbridge::detail::Bytes<{size}>{{call->attributes[{i}]}}"
    if p.type in ("float16", "bfloat16"):
        return f"kernbridge::detail::Bytes<2>{{call->attributes[{i}]}}"
    value = f"kernbridge::detail::attribute<{_c_type(p.type)}>(call, {i})"
    return value if p.ctype else f"kernbridge::detail::Exactly<{_c_type(p.type)}>{{{value}}}"


def _cpp_runner(index: int, function: Function) -> str:
    lines = []
    for p, i in _numbered(function):
        if function.whole_call:
            break
        if p.role in ("arg", "ret"):
            side = "inputs" if p.role == "arg" else "outputs"
            const = "const " if p.role == "arg" and _is_const(p) else ""
            lines.append(f'{const}kernbridge::Tensor {p.role}{i}(call->{side}[{i}], "{p.name}");')
        elif p.role == "stream":
            lines.append("const kernbridge::detail::Stream stream{call->stream};")
    arguments = (
        "call"
        if function.whole_call
        else ", ".join(_cpp_argument(p, i) for p, i in _numbered(function))
    )
    called = f"[&]() {{ return {function.qualified}({arguments}); }}"
    lines.append(f"return kernbridge::detail::status_of({called}, 0);")
    body = "\n        ".join(lines)
    return (
        f"static int kb_run_{index}(const kb_call *call)\n{{\n"
        "    return kernbridge::detail::guard(call, [&]() -> int {\n"
        f"        {body}\n    }});\n}}\n"
    )


def _is_const(p: Parameter) -> bool:
    return "const" in p.ctype.split() or not p.ctype


def generate(language: str, functions: Sequence[Function]) -> str:
    """The end of a translation unit in `language` ("c", "c++", "cuda")."""
    runner = _c_runner if language == "c" else _cpp_runner
    parts = ['#line 1 "kernbridge"\n#include "kernbridge/module.h"\n']
    for i, function in enumerate(functions):
        parts += [f"KB_HANDLER({i})\n", runner(i, function)]
    exports = ",\n    ".join(
        f'{{"{f.name}", "{f.tokens}", kb_run_{i}, kb_handler_{i}, &kb_slot_{i}}}'
        for i, f in enumerate(functions)
    )
    last_error = "kb_last_error" if language == "cuda" else "0"
    parts.append(
        f"static const kb_export kb_exports[] = {{\n    {exports}}};\n"
        "KB_MODULE_DESCRIPTION = {sizeof(kb_module), KB_ABI, "
        f"{len(functions)}, kb_exports, {last_error}}};\n"
    )
    return "".join(parts)
