"""The end of the process: XLA waits for its threads then. Those that are in Python must leave it
before Python ends, since they could not do so afterwards.

A thread is there while it compiles a kernel of a loaded program, or calls a function of the user.
"""

from __future__ import annotations

import atexit
import functools
import sys

import jax  # noqa: F401  # whose own handlers, registered before ours, are called after it

from kernbridge import _core


@functools.cache
def install() -> None:
    """Have `_end` called at exit."""
    atexit.register(_end)


def _end() -> None:
    """Wait for these threads; after Ctrl-C, interrupt what they do."""
    kind = getattr(sys, "last_type", None)
    _core.end_entries(kind is not None and issubclass(kind, KeyboardInterrupt))
