"""Finds code that Enzyme takes for something else, unless it is told or the code is refused.

This is code that reads the bits of real numbers as integers, or the reverse, and code that finds
out at run time which array it uses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kernbridge._ext.enzyme.registered import REGISTERED

_FUNCTION = re.compile(r"^define [^\n]*?@\"?([\w.$-]+)\"?\(([^\n]*)\{\n(.*?)^\}$", re.M | re.S)
_NAME = r'%(?:"[^"]*"|[\w.$-]+)'
_POINTER = r"ptr(?: addrspace\(\d+\))? "
_TYPE = r"(?:<\d+ x \w+>|\w+)"
_RESULT = re.compile(rf"^\s*({_NAME}) = (.*)$")
_CAST = re.compile(rf"bitcast ({_TYPE}) {_NAME} to ({_TYPE})")
_LOAD = re.compile(rf"load (?:atomic |volatile )*({_TYPE}), {_POINTER}({_NAME})")
_STORE = re.compile(rf"^\s*store (?:atomic |volatile )*({_TYPE}) (\S+), {_POINTER}({_NAME})")
_UPDATE = re.compile(rf"(?:atomicrmw|cmpxchg) [^,]*?{_POINTER}({_NAME}), ({_TYPE})")
_STEP = re.compile(rf"getelementptr .*?, {_POINTER}({_NAME})")
_CHOICE = re.compile(r"(?:phi|select|freeze)\b.*\bptr\b")
_CHOSEN = re.compile(rf"(?:\[ |{_POINTER})({_NAME})")
_COPY = re.compile(
    rf"call void @llvm\.mem(?:cpy|move)[^(]*\(ptr[^,]*? ({_NAME}), ptr[^,]*? ({_NAME}),"
)
_ON_STACK = re.compile(r"alloca (?:%|\{|\[\d+ x (?:%|\{))")


def _is_real(kind: str) -> bool:
    return "float" in kind or "double" in kind


def _is_integer(kind: str) -> bool:
    return re.search(r"\bi(?:8|16|32|64)\b", kind) is not None


def reinterprets(module: str, primal: str, of_reals: Sequence[bool]) -> str:
    """The instruction that uses memory, or a value, both as a real number and as an integer.

    Enzyme would take what depends on the bits of a number as constant. The function `primal` calls
    the kernel, and others are inlined into it; `of_reals` says what each of its buffers holds.
    Structures on the stack do not count, since they may hold both. An integer that is only stored
    again is a copy of what it was read from.
    """
    for name, parameters, body in _FUNCTION.findall(module):
        if name.startswith(REGISTERED):  # whose body Enzyme does not differentiate
            continue
        given = re.findall(rf"({_NAME})(?=,|\))", parameters)[2:] if name == primal else []
        if found := _mixed(
            body.split("\n"), [p for p, real in zip(given, of_reals, strict=False) if real]
        ):
            return found
    return ""


def _mixed(lines: Sequence[str], reals: Sequence[str]) -> str:
    parents: dict[str, str] = {}
    structures, copies = set[str](), set[str]()

    def root(name: str) -> str:
        while name in parents:
            name = parents[name]
        return name

    def join(a: str, b: str, is_part: bool = False) -> None:
        a, b = root(a), root(b)
        if a != b and (is_part or structures.isdisjoint((a, b))):
            parents[a] = b

    uses = Counter(name for line in lines for name in re.findall(_NAME, line))
    stored = Counter(found[2] for found in map(_STORE.match, lines) if found)
    accesses: list[tuple[str, str, str]] = []  # address, type, instruction
    for line in lines:
        result = _RESULT.match(line)
        if result is None:
            if found := _STORE.match(line):
                kind, value, address = found.groups()
                if _is_real(kind) or (value.startswith("%") and value not in copies):
                    accesses.append((address, kind, line))
            elif found := _COPY.search(line):
                join(found[1], found[2])
            continue
        name, made = result.groups()
        if found := _CAST.match(made):
            kinds = found.groups()
            if any(map(_is_real, kinds)) and any(map(_is_integer, kinds)):
                return line
        elif _ON_STACK.match(made):
            structures.add(name)
        elif found := _STEP.match(made):
            join(name, found[1], is_part=True)
        elif _CHOICE.match(made):
            for other in _CHOSEN.findall(made):
                join(name, other)
        elif found := _LOAD.match(made):
            if uses[name] - 1 == stored[name] and _is_integer(found[1]):
                copies.add(name)
            else:
                accesses.append((found[2], found[1], line))
        elif found := _UPDATE.match(made):
            accesses.append((found[1], found[2], line))
    real = {root(name) for name in reals}
    real |= {root(a) for a, kind, _ in accesses if _is_real(kind)}
    real -= structures
    return next((line for a, kind, line in accesses if _is_integer(kind) and root(a) in real), "")


_ADDRESS = re.compile(rf"^\s*({_NAME}) = (?:getelementptr|freeze|bitcast)\b.*?{_POINTER}({_NAME})")
_CHOSEN_FROM = re.compile(rf"^\s*({_NAME}) = (?:phi|select)\b(.*\bptr\b.*)$")
_KEPT = re.compile(rf"^\s*store {_POINTER}({_NAME}),")


def chooses_arrays(module: str, primal: str) -> bool:
    """Whether a kernel may find out at run time which array it uses.

    That is where it chooses between the addresses of several arrays, or stores the address of a
    buffer. Functions are inlined into `primal`.
    """
    parameters, body = next(f[1:] for f in _FUNCTION.findall(module) if f[0] == primal)
    lines = body.split("\n")
    parents = {f[1]: f[2] for f in map(_ADDRESS.match, lines) if f}

    def root(name: str) -> str:
        while name in parents:
            name = parents[name]
        return name

    choices = {f[1]: _CHOSEN.findall(f[2]) for f in map(_CHOSEN_FROM.match, lines) if f}
    settled = True
    while settled:
        settled = False
        for name, among in [*choices.items()]:
            others = {root(other) for other in among} - {name}
            if len(others) < 2:  # one array, perhaps at another element
                parents.update((name, other) for other in others)
                del choices[name]
                settled = True
    buffers = re.findall(rf"\bptr[^,]*? ({_NAME})(?=,|\))", parameters)[2:]
    kept = {root(f[1]) for f in map(_KEPT.match, lines) if f}
    return bool(choices) or not kept.isdisjoint(buffers)
