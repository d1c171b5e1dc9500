"""Computes the stack size of the variables of a function in LLVM IR.

The types are read from the text, since llvmlite does not return the type of a variable in a parsed
module.
"""

from __future__ import annotations

import re

_ALLOCA = re.compile(r"= alloca (.*?)(?:, i(?:32|64) (\d+))?(?:, align \d+)?$", re.M)


def size(text: str, begin: int, more: int) -> tuple[list[str], str]:
    """Instructions, and the value that they make: the bytes of the variables, and `more`.

    The function's definition begins at `begin`.
    """
    lines, total = [], str(more)
    for i, (kind, count) in enumerate(_ALLOCA.findall(text, begin, text.index("\n}", begin))):
        lines.append(f"  %kb.p{i} = getelementptr {kind}, ptr null, i64 {count or 1}")
        lines.append(f"  %kb.n{i} = ptrtoint ptr %kb.p{i} to i64")
        lines.append(f"  %kb.s{i} = add i64 {total}, %kb.n{i}")
        total = f"%kb.s{i}"
    return lines, total
