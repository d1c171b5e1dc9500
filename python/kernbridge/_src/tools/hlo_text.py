"""Parses the text of a compiled program, as `jax.stages.Compiled.as_text` returns it.

XLA prints its programs in this form on every platform. Text that is not understood is ignored:
lines that are not instructions, and attributes of other versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ?([\w\-]+)\(")
_PARENTHESIS = re.compile(r"[()]")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\](\{[^}]*\})?")
_ROLES = {"body", "calls", "condition", "false_computation", "to_apply", "true_computation"}
_CALLED = re.compile(rf"\b({'|'.join(sorted(_ROLES))})=%?([\w.\-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_TURNS = re.compile(r'known_trip_count\\?":\{\\?"n\\?":\\?"(\d+)')
_DIGEST = re.compile(r"\bdigest = dense<\[([-\d, ]*)\]>")
_CALL = re.compile(r"\bcall = dense<\[?([-\d, ]*)\]?>")
_ALIAS = r"\{[\d, ]*\}: \(\d+, \{[\d, ]*\}[^)]*\)"
_ALIASING = re.compile(rf"\boutput_to_operand_aliasing=\{{({_ALIAS}(?:, {_ALIAS})*)\}}")
_ALIASED = re.compile(r"\((\d+), ")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_TABLES = {
    "FileNames": re.compile(r'(\d+) "(.*)"$'),
    "FileLocations": re.compile(r"(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)"),
    "StackFrames": re.compile(r"(\d+) \{file_location_id=(\d+)(?: parent_frame_id=(\d+))?"),
}


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a program: "f32[8,4]" in `text`, without its layout."""

    text: str
    layout: str
    n_bytes: int

    @property
    def is_transposed(self) -> bool:
        """Whether its elements are stored in another order than that of its indices."""
        order = [int(n) for n in re.findall(r"\d+", self.layout.split(":")[0])]
        return order != sorted(order, reverse=True)


@dataclass(frozen=True)
class Instruction:
    """A line of a computation. `result` is its type, and `attributes` what follows its operands."""

    name: str
    opcode: str
    result: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @cached_property
    def target(self) -> str:
        """The target of a custom call; empty for others."""
        return self._quoted("custom_call_target")

    @cached_property
    def op_name(self) -> str:
        """Where JAX made it, such as "jit(f)/while/body/add"."""
        return self._quoted("op_name")

    @cached_property
    def called(self) -> Mapping[str, str]:
        """The computations that it runs, by the role in which it names them."""
        found = dict(_CALLED.findall(self.attributes))
        listed = _BRANCHES.search(self.attributes)
        for i, name in enumerate(listed[1].split(",") if listed else ()):
            found[f"branch {i}"] = name.strip().lstrip("%")
        return found

    @cached_property
    def turns(self) -> int | None:
        """How often a loop turns; None where that is not known before it runs."""
        found = _TURNS.search(self.attributes)
        return int(found[1]) if found else None

    @property
    def digest(self) -> bytes | None:
        """The identity of the kernel that a call of kernbridge runs."""
        found = _DIGEST.search(self.attributes)
        return bytes(int(n) & 255 for n in found[1].split(",")) if found else None

    @property
    def batch_levels(self) -> int:
        """The number of `vmap`s that a call of kernbridge is in."""
        found = _CALL.search(self.attributes)
        numbers = found[1].split(",") if found else []
        return int(numbers[1]) if len(numbers) > 1 else 0

    @property
    def in_place(self) -> frozenset[int]:
        """The operands whose memory becomes that of a result."""
        listed = _ALIASING.search(self.attributes)
        return frozenset(map(int, _ALIASED.findall(listed[1]))) if listed else frozenset()

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of its result."""
        return tuple(_arrays(self.result))

    def _quoted(self, name: str) -> str:
        found = re.search(rf'\b{name}="([^"]*)"', self.attributes)
        return found[1] if found else ""


@dataclass
class Computation:
    """A list of instructions, in the order in which they run."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)

    @cached_property
    def users(self) -> Mapping[str, list[Instruction]]:
        """The instructions that read the result of each."""
        found: dict[str, list[Instruction]] = {}
        for instruction in self.instructions.values():
            for operand in dict.fromkeys(instruction.operands):
                found.setdefault(operand, []).append(instruction)
        return found

    def operands(self, instruction: Instruction) -> Iterator[Instruction | None]:
        """The instructions whose results one reads; None for what is not in the text."""
        return (self.instructions.get(name) for name in instruction.operands)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())


@dataclass
class Program:
    """A compiled program."""

    header: str = ""
    computations: dict[str, Computation] = field(default_factory=dict)
    entry: Computation = field(default_factory=lambda: Computation(""))
    tables: dict[str, dict[int, tuple[str, ...]]] = field(default_factory=dict)

    @cached_property
    def donated(self) -> frozenset[int]:
        """The parameters whose memory the program takes."""
        found = set()
        for what in ("input_output_alias={", "buffer_donor={"):
            listed = self.header.partition(what)[2].partition(" }")[0]
            found |= {int(n) for n in re.findall(r"\((\d+), \{", listed)}
        return frozenset(found)

    def where(self, instruction: Instruction, own: str) -> str:
        """The line "file.py:12" of the user's program; of JAX's path where it is not known.

        Lines in files whose path begins with `own` are passed over.
        """
        for file, line in self._lines(instruction.attributes):
            if not file.startswith(own):
                return f"{file.rpartition('/')[2]}:{line}"
        return instruction.op_name or instruction.name

    def _lines(self, attributes: str) -> Iterator[tuple[str, str]]:
        if found := _SOURCE.search(attributes):
            yield found[1], found[2]
        found = _FRAME.search(attributes)
        frame, seen = int(found[1]) if found else 0, set()
        files, locations, frames = (self.tables.get(name, {}) for name in _TABLES)
        while frame in frames and frame not in seen:
            seen.add(frame)
            location, parent = frames[frame]
            file, line = locations.get(int(location), ("0", ""))
            yield files.get(int(file), ("",))[0], line
            frame = int(parent or 0) - 1  # the numbers of parents begin with one for "none"


def read(text: str) -> Program:
    """Read the text of a program."""
    program, current, table = Program(), None, ""
    for line in text.splitlines():
        if line.startswith("HloModule "):
            program.header = line
        elif current is not None:
            if line.startswith("}"):
                current = None
            elif instruction := _instruction(line):
                current.instructions[instruction.name] = instruction
        elif line.isalpha():
            table = line
        elif found := _COMPUTATION.match(line):
            current = program.computations[found[2]] = Computation(found[2])
            if found[1]:
                program.entry = current
        elif table in _TABLES and (row := _TABLES[table].match(line)):
            program.tables.setdefault(table, {})[int(row[1])] = row.groups()[1:]
    return program


def _instruction(line: str) -> Instruction | None:
    found = _INSTRUCTION.match(line)
    if not found:
        return None
    begin = found.end()
    end = _closing(line, begin) if line.startswith("(", begin) else line.find(" ", begin)
    opcode = _OPCODE.match(line, end) if end > 0 else None
    if not opcode:
        return None
    last = _closing(line, opcode.end() - 1)
    listed = line[opcode.end() : last - 1]
    names = [part.split(" ")[-1].lstrip("%") for part in _split(listed)]
    result, attributes = line[begin:end], line[last:]
    return Instruction(found[2], opcode[1], result, tuple(names), attributes, bool(found[1]))


def _closing(line: str, begin: int) -> int:
    """The place behind the parenthesis that closes the one at `begin`."""
    depth = 0
    for found in _PARENTHESIS.finditer(line, begin):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return len(line)


def _split(listed: str) -> Iterator[str]:
    """The parts between commas that stand in no bracket, without comments."""
    depth, part = 0, ""
    for piece in re.split(r"([,()\[\]{}])", re.sub(r"/\*.*?\*/", "", listed)):
        depth += (piece in ("(", "[", "{")) - (piece in (")", "]", "}"))
        if piece == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += piece
    if part.strip():
        yield part.strip()


def _arrays(result: str) -> Iterator[Array]:
    for dtype, extents, layout in _ARRAY.findall(result):
        sizes = [int(n) for n in re.findall(r"\d+", extents)]
        yield Array(f"{dtype}[{extents}]", layout, -(-prod(sizes) * _bits(dtype) // 8))


def _bits(dtype: str) -> int:
    if dtype == "pred":
        return 8
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 0
