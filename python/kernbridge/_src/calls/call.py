"""The static part of one traced call of an operation: `Call`, and the types of arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from kernbridge._src.base.dtypes import wide
from kernbridge._src.base.errors import typed
from kernbridge._src.calls.batch_axes import NONE, BatchAxes, Dim

Term = tuple[str, ...]  # a name for each dimension of an array

WHOLE = "_"  # a dimension that no device has only a part of


def is_inexact(dtype: Any) -> bool:
    return bool(jax.dtypes.issubdtype(dtype, np.inexact))


def has_type(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


class Fields(NamedTuple):
    """The names of the arrays that one argument holds; numbers, if it is a plain tuple."""

    names: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        return self.names[0].isdigit()

    @staticmethod
    def of(value: Any) -> Fields | None:
        """The fields of a tuple, or of another node of a pytree; None if it is no such argument.

        Other nodes, such as registered dataclasses and sparse matrices, hold arrays as attributes.
        """
        if isinstance(value, (jax.Array, np.ndarray, str, list, dict)):
            return None
        names, at = list[Any](), lambda part: part is not value
        for path, leaf in jax.tree_util.tree_leaves_with_path(value, is_leaf=at):
            is_number = has_type(leaf) or isinstance(leaf, (int, float))
            if not path or not is_number or not jax.tree_util.all_leaves([leaf]):
                return None
            name = getattr(path[0], "name", getattr(path[0], "idx", None))
            if name is None:  # its class does not tell JAX
                own = getattr(value, "__dict__", {}).items()
                name = next((n for n, part in own if part is leaf and n not in names), None)
            names.append(name)
        return Fields(tuple(map(str, names))) if names and None not in names else None


@dataclass(frozen=True, slots=True)
class ArrayType:
    shape: tuple[Dim, ...]
    dtype: np.dtype[Any]

    @staticmethod
    def of(value: Any) -> ArrayType:
        return ArrayType(np.shape(value), np.dtype(value.dtype))  # of Python's numbers, too

    def __str__(self) -> str:
        return typed(self.dtype, self.shape)


Types = Sequence[ArrayType]
Operands = tuple[ArrayType, ...]  # as a part of keys


def wide_types(types: Iterable[ArrayType]) -> tuple[ArrayType, ...]:
    return tuple(ArrayType(t.shape, wide(t.dtype)) for t in types)


NamedTypes = Mapping[str, ArrayType]


@dataclass(frozen=True, slots=True)
class Terms:
    """A name for each dimension of the operands and outputs of one call, as the kernel sees them.

    Without a rule, the kernel's dimensions are `WHOLE`, and messages suggest one. The axes of
    `BatchAxes` are called "*0", "*1", and the batch axes that the kernel sees "@0", "@1". Hidden
    results follow the outputs.
    """

    ins: tuple[Term, ...] = ()
    outs: tuple[Term, ...] = ()
    hidden: tuple[Term, ...] = ()
    sums: tuple[str, ...] = ()
    suggested: str = ""

    @staticmethod
    def undeclared(inputs: Types, n_scalars: int, outs: Types) -> Terms:
        left, right = (tuple((WHOLE,) * len(t.shape) for t in types) for types in (inputs, outs))
        n = itertools.count()
        sides = ([" ".join(f"d{next(n)}" for _ in term) for term in side] for side in (left, right))
        rule = '"' + " -> ".join(map(", ".join, sides)) + '"'
        return Terms((*left, *[()] * n_scalars), right, suggested=rule)

    def with_leading(self, mapped: Sequence[bool | None]) -> Terms:
        """Add a batch axis that the kernel sees before the axes of its outputs and operands.

        Each operand has the axis (True), the axis with one slice (False), or no new axis (None).
        """
        batch = f"@{sum(name.startswith('@') for name in self.outs[0])}" if self.outs else WHOLE
        new = {True: (batch,), False: (WHOLE,), None: ()}
        ins = tuple((*new[m], *term) for m, term in zip(mapped, self.ins, strict=True))
        return replace(self, ins=ins, outs=tuple((batch, *term) for term in self.outs))

    @property
    def whole(self) -> Terms:
        arrays = self.ins, self.outs, self.hidden
        ins, outs, hidden = (tuple((WHOLE,) * len(term) for term in terms) for terms in arrays)
        return Terms(ins, outs, hidden)

    def can_split(self, name: str) -> bool:
        """Whether a device can compute one part along this name alone."""
        if name == WHOLE:
            return False
        if name.startswith(("*", "@")):
            return True
        known = any(name == n.partition("+")[0] for term in self.ins for n in term)
        return known and (name in self.sums or all(name in term for term in self.outs))


@dataclass(frozen=True)
class Call:
    """The static part of one traced call, which is a parameter of the JAX primitive.

    Operands are the positional inputs and then the keyword scalars, sorted by name.
    """

    n_inputs: int
    scalars: tuple[str, ...]
    outs: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...]
    vmap_method: str | None
    has_side_effect: bool
    terms: Terms
    levels: BatchAxes = NONE
    vmap_threads: bool | None = None

    @property
    def n_operands(self) -> int:
        """The number of inputs and scalars; outputs are counted from here."""
        return self.n_inputs + len(self.scalars)

    @property
    def read_only(self) -> tuple[int, ...]:
        """The inputs that do not share the memory of an output, and must not be written."""
        aliased = {i for i, _ in self.aliases}
        return tuple(i for i in range(self.n_inputs) if i not in aliased)

    @property
    def fresh(self) -> tuple[int, ...]:
        """The buffers of the outputs that do not share the memory of an input."""
        aliased = {o for _, o in self.aliases}
        return tuple(self.n_operands + o for o in range(len(self.outs)) if o not in aliased)

    def split(self, operands: Types) -> tuple[Types, dict[str, ArrayType]]:
        n = self.n_inputs
        return operands[:n], dict(zip(self.scalars, operands[n:], strict=True))
