"""Reads from the bytecode of a kernel what it does with its parameters, and whether it returns."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Mapping
from types import CodeType

_ACCESS = re.compile(r"(LOAD|STORE|DELETE)_(?:FAST|DEREF|CLOSURE)")


@functools.lru_cache(maxsize=256)
def unwritten(code: CodeType) -> Mapping[str, int | None]:
    """Parameters that are assigned to before they are used, with the line, or never used: None.

    Functions that seem to return their results, or that always raise an exception, are not said
    to leave a parameter unused.
    """
    n_starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )
    left = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + n_starred])
    found: dict[str, int | None] = {}
    ends, line = False, code.co_firstlineno
    for instruction in dis.get_instructions(code):
        position = instruction.positions
        line = (position.lineno if position else None) or line
        ends |= instruction.opname.startswith("RETURN_")
        names = instruction.argval
        accesses = _ACCESS.findall(instruction.opname)
        for access, name in zip(
            accesses, names if isinstance(names, tuple) else (names,), strict=False
        ):
            if name in left:
                left.discard(name)
                if access == "STORE":
                    found[name] = line
    if not ends or seems_to_return(code):
        return found
    return {**found, **dict.fromkeys(left)}


@functools.lru_cache(maxsize=256)
def seems_to_return(code: CodeType) -> bool:
    """Whether the bytecode has a `return` of anything but the constant None.

    It may still be None, as in ``return helper(x, out)``; only Numba's type inference knows.
    """
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        if instruction.opname == "RETURN_VALUE" and (
            before is None or before.opname != "LOAD_CONST" or before.argval is not None
        ):
            return True
        before = instruction
    return False
