"""C and C++ as LLVM IR that Enzyme can differentiate, and LLVM IR as machine code, both by clang.

The clang is of the LLVM that Enzyme is a plugin of. Code that only fails, because it throws an
exception or ends the process, becomes a call of `kb_thrown` (src/ext/enzyme/kb_thrown.c).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence

from kernbridge import _core
from kernbridge._ext.enzyme import guards, tool
from kernbridge._ext.enzyme.function import Refused
from kernbridge._src.base.packing import HostCode
from kernbridge._src.llvm import text as llvm_text
from kernbridge._src.llvm.text import Block, Function, Instruction, Module, renamed, split, symbol
from kernbridge._src.numba_common import cpu_features, elf
from kernbridge._src.toolchain import programs, search
from kernbridge._src.toolchain.compilers import HostCompiler

_COMPILE = (
    *("-w", "-O1", "-g1", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-o", "-", "-"),
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
_LINKAGE = re.compile("^define (?:(?:dso_local|hidden|internal) )*")
_FAILED = re.compile(r"^(\S[^\n]*?:\d+):\d+: (?:fatal )?error: ([^\n]*)", re.M)

# A name in a mangled one, or what looks like one: a substitution, a parameter, a literal.
_NAME = re.compile(r"S[0-9A-Z]*_|T\d*_|L[a-z]\d+E|(\d+)")
# What the name of std::sort contains if it compares numbers by themselves, not by a function.
_COMPARING = {"_Iter_less_iter", "less", "greater"}
_SORTING = {"__sort", "__gnu_cxx", "__normal_iterator", "vector", "__ops", "_Iter_comp_iter"}
_SORTING |= _COMPARING


def to_ir(
    source: str,
    language: str,
    flags: Sequence[str],
    host: HostCompiler,
    more: Sequence[str] = (),
    files: Sequence[str] = (),
) -> str:
    """Compile a translation unit without optimising it, or raise Refused with clang's reason.

    `more` are options of clang itself. If an error is in a header that one of `files` includes, the
    line there is named.
    """
    of = "c" if language == "c" else "c++"
    words = [*_passed_on(flags), *_system_headers(of, host), *_COMPILE, *more]
    words += ["-fignore-exceptions"] * (language == "c++")
    enzyme, unknown = tool.find(), set[str]()
    for _ in range(2):
        given = [word for word in words if word.partition("=")[0] not in unknown]
        ended = enzyme.clang("-x", language, *given, input=source.encode(errors="surrogateescape"))
        unknown = {name.partition("=")[0] for name in _UNKNOWN.findall(ended.text)}
        if not unknown:
            break
    _, found, module = ended.text.partition("; ModuleID")
    if ended.status or not found:
        place, why = (_FAILED.findall(ended.text) or [("", ended.text[:300])])[0]
        what, names = "it", "|".join(map(re.escape, files))
        including = rf"^In file included from ((?:{names}):\d+):$"
        if files and (included := re.search(including, ended.text, re.M)):
            what, place = os.path.basename(place.rpartition(":")[0]), included[1]
        raise Refused(f"clang {enzyme.version} refuses {what}: {ended.limit or why}", place)
    return _without_failing_code(_with_plain_library(Module(found + module)))


def _with_plain_library(module: Module) -> Module:
    """Let the C++ library take the one of two ways that Enzyme can differentiate."""
    for function in module.defined.values():
        names = identifiers(function.name)
        # std::sort of numbers calls itself, unless it has no depth left: then it sorts by a heap.
        # The order of what compares equal, which would differ, does not show in numbers.
        is_plain = _SORTING.issuperset(names) and not _COMPARING.isdisjoint(names)
        if names[:1] == ["__sort"] and is_plain:
            for i in function.instructions:
                if i.opcode == "call" and identifiers(i.callee) == ["__lg"]:
                    i.text = f"  {i.result} = add i64 0, 0"
        # A vector without elements allocates, too: Enzyme then finds what it frees.
        if names[:1] == ["_Vector_base"] and names[-1] == "_M_allocate":
            tests = (i for i in function.instructions if i.opcode == "icmp" and i.flags == ["ne"])
            for i in itertools.islice((i for i in tests if i.operands[1] == ("i64", "0")), 1):
                compared = f"ne i64 {i.operands[0].value}, 0"
                i.text = i.text.replace(compared, "eq i64 0, 0", 1)
    return module


def identifiers(symbol: str) -> list[str]:
    """The identifiers that a mangled name of C++ consists of, without names of built-in types.

    Examples
    --------
    >>> identifiers("_ZNSt12_Vector_baseIdSaIdEE11_M_allocateEm")
    ['_Vector_base', '_M_allocate']
    """
    found, at = [], 2
    while symbol.startswith("_Z") and (size := _NAME.search(symbol, at)):
        at = size.end() + int(size[1] or 0)
        found += [symbol[size.end() : at]] if size[1] else []
    return found


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
    answer, _ = search.read([programs.run(command, errors=True).text])
    if answer.folders:
        yield from ("-nostdinc", *(("-nostdinc++",) if language == "c++" else ()))
    for folder in answer.folders:
        yield from ("-isystem", folder)


def simplified(text: str, kept: str) -> Module:
    """Optimise a module for Enzyme, without vectorising; all but one function become internal."""
    # Only at the end is it known which buffers the function reads, and which it writes to.
    passes = "internalize,globaldce,default<O2>,function-attrs"
    words = (f"-passes={passes}", f"-internalize-public-api-list={kept}", *_SIMPLIFY)
    enzyme = tool.find()
    ended = enzyme.run(*words, input=guards.hidden(text).encode())
    _, found, module = ended.text.partition("; ModuleID")
    if ended.status or not found:
        raise Refused(f"opt {enzyme.version} fails: {ended.limit or ended.text[:300]}")
    processor = r' "(?:target-cpu|target-features|tune-cpu)"="[^"]*"'
    read = Module(re.sub(processor, "", guards.shown(found + module)))
    constructing = [read.globals.get(f"llvm.global_{kind}tors") for kind in "cd"]
    read.lines = [line for line in read.lines if line not in constructing]
    check(read, kept)
    return read


def check(module: Module, kept: str) -> None:
    """Refuse code that, with Enzyme, would give the derivative of another function."""
    variables = {name for name, g in module.globals.items() if g.kind == "global"}
    for function in llvm_text.reached(module.defined, kept).values():
        used = [(i, set(llvm_text.symbols(i.text))) for i in function.instructions]
        for i, names in used:
            what, changing = _why_not(i), names & variables
            if changing:
                what = f"it uses {spelled(min(changing))}, which is no constant"
            if what:
                # The optimiser may have moved an instruction, which then has no line.
                same = (other for other, names in used if changing & names)
                raise Refused(what, place_of(module, i, *same))


def _why_not(i: Instruction) -> str:
    if i.opcode not in ("call", "invoke"):
        return ""
    if i.callee == "asm":
        return "it contains inline assembly"
    if i.callee.startswith("%"):
        return "it calls a function by its address"
    is_setjmp = i.callee.lstrip("_").removeprefix("sig").lstrip("_") == "setjmp"
    return "it calls setjmp" if is_setjmp else ""


def place_in(module: Module, test: Callable[[Instruction], bool], has_folders: bool = False) -> str:
    """The line of the first instruction for which a function is true."""
    for function in module.defined.values():
        for i in filter(test, function.instructions):
            # The optimiser may have moved it, which then has no line; what uses it has.
            uses = function.users.get(i.result, ())
            if place := place_of(module, i, *uses, has_folders=has_folders):
                return place
    return ""


def place_of(module: Module, *instructions: Instruction, has_folders: bool = False) -> str:
    """The line in the user's file of the first instruction that has one, if the module has lines.

    If a module `has_folders`, as Numba's have, the names of its files need them.
    """
    places = (_place(module, i.metadata.get("dbg", ""), has_folders) for i in instructions)
    return next(filter(None, places), "")


def _place(module: Module, location: str, has_folders: bool) -> str:
    while location:  # what is inlined from the system's headers belongs to what calls it
        described = module.field(module.field(location, "scope"), "file")
        file = module.field(described, "filename")
        if file and (has_folders or not file.startswith("/usr/")):
            file = os.path.join(module.field(described, "directory") * has_folders, file)
            line = module.field(location, "line")
            return "" if line == "0" else f"{file}:{line}"
        location = module.field(location, "inlinedAt")
    return ""


def target() -> tuple[str, int]:
    """The features that `machine_code` uses, and the bits that the processor must then have."""
    bits = _core.cpu_features()
    here = ",".join(f"+{feature}" for feature, (_, present) in bits.items() if present)
    wanted = cpu_features.asked()[1]
    return cpu_features.known(here if wanted is None else wanted)


def machine_code(text: str, name: str) -> HostCode:
    """Optimise a module, and make machine code of the function `name`, as far as it is needed."""
    features, mask = target()
    words = ["-x", "ir", "-w", "-O2", "-fPIC", "-c", "-o", "-", "-"]
    for feature in features.split(","):
        words += ["-Xclang", "-target-feature", "-Xclang", feature]
    module = Module(text)
    for function in module.defined.values():
        internal = "internal " * (function.name != name)
        function.head = _LINKAGE.sub(f"define {internal}", function.head)
    entry = module.defined[name]
    entry.head = entry.head.replace(symbol(name), symbol(_core.HOST_CODE_ENTRY), 1)
    known = {name for name, f in module.functions.items() if f.is_declaration}
    text = renamed(str(module), lambda name: _TRACKED.get(name, name) if name in known else name)
    enzyme = tool.find()
    ended = enzyme.clang(*words, input=llvm_text.declared_once(text).encode(), errors=False)
    if ended.status:
        raise Refused(f"clang {enzyme.version} fails: {ended.limit or 'it makes no machine code'}")
    for missing in elf.undefined(ended.output):
        if not _core.host_code_provides(missing):
            module = Module(text)
            calls = (i for i in module.instructions("call") if i.callee == missing)
            raise Refused(f"it calls {spelled(missing)}", place_of(module, *calls))
    return HostCode(ended.output, mask, {}, True)


# Functions of C, and what src/object/kb_thrown.c has for them.
_TRACKED = {"malloc": "_Znwm", "free": "_ZdlPv", "realloc": "kb_resize"}


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


def _without_failing_code(module: Module) -> str:
    """Let code that throws, or ends the process, only call `kb_thrown` with the reason.

    Enzyme takes such code for impossible, while LLVM does not know that `kb_thrown` never returns.
    """
    failing = _Failing(module)
    n_before = -1
    while n_before != (n_before := len(failing.functions)):
        for function in module.defined.values():
            failing.remove_from(function)
    # A group of attributes must not be empty.
    text = re.sub("^(attributes .*) noreturn ", r'\1 "kb" ', str(module), flags=re.M)
    declared = 'declare void @kb_thrown(ptr) nofree "enzyme_inactive"'
    return "\n".join((text, *failing.texts, declared, ""))


class _Failing:
    """The parts of a module that always fail: some calls, and the blocks that only lead there."""

    def __init__(self, module: Module) -> None:
        self.functions: dict[str, str] = {}  # what each throws, or calls
        self.texts: list[str] = []
        self._defined = module.defined
        groups = ((name, text) for name, text in module.numbered.items() if name[0] == "#")
        self._attributes = {name for name, text in groups if " noreturn " in text}
        self._literals = {
            name: g.value.removeprefix('c"').removesuffix('\\00"')
            for name, g in module.globals.items()
            if name.startswith(".str") and g.value.startswith('c"')
        }
        self._seen = set[Block]()
        self._dead = itertools.count()

    def remove_from(self, function: Function) -> None:
        """Leave a function without these parts."""
        returned = function.result
        ended = "ret void" if returned == "void" else f"ret {returned} zeroinitializer"
        moved = {}
        for k, block in enumerate(function.blocks):
            calls = [i for i in block.instructions if i.opcode == "call"]
            leading = next((i for i in calls if i.callee in self.functions), None)
            last = block.instructions[-1]
            if block in self._seen or (leading is None and not self._ends(block)):
                continue
            if leading is None and calls[-1].callee in self._defined:
                last.text = f"  {ended}"
                continue
            self._seen.add(block)
            dead = f"kb.dead.{next(self._dead)}"
            moved[f", {block.name} ]"] = f", %{dead} ]"
            # What follows is not reached. Its instructions have numbers, which count.
            what, text = self._reason(block, leading or calls[-1])
            first = next(i for i in block.instructions if i.opcode != "phi")
            cut = f"  call void @kb_thrown(ptr {text})\n  {ended}"
            first.text = f"{cut}\n{dead}:\n{first.text}"
            if k == 0:
                self.functions[function.name] = what
        for phi in (i for i in function.instructions if moved and i.opcode == "phi"):
            for label, other in moved.items():
                phi.text = phi.text.replace(label, other)

    def _ends(self, block: Block) -> bool:
        """Whether a block ends by a call that never returns."""
        *_, call, last = [None, *block.instructions]
        if call is None or call.opcode != "call" or call.callee.startswith(("%", "asm")):
            return False
        if not last.text.startswith("  unreachable"):
            return False
        return not self._attributes.isdisjoint(split(call.text, ",")[0].split(")")[-1].split())

    def _reason(self, block: Block, call: Instruction) -> tuple[str, str]:
        """What fails, and the name of a constant with the text of that."""
        thrown = [s for s in llvm_text.symbols(call.text) if s.startswith("_ZTI")]
        called = thrown[0] if thrown and call.callee == "__cxa_throw" else call.callee
        what = self.functions.get(call.callee) or spelled(called)
        named = (self._literals[s] for s in llvm_text.symbols(str(block)) if s in self._literals)
        text = ": ".join(filter(None, (what, " ".join(dict.fromkeys(named))))) + r"\00\00"
        size = len(text) - 2 * text.count("\\")
        name = f"@kb.text.{len(self.texts)}"
        self.texts.append(f'{name} = private unnamed_addr constant [{size} x i8] c"{text}"')
        return what, name
