"""Matches the leaves of `outs` with the outputs of a kernel, by name or by place.

JAX orders the values of a dict by its sorted keys, which is seldom the order in which a kernel
takes its outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.tree_util import DictKey, GetAttrKey


@dataclass(frozen=True, slots=True)
class OutputTree:
    """The pytree of a call's outputs, with its leaves in the order of the kernel's outputs."""

    tree: Any  # of JAX
    names: tuple[str, ...]  # the key or field that holds each leaf; empty for items of sequences
    written: tuple[int, ...]  # the leaves' numbers, in the order in which the user wrote them
    order: tuple[int, ...]  # the kernel's output j is leaf order[j] of the tree

    @staticmethod
    def of(outs: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], OutputTree]:
        """The leaves of a pytree, and the tree in JAX's order."""
        kind: Any = type(outs)
        if kind in (list, tuple) and all(map(is_leaf, outs)):
            return list(outs), _sequence_of(kind, len(outs))
        leaves, tree = jax.tree_util.tree_flatten_with_path(outs, is_leaf=is_leaf)
        order = tuple(range(len(leaves)))
        written = tuple(_as_written(outs, tree.unflatten(order)))
        names = tuple(_name(path) for path, _ in leaves)
        return [leaf for _, leaf in leaves], OutputTree(tree, names, written, order)

    def __str__(self) -> str:
        return str(self.tree)

    def unflatten(self, outputs: Sequence[Any]) -> Any:
        """The pytree that holds these outputs."""
        leaves = dict(zip(self.order, outputs, strict=True))
        return self.tree.unflatten([leaves[i] for i in range(len(leaves))])

    def flatten_up_to(self, value: Any) -> list[Any]:
        """What a pytree of the same form holds in place of each output."""
        leaves = self.tree.flatten_up_to(value)
        return [leaves[i] for i in self.order]

    def check(self, label: str, parameters: Sequence[str]) -> None:
        """Refuse a dict that JAX reorders, and whose keys are not names of the kernel's parameters.

        No call of the operation could tell which output is which.
        """
        if not self._are_unique() or not set(self.names) <= set(parameters):
            self._refuse_reordered(label, parameters)

    def in_order(self, label: str, parameters: Sequence[str]) -> OutputTree:
        """Return the tree with its leaves in the order of the kernel's output parameters.

        ValueError is raised if the keys are neither the names of the parameters nor in their order.
        """
        if self._are_unique() and set(self.names) == set(parameters):
            return replace(self, order=tuple(map(self.names.index, parameters)))
        self._refuse_reordered(label, parameters)
        for name, parameter in zip(self.names, parameters, strict=False):
            if name != parameter and name in parameters:
                raise ValueError(
                    f"{label}: `outs` has the keys {_listed(self.names)}, but the kernel's "
                    f"outputs are {_listed(parameters)}: {name!r} would be filled by the "
                    f"parameter {parameter!r}. Name every output like its parameter, or pass a "
                    "tuple in the order of the parameters [KB1003]"
                )
        return self

    def _are_unique(self) -> bool:
        return len(set(self.names)) == len(self.names)

    def _refuse_reordered(self, label: str, parameters: Sequence[str]) -> None:
        if self.written == tuple(range(len(self.written))):
            return
        named = [name for name in parameters if name]
        remedy = "name the keys like the kernel's parameters, " if named else ""
        of = f", which are none of its outputs ({_listed(named)})" if named else ""
        raise ValueError(
            f"{label}: the keys of `outs` are written in the order "
            f"{_listed([self.names[i] for i in self.written])}{of}, but JAX orders the outputs of "
            f"a dict by their sorted keys, {_listed(self.names)}, so the kernel would fill them "
            f"in a different order. To make the order clear, {remedy}write the keys in sorted "
            "order, or pass a tuple or a named tuple in the order of the kernel's outputs "
            "[KB1003]"
        )


@functools.lru_cache(maxsize=64)
def _sequence_of(kind: type, length: int) -> OutputTree:
    """The tree of a list or a tuple of leaves."""
    order = tuple(range(length))
    return OutputTree(jax.tree.structure(kind(order)), ("",) * length, order, order)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) if name else "(no name)" for name in names)


def _name(path: Sequence[Any]) -> str:
    last = path[-1] if path else None
    if isinstance(last, DictKey):
        return last.key if isinstance(last.key, str) else repr(last.key)
    return last.name if isinstance(last, GetAttrKey) else ""


def _as_written(node: Any, numbered: Any) -> Iterator[int]:
    """Yield the numbers of the leaves of a node in JAX's order, but dicts in their own."""
    if isinstance(numbered, int):
        yield numbered
    elif isinstance(node, dict):
        for key in node:
            yield from _as_written(node[key], numbered[key])
    else:
        flatten = jax.tree_util.default_registry.flatten_one_level
        for parts in zip(flatten(node)[0], flatten(numbered)[0], strict=True):
            yield from _as_written(*parts)
