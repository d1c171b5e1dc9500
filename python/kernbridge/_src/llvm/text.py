"""Reads LLVM IR as text and writes it back, for what llvmlite cannot ask or change.

llvmlite changes no instruction of a parsed module, does not know the flags and metadata of one, and
reads only the grammar of its own LLVM. This reads what LLVM 15 to 22 print. A function is read when
its blocks are asked for, and an instruction when its operands are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_NAME = r'(?:"[^"]*"|[-\w.$]+)'
LOCAL = re.compile(f"(%{_NAME})")  # the name of a value, a block or a type
_SYMBOL = re.compile(f"@{_NAME}")
_LABEL = re.compile(f"({_NAME}):")
_TARGET = re.compile(rf"\blabel (%{_NAME})")
_BEGINNING = re.compile(rf"\s*(?:(%{_NAME}) = )?(?:(?:must|no)?tail )?(#?[a-z]\w*)?,? ?")
_TYPE = re.compile(
    r"[\[{<]|(?:i\d+|half|bfloat|float|double|x86_fp80|ppc_fp128|fp128|ptr|void|label|metadata"
    rf"|token|%{_NAME})(?:\*|$)"
)
_PARTS = re.compile(  # of a body: instructions, labels with the empty line before them
    rf"\n(?=  [^ \]\n]|    #|\n{_NAME}:)|(?<!\n)\n(?={_NAME}:)"
)
_MARKS = re.compile(r'"[^"]*"|[][(){}<>]|[, ]\s*')
_EXPRESSIONS = {"splat", "getelementptr", "inttoptr", "ptrtoint", "bitcast", "addrspacecast"}
_EXPRESSIONS |= {"trunc", "add", "sub", "mul", "xor", "shl", "blockaddress", "dso_local_equivalent"}
_KINDS = {"global", "constant", "alias", "ifunc"}
_TYPE_FIRST = {"load", "alloca", "getelementptr"}


def split(text: str, mark: str) -> list[str]:
    """The parts of a text between commas, or between spaces, outside all brackets and quotes."""
    parts, begin, depth = [], 0, 0
    for found in _MARKS.finditer(text):
        first = found[0][0]
        if first in "([{<":
            depth += 1
        elif first in ")]}>":
            depth -= 1
        elif first == mark and depth == 0:
            parts.append(text[begin : found.start()])
            begin = found.end()
    return [*parts, text[begin:]]


def symbols(text: str) -> list[str]:
    """The names of the symbols in a text, without quotes."""
    return [_plain(name) for name in _SYMBOL.findall(text)]


def symbol(name: str) -> str:
    """How text refers to a symbol."""
    return f"@{name}" if '"' not in name and _SYMBOL.fullmatch(f"@{name}") else f'@"{name}"'


def renamed(text: str, of: Callable[[str], str]) -> str:
    """A text in which each symbol has the name that a function gives for its name."""

    def instead(found: re.Match[str]) -> str:
        new = of(_plain(found[0]))
        return found[0] if new == _plain(found[0]) else symbol(new)

    return _SYMBOL.sub(instead, text)


def with_locals(text: str, names: Mapping[str, str]) -> str:
    """A text in which values, blocks and types have other names, as they are written."""
    return LOCAL.sub(lambda found: names.get(found[0], found[0]), text)


def _plain(name: str) -> str:
    return name[1:].strip('"')


class Operand(NamedTuple):
    """A value, or the target of a branch, with its type."""

    type: str
    value: str


def _operand(words: list[str], is_argument: bool = False) -> Operand:
    """What words say; arguments of a call have attributes between the type and the value."""
    n = 1 + any(word.startswith(("addrspace(", "(")) for word in words[1:2])
    rest, value = words[n:], ""
    if at := next((i for i, word in enumerate(rest) if word.startswith("(")), 0):
        begin = next((i for i in range(at) if rest[i] in _EXPRESSIONS), 0)
        value = " ".join(rest[begin : at + 1])
    elif rest:
        value = rest[-1 if is_argument else 0]
    return Operand(" ".join(words[:n]), value)


class Instruction:
    """One instruction. What it is does not change if its text is replaced.

    The table EXAMPLES of tests/python/llvm/test_llvm_text.py shows how each kind is read.
    """

    flags: list[str]  # the words before the first type, such as `fast` or a predicate
    type: str  # the first type that it names, or the type to which a cast converts
    operands: list[Operand]  # of a call: its arguments
    callee: str  # what a call calls: a function's name, a value with its `%`, or "asm"

    def __init__(self, text: str, block: Block) -> None:
        self.text, self.block = text, block
        begin = _BEGINNING.match(text)
        assert begin is not None
        self.result, self.opcode = begin[1] or "", begin[2] or ""
        self._rest = text[begin.end() :]

    def __str__(self) -> str:
        return self.text

    def __getattr__(self, name: str) -> Any:
        """Read the attributes above when the first of them is asked for."""
        if name not in Instruction.__annotations__:
            raise AttributeError(name)
        self.flags, self.type, self.operands, self.callee = self._read()
        return vars(self)[name]

    @property
    def metadata(self) -> dict[str, str]:
        """The node of each kind, such as the place in the source at "dbg"."""
        return self._parts[1]

    @cached_property
    def names(self) -> list[str]:
        """All values and blocks that it names besides its result."""
        return LOCAL.findall(self._rest)

    @cached_property
    def targets(self) -> list[str]:
        """The blocks to which it may go."""
        return _TARGET.findall(self._rest)

    @cached_property
    def incoming(self) -> list[tuple[str, str]]:
        """The values of a phi, each with the block from which it comes."""
        first, *others = self._parts[0]
        pairs = (pair[1:-1].strip() for pair in (first[first.index("[ ") :], *others))
        return [(value, before) for value, before in (split(pair, ",") for pair in pairs)]

    @cached_property
    def _parts(self) -> tuple[list[str], dict[str, str]]:
        parts: list[str] = []
        metadata = {}
        for part in split(self._rest, ","):
            if part.startswith("!") and parts:
                name, _, metadata[name[1:]] = part.partition(" ")
            else:
                parts.append(part)
        return parts, metadata

    def _read(self) -> tuple[list[str], str, list[Operand], str]:
        first, *others = self._parts[0]
        words = split(first, " ")
        at = next((i for i, word in enumerate(words) if _TYPE.match(word)), len(words))
        flags, words = words[:at], words[at:]
        if not words:
            return flags, "", [], ""
        if self.opcode in ("call", "invoke"):
            return flags, words[0], *self._call(words[1:])
        operand = _operand(words)
        if self.opcode == "phi":
            return flags, words[0], [Operand(words[0], v) for v, _ in self.incoming], ""
        typed = [w for w in (split(other, " ") for other in others) if w[0] != "align"]
        rest = [
            _operand(w) if w[1:] and _TYPE.match(w[0]) else Operand(operand.type, " ".join(w))
            for w in typed
        ]
        if self.opcode in _TYPE_FIRST:
            return flags, operand.type, rest, ""
        if "to" in words:
            return flags, " ".join(words[words.index("to") + 1 :]), [operand], ""
        return flags, operand.type, [operand, *rest] if words[1:] else [], ""

    @staticmethod
    def _call(words: list[str]) -> tuple[list[Operand], str]:
        called = next((word for word in words if word[0] in "@%"), "")
        name = (LOCAL if called.startswith("%") else _SYMBOL).match(called)
        if name is None:
            return [], "asm"
        inside = called[name.end() + 1 : -1]
        given = [_operand(split(a, " "), is_argument=True) for a in split(inside, ",") if a]
        return given, name[0] if called[0] == "%" else _plain(name[0])


class Block:
    """A basic block. Its label is text, with the empty line before it."""

    def __init__(self, name: str, label: str | None) -> None:
        self.name, self.label = name, label
        self.instructions: list[Instruction] = []

    def __str__(self) -> str:
        label = [] if self.label is None else [self.label]
        return "\n".join([*label, *map(str, self.instructions)])

    @property
    def targets(self) -> list[str]:
        """The blocks that may follow."""
        return self.instructions[-1].targets


class Function:
    """The definition or the declaration of a function; `head` is its first line.

    What it is does not change if its head is replaced.
    """

    def __init__(self, lines: list[str]) -> None:
        n = 1 + (lines[1:2] == ["{"])  # as llvmlite writes it
        self.head, self._lines = "\n".join(lines[:n]), lines[n:]
        name = _SYMBOL.search(self.head)
        assert name is not None
        self.name, self.is_declaration = _plain(name[0]), not self._lines
        self._before, self._after = self.head[: name.start()], self.head[name.end() :]

    def __str__(self) -> str:
        lines = self._lines
        if "blocks" in self.__dict__:
            lines = [*map(str, self.blocks), *lines[-1:]]
        return "\n".join([self.head, *lines])

    @property
    def parameters(self) -> list[str]:
        """The type, the attributes and the name of each."""
        inside = split(self._after, " ")[0][1:-1]
        return split(inside, ",") if inside else []

    @property
    def result(self) -> str:
        """The type of the result."""
        return split(self._before.rstrip(), " ")[-1]

    @cached_property
    def blocks(self) -> list[Block]:
        names = [split(p, " ")[-1] for p in self.parameters if p != "..."]
        n_unnamed = sum(n[:1] != "%" or n[1:].isdigit() for n in names)
        blocks: list[Block] = []
        for part in _PARTS.split("\n".join(["", *self._lines[:-1]]))[1:]:
            label = _LABEL.match(part.removeprefix("\n"))
            if label or not blocks:
                name = f"%{label[1]}" if label else f"%{n_unnamed}"
                blocks.append(Block(name, part if label else None))
            if label is None:
                blocks[-1].instructions.append(Instruction(part, blocks[-1]))
        return blocks

    @property
    def instructions(self) -> Iterator[Instruction]:
        return (instruction for block in self.blocks for instruction in block.instructions)

    @cached_property
    def defined(self) -> dict[str, Instruction]:
        """The instruction that each value is the result of."""
        return {i.result: i for i in self.instructions if i.result}

    def base(self, address: str) -> tuple[str, Instruction | None]:
        """What an address is computed from by offsets, and the instruction that makes that."""
        while (made := self.defined.get(address)) and made.opcode == "getelementptr":
            address = made.operands[0].value
        return address, made

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """The instructions that use each value or block, once for each use."""
        found: dict[str, list[Instruction]] = {}
        for instruction in self.instructions:
            for name in instruction.names:
                found.setdefault(name, []).append(instruction)
        return found


class Global:
    """A variable, a constant or an alias of a module."""

    def __init__(self, text: str) -> None:
        self.text, self.name = text, _plain(text.partition(" = ")[0])

    def __str__(self) -> str:
        return self.text

    @cached_property
    def _words(self) -> list[str]:
        words = split(split(self.text, ",")[0], " ")
        return words[next((i for i, word in enumerate(words) if word in _KINDS), 0) :]

    @property
    def kind(self) -> str:
        """One of "global", "constant", "alias" and "ifunc"."""
        return self._words[0]

    @property
    def type(self) -> str:
        return self._words[1]

    @property
    def value(self) -> str:
        """Its initial value; empty if there is none."""
        return " ".join(self._words[2:])


class Module:
    """A module: its lines, among which functions and variables are objects."""

    def __init__(self, text: str) -> None:
        self.lines: list[str | Function | Global] = []
        lines = text.split("\n")
        at = 0
        while at < len(lines):
            line, end = lines[at], at + 1
            if line.startswith("define "):
                end = lines.index("}", at) + 1
            made = Function(lines[at:end]) if line.startswith(("define ", "declare ")) else None
            self.lines.append(made or (Global(line) if line.startswith("@") else line))
            at = end

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))

    @property
    def functions(self) -> dict[str, Function]:
        """The functions that it defines or declares."""
        return {line.name: line for line in self.lines if isinstance(line, Function)}

    @property
    def defined(self) -> dict[str, Function]:
        return {name: f for name, f in self.functions.items() if not f.is_declaration}

    def instructions(self, *opcodes: str) -> Iterator[Instruction]:
        """The instructions of all functions; with operations, only theirs."""
        all_ = (i for function in self.defined.values() for i in function.instructions)
        return (i for i in all_ if i.opcode in opcodes) if opcodes else all_

    @property
    def globals(self) -> dict[str, Global]:
        return {line.name: line for line in self.lines if isinstance(line, Global)}

    @cached_property
    def numbered(self) -> dict[str, str]:
        """The text of each node of metadata, and of each group of attributes."""
        written = (line for line in self.lines if isinstance(line, str))
        pairs = (w.partition(" = ") for w in written if w.startswith(("!", "attributes ")))
        return {name.removeprefix("attributes "): text for name, _, text in pairs}

    def field(self, node: str, name: str) -> str:
        """A field of a node of metadata, without quotes; empty if there is none."""
        inside = self.numbered.get(node, "").partition("(")[2].rpartition(")")[0]
        fields = (part.partition(": ") for part in split(inside, ","))
        return next((value.strip('"') for key, _, value in fields if key == name), "")


def reached(named: Mapping[str, T], name: str) -> dict[str, T]:
    """The functions or variables that one of them needs, and it itself."""
    found, left = dict[str, T](), [name]
    while left:
        name = left.pop()
        if name in named and name not in found:
            found[name] = named[name]
            left += symbols(str(named[name]))
    return found


def declared_once(text: str) -> str:
    """Leave out declarations of functions that are declared before, or defined."""
    module = Module(text)
    functions = [line for line in module.lines if isinstance(line, Function)]
    known = {f.name for f in functions if not f.is_declaration}
    for f in (f for f in functions if f.is_declaration):
        if f.name in known:
            module.lines.remove(f)
        known.add(f.name)
    return str(module)
