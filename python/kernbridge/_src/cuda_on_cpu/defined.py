"""What LLVM leaves undefined and a GPU defines, in the LLVM IR of a kernel for the CPU.

- A number that does not fit becomes the nearest integer that does when it is converted. NaN becomes
  0 if it was a float, and the number with the highest bit alone if it was a double or the integer
  has 64 bits. Conversions to 8 bits pass through 16 bits.
- A shift by the width or more leaves zeros, or copies of the sign.
- Division by zero gives all bits, and the smallest number divided by -1 gives itself; x86
  processors end the process instead.
- The remainder of floats is made of a division that is rounded: it is not exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_VALUE = r"%[\w.$-]+|%\"[^\"]*\"|-?\d+"
_CONVERSION = re.compile(
    rf"^  (%\S+) = fpto([su])i (float|double|half) ({_VALUE}|\S+) to i(8|16|32|64)\b.*$", re.M
)
_SHIFT = re.compile(
    rf"^  (%\S+) = (shl|lshr|ashr)(?: nuw| nsw| exact)* i(8|16|32|64) ({_VALUE}), (%\S+?)(?:,.*)?$",
    re.M,
)
_DIVISION = re.compile(
    rf"^  (%\S+) = ([su])(div|rem)(?: exact)? i(8|16|32|64) ({_VALUE}), (%\S+?)(?:,.*)?$", re.M
)
_REMAINDER = re.compile(
    rf"^  (%\S+) = frem ((?:\w+ )*)(float|double) ({_VALUE}|\S+), (\S+?)(?:,.*)?$", re.M
)
_KINDS = {"half": "f16", "float": "f32", "double": "f64"}


def defined(text: str) -> str:
    """The module with nothing left open of what is listed above."""
    declared: set[str] = set()

    def convert(found: re.Match[str]) -> str:
        return _converted(found, declared)

    text = _CONVERSION.sub(convert, text)

    def remain(found: re.Match[str]) -> str:
        return _remaining(found, declared)

    text = _REMAINDER.sub(remain, text)
    text = _SHIFT.sub(_shifted, text)
    text = _DIVISION.sub(_divided, text)
    known = set(re.findall(r"^declare [^\n]*$", text, flags=re.M))
    return text + "".join(f"{line}\n" for line in sorted(declared - known))


def namer(result: str) -> Callable[[str], str]:
    """Names for values on the way to a result."""
    if result.endswith('"'):
        return lambda part: f'{result[:-1]}.kb.{part}"'
    if result[1:].isdigit():
        return lambda part: f"%kb.v{result[1:]}.{part}"
    return lambda part: f"{result}.kb.{part}"


def _converted(found: re.Match[str], declared: set[str]) -> str:
    result, sign, kind, value, bits = found.groups()
    name = namer(result)
    wide = max(int(bits), 16)
    function = f"@llvm.fpto{sign}i.sat.i{wide}.{_KINDS[kind]}"
    declared.add(f"declare i{wide} {function}({kind})")
    call = f"call i{wide} {function}({kind} {value})"
    narrow = name("w") if bits == "8" else result
    lines = [f"{narrow} = {call}"]
    of_nan = -(2 ** (wide - 1))
    if kind == "double" or bits == "64":
        lines = [
            f"{name('n')} = {call}",
            f"{name('nan')} = fcmp uno {kind} {value}, {value}",
            f"{narrow} = select i1 {name('nan')}, i{wide} {of_nan}, i{wide} {name('n')}",
        ]
    if bits == "8":
        lines.append(f"{result} = trunc i16 {narrow} to i8")
    return "\n".join(f"  {line}" for line in lines)


def _remaining(found: re.Match[str], declared: set[str]) -> str:
    result, flags, kind, value, divisor = found.groups()
    name, function = namer(result), f"@llvm.floor.{_KINDS[kind]}"
    declared.add(f"declare {kind} {function}({kind})")
    lines = (
        f"{name('q')} = fdiv {flags}{kind} {value}, {divisor}",
        f"{name('f')} = call {kind} {function}({kind} {name('q')})",
        f"{name('m')} = fmul {flags}{kind} {name('f')}, {divisor}",
        f"{result} = fsub {flags}{kind} {value}, {name('m')}",
    )
    return "\n".join(f"  {line}" for line in lines)


def _shifted(found: re.Match[str]) -> str:
    result, operation, bits, value, count = found.groups()
    name, kind = namer(result), f"i{bits}"
    lines = []
    if bits == "64":  # a GPU reads 32 bits of the count
        lines.append(f"{name('low')} = and i64 {count}, {2**32 - 1}")
        count = name("low")
    lines.append(f"{name('fits')} = icmp ult {kind} {count}, {bits}")
    if operation == "ashr":
        last = f"select i1 {name('fits')}, {kind} {count}, {kind} {int(bits) - 1}"
        lines.append(f"{name('last')} = {last}")
        lines.append(f"{result} = ashr {kind} {value}, {name('last')}")
    else:
        lines.append(f"{name('s')} = {operation} {kind} {value}, {count}")
        lines.append(f"{result} = select i1 {name('fits')}, {kind} {name('s')}, {kind} 0")
    return "\n".join(f"  {line}" for line in lines)


def _divided(found: re.Match[str]) -> str:
    result, sign, operation, bits, value, divisor = found.groups()
    name, kind = namer(result), f"i{bits}"
    lines = [f"{name('zero')} = icmp eq {kind} {divisor}, 0"]
    open_ = name("zero")
    if sign == "s":
        open_ = name("open")
        lines.append(f"{name('minus')} = icmp eq {kind} {divisor}, -1")
        lines.append(f"{open_} = or i1 {name('zero')}, {name('minus')}")
    lines.append(f"{name('by')} = select i1 {open_}, {kind} 1, {kind} {divisor}")
    lines.append(f"{name('q')} = {sign}{operation} {kind} {value}, {name('by')}")
    last = name("q")
    if sign == "s" and operation == "div":
        last = name("r")
        lines.append(f"{name('neg')} = sub {kind} 0, {value}")
        lines.append(
            f"{last} = select i1 {name('minus')}, {kind} {name('neg')}, {kind} {name('q')}"
        )
    lines.append(f"{result} = select i1 {name('zero')}, {kind} -1, {kind} {last}")
    return "\n".join(f"  {line}" for line in lines)
