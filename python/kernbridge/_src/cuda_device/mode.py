"""Stores whether a thread's CUDA kernels run on the CPU, and whether they are checked."""

from __future__ import annotations

import threading

RUN, CHECK = "run", "check"


class _Thread(threading.local):
    """What holds for one thread; None leaves it to the process."""

    mode: str | None = None


_thread = _Thread()
of_process: str | None = None  # for all threads, for as long as the process lives


def current() -> str | None:
    """Return RUN or CHECK where launches run on the CPU, None where they go to a GPU."""
    return _thread.mode or of_process


def set_of_thread(mode: str | None) -> str | None:
    """Choose for this thread; returns what was chosen before."""
    before, _thread.mode = _thread.mode, mode
    return before
