"""Functions of LLVM IR without branches, which Python writes as expressions of their arguments.

`x, y = arguments("i32 %x, i32 %y")` begins a function, and `returned(x + y)` is its text.
"""

from __future__ import annotations

from collections.abc import Callable

_REALS = ("half", "float", "double")


def _operator(name: str) -> Callable[[Value, Operand], Value]:
    return lambda value, other: value.by(f"{value.f}{name}", other)


class Value:
    """A value of a function that is being written: what is computed with it becomes instructions.

    The other operand is a value of the same type, or a constant, as a number or in LLVM's spelling.
    """

    def __init__(self, parameters: str, lines: list[str], kind: str, name: str) -> None:
        self._parameters, self._lines = parameters, lines  # of the function
        self.kind, self.name = kind, name
        self.f = "f" if kind in _REALS else ""  # begins the names of operations

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def made(self, kind: str, instruction: str) -> Value:
        """The result of an instruction, which has this type."""
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {instruction}")
        return Value(self._parameters, self._lines, kind, name)

    def by(self, operation: str, other: Operand) -> Value:
        return self.made(self.kind, f"{operation} {self}, {_name(other)}")

    __add__, __sub__, __mul__, __truediv__ = map(_operator, ("add", "sub", "mul", "div"))
    __and__, __or__, __xor__ = map(_operator, ("and", "or", "xor"))

    def __neg__(self) -> Value:
        return self.made(self.kind, f"fneg {self}" if self.f else f"sub {self.kind} 0, {self.name}")

    def inverse(self) -> Value:
        return self.made(self.kind, f"fdiv {self.kind} 1.0, {self.name}")

    def compared(self, order: str, other: Operand) -> Value:
        return self.made("i1", f"{self.f or 'i'}cmp {order} {self}, {_name(other)}")

    def to(self, kind: str, how: str = "bitcast") -> Value:
        return self.made(kind, f"{how} {self} to {kind}")

    def choose(self, yes: Operand, no: Operand, kind: str = "") -> Value:
        """One of two operands, as this condition says; constants alone need their type."""
        kind = kind or next(v.kind for v in (yes, no) if isinstance(v, Value))
        return self.made(kind, f"select {self}, {kind} {_name(yes)}, {kind} {_name(no)}")


Operand = Value | float | str


def _name(operand: Operand) -> str:
    return operand.name if isinstance(operand, Value) else str(operand)


def call(kind: str, called: str, first: Value, *others: Value | str) -> Value:
    """What a function returns; a constant is given with its type."""
    given = ", ".join(map(str, (first, *others)))
    return first.made(kind, f"call {kind} @{called}({given})")


def arguments(parameters: str) -> list[Value]:
    lines: list[str] = []
    return [Value(parameters, lines, *p.split(" ")) for p in parameters.split(", ")]


def returned(result: Value) -> str:
    """The function that returns this, as `result (parameters) { body }`."""
    body = " ".join([*result._lines, f"ret {result}"])
    return f"{result.kind} ({result._parameters}) {{ {body} }}"
