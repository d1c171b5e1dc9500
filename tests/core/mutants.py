"""The mutants of a C file, and which of them are known to change nothing.

A mutant is one small change: another comparison, operator or number, a negated condition, a
statement or an early return that is left out.

A number is made one greater and one less, unless one more only reserves memory that nobody reads or
writes: no test could notice that. This holds where the number is a term or a factor of what is
asked of an allocator (`calloc(1, size + 1)`), or of the dimension of a variable whose size the
code does not ask for (`int index[3];` without `sizeof index`). The dimensions of members are
another matter, since they move the members behind them. One less is a mutant always: sanitizers
notice an access behind the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# What is replaced, within a line of code, and by what.
_SWAPS = (
    (r" == ", " != "),
    (r" != ", " == "),
    (r" < ", " <= "),
    (r" > ", " >= "),
    (r" <= ", " < "),
    (r" >= ", " > "),
    (r" && ", " || "),
    (r" \|\| ", " && "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " + "),
    (r" / ", " * "),
    (r" % ", " / "),
    (r" & ", " | "),
    (r" \| ", " & "),
    (r" << ", " >> "),
    (r" >> ", " << "),
    (r"\+\+", "--"),
    (r" \+= ", " -= "),
    (r" -= ", " += "),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
)
_NUMBER = re.compile(r"(?<![\w.])(\d{1,6})(?![\w.])")
_CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while) \()(.*)(\)(?: \{)?)$")
_STATEMENT = re.compile(r"^\s+(?:\(void\))?[\w>.\[\]*()&-]+(?:\(.*\)| [-+|&]?= .*|\+\+|--);$")
_LEAVING = re.compile(r"^\s+(?:return\b.*|break|continue);$")

# What is asked for memory, besides functions of the file itself that hand it on; how much that is.
_ALLOCATORS = ("malloc", "calloc", "kb_arena_take")
_ALLOCATOR = re.compile(r"^static void \*(\w+)\(.*\bsize_t count, size_t size\)$", re.M)
_TYPE = r"(?!(?:return|else|case|goto|typedef)\b)[A-Za-z_]\w*(?:\([\w()]*\))?\s+"
_VARIABLE = re.compile(rf"^\s*(?:{_TYPE})+\**(?P<name>\w+)\[(?P<asked>[^\]]*)\](?:\[|;|,| =)")
_IN_MEMBERS = re.compile(r"\b(?:struct|union)\b[^;(){}]*\{[^{}]*$")
_GROWING = re.compile(r"(?:[\w\s+*.()]|->)*")  # sums and products grow with their parts

FILE = "-"  # for lines outside of functions
_CALLED = re.compile(r"(?<![\w(])(\w+)\(")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?\*/|/\*.*$|//.*$')


class Mutant(NamedTuple):
    """A line of a source file and what it becomes."""

    path: str  # from the root
    line: int  # from 1
    was: str
    text: str
    function: str  # that has the line, or FILE
    operator: str  # such as "< to <=", "+ 1" of a number, "not" and "left out"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was.strip()} -> {self.text.strip()}"


def _code_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields the number and text of each line of code, and the text with blanks for quotes."""
    in_comment = False
    for number, line in enumerate(text.split("\n"), 1):
        ends = "*/" in line
        if in_comment:
            in_comment = not ends
            continue
        blanked = _QUOTED.sub(lambda m: "~" * len(m[0]), line)
        in_comment = "/*" in line and not ends
        if blanked.strip() and not blanked.lstrip().startswith(("#", "_Static_assert")):
            yield number, line, blanked


def _scope(lines: list[str], line: int) -> list[str]:
    """Returns the lines that see a variable; none of them if the line has a member."""
    if not lines[line].startswith(" "):
        return lines
    begin = max((i for i in range(line) if lines[i] in ("{", "}")), default=line)
    if lines[begin] != "{" or _IN_MEMBERS.search("\n".join(lines[begin:line])):
        return []
    return lines[begin : lines.index("}", line)]


def _argument(code: str, at: int) -> str:
    """Returns the argument that reaches over a place, of a call whose arguments begin `code`."""
    begin = depth = 0
    for i, c in enumerate(code):
        depth += (c in "([") - (c in ")]")
        if depth < 0 or (depth == 0 and c == ","):
            if i > at:
                return code[begin:i]
            if depth < 0:
                return "?"  # the place is behind the call
            begin = i + 1
    return code[begin:]


class _Rooms:
    """Where a file reserves memory."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        names = "|".join((*_ALLOCATORS, *_ALLOCATOR.findall(text)))
        self.call = re.compile(rf"(?<![\w*])(?:{names})\(")

    def only_grow(self, number: int, code: str, at: int) -> bool:
        """Returns whether a greater number at a place of a line only reserves more."""
        m = _VARIABLE.match(code)
        if m and m.start("asked") <= at < m.end("asked"):
            size = re.compile(rf"\bsizeof\b[ (]*{m['name']}\b")
            scope = _scope(self.lines, number - 1)
            asked = m["asked"] if scope and not any(map(size.search, scope)) else "?"
        else:
            m = self.call.search(code)
            asked = _argument(code[m.end() :], at - m.end()) if m and m.end() <= at else "?"
        parts = asked.replace("sizeof(", "(")
        return bool(_GROWING.fullmatch(parts)) and not re.search(r"\w\(", parts)


def _functions(lines: list[str]) -> Iterator[str]:
    """Yields for each line the function whose body has it, or FILE."""
    function, head = FILE, ""
    for line in lines:
        if line == "{":
            function = next((name for name in _CALLED.findall(head) if name[0] != "_"), FILE)
        elif line == "}":
            function = FILE
        head = "" if line.endswith((";", "}")) or not line else f"{head} {line}"
        yield function


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Yields every mutant of a file."""
    rooms = _Rooms(text)
    functions = list(_functions(text.split("\n")))

    for number, line, code in _code_lines(text):

        def mutant(becomes: str, operator: str, number: int = number, line: str = line) -> Mutant:
            return Mutant(path, number, line, becomes, functions[number - 1], operator)

        for pattern, other in _SWAPS:
            for m in re.finditer(pattern, code):
                operator = f"{m[0].strip()} to {other.strip()}"
                yield mutant(line[: m.start()] + other + line[m.end() :], operator)
        for m in _NUMBER.finditer(code):
            for step in (-1,) if rooms.only_grow(number, code, m.start()) else (1, -1):
                becomes = line[: m.start()] + str(int(m[1]) + step) + line[m.end() :]
                yield mutant(becomes, "+ 1" if step == 1 else "- 1")
        if m := _CONDITION.match(code):
            inner = line[m.start(2) : m.end(2)]
            yield mutant(f"{m[1]}!({inner}){m[3]}", "not")
        if _STATEMENT.match(code) or _LEAVING.match(code):
            yield mutant("    ;", "left out")


class Kind(NamedTuple):
    """Mutants of one function by one operator."""

    path: str
    function: str
    operator: str


def kind_of(mutant: Mutant) -> Kind:
    """Returns the kind of a mutant."""
    return Kind(mutant.path, mutant.function, mutant.operator)


def read_equivalents(path: Path) -> Counter[Kind]:
    """Reads lines "FILE: FUNCTION: OPERATOR: COUNT"; those with # in front are reasons."""
    found: Counter[Kind] = Counter()
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            file, function, operator, count = line.split(": ")
            found[Kind(file, function, operator)] += int(count)
    return found


def check_equivalents(listed: Counter[Kind], there: Counter[Kind]) -> list[str]:
    """Returns what is wrong with the list: it must not name more mutants than there are."""
    return [
        f"{': '.join(kind)}: {n} mutants are listed, and there are {there[kind]}"
        for kind, n in sorted(listed.items())
        if n > there[kind]
    ]
