"""Numbers for lines of the user's files, which fit into a status of Numba's."""

from __future__ import annotations

import hashlib
import threading
from typing import NamedTuple

FIRST = 2  # Numba's own status is 1
_COUNT = 2**31 - FIRST


class Place(NamedTuple):
    """A line of a user's file."""

    function: str  # empty if it is not known
    file: str
    line: int


_places: dict[int, Place] = {}
_lock = threading.Lock()


def note(place: Place) -> int:
    """The number of a place: the same in every process, but for the rare collision."""
    digest = hashlib.sha256(repr(tuple(place)).encode("utf-8", "backslashreplace")).digest()
    number = int.from_bytes(digest[:8], "little") % _COUNT
    with _lock:
        while _places.setdefault(number + FIRST, place) != place:
            number = (number + 1) % _COUNT
    return number + FIRST


def place_of(number: int) -> Place | None:
    """The place of a number; None if this process did not note it."""
    return _places.get(number)
