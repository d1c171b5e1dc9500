"""Delays Ctrl-C until Numba and LLVM have finished compiling.

Neither of them is written for exceptions at any point: after a KeyboardInterrupt, a later
compilation could fail with an internal error, or LLVM could free memory twice.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let a Ctrl-C wait for the end of this; the second one is heard at once.

    Does nothing in other threads, to which Python does not pass signals, nor where Ctrl-C is
    ignored or ends the process.
    """
    heard = signal.getsignal(signal.SIGINT)
    if not callable(heard) or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> Any:
        if pressed:
            return heard(number, frame)
        pressed.append(number)
        return None

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, heard)
        if pressed:
            signal.raise_signal(signal.SIGINT)
