"""Keys for what is known by which object it is, or not at all. Holds no state."""

from __future__ import annotations

import hashlib
import pickle
import random
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

from kernbridge._src.keys.encode import reference


class Same:
    """A key that equals another one only if both stand for the same living object."""

    __slots__ = ("_hash", "_ref")

    def __init__(self, value: object) -> None:
        self._hash = hash((type(value), id(value)))
        self._ref = reference(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return NotImplemented
        value = self._ref()
        return self is other or (value is not None and value is other._ref())


class Unread:
    """Stands for what cannot be read. Equals nothing but itself."""


def identity_of(function: Any) -> Hashable:
    """Return a key for what is called: methods by function and object, anything else by itself."""
    if isinstance(function, types.MethodType):
        return (types.MethodType, identity_of(function.__func__), Same(function.__self__))
    return Same(function)


def random_state(value: Any) -> Hashable | None:
    """Return a key for the state of a generator of random numbers; None if the value is none."""
    generator = value.bit_generator if isinstance(value, np.random.Generator) else value
    state: Any
    if isinstance(value, random.SystemRandom):
        return Unread()
    if isinstance(value, random.Random):
        state = value.getstate()
    elif isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)
    elif isinstance(generator, np.random.BitGenerator):
        state = generator.state
    else:
        return None
    return hashlib.sha256(pickle.dumps(state)).digest()
