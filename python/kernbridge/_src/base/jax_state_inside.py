"""Access to private state of JAX; the functions return nothing if JAX's names have changed."""

from __future__ import annotations

import operator


def has_started() -> bool:
    """Return whether JAX has started its backends, or a thread does so; False if it is unknown.

    No lock is taken: in a process that was forked, its owner may not exist.
    """
    try:
        from jax._src import xla_bridge

        backends, is_locked = operator.attrgetter("_backends", "_backend_lock.locked")(xla_bridge)
        return bool(backends) or bool(is_locked())
    except (ImportError, AttributeError):
        return False
