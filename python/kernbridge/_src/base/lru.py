"""A small cache of recently used values, and values attached to an object of the user.

Both can be used from any thread.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_clock = itertools.count()
_lock = threading.RLock()
_ATTRIBUTE = "_kernbridge"


class LRUCache(Generic[T]):
    """Values by key, of which the least recently used one is dropped when there are too many.

    Finding a value takes no lock and hashes its key once. A value is made once: threads that ask
    for the same new key wait for the first.
    """

    __slots__ = ("_entries", "_limit", "_lock")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[Hashable, list[Any]] = {}  # of each key: its value, when it was used
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Hashable) -> T | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry[1] = next(_clock)
        return entry[0]

    def find_or_make(self, key: Hashable, make: Callable[[], T]) -> T:
        found = self.find(key)
        if found is not None:
            return found
        with self._lock:
            found = self.find(key)
            if found is None:
                found = make()
                self.put(key, found)
            return found

    def put(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._entries[key] = [value, next(_clock)]
            while len(self._entries) > self._limit:
                del self._entries[min(self._entries, key=lambda k: self._entries[k][1])]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


class _Attached:
    """What kernbridge keeps with one object, and a weak reference to that object."""

    __slots__ = ("owner", "parts")

    def __init__(self, owner: object) -> None:
        self.owner = weakref.ref(owner)
        self.parts: dict[Hashable, Any] = {}

    def __reduce__(self) -> Any:
        return type(None), ()  # a copy has None: what is kept belongs to this object and process


def attached_to(owner: Any, name: Hashable, make: Callable[[], T]) -> T:
    """Return a value that lives as long as a function or a dispatcher; `make` makes it once.

    It is kept in the object's ``__dict__``, so that a value which refers to the object is collected
    with it. `functools.wraps`, and Numba when it wraps a function, copy that ``__dict__`` into
    other objects: what is kept knows its owner, and a copy of it counts as nothing.
    """
    with _lock:
        attached = owner.__dict__.get(_ATTRIBUTE)
        if not isinstance(attached, _Attached) or attached.owner() is not owner:
            attached = owner.__dict__[_ATTRIBUTE] = _Attached(owner)
        if name not in attached.parts:
            attached.parts[name] = make()
        return attached.parts[name]
