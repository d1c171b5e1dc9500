"""Completes a module's source: scans it for functions, and generates the glue at its end.

Through the glue, kernbridge and XLA call the functions. Each function gets a runner, which takes
the call's tensors and attributes apart, and a handler, which XLA calls and which hands the frame to
the core. The runner also compares the types of the function's parameters with the annotation, and
exports what the compiler knows of them: see `compiled_types.py` and include/kernbridge/module.h.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernbridge._src.base.dtypes import DTYPES, HALVES
from kernbridge._src.base.errors import CompilationError, KernelError, KernelToolchainError, coded
from kernbridge._src.scan import functions as scanned
from kernbridge._src.scan import scanner
from kernbridge._src.scan.annotation import Source
from kernbridge._src.scan.functions import WRITTEN_OUT, ScannedFunction, ScannedParameter
from kernbridge._src.source import compiled_types, plain_glue
from kernbridge._src.source.compiled_types import GLUE
from kernbridge._src.toolchain import compilers, programs
from kernbridge._src.toolchain.library import Finished, include_paths

# What needs headers that take 0.4 s and 0.2 s to compile.
_HALF = r"float16|_half\b|\bhalf2?\b|_AND_HALF|_DISPATCH_ALL\b"
_STRINGS = (
    r"\bstd\s*::\s*(?:string|to_string|\w+_error|out_of_range|invalid_argument)\b|"
    r"\busing\s+namespace\s+std\b"
)
_INCLUDE = r'^\s*#\s*include\s*"([^"]+)"'
MOST_INCLUDES = 64  # that are searched for these
# What makes half-precision types, and strings and exceptions of the C++ library, known.
HALF_FLAG, _STRINGS_FLAG = "-DKB_HALF", "-DKB_STRINGS"
_INCLUDED = r"^([ \t]*#[ \t]*(?:include|include_next|import)\b)(?:\\\n|.)*$"
_LANGUAGES = {
    "c": ("-x", "c", "-std=c11"),
    "c++": ("-x", "c++", "-std=c++17"),
    "cuda": ("-x", "c++", "-std=c++17", "-D__CUDACC__", "-D__NVCC__"),
}

_RUNNER_IN_C = """\
#line 1 "$glue:$name"
KB_HANDLER($i)
typedef void kb_nothing_$i($taken);
typedef int kb_status_$i($taken);
static const signed char kb_types_$i[] = {KB_RESULT($name, kb_nothing_$i, kb_status_$i),
                                          $types, 0};
static int kb_run_$i(const kb_call *call)
{
    /* The casts let a function of another type compile too; it is refused before it is called. */
    kb_nothing_$i *nothing = (kb_nothing_$i *)(void (*)(void))&$name;
    kb_status_$i *status = (kb_status_$i *)(void (*)(void))&$name;
    if (kb_types_$i[0] == 'v') {
        nothing($given);
        return 0;
    }
    return status($given);
}
"""
_RUNNER_IN_CPP = """\
#line 1 "$glue:$name"
KB_HANDLER($i)
using kb_runner_$i = kernbridge::detail::Runner<$taken>;
static const signed char *const kb_types_$i = kb_runner_$i::agreement::types;
static int kb_run_$i(const kb_call *call)
{
    return kernbridge::detail::guard(call, [&]() -> int {
$values
        return kb_runner_$i::run($given);
    });
}
"""
_MODULE = """\
#line 1 "$glue"
static const kb_export kb_exports[] = {
    $exports};
static const signed char *const kb_types[] = {$types};
KB_MODULE_DESCRIPTION = {sizeof(kb_module), KB_ABI, $count, kb_exports, $last_error, kb_types,
                         KB_START_FAILURE};
"""


def finish(
    label: str,
    language: str,
    text: str,
    sources: scanned.Sources,
    named: scanned.Named,
    cflags: Sequence[str],
    folders: Sequence[str],
    errors: Mapping[int, str] | str | None,
) -> Finished:
    """Return the translation unit of sources, whose joined text is given, and their functions."""
    source, bytes_only = Source(sources), language == "c"

    def included() -> str:
        include = [f"-I{folder}" for folder in (*include_paths(), *folders)]
        return _expand(label, language, source.text, cflags, include) or ""

    try:
        found = scanner.scan_functions(source, named, bytes_only, included)
    except ValueError as e:
        expanded = WRITTEN_OUT in str(e) and _expand(label, language, source.text, cflags, None)
        try:
            again = Source([("", expanded)]) if expanded else source
            found = scanner.scan_functions(again, named, bytes_only, included)
        except ValueError:
            raise _refused(label, source.text, str(e)) from None
        annotated = re.finditer(r"//\s*@BE\s+(\w+)", source.text)
        places = {m[1]: source.line(m.start()) for m in annotated}
        found = [f._replace(place=places.get(f.name, source.line(-1))) for f in found]
    for function in found:
        if language == "cuda" and function.signature:
            raise KernelError(
                f"{label}: {function.place}: {function.name} has a signature, which is for "
                "functions of C and C++; describe it by tokens, such as arg:f32[n] ret:f32[n] "
                "[KB4007]"
            )
        if language != "cuda" and function.having("stream"):
            raise KernelError(
                f"{label}: function {function.name!r} takes a stream, which does not exist on the "
                "CPU; remove it from the annotation and from the function [KB4007]"
            )
        untyped = [a.name for a in function.attributes if not a.type]
        if language == "c" and untyped and function.qualified == function.name:
            raise KernelError(
                f"{label}: {function.place}: the definition of {function.name} was not found in "
                f"this source, so the type of 'attr.{untyped[0]}' is not known; write "
                f"attr.{untyped[0]}:TYPE, TYPE one of {', '.join(DTYPES)} [KB4007]"
            )
    # C sources may choose what the system's headers declare, before they include one.
    head = "" if language == "c" else '#include "kernbridge/module.h"\n'
    unit = f"{head}{text}{generate(language, found, errors)}"
    explain = functools.partial(compiled_types.explain, label, found, unit)
    return Finished(unit, _flags_for(language, text, folders), notes=found, explain=explain)


def _refused(label: str, text: str, message: str) -> KernelError:
    """Return the scanner's message as an error, which says if the function is in a class."""
    not_found = rf"the definition of (\w+) was not found.*{WRITTEN_OUT}, there or here\)"
    if absent := re.search(not_found, message, re.DOTALL):
        why = compiled_types.ambiguous(text, absent[1]) or absent[0]
        message = message.replace(absent[0], why)
    return KernelError(coded(f"{label}: {message}", "KB4007"))


def _flags_for(language: str, text: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Return the flags for what a source, or what it includes, names."""
    wanted = {} if language == "c" else {_STRINGS_FLAG: _STRINGS}
    if language == "cuda":
        wanted = {HALF_FLAG: _HALF, **wanted}
    texts, seen = [text], set[str]()
    for found in texts if wanted else ():  # more are added meanwhile
        for name in set(re.findall(_INCLUDE, found, re.MULTILINE)) - seen:
            seen.add(name)
            places = (os.path.join(folder, name) for folder in folders)
            file = next(filter(os.path.isfile, places), None)
            if file and len(seen) <= MOST_INCLUDES:
                texts.append(Path(file).read_text(encoding="utf-8", errors="replace"))
    found_in = "\n".join(texts)
    return tuple(flag for flag, pattern in wanted.items() if re.search(pattern, found_in))


def _expand(
    label: str, language: str, source: str, cflags: Sequence[str], include: Sequence[str] | None
) -> str | None:
    """Return a source with its own macros expanded, or None where the preprocessor fails.

    Comments stay, since annotations are comments. What the source includes is left out without
    `include`: that takes milliseconds, and what headers define seldom makes a function.
    """
    try:
        host = compilers.find_c() if language == "c" else compilers.find_cxx()
        command = [*host.command, "-E", "-P", "-w", *_LANGUAGES[language]]
        if include is None:
            command += ["-C", *_defines(cflags), "-"]
            source = re.sub(_INCLUDED, lambda m: "\n" * m[0].count("\n"), source, flags=re.M)
        else:
            command += [*host.arguments, *include, *cflags, "-"]
        done = programs.run(command, input=source.encode(errors="surrogatepass"))
    except (KernelToolchainError, OSError):
        return None
    if done.limit:
        raise CompilationError(
            f"{label}: compilation failed: the preprocessor {done.limit}; the macros of the "
            "source expand to too much [KB4006]",
            command=shlex.join(command),
            stage="timeout",
        )
    if done.status and include is not None:
        to_nowhere = [*command[:-1], "-o", os.devnull, "-"]
        raise CompilationError(
            f"{label}: compilation failed: the preprocessor refuses the source [KB4006]",
            compiler_output=programs.run(to_nowhere, input=source.encode(), errors=True).text,
            command=shlex.join(command),
        )
    return None if done.status else done.text


def _defines(cflags: Sequence[str]) -> list[str]:
    """Return the flags that define or undefine a macro, with their values."""
    kept = []
    flags = iter(cflags)
    for flag in flags:
        if flag in ("-D", "-U", "--define-macro", "--undefine-macro"):
            kept.append(f"{'-U' if 'U' in flag or 'un' in flag else '-D'}{next(flags, '')}")
        elif flag.startswith(("-D", "-U")):
            kept.append(flag)
    return kept


def _numbered(function: ScannedFunction) -> list[tuple[ScannedParameter, int]]:
    """Return each parameter with its index among the parameters of its role."""
    roles = [p.role for p in function.parameters]
    return [(p, roles[:i].count(p.role)) for i, p in enumerate(function.parameters)]


def _c_parameter(p: ScannedParameter, i: int) -> tuple[str, str, str]:
    """Return what C takes a parameter for, what gives its letter, and what it receives.

    What gives the letter is negative if the type is another one.
    """
    is_type = bool(p.ctype) and "(" not in p.ctype  # spelled so that C can use it
    if p.role == "attr":
        number, taken = f"KB_TYPE_{p.type.upper()}", f"__typeof__({p.ctype})"
        fits, otherwise = f"KB_FITS_TYPE({p.ctype}, {number})", f"'A' + {number}"
        if p.type in HALVES:
            fits = f"KB_FITS_HALF({p.ctype})"
        elif not p.type:
            fits = f"KB_FITS_NUMBER({p.ctype})"
        if p.type and not (p.type in HALVES and is_type):
            taken = "_Bool" if p.type == "bool" else DTYPES[p.type].c
        elif not is_type:
            taken = "void *"
        given = f"*({taken} *)call->attributes[{i}]"
    elif p.role == "arg":
        taken = f"KB_INPUT({p.ctype})" if is_type else "const kb_tensor *"
        fits, otherwise = f"KB_FITS_INPUT({p.ctype})", "'t'"
        given = f"({taken})&call->inputs[{i}]"
    else:
        taken, fits, otherwise = "kb_tensor *", f"KB_FITS_OUTPUT({p.ctype})", "'t'"
        given = f"(kb_tensor *)&call->outputs[{i}]"
    if not is_type:  # without a type, the function's as a whole decides
        fits = "-'?'" if p.ctype else otherwise
    return taken, fits, given


def _in_c(function: ScannedFunction) -> dict[str, str]:
    described = [("const kb_call *", "'p'", "call")]
    if not function.whole_call:
        described = [_c_parameter(p, i) for p, i in _numbered(function)]
    columns = [", ".join(d[i] for d in described) for i in range(3)]
    return dict(zip(("taken", "types", "given"), columns, strict=True))


_DETAIL = "kernbridge::detail::"


def _cpp_parameter(p: ScannedParameter, i: int) -> tuple[str, str]:
    """Return the class that holds what a call has for a parameter, and what it is made from."""
    if p.role == "stream":
        return "Stream", "{call->stream}"
    if p.role == "attr":
        held = "-1, char"
        if p.type:
            c_type = f"kernbridge::{p.type}_t" if "complex" in p.type else DTYPES[p.type].c
            held = f"KB_TYPE_{p.type.upper()}, {c_type}"
        return f"Attribute<{held}>", f"{{call->attributes[{i}]}}"
    held, arrays = ("Input", "inputs") if p.role == "arg" else ("Output", "outputs")
    return held, f'(call->{arrays}[{i}], "{p.name}")'


def _in_cpp(function: ScannedFunction) -> dict[str, str]:
    described = [("WholeCall", "{call}")]
    if not function.whole_call:
        described = [_cpp_parameter(p, i) for p, i in _numbered(function)]
    roles = [f"{_DETAIL}{role}" for role, _ in described]
    values = [f"{r} kb_{i}{v};" for i, (r, (_, v)) in enumerate(zip(roles, described, strict=True))]
    address = f"&{function.qualified}"
    return {
        "taken": ", ".join([f"decltype({_DETAIL}signature_of({address}))", *roles]),
        "given": ", ".join(["call", address, *(f"kb_{i}" for i in range(len(roles)))]),
        "values": "\n".join(f"        {value}" for value in values),
    }


def generate(
    language: str, functions: Sequence[ScannedFunction], errors: Mapping[int, str] | str | None
) -> str:
    """Return the end of a translation unit in `language` ("c", "c++", "cuda")."""
    runner, describe = (_RUNNER_IN_C, _in_c) if language == "c" else (_RUNNER_IN_CPP, _in_cpp)
    template = string.Template(runner)
    # The compiler's messages about a function's glue name it: see `compiled_types.explain`.
    runners = []
    if any(f.passed for f in functions):
        runners = [plain_glue.HEADER, plain_glue.text_of(errors)]
    for i, f in enumerate(functions):
        if f.passed:
            runners.append(plain_glue.runner(language, i, f, GLUE))
        else:
            runners.append(template.substitute(describe(f), glue=GLUE, i=i, name=f.name))
    exports = [
        f'{{"{f.name}", "{f.tokens}", kb_run_{i}, kb_handler_{i}, &kb_slot_{i}}}'
        for i, f in enumerate(functions)
    ]
    module = string.Template(_MODULE).substitute(
        glue=GLUE,
        exports=",\n    ".join(exports),
        types=", ".join(f"kb_types_{i}" for i in range(len(functions))),
        count=len(functions),
        last_error="kb_last_error" if language == "cuda" else "0",
    )
    return "".join([f'#line 1 "{GLUE}"\n#include "kernbridge/module.h"\n', *runners, module])
