"""Reads the flags of gcc, clang, nvcc and ld: what they name that a compiler does not report.

A compiler reports the headers that it read, but neither libraries nor the headers that it searched
for and did not find. Nothing reports what an assembler or an unknown option reads. Files that
would be read if they existed are therefore recorded as absent, and files that flags name are
recorded with their contents. If neither is possible, the library is not cached.

The lists come from `gcc -v --help`, `clang --help-hidden`, `nvcc --help` and `ld --help`. An
option that is in none of them may read any file.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from kernbridge._src.toolchain.compilers import (
    INCLUDE_VARIABLES,
    NVCC_FLAGS,
    UNKNOWN_VARIABLES,
    Inputs,
)

FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter", "-cxx-isystem")
"""Options with a folder of headers."""
_SEARCHES = (*FOLDERS, "-include", "-imacros", "-L", "-l")
"""Options whose value is the rest of the word, or the next word."""
_LONG = {
    "--include-directory": "-I",
    "--include-directory-after": "-idirafter",
    "--include-path": "-I",
    "--system-include": "-isystem",
    "--include": "-include",
    "--pre-include": "-include",
    "--imacros": "-imacros",
    "--library-directory": "-L",
    "--library-path": "-L",
    "--library": "-l",
}
"""Long forms, whose value follows an equals sign or is the next word."""
PASS_ON = (
    *("-Xlinker", "-Xcompiler", "-Xpreprocessor", "-Xassembler", "-Xptxas", "-Xnvlink", "-Xfatbin"),
    "-Xcudafe",
    *("--compiler-options", "--linker-options", "--ptxas-options", "--nvlink-options"),
    *("--for-linker", "--for-assembler"),
)
"""Options whose value is an option of another program."""

_FAMILIES = ("-D", "-U", "-O", "-g", "-W", "--W", "-z", "-x", "-m", "-std=", "--std=")
"""Options of a family are harmless, except the following."""
_NOT_OF_FAMILY = ("-gcc-", "-mllvm", "-module", "-main-file", "-migrate")
_WITH_FILES = ("plugin", "profile", "modul", "pch", "probabilit", "prebuilt")
"""Parts of the names of options with -f that read a file of a name that they need not say."""
_F_VALUES = frozenset(
    """
    abi-version cf-protection clang-abi-compat constexpr-depth constexpr-steps constexpr-loop-limit
    constexpr-ops-limit constexpr-cache-depth debug-prefix-map file-prefix-map macro-prefix-map
    coverage-prefix-map diagnostics-color diagnostics-format diagnostics-show-location error-limit
    exec-charset excess-precision fp-contract fp-model fp-exception-behavior fp-eval-method
    inline-limit input-charset lax-vector-conversions lto lto-partition lto-jobs
    lto-compression-level max-errors max-include-depth message-length new-alignment openmp
    openmp-version pack-struct patchable-function-entry random-seed sanitize sanitize-recover
    sanitize-trap sanitize-coverage simd-cost-model stack-clash-protection stack-limit-register
    tabstop template-backtrace-limit template-depth tls-model trivial-auto-var-init
    tree-parallelize-loops use-ld veclib vect-cost-model visibility wide-exec-charset
    zero-call-used-regs strict-flex-arrays align-functions align-loops align-jumps align-labels
    """.split()  # noqa: SIM905
)
_SWITCHES = frozenset(
    """
    ansi c C CC E g G H O P Q S s v w p pg pedantic pedantic-errors pipe pthread rdynamic shared
    static static-pie static-libgcc static-libstdc++ static-libasan static-libubsan static-libtsan
    pie nostdinc nostdinc++ nostdlib nostdlib++ nodefaultlibs nostartfiles undef coverage
    trigraphs traditional integrated-as Qunused-arguments canonical-prefixes
    lineinfo use_fast_math allow-unsupported-compiler expt-relaxed-constexpr debug device-debug
    expt-extended-lambda extended-lambda generate-line-info profile exceptions noeh restrict
    source-in-ptx src-in-ptx resource-usage res-usage extra-device-vectorization ewp
    keep-device-functions extensible-whole-program compress compress-all display-error-number
    err-no display_error_number disable-warnings verbose dlto lto dlink-time-opt gen-opt-lto
    allow-expensive-optimizations warn-on-spills warn-spills warn-lmem-usage
    as-needed gc-sections export-dynamic whole-archive start-group end-group ( ) strip-all
    strip-debug undefined allow-multiple-definition allow-shlib-undefined enable-new-dtags
    disable-new-dtags copy-dt-needed-entries eh-frame-hdr fatal-warnings push-state pop-state
    demangle relax discard-all discard-locals execstack noexecstack Bstatic Bdynamic Bsymbolic
    Bsymbolic-functions Bgroup omagic nmagic build-id sort-common warn-common warn-once
    warn-execstack warn-mismatch warn-rwx-segments warn-textrel warn-unresolved-symbols
    """.split()  # noqa: SIM905
)
"""Names, without dashes and a "no-", of harmless options without a value."""
_WITH_VALUES = frozenset(
    """
    D U x z u e h std param target define-macro undefine-macro language optimize machine
    arch code gencode gpu-architecture gpu-code generate-code rdc relocatable-device-code t threads
    maxrregcount ftz prec-div prec-sqrt fmad default-stream cudart cudadevrt split-compile dopt
    split-compile-extended diag-suppress diag-error diag-warn Ofast-compile Ofc opt-info entries
    ftemplate-depth ftemplate-backtrace-limit frandom-seed brief-diagnostics jump-table-density
    compress-mode device-stack-protector diag_suppress
    stdlib rtlib unwindlib dlcm dscm def-load-cache def-store-cache
    m soname rpath rpath-link undefined entry defsym wrap hash-style build-id exclude-libs init fini
    unresolved-symbols compress-debug-sections orphan-handling require-defined trace-symbol
    export-dynamic-symbol version-script dynamic-list dynamic-linker max-page-size
    """.split()  # noqa: SIM905
)
"""Names, without dashes, of harmless options with a value. A file that it names is known anyway."""


def read(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options that search, each in its short form and with its value.

    A word that is no option is yielded with "", and one that may read any file with "?".
    """
    skip = False
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        if skip:
            skip = False
            continue
        name, equals, value = word.partition("=")
        option = _LONG.get(name) or (word if word in _SEARCHES else "")
        joined = next((o for o in _SEARCHES if word.startswith(o)), "")
        rest = word[len(joined) :].lstrip("=")
        separate = not equals and not following.startswith("-")
        if not word.startswith(("-", "@")):
            yield "", word
        elif option and (equals or separate):
            skip = separate
            yield option, value if equals else following
        elif _is_harmless(word, name, value):
            pass
        elif name.lstrip("-") in _WITH_VALUES:
            skip = separate
        # nvcc's -ldir and the linker's -library are no libraries.
        elif joined and rest and rest[0] != "-" and not word.startswith(("-ldir", "-library")):
            yield joined, rest
        else:
            yield "?", word


def _is_harmless(word: str, name: str, value: str) -> bool:
    """Whether an option without a value, or with one in the same word, reads no file."""
    if name.lstrip("-").removeprefix("no-") in _SWITCHES:
        return True
    if name.startswith("-f"):
        key = name[2:].removeprefix("no-")
        if value:
            return key in _F_VALUES and ("/" not in value or key.endswith("-prefix-map"))
        return not any(part in key for part in _WITH_FILES)
    return len(word) > 2 and word.startswith(_FAMILIES) and not word.startswith(_NOT_OF_FAMILY)


_LIBRARY_FOLDERS = (
    "/usr/local/lib",
    "/usr/lib",
    "/lib",
    f"/usr/lib/{os.uname().machine}-linux-gnu",
)
_STATIC = {"-static", "--static", "-Bstatic", "-dn", "-non_shared", "-static-pie"}
_LINKED = (b"\x7fELF", b"!<arch>\n", b"BC\xc0\xde")
"""How objects and libraries begin. A text may name others, as a thin archive does."""


def inputs(flags: Sequence[str], includes: Sequence[str]) -> Inputs:
    """Read the flags of a build, and the variables that add to them."""
    files: dict[str, None] = {}
    absent: dict[str, None] = {}
    named: list[str] = []
    variables = [word for n in NVCC_FLAGS for word in _split(os.environ.get(n, ""))]
    words = list(_expand([*flags, *variables], named, 0))
    found: dict[str, list[str]] = {}
    for option, value in read(words):
        # nvcc takes lists.
        found.setdefault(option, []).extend(dict.fromkeys((value, *value.split(","))))
    unknown = [name for name in UNKNOWN_VARIABLES if name in os.environ] + found.get("?", [])
    folders = [f for option in FOLDERS for f in found.get(option, ())]
    listed = [os.environ[n].split(os.pathsep) for n in INCLUDE_VARIABLES if os.environ.get(n)]
    folders += [folder or "." for folder_list in listed for folder in folder_list]
    libraries = found.get("-L", [])
    libraries += [f for f in os.environ.get("LIBRARY_PATH", "").split(os.pathsep) if f]
    linked = list(filter(os.path.isfile, found.get("", ())))
    archives = not _STATIC.isdisjoint(words)
    for name in found.get("-l", ()):
        linked += _find_library(name, libraries, archives, files, absent)
    for path in linked:
        with open(path, "rb") as file:
            unknown += [] if file.read(8).startswith(_LINKED) else [path]
    named += [part for word in words for part in (word, *re.split("[,=]", word)) if part]
    named = list(filter(os.path.exists, named))
    files.update((os.path.abspath(path), None) for path in named if os.path.isfile(path))
    named += [*folders, *libraries, *found.get("-include", ()), *found.get("-imacros", ())]
    folders = [*includes, *folders]
    return Inputs(
        files=tuple(files),
        absent=tuple(absent),
        folders=tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(f)) for f in folders)),
        relative=not all(map(os.path.isabs, named)),
        native=any("native" in word for word in words),
        unknown=tuple(unknown),
    )


def _split(text: str) -> list[str]:
    """Split a text as a shell does; one whose quotation is not closed is an unknown option."""
    if not text:
        return []
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return [f"-? {text}"]


def _expand(flags: Iterable[str], named: list[str], depth: int) -> Iterator[str]:
    """Yield the flags as the compiler's parts see them: -Wl, and option files are taken apart."""
    was = False
    for flag in flags:
        passed_on, was = was, flag in PASS_ON
        name, _, value = flag.partition("=")
        if flag.startswith("@") and os.path.isfile(flag[1:]) and depth < 8:
            named.append(flag[1:])
            with open(flag[1:], encoding="utf-8", errors="surrogateescape") as file:
                yield from _expand(_split(file.read()), named, depth + 1)
        elif flag.startswith(("-Wl,", "-Wa,", "-Wp,")):
            yield from _expand(flag[4:].split(","), named, depth)
        elif passed_on or (value and name in PASS_ON):
            inside = (flag if passed_on else value).split(",")
            inside += [part for word in inside if " " in word for part in word.split()]  # by nvcc
            yield from _expand(inside, named, depth)
        elif not was:
            yield flag


def _find_library(
    name: str,
    folders: Sequence[str],
    archives: bool,
    files: dict[str, None],
    absent: dict[str, None],
) -> list[str]:
    """Note what stands for a library; return the files of the user's folders that do."""
    names = (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")
    for folder in (*folders, *_LIBRARY_FOLDERS):
        paths = [os.path.abspath(os.path.join(folder, n)) for n in names]
        there = [path for path in paths if os.path.isfile(path)]
        files.update(dict.fromkeys(there))
        absent.update(dict.fromkeys(path for path in paths if path not in there))
        if there and (not archives or paths[-1] in there):
            return there if folder in folders else []
    return []


def asks(text: str) -> list[str | None]:
    """Return the names that a text asks for with __has_include; None for one that a macro makes."""
    if "__has_" not in text:
        return []
    text = re.sub(r"(?:\bdefined\s*\(?\s*|#\s*ifn?def\s+)__has_\w+", "", text)
    asked = r'\b__has_(?:include|include_next|embed)\b(?:\s*\(\s*[<"]([^>"\n]+)[>"])?'
    return [match[1] for match in re.finditer(asked, text)]
