"""Temporary replacement of attributes of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Set attributes, each given as an owner, a name and a value, and restore them at the end."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for change in changes:
            setattr(*change)
        yield
    finally:
        for original in reversed(before):
            setattr(*original)


def replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute that must exist: nothing would read one that another version lacks."""
    getattr(owner, name)
    setattr(owner, name, value)
