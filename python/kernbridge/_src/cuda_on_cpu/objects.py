"""Helpers for llvmlite's objects of LLVM IR."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from kernbridge._src.numba_common.private_llvmlite import ir


def constant(module: Any, kind: Any, value: Any, name: str = "") -> Any:
    """A constant global of a module; private if it has no name."""
    made = ir.GlobalVariable(module, kind, name or f"{module.name}.{len(module.globals)}")
    made.global_constant = True
    made.linkage = "" if name else "private"
    made.initializer = value if isinstance(value, ir.Constant) else ir.Constant(kind, value)
    return made


def text(module: Any, string: str) -> Any:
    """The address of a string that C can read."""
    data = bytearray(string.encode() + b"\0")
    return constant(module, ir.ArrayType(ir.IntType(8), len(data)), data)


def replaced(instruction: Any, at: int, operand: Any) -> Any:
    """A copy of an instruction with another operand."""
    made = copy.copy(instruction)
    made.operands = list(instruction.operands)
    made.operands[at] = operand
    return made


def called(builder: Any, name: str, arguments: Sequence[Any], result: Any = None) -> Any:
    """Append a call of a function, which is declared if necessary; returns its value."""
    kind = ir.FunctionType(result or ir.VoidType(), [a.type for a in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)
