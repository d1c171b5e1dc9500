"""From source text to a module: scan, generate the tail, build, open, register."""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernbridge import _core
from kernbridge._src.base import debug
from kernbridge._src.base.errors import (
    CompilationError,
    HeaderNotFoundError,
    KernbridgeWarning,
    KernelError,
)
from kernbridge._src.build import build as builder
from kernbridge._src.build.command import SUFFIXES
from kernbridge._src.build.request import Request
from kernbridge._src.scan.signature import ScannedFunction, join_tokens
from kernbridge._src.source import compiled_types, tail, targets
from kernbridge._src.source.module import CompiledModule, digest_of
from kernbridge._src.toolchain.architectures import cuda_architectures

Functions = Mapping[str, Any] | Sequence[str] | None

# What needs headers that take 0.4 s of nvcc's time.
_HALF = re.compile(r"float16|_half\b|\bhalf2?\b|_AND_HALF|_DISPATCH_ALL\b")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
MOST_INCLUDES = 64  # that are searched for half-precision types
_FLAGS = {"c": "extra_cflags", "c++": "extra_cflags", "cuda": "extra_cuda_cflags"}


class BuildOptions(NamedTuple):
    """What the `load_*` functions take beside sources; see `load_cuda_inline`."""

    language: str
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    build_directory: str | None = None
    verbose: bool = False
    compute_capability: Any = None
    force_rebuild: bool = False
    replace: bool = False
    auto_register: bool = True
    target_prefix: str | None = None
    optimization_level: int = 3
    use_fast_math: bool = False
    allow_cuda_graph: bool = True
    check: bool = False

    @staticmethod
    def of(label: str, language: str, given: Mapping[str, Any]) -> BuildOptions:
        """Return the options that a caller's keywords name; TypeError if one is unknown."""
        only_cuda = {"compute_capability", "use_fast_math", "allow_cuda_graph"}
        names = {
            _FLAGS[language]: "cflags",
            "extra_ldflags": "ldflags",
            "extra_include_paths": "include_paths",
        }
        known = {name: name for name in BuildOptions._fields[4:]} | names
        if language != "cuda":
            known = {k: v for k, v in known.items() if k not in only_cuda}
        if language != "c++":
            del known["check"]
        for name in given:
            if name not in known:
                raise TypeError(
                    f"{label} has no option {name!r}; it has {', '.join(sorted(known))}"
                )
        values = {known[name]: value for name, value in given.items()}
        for name in names.values():
            values[name] = tuple(map(str, values.get(name) or ()))
        return BuildOptions(language=language, **values)


def build_inline(
    label: str, name: str, sources: str | Sequence[str], functions: Functions, options: BuildOptions
) -> CompiledModule:
    """A module of source text."""
    listed = [sources] if isinstance(sources, str) else list(sources)
    for i, source in enumerate(listed):
        if not isinstance(source, str):
            raise TypeError(f"{label}: source {i} is of type {type(source).__name__}, expected str")
    suffix = SUFFIXES[options.language]
    names = [
        f"{name}{suffix}" if len(listed) == 1 else f"{name}[{i}]{suffix}"
        for i in range(len(listed))
    ]
    return _build(label, name, list(zip(names, listed, strict=True)), functions, options)


def build_files(
    label: str,
    language: str,
    files: Sequence[Path],
    functions: Functions,
    name: str | None,
    given: Mapping[str, Any],
) -> CompiledModule:
    """A module of files, which find what they include in their own folder."""
    options = BuildOptions.of(label, language, given)
    sources = [(str(file), file.read_text(encoding="utf-8")) for file in files]
    folders = tuple(dict.fromkeys(str(file.resolve().parent) for file in files))
    options = options._replace(include_paths=(*folders, *options.include_paths))
    return _build(label, name or files[0].stem, sources, functions, options)


def _build(
    label: str,
    name: str,
    sources: Sequence[tuple[str, str]],
    functions: Functions,
    options: BuildOptions,
) -> CompiledModule:
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"{label}: name is {name!r}, expected a text that is not empty")
    cuda = options.language == "cuda"
    found = _scan(f"{label} {name!r}", sources, functions, options.language)
    if _check_flags(options):
        _warn_of_plain_pointers(f"{label} {name!r}", sources)
    text = _join(sources)
    request = Request(
        name=name,
        language=options.language,
        source=_translation_unit(options.language, text, found),
        spec=digest_of([f.tokens for f in found]),
        cflags=(*_half_flags(options, text), *_check_flags(options), *options.cflags),
        ldflags=options.ldflags,
        include_paths=options.include_paths,
        own_include_paths=include_paths(),
        architectures=cuda_architectures(options.compute_capability) if cuda else (),
        optimization_level=options.optimization_level,
        fast_math=options.use_fast_math,
        build_directory=options.build_directory,
        verbose=options.verbose,
        force_rebuild=options.force_rebuild,
    )
    try:
        built = builder.build(request)
    except CompilationError as e:
        raise compiled_types.explain(f"{label} {name!r}", found, e) from None
    module = CompiledModule(
        label, name, built.path, built.digest, found, cuda=cuda, graph=options.allow_cuda_graph
    )
    if options.auto_register:
        register_all(module, options.target_prefix or name, cuda, options.replace)
    return module


def register_all(module: CompiledModule, prefix: str, cuda: bool, replace: bool) -> None:
    """Register every function of a module as a public target."""
    for function in module.function_names:
        targets.register_ffi_target(
            f"{prefix}.{function}",
            module,
            function,
            platform="CUDA" if cuda else "cpu",
            replace=replace,
        )


def include_paths() -> tuple[str, ...]:
    """Folders of our headers."""
    root = _include_root()
    return (str(root), str(root / "compat"))


@functools.cache
def _include_root() -> Path:
    found = importlib.util.find_spec("kernbridge")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        root = Path(place) / "include"
        if (root / "kernbridge" / "kernbridge.h").is_file():
            return root
    raise HeaderNotFoundError(
        f"[E-HDR] kernbridge's own headers are missing from {', '.join(places)}; install it again"
    )


def _half_flags(options: BuildOptions, text: str) -> tuple[str, ...]:
    """What makes half-precision types known, if the source or what it includes names them."""
    if options.language != "cuda":
        return ()
    seen: set[str] = set()
    texts = [text]
    while texts:
        found = texts.pop()
        if _HALF.search(found):
            return ("-DKB_HALF",)
        for name in set(_INCLUDE.findall(found)) - seen:
            seen.add(name)
            for folder in options.include_paths:
                file = Path(folder, name)
                if len(seen) <= MOST_INCLUDES and file.is_file():
                    texts.append(file.read_text(encoding="utf-8", errors="replace"))
                    break
    return ()


def _check_flags(options: BuildOptions) -> tuple[str, ...]:
    """What makes indices of tensors, and of the C++ library's containers, checked."""
    if options.language != "c++" or not (options.check or debug.checks()):
        return ()
    return ("-DKB_CHECKED", "-D_GLIBCXX_ASSERTIONS")


_PLAIN_POINTER = re.compile(r"\*\s*(?:(?:const|__restrict(?:__)?)\s+)*\w+\s*=[^;=]*?data_ptr\s*<")


def _warn_of_plain_pointers(label: str, sources: Sequence[tuple[str, str]]) -> None:
    """The checked mode does not see what a plain pointer is used for."""
    places = [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}"
        for name, text in sources
        for found in _PLAIN_POINTER.finditer(text)
    ]
    if places:
        warnings.warn(
            f"{label}: check=True does not check plain pointers, which {', '.join(places[:8])} "
            "take from data_ptr; write auto in place of the pointer's type",
            KernbridgeWarning,
            stacklevel=2,
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
    label: str, sources: Sequence[tuple[str, str]], functions: Functions, language: str
) -> list[ScannedFunction]:
    text = "".join(f"{source}\n\n" for _, source in sources)
    try:
        scanned = _core.scan_source(text, "\1", named_functions(label, functions))
    except ValueError as e:
        raise KernelError(f"{label}: {_in_own_lines(str(e), sources)}") from None
    found = [ScannedFunction.of(f) for f in scanned]
    found = [f._replace(place=_place(f.line, sources) if f.line else sources[-1][0]) for f in found]
    for function in found:
        if language != "cuda" and function.count("stream"):
            raise KernelError(
                f"{label}: function {function.name!r} takes a stream, and there is none on the CPU;"
                " leave it out of the annotation and of the function"
            )
        untyped = [a.name for a in function.attributes if not a.type]
        if language == "c" and untyped and function.qualified == function.name:
            raise KernelError(
                f"{label}: {function.place}: the definition of {function.name} was not found in "
                f"this source, so the type of 'attr.{untyped[0]}' is not known; write "
                f"attr.{untyped[0]}:TYPE, TYPE one of {', '.join(_core.attribute_types())}"
            )
    return found


def named_functions(label: str, functions: Functions) -> tuple[tuple[str, str | None], ...] | None:
    """`functions=` as the scanner takes it: names, and tokens with blanks between them."""
    if functions is None:
        return None
    if isinstance(functions, str):
        raise TypeError(f"{label}: functions is {functions!r}, expected a dict or a list of names")
    if not isinstance(functions, Mapping):
        return tuple((str(name), None) for name in functions)
    return tuple((str(name), join_tokens(tokens)) for name, tokens in functions.items())


def _place(line: int, sources: Sequence[tuple[str, str]]) -> str:
    """A line of the joined text as one of the source that it comes from."""
    for name, text in sources:
        count = text.count("\n") + 2
        if line <= count:
            return f"{name}:{line}"
        line -= count
    return sources[-1][0]


def _in_own_lines(message: str, sources: Sequence[tuple[str, str]]) -> str:
    """A message about the joined text, as one about the sources."""
    message = message.removeprefix("\1: ")
    message = re.sub("\1:(\\d+)", lambda m: _place(int(m[1]), sources), message)
    return re.sub(
        r"in lines (\d+) and (\d+)",
        lambda m: f"in {_place(int(m[1]), sources)} and {_place(int(m[2]), sources)}",
        message,
    )
