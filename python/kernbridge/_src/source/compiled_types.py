"""Compares the types of a function's parameters, as the compiler reports them, with its annotation.

The scanner reads names and no types. The generated glue of a module (`glue.py`) compares the
types of `decltype(&function)` with the annotation, and exports a letter for each; a negative one
stands for a type that does not fit. This module turns letters into types, or into an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernbridge._src.base.dtypes import DTYPES
from kernbridge._src.base.errors import CompilationError, KernelError, coded
from kernbridge._src.scan.functions import WRITTEN_OUT, ScannedFunction, ScannedParameter

GLUE = "kernbridge"  # the file that the compiler takes the glue for
_NUMBERS = {chr(ord("A") + dtype.number): dtype.name for dtype in DTYPES.values()}
_OTHERS = {"t": "a tensor", "p": "a pointer", "r": "a reference", "v": "void"}
_EXPECTED = {
    "arg": "a tensor",
    "ret": "a tensor that is not const",
    "stream": "an int64_t or a cudaStream_t",
}
# What to take instead, and where its pointer is.
_TENSOR = {
    True: ("kb_tensor *{name}", "{name}->data"),
    False: ("kernbridge::Tensor {name}", "{name}.data_ptr<T>()"),
}


def _letters(types: bytes) -> list[tuple[str, bool]]:
    return [(chr(t if t < 128 else 256 - t), t < 128) for t in types]


def _kind(letter: str) -> str:
    return _NUMBERS.get(letter) or _OTHERS.get(letter, "a type that is not a number")


def fill(tokens: str, types: bytes) -> str:
    """Return an annotation with the types that the compiler reported for its attributes."""
    listed = tokens.split()
    letters = _letters(types)[1:]
    if len(letters) != len(listed):
        return tokens
    return " ".join(
        f"{token}:{_NUMBERS[letter]}"
        if token.startswith("attr.") and ":" not in token and letter in _NUMBERS
        else token
        for token, (letter, _) in zip(listed, letters, strict=True)
    )


def check(label: str, function: ScannedFunction, types: bytes, language: str) -> ScannedFunction:
    """Return the function of a source with every type that its compiler reported.

    `types` are the letters that its library exports. KernelError is raised if the function takes
    or returns something else than its annotation says.
    """
    where = f"{label}: {function.place}: {function.name}: "
    (result, _), *letters = _letters(types)
    parameters = function.parameters
    if language == "c" and len(letters) == len(parameters):  # where pointers have no letter
        letters = [
            ("p" if letter == "?" and "*" in p.ctype else letter, fits)
            for p, (letter, fits) in zip(parameters, letters, strict=True)
        ]
    if function.whole_call:
        parameters = (ScannedParameter("call", ctype="kb_call *"),)
    if len(letters) != len(parameters):
        shown = ", ".join(f"{p.ctype} {p.name}".strip() or p.role for p in parameters)
        listed = ", ".join(_kind(letter) for letter, _ in letters)
        raise KernelError(
            f"{where}its annotation describes {len(parameters)} parameters ({shown}), but the "
            f"compiler counts {len(letters)} ({listed}); {WRITTEN_OUT} [KB4007]"
        )
    refusals = [
        f"parameter {i} {p.name!r} is {_got(p, letter)}{_needed(p, letter, language)}"
        for i, (p, (letter, fits)) in enumerate(zip(parameters, letters, strict=True), 1)
        if not fits
    ]
    if refusals:
        raise KernelError(coded(where + "\n  ".join(refusals[:8]), "KB4007"))
    if result == "?":
        raise KernelError(
            f"{where}it does not return void or an int (0 for success), or the compiler found "
            f"other parameters than ({function.tokens}): there may be several definitions, behind "
            f"#if; {WRITTEN_OUT} [KB4007]"
        )
    if result != "v" and _NUMBERS.get(result) != "int32":
        raise KernelError(
            f"{where}it returns {_kind(result)}; it must return void or an int (0 for success) "
            "[KB4007]"
        )
    if function.whole_call:
        return function
    return function._replace(
        parameters=tuple(
            p._replace(type=_NUMBERS.get(letter, "")) if p.role == "attr" and not p.type else p
            for p, (letter, _) in zip(parameters, letters, strict=True)
        )
    )


def _got(p: ScannedParameter, letter: str) -> str:
    kind = _kind(letter)
    if not p.ctype:
        return kind
    return f"`{p.ctype}`" if p.ctype == kind else f"`{p.ctype}` ({kind})"


def _needed(p: ScannedParameter, letter: str, language: str) -> str:
    """Say what a parameter had to be, and what to do."""
    if p.role == "call":
        return ", and a function of the whole call takes `const kb_call *`"
    if p.role != "attr":
        needed = f", and `{p.role}` takes {_EXPECTED[p.role]}"
        if p.role == "stream":
            return needed
        const = "const " if p.role == "arg" else ""
        tensor, pointer = (t.format(name=p.name or "x") for t in _TENSOR[language == "c"])
        needed += f"; write `{const}{tensor}`, and read the pointer from `{pointer}`"
        return f"{needed}, or write a signature, such as x: f32[n], n -> f32[n]"
    if p.type:
        remedy = f"; write attr.{p.name}:{_NUMBERS[letter]}" if letter in _NUMBERS else ""
        return f", and `{p.token}` takes {p.type}{remedy}"
    if p.name == "stream" and "void" in p.ctype:
        cuda = "; write `int64_t stream`, and the token `stream`"
        return cuda if "cuda" in language else ", and there are no streams on CPUs; remove it"
    remedy = "" if letter in "prt" else f", or write attr.{p.name}:TYPE"
    return (
        f": Cannot map {'C' if language == 'c' else 'C++'} type to that of an attribute, which is "
        f"a number by value; use a type such as int32_t or float{remedy}"
    )


_NO_CODE = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
_ELSEWHERE = "annotate a function of another name that calls"


def ambiguous(source: str, name: str) -> str | None:
    """Say why a name is none of a single function of C++ source, as far as the text shows it."""
    code = re.sub(_NO_CODE, " ", source, flags=re.DOTALL)
    lists = re.findall(rf"\w[\s&*>]+{name}\s*\(([^()]*)\)[\w\s]*\{{", code)
    if (n := len({" ".join(parameters.split()) for parameters in lists})) > 1:
        return f"{name} has {n} overloads; {_ELSEWHERE} the one that is meant"
    if re.search(rf"\btemplate\s*<[^;{{}}]*>[^;{{}}()]*\b{name}\s*\(", code):
        return f"{name} is a template; {_ELSEWHERE} an instance of it, such as {name}<float>"
    inside = r"(?:[^{}]|\{[^{}]*\})*?"  # with the bodies of other members
    in_class = rf"\b(?:class|struct)\s+(\w+)[^;{{}}()]*\{{{inside}\b{name}\s*\("
    if found := re.search(in_class, code):
        return (
            f"{name} is a member of {found[1]}; annotate a function outside of it that calls "
            f"{found[1]}::{name}, which must be static and public"
        )
    return None


_UNFIT = r'\[signature of (\w+)\] ([^\n"]*)'  # of an assertion in the glue
_ERROR = r"^(\S.*?)[:(]\d[^\n]*?\berror\b:? *(.*)"


def explain(
    label: str, functions: Sequence[ScannedFunction], source: str, error: CompilationError
) -> CompilationError:
    """Return the compiler's refusal of a module, in our words if it refuses the glue first."""
    places = {f.name: f.place for f in functions if f.passed}
    if (unfit := re.search(_UNFIT, error.compiler_output)) and unfit[1] in places:
        return CompilationError(
            f"{label}: {places[unfit[1]]}: {unfit[1]}: {unfit[2]} [KB4007]", stage=error.stage
        )
    found = re.search(_ERROR, error.compiler_output, re.MULTILINE)
    function = next((f for f in functions if found and found[1] == f"{GLUE}:{f.name}"), None)
    if found is None or function is None:
        return error
    why = ambiguous(source, function.name) or (
        f"the compiler knows no single function {function.qualified.removeprefix('::')} at the end "
        "of the source. It must be declared there, not behind a false #if, nor in a class, and be "
        f"neither overloaded nor a template; {WRITTEN_OUT}"
    )
    return CompilationError(
        f"{label}: {function.place}: {function.name}: compilation failed: {why}. The compiler: "
        f"{found[2]} [KB4006]",
        compiler_output=error.compiler_output,
        command=error.command,
        stage=error.stage,
    )
