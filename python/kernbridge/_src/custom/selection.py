"""Stores the selected backends, and makes JAX trace functions again when the selection changes.

JAX caches traced and compiled functions. The value of a JAX user context is part of the keys of
these caches. Here, it is the difference between the selection now and when operations were first
used. A change therefore reaches functions that are already jitted, changing it back reuses their
compiled programs, and without changes there is no cost.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from kernbridge._src.base import private_jax

PLATFORMS = ("cpu", "gpu", "tpu")
_ALIASES = {"cuda": "gpu", "rocm": "gpu"}

_set_global = private_jax.new_user_context()

_lock = threading.RLock()
_backends: dict[str, str] = {}
_changed: dict[int, Hashable] = {}
_version = 0


def version() -> int:
    """Return a number that grows with each change of a backend that all operations follow."""
    return _version


def platform_of(label: str, platform: object) -> str:
    """Return the platform's name; "cuda" and "rocm" are "gpu"."""
    if not isinstance(platform, str):
        raise TypeError(f"{label}: platform is {platform!r}, expected one of {PLATFORMS} [KB7006]")
    name = name_of(platform)
    if name not in PLATFORMS:
        raise ValueError(f"{label}: platform is {platform!r}, expected one of {PLATFORMS} [KB7006]")
    return name


def name_of(platform: str) -> str:
    """Return the platform's name, also of one that is unknown and has nothing."""
    return _ALIASES.get(platform, platform)


def set_backend(platform: str, backend: str | None) -> None:
    """Choose the backend of all operations that have it, or leave each its own."""
    _note(_backends, platform, backend)


def clear_backends() -> None:
    """Leave every operation its own backend, on every platform."""
    for platform in list(_backends):
        set_backend(platform, None)


def get_backend(platform: str) -> str | None:
    """Return the backend that all operations use if they have it."""
    return _backends.get(platform)


def changed(operation: int, state: Hashable | None) -> None:
    """Note how an operation differs from what it was when it was first used; None: it does not."""
    _note(_changed, operation, state)


def _note(known: dict[Any, Any], key: Hashable, value: Hashable | None) -> None:
    global _version
    with _lock:
        if known.get(key) == value:
            return
        if value is None:
            del known[key]
        else:
            known[key] = value
        if known is _backends:
            _version += 1
        state = (tuple(sorted(_backends.items())), tuple(sorted(_changed.items())))
        _set_global(state if any(state) else None)
