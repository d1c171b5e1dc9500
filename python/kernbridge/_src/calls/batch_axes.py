"""Describes the `vmap`s around a call: their number, their sizes, and the operands that they map.

Level 0 is the innermost `vmap`; bit k of `masks[i]` says that operand i has an axis for level k.
Batch axes come before an array's own, the outermost level first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

Dim = Any  # an int, or a symbolic dimension of jax.export
Arrays = Sequence[Any]  # of JAX, or what stands for them while it traces


@dataclass(frozen=True, slots=True)
class BatchAxes:
    """Nested `vmap`s. Without any, `masks` is empty."""

    sizes: tuple[Dim, ...] = ()
    masks: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sizes)

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.sizes[::-1]

    def mask_of(self, operand: int) -> int:
        return self.masks[operand] if self.sizes else 0

    def own_shape(self, operand: int, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(shape[self.masks[operand].bit_count() :] if self.sizes else shape)

    def inside(self, size: Dim, mapped: Sequence[bool]) -> BatchAxes:
        """Add an outer `vmap`, which put a leading axis in front of the operands in `mapped`."""
        bit = 1 << len(self.sizes)
        masks = tuple(self.mask_of(i) | (bit if m else 0) for i, m in enumerate(mapped))
        return BatchAxes((*self.sizes, size), masks)

    def choose(self, operands: Sequence[int | None]) -> BatchAxes:
        """The levels of a call on some operands of this call; None is an array with every level."""
        if not self.sizes:
            return self
        every = (1 << len(self.sizes)) - 1
        return BatchAxes(self.sizes, tuple(every if i is None else self.masks[i] for i in operands))

    def axes_missing(self, operand: int) -> tuple[int, ...]:
        """Batch axes of an array with every level that this operand does not have."""
        n, mask = len(self.sizes), self.mask_of(operand)
        return tuple(n - 1 - k for k in range(n) if not mask >> k & 1)


NONE = BatchAxes()


def to_front(operands: Arrays, dims: Sequence[Any]) -> tuple[Dim, list[bool], list[Any]]:
    """Move the mapped axes of a batching rule's operands to the front.

    Returns the size of the batch, which operands are mapped, and the operands.
    """
    mapped = [d is not None for d in dims]
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    front = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
    return size, mapped, front


def vmapped(function: Callable[..., Any], levels: BatchAxes) -> Callable[..., Any]:
    for k, size in enumerate(levels.sizes):
        in_axes = tuple(0 if mask >> k & 1 else None for mask in levels.masks)
        function = jax.vmap(function, in_axes=in_axes, axis_size=size)
    return function
