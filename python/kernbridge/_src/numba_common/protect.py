"""Compiles a kernel with as many read-only inputs as it allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kernbridge._src.base import versions
from kernbridge._src.base.errors import UnknownVersionError
from kernbridge._src.base.reports import instead_of


class ReturnsValue(TypeError):
    """A kernel returns something; users see a TypeError."""

    def __init__(self, label: str, result: Any, remedy: str = "") -> None:
        super().__init__(
            f"{label}: the kernel returns {result}, expected nothing; write results into the "
            f"output arrays, which come after the inputs{remedy} [KB4002]"
        )


def compile_protected(
    protected: Iterable[int],
    compile_opened: Callable[[frozenset[int]], Any],
    refusal: Callable[[Exception], Exception],
) -> tuple[Any, tuple[int, ...]]:
    """Compile a kernel; return the result, and the inputs that had to be opened to writes.

    `compile_opened` compiles with these of the protected inputs open. Whatever Numba raises counts,
    since its typing of read-only arrays trips over errors of many kinds. `refusal` makes the error
    of a kernel that cannot be compiled with all inputs open.
    """
    every = frozenset(protected)

    def attempt(opened: frozenset[int]) -> tuple[Any, Exception | None]:
        try:
            return compile_opened(opened), None
        except ReturnsValue as e:
            raise TypeError(str(e)) from None
        except UnknownVersionError:
            raise
        except Exception as e:
            if missing := versions.missing_name(e):
                raise missing from e
            return None, e

    found, error = attempt(frozenset())
    if error is None:
        return found, ()
    if every:
        found, error = attempt(every)
    if error is not None:
        raise instead_of(error, refusal(error))
    opened = every
    for i in sorted(every) if len(every) > 1 else ():  # close what need not be open
        closed, error = attempt(opened - {i})
        if error is None:
            opened, found = opened - {i}, closed
    return found, tuple(sorted(opened))
