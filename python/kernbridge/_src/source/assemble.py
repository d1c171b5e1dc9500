"""Builds a module from source: scans it, generates its tail, compiles, opens and registers it."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.base import debug, settings
from kernbridge._src.base.errors import (
    CompilationError,
    HeaderNotFoundError,
    KernelError,
    coded,
)
from kernbridge._src.base.options import Options, unknown
from kernbridge._src.base.reports import warn
from kernbridge._src.build import build as builder
from kernbridge._src.build import manifest
from kernbridge._src.build.command import SUFFIXES
from kernbridge._src.build.request import Request
from kernbridge._src.scan import scanner
from kernbridge._src.scan.agree import WRITTEN_OUT
from kernbridge._src.scan.attributes import TYPES
from kernbridge._src.scan.signature import ScannedFunction, join_tokens
from kernbridge._src.source import compiled_types, tail, targets
from kernbridge._src.source.module import CompiledModule
from kernbridge._src.toolchain.architectures import cuda_architectures

Functions = Mapping[str, Any] | Sequence[str] | None

# What needs headers that take 0.4 s and 0.2 s to compile.
_HALF = r"float16|_half\b|\bhalf2?\b|_AND_HALF|_DISPATCH_ALL\b"
_STRINGS = (
    r"\bstd\s*::\s*(?:string|to_string|\w+_error|out_of_range|invalid_argument)\b|"
    r"\busing\s+namespace\s+std\b"
)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_ANNOTATION = r"//\s*@BE\s+(\w+)"
# The scanner's words for a function that is not at namespace scope.
_NOT_FOUND = rf"the definition of (\w+) was not found.*{WRITTEN_OUT}, there or here\)"
MOST_INCLUDES = 64  # that are searched for these
# What makes half-precision types, and strings and exceptions of the C++ library, known.
_HALF_FLAG, _STRINGS_FLAG = "-DKB_HALF", "-DKB_STRINGS"
# What makes indices of tensors, and of the C++ library's containers, checked.
_CHECK_FLAGS = ("-DKB_CHECKED", "-D_GLIBCXX_ASSERTIONS")
ATTEMPTS = 3
"""Builds of a module whose library goes before it is opened."""
_FLAGS = {"c": "extra_cflags", "c++": "extra_cflags", "cuda": "extra_cuda_cflags"}


def complete(
    label: str, inline: Callable[..., CompiledModule], given: Mapping[str, Any], without: str = ""
) -> dict[str, Any]:
    """Return all options of a function that takes those of `inline`, `without` one.

    TypeError is raised if one of those given is unknown.
    """
    function = inspect.unwrap(inline)
    defaults = inspect.getfullargspec(function).kwonlydefaults or {}
    known = {name: value for name, value in defaults.items() if name != without}
    for name in given:
        if name not in known:
            raise TypeError(unknown(label, name, known, "KB5105"))
    Options(function, label).check((), given)
    return known | dict(given)


def build_inline(
    label: str,
    language: str,
    name: str,
    sources: str | Sequence[str],
    functions: Functions,
    options: Mapping[str, Any],
) -> CompiledModule:
    """Build a module of source text; `options` has those of the caller, among other arguments."""
    listed = [sources] if isinstance(sources, str) else list(sources)
    for i, source in enumerate(listed):
        if not isinstance(source, str):
            raise TypeError(
                f"{label}: source {i} is of type {type(source).__name__}, expected str; pass the "
                "text of the source [KB5105]"
            )
    suffix = SUFFIXES[language]
    names = [
        f"{name}{suffix}" if len(listed) == 1 else f"{name}[{i}]{suffix}"
        for i in range(len(listed))
    ]
    return _build(label, language, name, list(zip(names, listed, strict=True)), functions, options)


def build_files(
    label: str,
    language: str,
    name: str | None,
    files: Sequence[Path],
    functions: Functions,
    options: Mapping[str, Any],
) -> CompiledModule:
    """Build a module of files, which find what they include in their own folder."""
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(
                f"{label}: there is no file {file.absolute()}; correct the path [KB5103]"
            )
    sources = [(str(file), file.read_text(encoding="utf-8")) for file in files]
    folders = dict.fromkeys(str(file.resolve().parent) for file in files)
    paths = [*folders, *(options["extra_include_paths"] or ())]
    options = {**options, "extra_include_paths": paths}
    return _build(label, language, name or files[0].stem, sources, functions, options)


def _build(
    label: str,
    language: str,
    name: str,
    sources: Sequence[tuple[str, str]],
    functions: Functions,
    options: Mapping[str, Any],
) -> CompiledModule:
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(
            f"{label}: name is {name!r}, expected a string that is not empty; pass the name that "
            "the module is to have [KB5105]"
        )
    cuda = language == "cuda"
    checked = language == "c++" and (options["check"] or debug.checks())
    if checked:
        _warn_of_plain_pointers(f"{label} {name!r}", sources)
    flags, ldflags, paths = (
        tuple(map(str, options[option] or ()))
        for option in (_FLAGS[language], "extra_ldflags", "extra_include_paths")
    )
    paths += settings.include_paths
    found = _scan(f"{label} {name!r}", sources, functions, language, flags)
    text = _join(sources)
    named = {_HALF_FLAG: _HALF} if cuda else {}
    if language != "c":
        named[_STRINGS_FLAG] = _STRINGS
    request = Request(
        name=name,
        language=language,
        source=_translation_unit(language, text, found),
        spec=repr([f.tokens for f in found]),
        cflags=(*_flags_for(named, text, paths), *_CHECK_FLAGS * checked, *flags),
        ldflags=ldflags,
        include_paths=paths,
        own_include_paths=include_paths(),
        architectures=cuda_architectures(options["compute_capability"]) if cuda else (),
        optimization_level=options["optimization_level"],
        fast_math=cuda and options["use_fast_math"],
        build_directory=options["build_directory"],
        verbose=options["verbose"],
        force_rebuild=options["force_rebuild"],
    )
    module = _load(label, request, found, options)
    if options["auto_register"]:
        register_all(module, options["target_prefix"] or name, cuda, options["replace"])
    return module


def _load(
    label: str, request: Request, found: Sequence[ScannedFunction], options: Mapping[str, Any]
) -> CompiledModule:
    """Build a library and open it, again where it is removed or replaced between the two."""
    left = ATTEMPTS
    while True:
        left -= 1
        built = None
        try:
            built = builder.build(request)
            return CompiledModule(
                label,
                request.name,
                built.path,
                built.digest,
                found,
                language=request.language,
                graph=options.get("allow_cuda_graph", True),
                carry=bool(options.get("carry")),
            )
        except CompilationError as e:
            raise compiled_types.explain(
                f"{label} {request.name!r}", found, request.source, e
            ) from None
        except (KernelError, FileNotFoundError) as e:
            if built is not None and os.path.exists(built.path):
                is_there, is_other = True, not built.built and manifest.is_changed(built)
            else:
                is_there, is_other = False, built is not None or isinstance(e, FileNotFoundError)
            if not left or not is_other:
                raise
        # One that is absent is built in any case, by one of those who need it.
        request = request._replace(force_rebuild=is_there)


def register_all(module: CompiledModule, prefix: str, cuda: bool, replace: bool) -> None:
    """Register every function of a module as a public target."""
    platform = "CUDA" if cuda else "cpu"
    for function in module.function_names:
        name = f"{prefix}.{function}"
        targets.register_ffi_target(name, module, function, platform=platform, replace=replace)


@functools.cache
def include_paths() -> tuple[str, ...]:
    """Return the folders of our headers."""
    places = list(sys.modules["kernbridge"].__path__)
    for place in places:
        root = Path(place) / "include"
        if (root / "kernbridge" / "kernbridge.h").is_file():
            return (str(root), str(root / "compat"))
    raise HeaderNotFoundError(
        f"kernbridge's own headers are missing from {', '.join(places)}; install "
        "kernbridge again [KB4011]"
    )


def _flags_for(wanted: Mapping[str, str], text: str, folders: Sequence[str]) -> list[str]:
    """Return the flags whose pattern a source, or what it includes, has."""
    left = dict(wanted)
    seen: set[str] = set()
    texts = [text]
    while texts and left:
        found = texts.pop()
        left = {flag: pattern for flag, pattern in left.items() if not re.search(pattern, found)}
        for name in set(_INCLUDE.findall(found)) - seen:
            seen.add(name)
            for folder in folders:
                file = os.path.join(folder, name)
                if len(seen) <= MOST_INCLUDES and os.path.isfile(file):
                    texts.append(Path(file).read_text(encoding="utf-8", errors="replace"))
                    break
    return [flag for flag in wanted if flag not in left]


_PLAIN_POINTER = r"\*\s*(?:(?:const|__restrict(?:__)?)\s+)*\w+\s*=[^;=]*?data_ptr\s*<"


def _warn_of_plain_pointers(label: str, sources: Sequence[tuple[str, str]]) -> None:
    """Warn of plain pointers: the checked mode does not see what they are used for."""
    places = [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}"
        for name, text in sources
        for found in re.finditer(_PLAIN_POINTER, text)
    ]
    if places:
        warn(
            f"{label}: check=True does not check plain pointers, which {', '.join(places[:8])} "
            "take from data_ptr; write `auto` instead of the pointer's type"
        )


def _join(sources: Sequence[tuple[str, str]]) -> str:
    parts = []
    for name, text in sources:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "?")
        parts.append(f'#line 1 "{quoted}"\n{text}\n\n')
    return "".join(parts)


def _translation_unit(language: str, text: str, functions: Sequence[ScannedFunction]) -> str:
    # C sources may choose what the system's headers declare, before they include one.
    head = "" if language == "c" else '#include "kernbridge/module.h"\n'
    return head + text + tail.generate(language, functions)


def _scan(
    label: str,
    sources: Sequence[tuple[str, str]],
    functions: Functions,
    language: str,
    cflags: Sequence[str],
) -> list[ScannedFunction]:
    text = "".join(f"{source}\n\n" for _, source in sources)
    named = named_functions(label, functions)
    try:
        found = _found(text, named, language)
    except ValueError as e:
        by_macro = WRITTEN_OUT in str(e)
        made = _made_by_macros(label, text, named, language, cflags) if by_macro else None
        if made is None:
            refusal = _in_own_lines(str(e), sources)
            if absent := re.search(_NOT_FOUND, refusal, re.DOTALL):
                why = compiled_types.member(text, absent[1]) or absent[0]
                refusal = refusal.replace(absent[0], why)
            raise KernelError(coded(f"{label}: {refusal}", "KB4007")) from None
        found = made
    found = [f._replace(place=_place(f.line, sources) if f.line else sources[-1][0]) for f in found]
    for function in found:
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
                f"attr.{untyped[0]}:TYPE, TYPE one of {', '.join(TYPES)}"
                " [KB4007]"
            )
    return found


def _found(text: str, named: Any, language: str) -> list[ScannedFunction]:
    return scanner.scan_functions(text, "\1", named, language == "c")


def _made_by_macros(
    label: str, text: str, named: Any, language: str, cflags: Sequence[str]
) -> list[ScannedFunction] | None:
    """Return the functions of a text whose own macros make some, each with its annotation's line.

    None if they are not found there either.
    """
    from kernbridge._src.source.expand import expand

    expanded = expand(label, language, text, cflags)
    if expanded is None:
        return None
    try:
        found = _found(expanded, named, language)
    except ValueError:
        return None
    lines = {
        name: text.count("\n", 0, start) + 1
        for name, start in ((m[1], m.start()) for m in re.finditer(_ANNOTATION, text))
    }
    return [f._replace(line=lines.get(f.name, 0)) for f in found]


def named_functions(label: str, functions: Functions) -> tuple[tuple[str, str | None], ...] | None:
    """`functions=` as the scanner takes it: names, and tokens with blanks between them."""
    if functions is None:
        return None
    if isinstance(functions, str):
        raise TypeError(
            f"{label}: functions is {functions!r}, expected a dict of names and their tokens, or a "
            "list of names; write functions={'f': 'arg:f32[n] ret:f32[n]'} [KB5105]"
        )
    if not isinstance(functions, Mapping):
        return tuple((str(name), None) for name in functions)
    return tuple((str(name), join_tokens(tokens)) for name, tokens in functions.items())


def _place(line: int, sources: Sequence[tuple[str, str]]) -> str:
    """Return a line of the joined text as one of the source that it comes from."""
    for name, text in sources:
        count = text.count("\n") + 2
        if line <= count:
            return f"{name}:{line}"
        line -= count
    return sources[-1][0]


def _in_own_lines(message: str, sources: Sequence[tuple[str, str]]) -> str:
    """Return a message about the joined text as one about the sources."""
    message = message.removeprefix("\1: ")
    message = re.sub("\1:(\\d+)", lambda m: _place(int(m[1]), sources), message)
    return re.sub(
        r"in lines (\d+) and (\d+)",
        lambda m: f"in {_place(int(m[1]), sources)} and {_place(int(m[2]), sources)}",
        message,
    )
