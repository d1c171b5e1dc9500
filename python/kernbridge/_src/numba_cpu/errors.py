"""Formats exceptions of Numba kernels: type, message, file and line.

The core calls `describe` after a kernel failed, on the thread that ran it, with the GIL held.
"""

from __future__ import annotations

import functools
from typing import Any

from kernbridge import _core


class OutOfBounds(IndexError):
    """An index out of bounds that the checked mode found."""

    def __init__(self, array: str, axis: int, index: int, *shape: int) -> None:
        super().__init__(array, axis, index, *shape)
        self.array, self.axis, self.index, self.shape = array, axis, index, shape

    def __str__(self) -> str:
        if self.axis < 0:
            return f"index {self.index} is out of bounds for {self.shape[0]} elements"
        named = f"array {self.array!r}" if self.array else "an array"
        return (
            f"index {self.index} is out of bounds for axis {self.axis} of {named}, whose shape is "
            f"{self.shape}"
        )


def describe(
    source: str,
    exception: BaseException | None,
    address: int,
    pickle: bytes | None,
    digest: bytes | None,
    arguments: tuple[Any, ...] | None,
    status: int,
) -> str:
    """The text of one exception.

    Either `exception` is a Python exception (from an object-mode block), or `pickle` is Numba's
    record at `address`, whose `arguments` were computed at run time if they are not None. `source`
    is where the kernel is defined, for an exception that has no place of its own. `status` is what
    the kernel returned: the number of a line, where it was compiled so (see `numba_cpu/lines.py`).
    """
    if exception is not None:
        return f"{type(exception).__name__}: {exception} (in the kernel at {source})"
    from kernbridge._src.numba_common.private_numba import serialize
    from kernbridge._src.numba_cpu.lines import place_of

    if arguments is not None:
        kind, args, place = serialize.runtime_build_excinfo_struct(pickle, arguments)
    else:
        kind, args, place = serialize._numba_unpickle(address, pickle, digest)
    return _words(kind, args, place_of(status) or place, source)


def _words(kind: Any, args: Any, place: Any, source: str) -> str:
    where = f"in the kernel at {source}" if place is None else place_text(place)
    return f"{message(kind, args)} ({where})"


def message(kind: Any, args: Any) -> str:
    """Type and message of an exception."""
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    name = IndexError.__name__ if kind is OutOfBounds else name
    try:
        text = str(kind(*(args or ())))
    except Exception:  # the exception's own constructor failed; its arguments are shown instead
        text = ", ".join(map(str, args or ()))
    return f"{name}: {text}" if text else name


def place_text(place: tuple[str, str, int]) -> str:
    """Where an exception happened, given function, file and line; the function may be empty."""
    function, file, line = place
    return f"{f'in {function} ' if function else ''}at {file}:{line}"


def is_lasting(kind: Any) -> bool:
    """Whether `message` follows from type and arguments alone, and from no code of the user's."""
    libraries = ("builtins", "numba", "numpy", "kernbridge")
    return isinstance(kind, type) and all(
        cls.__module__.partition(".")[0] in libraries
        for cls in kind.__mro__
        if vars(cls).keys() & {"__init__", "__new__", "__repr__", "__str__"}
    )


@functools.cache
def install() -> None:
    """Give the decoder to the core; once, when the first kernel is compiled."""
    from kernbridge._src.numba_common.private_numba import runtime

    _core.set_decoder(describe, runtime.c_helpers["Free"])
