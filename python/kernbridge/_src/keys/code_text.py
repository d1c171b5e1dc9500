"""Code objects as bytes, for the digests of `keys/fingerprint.py`.

Programs that make a kernel for every size make it of equal code objects, so what was written is
kept. Any thread may enter. Imports neither Numba nor JAX.
"""

from __future__ import annotations

import dis
import functools
import types
from dataclasses import dataclass
from typing import Any

from kernbridge._src.keys import encode

_FLAGS = 0x2AC  # *args, **kwargs, generators, coroutines; not docstring, nesting, __future__


@functools.lru_cache(maxsize=256)
def steps_of(code: types.CodeType) -> tuple[str, tuple[Any, ...]]:
    """Return the instructions of a code object, and the constants that they load.

    Constants are known by value, not by index: a docstring shifts the indices. Programs that make
    a kernel for every size make it of equal code objects.
    """
    steps = list(dis.get_instructions(code))
    text = "\n".join(f"{s.opname} {'' if s.opcode in encode.HAS_CONST else s.arg}" for s in steps)
    loading = (s for s in steps if s.opcode in encode.HAS_CONST)
    # The names of keywords, of which `dis` does not say the value before Python 3.13.
    return text, tuple(
        code.co_consts[s.arg] if s.opname == "KW_NAMES" and s.arg is not None else s.argval
        for s in loading
    )


class _Text:
    """Takes what a hash would take."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.names: set[str] = set()

    def update(self, data: bytes) -> None:
        self.parts.append(data)

    def constant(self, value: Any) -> bool:
        """Add a constant as `_Walk.feed` does; False if it has parts that are not plain values."""
        if type(value) is tuple:
            encode.put_parts(self, ("items", len(value)))
            return all(map(self.constant, value))
        if type(value) is str and value.isidentifier():
            self.names.add(value)
        return encode.put_plain(self, value)


@dataclass(frozen=True, slots=True)
class Code:
    """What a walk adds for a code object and those within it, none of which depends on a value."""

    text: bytes
    lines: bytes
    names: frozenset[str]

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(code: types.CodeType, file: str) -> Code | None:
        """Return None if a constant has parts. Equal code objects may come from different files,
        so `file` is passed as well."""
        steps, constants = steps_of(code)
        text = _Text()
        text.names.update(code.co_names)
        put_head(text, code, steps)
        lines = [place_of(code, file)]
        for constant in constants:
            if isinstance(constant, types.CodeType):
                inner = Code.of(constant, constant.co_filename)
                if inner is None:
                    return None
                text.update(inner.text)
                text.names |= inner.names
                lines.append(inner.lines)
            elif not text.constant(constant):
                return None
        return Code(b"".join(text.parts), b"".join(lines), frozenset(text.names))


def put_head(h: Any, code: types.CodeType, steps: str) -> None:
    """Add a code object but its constants."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    names = (code.co_varnames, code.co_cellvars, code.co_freevars, code.co_names)
    flags = code.co_flags & _FLAGS
    encode.put_parts(h, ("code", counts, flags, code.co_exceptiontable, names, steps))


def place_of(code: types.CodeType, file: str) -> bytes:
    """Where each instruction stands."""
    return repr((file, list(code.co_lines()))).encode("utf-8", "backslashreplace")
