"""Chooses how a call is split: which of its dimensions, over which devices.

A split along one name is a number of parts and, for each device, the part that it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernbridge._src.base import private_jax
from kernbridge._src.operation.sharding_rule import Term, Terms
from kernbridge._src.operation.spec import ArrayType


@dataclass(frozen=True)
class Placed:
    """An array of a call: its type, the names of its dimensions, and the sharding that XLA asks."""

    type: ArrayType
    term: Term
    sharding: Any

    @property
    def n_devices(self) -> int:
        """The number of devices of the sharding, 1 if that is not known."""
        return len(self.sharding.tile_assignment_devices()) if self.is_tiled else 1

    @property
    def is_tiled(self) -> bool:
        """Whether the array is stored in parts on several devices."""
        s = self.sharding
        return s is not None and not (s.is_replicated() or s.is_maximal() or s.is_manual())

    def parts(self) -> list[tuple[int, np.ndarray]]:
        """For each dimension the number of parts, and the part of each device."""
        if not self.is_tiled:
            return [(1, np.zeros(0, int))] * len(self.term)
        counts = list(self.sharding.tile_assignment_dimensions())
        devices = np.array(self.sharding.tile_assignment_devices())
        where = np.indices(counts).reshape(len(counts), -1)
        of_device = np.empty_like(where)
        of_device[:, devices] = where
        return list(zip(counts, of_device, strict=True))[: len(self.term)]

    @property
    def n_bytes(self) -> int:
        """Its size."""
        return int(np.prod(self.type.shape, dtype=np.int64)) * self.type.dtype.itemsize


@dataclass
class Choice:
    """The names along which a call is split, with the number of parts and each device's part."""

    terms: Terms
    n_devices: int
    factors: dict[str, tuple[int, np.ndarray]] = field(default_factory=dict)

    @staticmethod
    def make(terms: Terms, arrays: Sequence[Placed], can_lower_again: bool) -> Choice:
        """Split what is asked and can be split; of two wishes, that for the larger array."""
        choice = Choice(terms, max((a.n_devices for a in arrays), default=1))
        for array in sorted(arrays, key=lambda a: -a.n_bytes):
            if array.n_devices != choice.n_devices:
                continue
            for name, (count, part) in zip(array.term, array.parts(), strict=True):
                if count == 1 or name in choice.factors or not terms.can_split(name):
                    continue
                if not can_lower_again and not name.startswith("*"):
                    continue
                if divides(name, count, arrays) and choice._is_free(count, part):
                    choice.factors[name] = count, part
        return choice

    def _cells(self, names: Sequence[str]) -> tuple[int, np.ndarray]:
        """The number of blocks along these names, and the block of each device."""
        n, cells = 1, np.zeros(self.n_devices, int)
        for name in names:
            count, part = self.factors.get(name, (1, np.zeros(self.n_devices, int)))
            n, cells = n * count, cells * count + part
        return n, cells

    def _is_free(self, count: int, part: np.ndarray) -> bool:
        """Whether one more split leaves each block to equally many devices."""
        n, cells = self._cells(list(self.factors))
        each = np.bincount(cells * count + part, minlength=n * count)
        return bool(np.all(each == self.n_devices // (n * count)))

    def local(self, arrays: Sequence[Placed]) -> list[ArrayType]:
        """The parts of arrays that a device has."""
        return [
            ArrayType(
                tuple(d // n for d, n in zip(a.type.shape, self._counts(a.term), strict=True)),
                a.type.dtype,
            )
            for a in arrays
        ]

    def _counts(self, term: Term) -> list[int]:
        return [self.factors[name][0] if name in self.factors else 1 for name in term]

    def sharding(self, term: Term) -> Any:
        """The sharding of an array with these dimensions."""
        _, cells = self._cells(term)
        devices = np.argsort(cells, kind="stable").tolist()
        return private_jax.hlo_sharding(self._counts(term), devices)

    def groups_to_sum(self, term: Term) -> list[list[int]]:
        """The groups of devices whose results of these dimensions are parts of one sum."""
        added = [name for name in self.factors if name not in term]
        added = [name for name in added if name in self.terms.sums]
        kept = [name for name in self.factors if name not in added]
        if not added:
            return []
        n_added, _ = self._cells(added)
        n, cells = self._cells([*kept, *added])
        blocks = np.argsort(cells, kind="stable").reshape(n // n_added, n_added, -1)
        return [group.tolist() for group in blocks.transpose(0, 2, 1).reshape(-1, n_added)]


def divides(name: str, count: int, arrays: Sequence[Placed]) -> bool:
    """Whether the dimension of this name has equal parts."""
    return all(
        size % count == 0
        for array in arrays
        for size, other in zip(array.type.shape, array.term, strict=True)
        if other == name
    )
