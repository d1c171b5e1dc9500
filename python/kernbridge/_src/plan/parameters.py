"""The parameters of a GPU kernel as its entry takes them: arrays, scalars, records and tuples.

The arguments of a kernel are described here without Numba; `entry` makes Numba's types of them.
The leaves of a list of parameters are the parameters that are not tuples, and the members of tuples
at every depth, in their order. Each leaf has its words in the launch.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class DeviceParameter:
    """One parameter of the kernel, or a member of one that is a tuple.

    `kind` is "array"; "record", an element of an array of records; "loaded", a scalar that lies in
    a buffer of one element; or "scalar", whose value the words hold. `dtype` is a NumPy or
    ml_dtypes dtype.
    """

    kind: str
    dtype: np.dtype[Any]
    ndim: int = 0
    layout: str = "C"
    read_only: bool = False
    keyword: str = ""  # passed by name, after a parameter that was left to its default
    enumeration: Any = None  # the class of a scalar that is a member of one

    def n_words(self, batched: bool) -> int:
        if self.kind == "scalar":
            return 2 if self.dtype.itemsize > 8 else 1
        strides = 0 if self.layout == "C" else self.ndim
        return 1 + batched + self.ndim + strides

    def describe(self) -> str:
        if self.enumeration is not None:
            return str(self.enumeration.__name__)
        name = str(self.dtype) if self.dtype.names else self.dtype.name
        return f"{name}[{self.ndim}d]" if self.kind == "array" else name

    def identity(self) -> tuple[Any, ...]:
        """All that the machine code depends on, as plain values."""
        found = (self.kind, self.dtype, self.ndim, self.layout, self.read_only, self.keyword)
        if self.enumeration is None:
            return found
        members = self.enumeration.__members__.items()
        values = tuple((name, type(m.value).__name__, repr(m.value)) for name, m in members)
        return (*found, (*_name(self.enumeration), values))


@dataclass(frozen=True, slots=True)
class TupleParameter:
    """A tuple, or a named tuple of the class `made_by`."""

    members: tuple[Parameter, ...]
    made_by: Any = None
    keyword: str = ""

    def n_words(self, batched: bool) -> int:
        return sum(member.n_words(batched) for member in self.members)

    def describe(self) -> str:
        inside = ", ".join(member.describe() for member in self.members)
        if self.made_by is not None:
            return f"{self.made_by.__name__}({inside})"
        return f"({inside},)" if len(self.members) == 1 else f"({inside})"

    def identity(self) -> tuple[Any, ...]:
        """All that the machine code depends on, as plain values."""
        made_by = self.made_by
        name = None if made_by is None else (*_name(made_by), made_by._fields)
        members = tuple(member.identity() for member in self.members)
        return ("tuple", name, members, self.keyword)


Parameter = DeviceParameter | TupleParameter


def leaves(parameters: Iterable[Parameter]) -> Iterator[DeviceParameter]:
    for parameter in parameters:
        if isinstance(parameter, TupleParameter):
            yield from leaves(parameter.members)
        else:
            yield parameter


def with_open(parameters: Iterable[Parameter], opened: Collection[int]) -> tuple[Parameter, ...]:
    """Return these parameters; the kernel may write to the leaves with the numbers `opened`."""
    numbers = itertools.count()

    def change(parameter: Parameter) -> Parameter:
        if isinstance(parameter, TupleParameter):
            return replace(parameter, members=tuple(map(change, parameter.members)))
        return replace(parameter, read_only=False) if next(numbers) in opened else parameter

    return tuple(map(change, parameters))


def _name(made_by: Any) -> tuple[str, str]:
    return made_by.__module__, made_by.__qualname__
