"""Finds code that reads the bits of real numbers as integers, or the reverse."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any


def reinterprets(module: Any, primal: str, of_reals: Sequence[bool]) -> bool:
    """Whether code uses memory, or a value, both as a real number and as an integer.

    Enzyme would take what depends on the bits of a number as constant. The function `primal` calls
    the kernel, and all others are inlined into it; `of_reals` says what each of its buffers holds.
    Memory on the stack does not count, since it may be a structure of both.
    """
    reals = {"float": "i32", "double": "i64"}

    def is_mixed(*kinds: str) -> bool:
        return any(real in kinds and integer in kinds for real, integer in reals.items())

    def name(value: Any) -> int:
        return int(ctypes.cast(value._ptr, ctypes.c_void_p).value or 0)

    for function in module.functions:
        arguments = list(function.arguments)[2:] if function.name == primal else []
        found = {name(a): set(reals) for a, real in zip(arguments, of_reals, strict=False) if real}
        roots: dict[int, int] = {}
        on_stack: set[int] = set()
        for instruction in (i for block in function.blocks for i in block.instructions):
            operation, operands = instruction.opcode, list(instruction.operands)
            if operation == "bitcast" and is_mixed(str(instruction.type), str(operands[0].type)):
                return True
            if operation == "alloca":
                on_stack.add(name(instruction))
            elif operation == "getelementptr":
                roots[name(instruction)] = roots.get(name(operands[0]), name(operands[0]))
            elif operation in ("load", "store"):
                address = name(operands[operation == "store"])
                value = operands[0] if operation == "store" else instruction
                found.setdefault(roots.get(address, address), set()).add(str(value.type))
        if any(is_mixed(*kinds) for root, kinds in found.items() if root not in on_stack):
            return True
    return False
