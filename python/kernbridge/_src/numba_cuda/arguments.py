"""Reads kernel arguments: numbers, members of enumerations, and tuples of these."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbridge._src.plan.parameters import DeviceParameter, Parameter, TupleParameter
from kernbridge._src.plan.program import Word

Leaf = tuple[DeviceParameter, list[Word]]


class NotAnArgument(Exception):
    """A kernel does not take such a value."""


def typed_scalar(value: Any) -> Any:
    """Return a NumPy scalar of the type that an argument has for Numba; None if it is none."""
    if isinstance(value, np.generic):
        return value if value.dtype.kind in "biufc" else None
    if isinstance(value, int) and not isinstance(value, bool):
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(value)
    kinds: Any = ((bool, np.bool_), (float, np.float64), (complex, np.complex128))
    return next((made(value) for kind, made in kinds if isinstance(value, kind)), None)


def read_argument(
    value: Any, read_leaf: Callable[[Any], Leaf | None], place: str = ""
) -> tuple[Parameter, list[list[Word]]]:
    """The parameter that a value is passed to, and the words of each of its leaves.

    `read_leaf` is asked first, and returns None for what it does not know. NotAnArgument says what
    no kernel takes; `place` is where in the argument it was.
    """
    leaf = read_leaf(value)
    if leaf is not None:
        return leaf[0], [leaf[1]]
    if isinstance(value, enum.Enum):
        parameter, words = _read_member(value, place)
        return parameter, [words]
    if isinstance(value, tuple):
        found = [read_argument(v, read_leaf, ", in a tuple") for v in value]
        made_by = type(value) if hasattr(value, "_fields") else None
        members = tuple(parameter for parameter, _ in found)
        return TupleParameter(members, made_by), [words for _, all_ in found for words in all_]
    scalar = typed_scalar(value)
    if scalar is None:
        remedy = "; pass a tuple" if isinstance(value, list) else ""
        raise NotAnArgument(f"a kernel argument of type {type(value).__name__}{place}{remedy}")
    return DeviceParameter("scalar", scalar.dtype), [_words(scalar)]


@dataclass(frozen=True, slots=True)
class StaticArgument:
    """An argument that is the same at every call."""

    value: Any
    parameter: Parameter
    words: tuple[tuple[Word, ...], ...]  # of each leaf


def read_static(
    label: str, function: Callable[..., Any], given: Mapping[str, Any]
) -> dict[str, StaticArgument]:
    """The argument `static` of an operation of this function, checked."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    found = {}
    for name, value in given.items():
        if name not in names:
            raise ValueError(
                f"{label}: static contains {name!r}, but the kernel ({', '.join(names)}) has no "
                "such parameter [KB1103]"
            )
        try:
            parameter, words = read_argument(value, lambda _: None)
        except NotAnArgument as e:
            raise TypeError(
                f"{label}: static contains {value!r} for {name!r}: {e}; expected numbers, members "
                "of enumerations, or tuples of these. Pass arrays as inputs [KB1103]"
            ) from None
        found[name] = StaticArgument(value, parameter, tuple(map(tuple, words)))
    return found


def _read_member(value: enum.Enum, place: str) -> Leaf:
    """A member of an enumeration, which a kernel gets by its value."""
    scalar = None if isinstance(value.value, enum.Enum) else typed_scalar(value.value)
    if scalar is None:
        raise NotAnArgument(
            f"the member {value.name} of the enumeration {type(value).__name__}, whose value is a "
            f"{type(value.value).__name__} and not a number, as a kernel argument{place}"
        )
    return DeviceParameter("scalar", scalar.dtype, enumeration=type(value)), _words(scalar)


def _words(scalar: Any) -> list[Word]:
    """The bits of a scalar."""
    data = scalar.tobytes().ljust(16 if scalar.itemsize > 8 else 8, b"\0")
    return [Word("constant", int(n)) for n in np.frombuffer(data, np.int64)]


def read_vector_math(label: str, given: Any, is_checked: bool) -> bool | None:
    """The argument `vector_math` of an operation, checked."""
    if given is None:
        return None
    if given and is_checked:
        raise ValueError(
            f"{label}: vector_math=True and check=True cannot be combined: the checked mode runs "
            "the threads of a block one by one; remove one of the two [KB1005]"
        )
    return bool(given)
