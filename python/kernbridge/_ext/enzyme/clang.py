"""C and C++ as LLVM IR that Enzyme can differentiate, and LLVM IR as machine code, both by clang.

The clang is of the LLVM that Enzyme is a plugin of. Code that only fails, because it throws an
exception or ends the process, becomes a call of `kb_thrown` (src/ext/enzyme/kb_thrown.h).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence

from kernbridge import _core
from kernbridge._ext.enzyme import guards
from kernbridge._ext.enzyme.function import Refused
from kernbridge._ext.enzyme.tool import Enzyme
from kernbridge._src.base.packing import HostCode
from kernbridge._src.numba_common import cpu_features, elf
from kernbridge._src.toolchain import programs
from kernbridge._src.toolchain.compilers import HostCompiler

_COMPILE = (
    *("-w", "-O1", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-o", "-", "-"),
    *("-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-U_FORTIFY_SOURCE"),
    "-DKB_DERIVATIVE",
)
_SIMPLIFY = (
    *("-vectorize-loops=0", "-vectorize-slp=0", "-unroll-runtime=0"),
    "-enable-load-pre=0",  # Enzyme would keep what a loop loads for its next round
    *("-jump-threading-threshold=0", "-inline-threshold=10000"),
    *("-S", "-o", "-", "-"),
)
# Options that change which code is made, but not what it means; all others are passed on.
_LEFT_OUT = re.compile(
    r"-(?:O|g|W|m|pg|l|L|M|X|o|s$|c$|S$|E$|v$|shared|static|pthread|fopenmp|flto|fsanitize|fprofile"
    r"|fcoverage|fplugin|ftree|fopt|fdiagnostics|funroll|fvect|fuse-ld|fstack|save-temps|DKB_CHECKED"
    r"|D_GLIBCXX_ASSERTIONS|D_FORTIFY_SOURCE)"
)
_TAKING_ONE = ("-D", "-U", "-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros")
_UNKNOWN = re.compile(r"error: (?:unknown argument|unsupported option)[^']*'([^']+)'")
_FAILED = re.compile(r"^(\S[^\n]*?:\d+):\d+: (?:fatal )?error: ([^\n]*)", re.M)

_BLOCK = re.compile(r'\n(?=[\w.$"-]+:)')
_LABEL = re.compile(r'(?:[\w.$"-]+:[^\n]*\n)?(?:[^\n]* = phi [^\n]*\n)*')
_DEFINED = re.compile(r"^(define [^\n]*\{\n)(.*?)\n\}$", re.M | re.S)
_RETURNED = re.compile(r"define [^@]*?(\{[^@]*\}|<[^@]*>|\S+) @")
_ENDING = re.compile(
    r'call [^\n]*@("?)([\w.$]+)\1\(([^\n]*)\)([^\n]*)\n  unreachable(?:, !dbg !\d+)?'
)
_CALL = re.compile(r'call [^\n@]*@"?([\w.$]+)"?\(([^\n]*)\)')
# std::sort of numbers calls itself, unless it has no depth left: then it sorts by a heap. The order
# of what compares equal, which would differ, does not show in numbers.
_SORT = re.compile(
    r"^define [^\n]*@_ZSt6__sortI(?:N9__gnu_cxx17__normal_iteratorI)?P[a-z][^\n(]*"
    r"(?:_Iter_less_iter|_Iter_comp_iterISt(?:7greater|4less)I[a-z]EE)[^\n]*\{\n.*?^\}$",
    re.M | re.S,
)
_DEPTH = re.compile(r"= (?:tail )?call [^\n@]*@_ZSt4__lg\w*\([^\n]*")
# A vector without elements allocates, too: Enzyme then finds what it frees.
_ALLOCATE = re.compile(
    r"(^define [^\n]*@_ZNSt12_Vector_base\w*11_M_allocateEm\([^\n]*\{\n(?:(?!\}$)[^\n]*\n)*?  %\S+)"
    r" = icmp ne i64 %\S+, 0",
    re.M,
)
_LITERAL = re.compile(r'^(@\.str[.\d]*) = [^\n]* c"([^"]*)\\00"', re.M)
_GLOBAL = re.compile(r'^(@"?[\w.$]+"?) = (?:[a-z_]+(?:\(\w+\))? )*?(global|constant) ', re.M)
_SYMBOL = re.compile(r'@"?([\w.$]+)"?')


def to_ir(
    source: str,
    language: str,
    flags: Sequence[str],
    enzyme: Enzyme,
    host: HostCompiler,
    has_lines: bool,
) -> str:
    """Compile a translation unit without optimising it, or raise Refused with clang's reason."""
    words = [*_passed_on(flags), *_system_headers(language, host), *_COMPILE]
    words += ["-g1"] * has_lines + ["-fignore-exceptions"] * (language == "c++")
    unknown: set[str] = set()
    for _ in range(2):
        given = [word for word in words if word.partition("=")[0] not in unknown]
        ended = enzyme.clang("-x", language, *given, input=source.encode(errors="surrogateescape"))
        unknown = {name.partition("=")[0] for name in _UNKNOWN.findall(ended.text)}
        if not unknown:
            break
    _, found, module = ended.text.partition("; ModuleID")
    if ended.status or not found:
        place, why = (_FAILED.findall(ended.text) or [("", ended.text[:300])])[0]
        raise Refused(f"clang {enzyme.version} refuses it: {ended.limit or why}", place)
    module = _ALLOCATE.sub(r"\1 = icmp eq i64 0, 0", found + module)
    module = _SORT.sub(lambda sort: _DEPTH.sub("= add i64 0, 0", sort[0]), module)
    return _without_failing_code(module)


def _passed_on(flags: Sequence[str]) -> Iterator[str]:
    words = iter(flags)
    for word in words:
        if word in _TAKING_ONE:
            yield from (word, next(words, ""))
        elif word.startswith("-") and not _LEFT_OUT.match(word):
            yield word


def _system_headers(language: str, host: HostCompiler) -> Iterator[str]:
    """The folders in which the compiler of the module finds the system's headers."""
    command = [*host.command, "-E", "-v", "-x", language, "/dev/null"]
    said = programs.run(command, errors=True).text
    found = re.search(r"^#include <\.\.\.>[^\n]*\n(.*?)^End of search", said, re.M | re.S)
    if found:
        yield from ("-nostdinc", *(("-nostdinc++",) if language == "c++" else ()))
        for folder in found[1].split("\n"):
            if folder.strip():
                yield from ("-isystem", folder.strip())


def simplified(text: str, kept: str, enzyme: Enzyme) -> str:
    """Optimise a module for Enzyme, without vectorising; all but one function become internal."""
    # Only at the end is it known which buffers the function reads, and which it writes to.
    passes = "internalize,globaldce,default<O2>,function-attrs"
    words = (f"-passes={passes}", f"-internalize-public-api-list={kept}", *_SIMPLIFY)
    ended = enzyme.run(*words, input=guards.hidden(text).encode())
    _, found, module = ended.text.partition("; ModuleID")
    if ended.status or not found:
        raise Refused(f"opt {enzyme.version} fails: {ended.limit or ended.text[:300]}")
    module = guards.shown(found + module)
    module = re.sub(r"^@llvm\.global_[cd]tors = [^\n]*\n", "", module, flags=re.M)
    _check(module, kept)
    return re.sub(r' "(?:target-cpu|target-features|tune-cpu)"="[^"]*"', "", module)


def _check(module: str, kept: str) -> None:
    """Refuse code that, with Enzyme, would give the derivative of another function."""
    bodies = {}
    for found in _DEFINED.finditer(module):
        bodies[_SYMBOL.findall(found[1])[0]] = found[2]
    variables = {m[1].strip('@"') for m in _GLOBAL.finditer(module) if m[2] == "global"}
    seen, left = set[str](), [kept]
    while left:
        name = left.pop()
        if name in seen or name not in bodies:
            continue
        seen.add(name)
        lines = bodies[name].split("\n")
        for line in lines:
            used = set(_SYMBOL.findall(line))
            left += used
            what, changing = "", used & variables
            if changing:
                what = f"it uses {spelled(min(changing))}, which is no constant"
            elif re.search(r"\bcall [^\n]*\basm\b", line):
                what = "it contains inline assembly"
            elif re.search(r"\b(?:call|invoke)\b[^@]*? %[\w.]+\(", line):
                what = "it calls a function by its address"
            elif re.search(r"@(?:_?_?sig)?_?setjmp\(", line):
                what = "it calls setjmp"
            if what:
                # The optimiser may have moved an instruction, which then has no line.
                same = (other for other in lines if changing & {*_SYMBOL.findall(other)})
                places = (place_of(module, other) for other in (line, *same))
                raise Refused(what, next(filter(None, places), ""))


def place_of(module: str, line: str, has_folders: bool = False) -> str:
    """The line in the user's file that an instruction belongs to, if the module has lines.

    If a module `has_folders`, as Numba's have, the names of its files need them.
    """
    if not (at := re.search(r"!dbg (!\d+)", line)):
        return ""

    def field(node: str, name: str) -> str:
        found = re.search(rf"^{node} = .*?\b{name}: (\"[^\"]*\"|!?\d+)", module, re.M)
        return found[1].strip('"') if found else ""

    location = at[1]
    while location:  # what is inlined from the system's headers belongs to what calls it
        described = field(field(location, "scope"), "file")
        file = field(described, "filename")
        if file and (has_folders or not file.startswith("/usr/")):
            file = os.path.join(field(described, "directory") * has_folders, file)
            line = field(location, "line")
            return "" if line == "0" else f"{file}:{line}"
        location = field(location, "inlinedAt")
    return ""


def target() -> tuple[str, int]:
    """The features that `machine_code` uses, and the bits that the processor must then have."""
    bits = _core.cpu_features()
    here = ",".join(f"+{feature}" for feature, (_, present) in bits.items() if present)
    wanted = cpu_features.asked()[1]
    return cpu_features.known(here if wanted is None else wanted)


def machine_code(text: str, name: str, enzyme: Enzyme) -> HostCode:
    """Optimise a module, and make machine code of the function `name`, as far as it is needed."""
    features, mask = target()
    words = [
        f for part in features.split(",") for f in ("-Xclang", "-target-feature", "-Xclang", part)
    ]
    text = re.sub(
        r"^define (?:dso_local |hidden |internal )*", "define internal ", text, flags=re.M
    )
    head = rf"^define internal ([^\n]*)@{re.escape(name)}(?=\()"
    text = re.sub(head, rf"define \1@{_core.HOST_CODE_ENTRY}", text, flags=re.M)
    for name, tracked in (("malloc", "_Znwm"), ("free", "_ZdlPv"), ("realloc", "kb_resize")):
        text = _renamed(text, name, tracked)
    words = ["-x", "ir", "-w", "-O2", "-fPIC", "-c", "-o", "-", "-", *words]
    ended = enzyme.clang(*words, input=text.encode(), errors=False)
    if ended.status:
        raise Refused(f"clang {enzyme.version} fails: {ended.limit or 'it makes no machine code'}")
    for missing in elf.undefined(ended.output):
        if not _core.host_code_provides(missing):
            call = re.search(rf'call [^\n]*@"?{re.escape(missing)}"?\([^\n]*', text)
            raise Refused(f"it calls {spelled(missing)}", place_of(text, call[0]) if call else "")
    return HostCode(ended.output, mask, {}, True)


def _renamed(text: str, name: str, other: str) -> str:
    """Let a function of which only a declaration is there be another one."""
    is_known = re.search(rf"^declare [^\n]*@{other}\(", text, re.M)
    text = re.sub(
        rf"^declare [^\n]*@{name}\([^\n]*\n", "" if is_known else r"\g<0>", text, flags=re.M
    )
    return re.sub(rf"@{name}\b(?![.\w])", f"@{other}", text)


def spelled(symbol: str) -> str:
    """A name of C++ without its parameters, given the linker's; another name as it is.

    Examples
    --------
    >>> spelled("_ZTISt13runtime_error"), spelled("_ZTIN10kernbridge5ErrorE"), spelled("abort")
    ('std::runtime_error', 'kernbridge::Error', 'abort')
    >>> spelled("_ZL5count"), spelled("_ZZ4stepPKdE5count"), spelled("_ZTIi")
    ('count', 'count', 'int')
    """
    if not symbol.startswith("_Z"):
        return next((p for p in reversed(symbol.split(".")) if not p.isdigit()), symbol)
    rest = re.sub(r"^_Z(?:Z.*E(?=\d))?(?:T[ISV])?N?K?L?", "", symbol)
    names = []
    if rest.startswith("St"):
        names, rest = ["std"], rest[2:]
    while size := re.match(r"\d+", rest):
        end = size.end() + int(size[0])
        names.append(rest[size.end() : end])
        rest = rest[end:]
    numbers = {"i": "int", "d": "double", "f": "float", "PKc": "const char *", "l": "long"}
    return "::".join(names) or numbers.get(rest, symbol)


def _without_failing_code(module: str) -> str:
    """Let code that throws, or ends the process, only call `kb_thrown` with the reason.

    Enzyme takes such code for impossible, while LLVM does not know that `kb_thrown` never returns.
    """
    attributes = re.finditer(r"^attributes (#\d+) = \{ [^\n]*\bnoreturn\b", module, re.M)
    failing = _Failing(module, {found[1] for found in attributes})
    while True:
        n_functions = len(failing.functions)
        module = _DEFINED.sub(failing.without, module)
        if len(failing.functions) == n_functions:
            break
    # An attribute group must not be empty.
    module = re.sub(r"^(attributes #\d+ = \{[^\n]*)\bnoreturn ", r'\1"kb" ', module, flags=re.M)
    declared = 'declare void @kb_thrown(ptr) nofree "enzyme_inactive"'
    return "\n".join((module, *failing.texts, declared, ""))


class _Failing:
    """The parts of a module that always fail: some calls, and the blocks that only lead there."""

    def __init__(self, module: str, attributes: set[str]) -> None:
        self.functions: dict[str, str] = {}  # what each throws, or calls
        self.texts: list[str] = []
        self._attributes, self._literals = attributes, dict(_LITERAL.findall(module))
        self._defined = set(re.findall(r'^define [^@]*@"?([\w.$]+)', module, re.M))
        self._dead = itertools.count()

    def without(self, function: re.Match[str]) -> str:
        """Return the definition of a function without these parts."""
        head, body = function.groups()
        name, returned = _SYMBOL.findall(head)[0], _RETURNED.findall(head)[0]
        ended = "ret void" if returned == "void" else f"ret {returned} zeroinitializer"
        blocks, moved = _BLOCK.split(body), {}
        for k, block in enumerate(blocks):
            if "@kb_thrown(" in block or block.startswith("kb.dead"):
                continue
            calls = _CALL.findall(block)
            leading = next((c for c in calls if c[0] in self.functions), None)
            last = _ENDING.search(block)
            if leading is None and last and not self._attributes.isdisjoint(last[4].split()):
                if last[2] in self._defined:
                    at = block.rindex("unreachable", 0, last.end())
                    blocks[k] = f"{block[:at]}{ended}"
                    continue
                leading = last[2], last[3]
            if leading is None:
                continue
            label = _LABEL.findall(block)[0]
            dead = f"kb.dead.{next(self._dead)}"
            moved[label.partition(":")[0].strip()] = dead
            # What follows is not reached. Its instructions have numbers, which count.
            what, text = self._reason(block, *leading)
            cut = f"{label}  call void @kb_thrown(ptr {text})\n  {ended}\n"
            blocks[k] = f"{cut}{dead}:\n{block[len(label) :]}"
            if k == 0:
                self.functions[name] = what
        body = "\n".join(blocks)
        for label, dead in moved.items():
            body = body.replace(f", %{label} ]", f", %{dead} ]")
        return f"{head}{body}\n}}"

    def _reason(self, block: str, called: str, arguments: str) -> tuple[str, str]:
        """What fails, and the name of a constant with the text of that."""
        thrown = re.search(r"@(_ZTI\w+)", arguments) if called == "__cxa_throw" else None
        named = (self._literals.get(symbol, "") for symbol in re.findall(r"@\.str[.\d]*", block))
        what = self.functions.get(called) or spelled(thrown[1] if thrown else called)
        text = ": ".join(filter(None, (what, " ".join(dict.fromkeys(named))))) + r"\00\00"
        size = len(re.sub(r"\\[0-9A-F]{2}", "x", text))
        name = f"@kb.text.{len(self.texts)}"
        self.texts.append(f'{name} = private unnamed_addr constant [{size} x i8] c"{text}"')
        return what, name
