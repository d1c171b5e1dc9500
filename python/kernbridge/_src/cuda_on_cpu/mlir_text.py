"""Rewrites the LLVM IR of numba-cuda-mlir, as text, so that it runs on the CPU.

`copies` does the same for modules of Numba-CUDA, which are objects of llvmlite. The text that MLIR
prints has opaque pointers and the current names of LLVM's intrinsics. It is regular, with one
instruction in each line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from kernbridge._src.base.errors import KernelCompilationError
from kernbridge._src.cuda_on_cpu.copies import ASSEMBLY, check_static_shared, refused
from kernbridge._src.numba_common import llvmlite_inside
from kernbridge._src.numba_common.llvmlite_inside import binding as llvm
from kernbridge._src.numba_common.llvmlite_inside import ir

_SIZES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4}
_REALS = {"half": "f16", "float": "f32", "double": "f64"}
_ALIGNMENT = 16  # of shared arrays, at least
# An exception sets a code, which debug=True alone reads.
_RAISED = re.compile(r"= cmpxchg (?:\w+ )*ptr @__numba_cuda_mlir_error_code\b")

_SHARED = re.compile(
    r"^@(?P<name>[\w.$]+) = .*?addrspace\(3\) global (?P<type>.*?) "
    r"(?:undef|poison|zeroinitializer)(?:, align (?P<align>\d+))?$",
    re.M,
)
_DEFINE = re.compile(r"^define (?P<head>.*) @(?P<name>[\w.$]+)\((?P<args>.*?)\).*\{$")
_DECLARE = re.compile(r"^declare (?P<head>.*?)@(?P<name>[\w.$]+)\((?P<args>.*)\)")
_RESULT = re.compile(r"(void|ptr|half|bfloat|float|double|i\d+|\{[^}]*\}|<[^>]*>|\[[^]]*\])\s*$")
_LABEL = re.compile(r"^(?:v?\d+|[\w.$-]+):")
_ALLOCA = re.compile(r"^\s*%\S+ = alloca (?P<varies>.*, i\d+ %)?")
_TYPE = re.compile(r"\{[^}]*\}|\[[^]]*\]|<[^>]*>|\S+")
_INTEGER = re.compile(
    r"= (shl|lshr|ashr|sdiv|udiv|srem|urem)(?: nuw| nsw| exact)* (i8|i16|i32|i64) (\S+), (%\S+)$"
)
_CONVERSION = re.compile(r"= (fptosi|fptoui) (half|float|double) (\S+) to (i8|i16|i32|i64)$")
_INDEX = re.compile(r"(%\S+) = call i32 @kb\.(n?(?:tid|ctaid))\.[xyz]\(\)")
_EXTENDED = re.compile(r"(%\S+) = sext i32 (%\S+) to i64$")
_COMPUTED = re.compile(r"(%\S+) = (add|mul)(?: nuw)?(?: nsw)? i64 (%\S+), (%\S+)$")
_PLACES = {  # the first thread of a block or the size of the grid, and a thread's place in it
    ("mul", frozenset({"ctaid", "ntid"})): "first",
    ("mul", frozenset({"nctaid", "ntid"})): "first",
    ("add", frozenset({"first", "tid"})): "place",
}
_TRUNCATED = re.compile(r"(%\S+) = trunc i64 (%\S+) to i32$")
_ASSEMBLED = re.compile(
    r'call (?P<type>\S+) asm (?:\w+ )*"(?P<assembly>[^"]*)", "[^"]*"\((?P<arguments>.*)\).*$'
)
_REMAINDER = re.compile(r"= frem (?:\w+ )*(half|float|double) (\S+), (\S+)$")


class HostText:
    """The text of a module for the CPU, and what `entry.module` asks of `Copies`."""

    outside: tuple[str, ...] = ()  # no access is bounded

    def __init__(self, label: str, text: str, to_run: bool = True) -> None:
        self._label = label
        self._to_run = to_run  # else what a CPU cannot run stays
        self.shared_size = 0
        self._offsets: dict[str, int] = {}
        self._hoisted = itertools.count()
        self._called: dict[str, str] = {}  # declarations of what instructions became
        self._parameters: dict[str, int] = {}
        self.declared: set[str] = set()
        self._place_shared(text)
        self.text = self._module(text)

    def parameters(self, entry: str) -> list[Any]:
        """The types of a function's parameters, which are words."""
        return [ir.IntType(64)] * self._parameters[entry]

    def _refuse(self, construct: str) -> None:
        if self._to_run:
            raise refused(self._label, construct)

    def _place_shared(self, text: str) -> None:
        empty, total = [], 0
        for found in _SHARED.finditer(text):
            name, size = found["name"], _size_of(found["type"])
            if size is None:
                self._refuse(f"shared memory of the type {found['type']}")
                continue
            if not size:
                empty.append(name)
                continue
            self._offsets[name] = self._aligned(int(found["align"] or 1))
            self.shared_size = self._offsets[name] + size
            total += size
        if self._to_run:
            check_static_shared(self._label, total)
        self.shared_size = self._aligned(_ALIGNMENT)
        self._offsets |= dict.fromkeys(empty, self.shared_size)

    def _aligned(self, alignment: int) -> int:
        alignment = max(alignment, _ALIGNMENT)
        return -(-self.shared_size // alignment) * alignment

    def _module(self, text: str) -> str:
        made: list[str] = []
        body: list[str] | None = None
        for line in text.splitlines():
            line = re.sub(r"(?:,? ?![\w.]+ !\d+)+$", "", line)
            if body is not None:
                body.append(line)
                if line == "}":
                    made += self._function(body)
                    body = None
            elif line.startswith("define "):
                body = [line]
            elif line.startswith("declare "):
                made.append(self._declaration(line))
            elif line.startswith("@") and not _SHARED.match(line):
                made.append(_of_one_space(line).replace(" common global", " internal global"))
            elif line.startswith("%"):  # a type
                made.append(line)
        defined = set(self._called)
        made = [m for m in made if not (m.startswith("declare ") and _name(m) in defined)]
        made += self._called.values()
        self.declared |= defined
        return "\n".join([*made, ""])

    def _declaration(self, line: str) -> str:
        found = _DECLARE.match(line)
        assert found is not None, line
        name = _host_name(found["name"])
        if name.startswith("llvm.dbg."):
            return ""
        self.declared.add(name)
        result = _RESULT.search(_of_one_space(found["head"]))
        head = result[1] if result else "void"
        arguments = ", ".join(
            _TYPE.findall(argument)[0] for argument in _split(_of_one_space(found["args"]))
        )
        return f"declare {head} @{name}({arguments})"

    def _function(self, lines: list[str]) -> list[str]:
        defined = _DEFINE.match(lines[0])
        assert defined is not None, lines[0]
        arguments = _split(defined["args"])
        self._parameters[defined["name"]] = len(arguments)
        # Values have numbers in the order of the text, which changes here: they become names.
        head = f"define {defined['head'].replace('ptx_kernel ', '')} @{defined['name']}"
        head += f"({_named(_of_one_space(defined['args']))}) alwaysinline {{"
        body = [_named(line) for line in lines[1:-1]]
        body = [re.sub(r"^(\d+):.*", r"v\1:", line) for line in body]
        if not (body and _LABEL.match(body[0])):
            unnamed = sum(bool(re.search(r"%\d+$", a)) for a in arguments)
            body.insert(0, f"v{unnamed}:")
        first, *rest = body
        begin: list[str] = []
        used = [n for n in self._offsets if any(_reference(n).search(line) for line in rest)]
        for name in used:
            begin.append(
                f"  {_shared_value(name)} = call ptr @kb.shared(i64 {self._offsets[name]})"
            )
            self._called["kb.shared"] = "declare ptr @kb.shared(i64)"
        made: list[str] = []
        rest = [re.sub(r"@(llvm\.nvvm\.[\w.]+)", lambda m: f"@{_host_name(m[1])}", r) for r in rest]
        for line in _with_wide_places(rest):
            line = self._hoist(_of_one_space(line), used, begin)
            if (found := _ALLOCA.match(line)) and not found["varies"]:
                begin.append(line)  # in a loop, each passage would take new memory
            elif found:
                self._refuse("a local array whose size is not a constant")
                made.append(line)
            elif not _RAISED.search(line):
                made.append(self._instruction(line))
        return [head, first, *begin, *made, "}"]

    def _hoist(self, line: str, used: list[str], begin: list[str]) -> str:
        """The line with shared arrays as values: constant expressions of them are computed."""
        for name in used:
            line = _reference(name).sub(_shared_value(name), line)
        while found := re.search(
            r"(bitcast|ptrtoint|getelementptr(?: \w+)*) \(([^()]*%kb\.(?:of|at)\.[^()]*)\)", line
        ):
            value = f"%kb.at.{next(self._hoisted)}"
            begin.append(self._instruction(f"  {value} = {found[1]} {found[2]}"))
            line = line[: found.start()] + value + line[found.end() :]
        return line

    def _instruction(self, line: str) -> str:
        line = re.sub(r' syncscope\("[^"]*"\)', "", line)
        # A view may have negative strides, of which numba-cuda-mlir makes unsigned products.
        line = re.sub(r"\b(add|sub|mul|shl|trunc|getelementptr)( inbounds)? nuw ", r"\1\2 ", line)
        if found := _ASSEMBLED.search(line):
            name = ASSEMBLY.get(found["assembly"])
            if name is None or found["arguments"]:
                self._refuse(f"inline PTX ({found['assembly']})")
                return line
            self._called[name] = f"declare {found['type']} @{name}()"
            return line[: found.start()] + f"call {found['type']} @{name}()"
        if re.search(r"\b(?:call|invoke)\b", line):
            return re.sub(r" #\d+$", "", line)
        if found := _INTEGER.search(line):
            operation, kind, *operands = found.groups()
            return self._called_in(line[: found.start()], operation, kind, kind, kind, *operands)
        if found := _CONVERSION.search(line):
            operation, kind, operand, result = found.groups()
            name = f"{operation}.{_REALS[kind]}"
            return self._called_in(line[: found.start()], name, result, result, kind, operand)
        if found := _REMAINDER.search(line):
            kind, *operands = found.groups()
            name = _REALS[kind]
            return self._called_in(line[: found.start()], "frem", name, kind, kind, *operands)
        return line

    def _called_in(
        self, target: str, operation: str, of: str, result: str, kind: str, *operands: str
    ) -> str:
        """The line that assigns to `target` the result of a function that replaces an operation."""
        name = f"kb.{operation}.{of}"
        self._called[name] = f"declare {result} @{name}({', '.join([kind] * len(operands))})"
        given = ", ".join(f"{kind} {operand}" for operand in operands)
        return f"{target}= call {result} @{name}({given})"


def parsed(label: str, text: str) -> Any:
    """The module of a text; KernelCompilationError where this LLVM is too old for it."""
    try:
        return llvm.parse_assembly(text)
    except RuntimeError as e:
        number = ".".join(map(str, llvm.llvm_version_info))
        raise KernelCompilationError(
            f"{label}: LLVM {number} of the installed llvmlite cannot read the IR that "
            f"numba-cuda-mlir generated for the kernel; install a newer llvmlite [KB8004]\n{e}"
        ) from e


def written(label: str, text: str, function: str) -> set[int]:
    """The pointers among a function's parameters, by number, through which it may write.

    LLVM is asked, in the text of MLIR: what it cannot see to be read only counts as written.
    """
    module = parsed(label, HostText(label, text, to_run=False).text)
    llvm.initialize_native_target()
    machine = llvm.Target.from_default_triple().create_target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    llvmlite_inside.run_once(builder.getModulePassManager(), module, builder)
    found = re.search(rf"^define .*@{re.escape(function)}\((.*)\)", str(module), re.M)
    assert found is not None
    return {
        i
        for i, argument in enumerate(_split(found[1]))
        if argument.startswith("ptr") and not re.search(r"\b(?:readonly|readnone)\b", argument)
    }


def _host_name(name: str) -> str:
    """The name of a function that stands for an intrinsic of GPUs."""
    if not name.startswith("llvm.nvvm."):
        return name
    return "kb." + name.removeprefix("llvm.nvvm.").removeprefix("read.ptx.sreg.")


def _with_wide_places(lines: list[str]) -> Iterator[str]:
    """The lines in which a thread's place in the grid does not go through 32 bits.

    It is computed with 64 bits, made one of 32 and extended again. Without that LLVM can see that
    it is not negative, and that neighbouring threads touch neighbouring elements. It makes a
    difference where an axis has more than 2**31 threads.
    """
    kinds: dict[str, str] = {}  # of values with 64 bits, and of indices
    narrow: dict[str, str] = {}
    for line in lines:
        if found := _INDEX.search(line):
            kinds[found[1]] = found[2]
        elif (found := _EXTENDED.search(line)) and found[2] in kinds:
            kinds[found[1]] = kinds[found[2]]
        elif (found := _EXTENDED.search(line)) and found[2] in narrow:
            line = f"  {found[1]} = add i64 {narrow[found[2]]}, 0"
        elif found := _COMPUTED.search(line):
            operands = frozenset(kinds.get(found[i], "") for i in (3, 4))
            if kind := _PLACES.get((found[2], operands)):
                kinds[found[1]] = kind
        elif (found := _TRUNCATED.search(line)) and kinds.get(found[2]) in ("first", "place"):
            narrow[found[1]] = found[2]
        yield line


def _of_one_space(line: str) -> str:
    """A line without address spaces; between pointers of one space, a cast is a bitcast."""
    return re.sub(r" addrspace\(\d+\)", "", line).replace("addrspacecast ", "bitcast ")


def _named(text: str) -> str:
    return re.sub(r"%(\d+)\b", r"%v\1", text)


def _name(declaration: str) -> str:
    return declaration.partition("@")[2].partition("(")[0]


def _reference(name: str) -> re.Pattern[str]:
    return re.compile(rf"@{re.escape(name)}(?![\w.$])")


def _shared_value(name: str) -> str:
    return f"%kb.of.{name}"


def _split(arguments: str) -> list[str]:
    """What stands between commas, of which brackets may hold more."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [p.strip() for p in parts if p.strip()]


def _size_of(kind: str) -> int | None:
    """The bytes of a type of LLVM: a number, or arrays of one."""
    if found := re.fullmatch(r"\[(\d+) x (.*)\]", kind):
        item = _size_of(found[2])
        return None if item is None else int(found[1]) * item
    if found := re.fullmatch(r"\{ (\w+), \1 \}", kind):  # a complex number
        item = _size_of(found[1])
        return None if item is None else 2 * item
    return {**_SIZES, "i64": 8, "double": 8, "ptr": 8}.get(kind)
