"""Reads options of gcc, clang, nvcc and ld: which name files or folders, and which are harmless.

The lists are those of `gcc -v --help`, `clang --help-hidden`, `nvcc --help` and `ld --help`. An
option that is in none of them is reported, since it may read any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
"""Long forms, whose value stands behind an equals sign or in the next word."""
PASS_ON = (
    *("-Xlinker", "-Xcompiler", "-Xpreprocessor", "-Xassembler", "-Xptxas", "-Xnvlink", "-Xfatbin"),
    "-Xcudafe",
    *("--compiler-options", "--linker-options", "--ptxas-options", "--nvlink-options"),
    *("--for-linker", "--for-assembler"),
)
"""Options whose value is an option of another program."""

_FAMILIES = ("-D", "-U", "-O", "-g", "-W", "--W", "-z", "-x", "-m", "-std=", "--std=")
"""Options of a family are harmless, but for those that follow."""
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
