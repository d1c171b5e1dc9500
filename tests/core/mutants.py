"""The mutants of a C file, and which of them are known to change nothing.

A mutant is one small change: another comparison, operator or number, a negated condition, a
statement or an early return that is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
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
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|/\*.*?\*/|/\*.*$|//.*$')


class Mutant(NamedTuple):
    """A line of a source file and what it becomes."""

    path: str  # from the root
    line: int  # from 1
    was: str
    text: str

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


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Yields every mutant of a file."""
    for number, line, code in _code_lines(text):
        for pattern, other in _SWAPS:
            for m in re.finditer(pattern, code):
                yield Mutant(path, number, line, line[: m.start()] + other + line[m.end() :])
        for m in _NUMBER.finditer(code):
            for step in (1, -1):
                number_text = str(int(m[1]) + step)
                yield Mutant(path, number, line, line[: m.start()] + number_text + line[m.end() :])
        if m := _CONDITION.match(code):
            inner = line[m.start(2) : m.end(2)]
            yield Mutant(path, number, line, f"{m[1]}!({inner}){m[3]}")
        if _STATEMENT.match(code) or _LEAVING.match(code):
            yield Mutant(path, number, line, "    ;")


class Equivalent(NamedTuple):
    """A mutant that no test can notice, as the list names it."""

    path: str
    was: str  # the line without what surrounds it
    becomes: str


def read_equivalents(path: Path) -> set[Equivalent]:
    """Reads a list of lines "FILE: LINE -> LINE", in which a line with # in front is a reason."""
    found = set()
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            file, change = line.split(": ", 1)
            was, becomes = change.split(" -> ")
            found.add(Equivalent(file, was.strip(), becomes.strip()))
    return found


def known(mutant: Mutant) -> Equivalent:
    """Returns how the list would name a mutant."""
    return Equivalent(mutant.path, mutant.was.strip(), mutant.text.strip())


def check_equivalents(listed: set[Equivalent], mutants: Iterable[Mutant]) -> list[str]:
    """Returns what is wrong with the list: an entry must name exactly one mutant."""
    names = Counter(known(mutant) for mutant in mutants)
    return [
        f"{e.path}: {e.was} -> {e.becomes}: {names[e]} mutants are called so, expected one"
        for e in sorted(listed)
        if names[e] != 1
    ]
