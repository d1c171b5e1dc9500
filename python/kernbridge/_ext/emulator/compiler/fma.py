"""Fuses products and sums of a kernel for the CPU where NVVM and ptxas fuse them on a GPU.

Both may do so by default. The machine code of CUDA 13 shows these rules:

- NVVM fuses a product into each sum that reads it if at most four instructions read it, all of them
  sums in the same block; of two products in a sum, the first is fused.
- ptxas then fuses a product into all sums and differences that read it, through negations, if
  nothing else reads it, and no division, root or call lies in between.
- Functions of libdevice such as `fmul_rn` are never fused. Fences keep their instructions apart.

This works on text: llvmlite cannot change an instruction of a parsed module, and LLVM renumbers a
whole function to print one instruction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FLAGS = r"(?:(?:reassoc|nnan|ninf|nsz|arcp|contract|afn|fast) )*"
_ARITHMETIC = re.compile(rf"^  (%\S+) = (fmul|fadd|fsub|fneg) ({_FLAGS})(float|double) (.*)$")
_NAMES = re.compile(r'%(?:[\w.$-]+|"[^"]*")')
_SPLITS = re.compile(
    r" = (?:fdiv|[su](?:div|rem) i64)|\bcall [^@]*@(?!llvm\.|__nv_f(?:min|max|abs))|@llvm\.sqrt\."
)
# A block of isolated_compile.py, or an empty line, does not end a block of the GPU's code.
_OF_BOUNDS = re.compile(r'"?kb\.(?:inside|rest)\b|$')
_ROUND_TRIP = re.compile(
    r"^  (%\S+) = (?:tail )?call i64 @llvm\.fpto([su])i\.sat\.i64\.f64\(double (%[^)]+)\).*$"
)
_FROM_INTEGER = re.compile(r"^  (%\S+) = ([su])itofp (nneg )?i64 (\S+) to double")
_USES_MAX = 4  # of a product that NVVM fuses
_SUFFIX = {"float": "f32", "double": "f64"}
FENCED = re.compile(  # these protect `__fmul_rn` and similar functions
    r" = (?:tail )?call (float|double) @llvm\.arithmetic\.fence\.\w+\((?:float|double) (\S+)\)"
)


@dataclass(eq=False)
class _Line:
    """One instruction, with its operands and the instructions that read its result."""

    number: int
    block: int
    part: int  # of the block, where ptxas splits it
    result: str
    operation: str
    flags: str
    kind: str
    operands: list[str]
    users: list[_Line | None] = field(default_factory=list)  # None: another kind of line
    takes: _Line | None = None  # the product that is fused into this sum


def fused(text: str) -> str:
    """The module in which sums whose products are fused are calls of llvm.fma."""
    lines = text.split("\n")
    first = 0
    kinds: set[str] = set()
    for n, line in enumerate(lines):
        if line.startswith("define "):
            first = n
        elif line == "}":
            kinds |= _fuse(lines, first, n)
    declared = (f"declare {k} @llvm.fma.{_SUFFIX[k]}({k}, {k}, {k})" for k in sorted(kinds))
    return "\n".join([*lines, *(d for d in declared if d not in text), ""])


def _fuse(lines: list[str], first: int, end: int) -> set[str]:
    """Rewrite the lines of one function; return the types for which llvm.fma is called."""
    _keep_integers(lines, first, end)
    found = _read(lines, first, end)
    for line in found.values():
        if line.operation == "fadd":
            products = (found.get(operand) for operand in line.operands)
            line.takes = next((p for p in products if p and _only_sums_read(p)), None)
    for line in found.values():
        if line.operation == "fmul":
            _settle(line, found)
    kinds = set()
    for line in found.values():
        if line.takes:
            lines[line.number] = _written(line, found)
            kinds.add(line.kind)
    return kinds


def _keep_integers(lines: list[str], first: int, end: int) -> None:
    """Remove conversions of an integer to a double and back, as ptxas does."""
    made = {}
    for n in range(first + 1, end):
        if match := _FROM_INTEGER.match(lines[n]):
            made[match[1]] = ("su" if match[3] else match[2], match[4])
    for n in range(first + 1, end):
        match = _ROUND_TRIP.match(lines[n])
        if match and match[2] in made.get(match[3], ("", ""))[0]:
            lines[n] = f"  {match[1]} = add i64 {made[match[3]][1]}, 0"


def _read(lines: list[str], first: int, end: int) -> dict[str, _Line]:
    found: dict[str, _Line] = {}
    others: set[str] = set()
    block = part = 0
    for n in range(first + 1, end):
        text = lines[n]
        if not text.startswith("  "):
            if not _OF_BOUNDS.match(text):
                block = part = n
            continue
        if _SPLITS.search(text):
            part = n
        match = _ARITHMETIC.match(text)
        if not match:
            others.update(_NAMES.findall(text))
            continue
        operands = re.sub(r", [!#].*$", "", match[5]).split(", ")
        result, operation, flags, kind = match[1], match[2], match[3], match[4]
        found[result] = _Line(n, block, part, result, operation, flags, kind, operands)
    for line in found.values():
        for operand in line.operands:
            if operand in found:
                found[operand].users.append(line)
    for name in others.intersection(found):
        found[name].users.append(None)
    return found


def _only_sums_read(product: _Line) -> bool:
    return (
        product.operation == "fmul"
        and len(product.users) <= _USES_MAX
        and all(u and u.operation == "fadd" and u.block == product.block for u in product.users)
    )


def _sums(product: _Line, value: _Line) -> list[_Line] | None:
    """The sums that can take a product, through negations; None if something else reads it."""
    sums = []
    for user in value.users:
        if user is None or user.part != product.part or user.operation == "fmul":
            return None
        if user.operation == "fneg":
            below = _sums(product, user)
            if below is None:
                return None
            sums += below
            continue
        if user.takes is product:
            continue
        if user.takes or user.operands.count(value.result) > 1:
            return None
        sums.append(user)
    return sums


def _product_of(name: str, found: dict[str, _Line]) -> _Line | None:
    line = found.get(name)
    while line and line.operation == "fneg":
        line = found.get(line.operands[0])
    return line if line and line.operation == "fmul" else None


def _settle(product: _Line, found: dict[str, _Line]) -> None:
    """Fuse a product into all sums that read it, or into none, as ptxas does."""
    sums = _sums(product, product)
    if not sums:
        return
    for line in sums:
        other = _product_of(line.operands[0], found)
        if other and other is not product and _sums(other, other):
            return  # the first of two products is fused
    for line in sums:
        line.takes = product


def _written(line: _Line, found: dict[str, _Line]) -> str:
    product = line.takes
    assert product
    at = 0 if _product_of(line.operands[0], found) is product else 1
    negated = at == 1 and line.operation == "fsub"
    name = line.operands[at]
    while found[name] is not product:
        negated = not negated
        name = found[name].operands[0]
    a, b = product.operands
    c = line.operands[1 - at]
    kind, before = line.kind, []
    if negated:
        before.append(f"  {_name(line.result, 'a')} = fneg {kind} {a}")
        a = _name(line.result, "a")
    if at == 0 and line.operation == "fsub":
        before.append(f"  {_name(line.result, 'c')} = fneg {kind} {c}")
        c = _name(line.result, "c")
    call = f"call {line.flags}{kind} @llvm.fma.{_SUFFIX[kind]}({kind} {a}, {kind} {b}, {kind} {c})"
    return "\n".join([*before, f"  {line.result} = {call}"])


def _name(result: str, part: str) -> str:
    if result.endswith('"'):
        return f'{result[:-1]}.kb.{part}"'
    return f"%kb.v{result[1:]}.{part}" if result[1:].isdigit() else f"{result}.kb.{part}"
