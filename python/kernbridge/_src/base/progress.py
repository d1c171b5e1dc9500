"""Writes a line to stderr about what takes longer than a second, such as compilations.

Short compilations that follow each other without a pause count together, and are reported, too.
Any thread may enter. A separate thread writes the line, since compilers do not call back. If
nothing can be written, no thread is started.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from kernbridge._src.base import settings

VARIABLE = "KERNBRIDGE_PROGRESS"
QUIET = 1.0
"""Seconds before anything is written."""
PAUSE = 1.0
"""Seconds between two that count as one stretch of time, at most."""
_TICK = 0.25
_ERASE = "\r\x1b[K"


@contextlib.contextmanager
def shown(doing: str) -> Iterator[None]:
    """Write what is being done, such as "compiling f with Numba", if it takes long."""
    if not _is_on():
        yield
        return
    line = _line
    what = line.begin(f"kernbridge: {doing}")
    try:
        yield
    finally:
        line.end(what)


def _is_on() -> bool:
    if not os.environ.get(VARIABLE):
        return _is_terminal() or "ipykernel" in sys.modules
    return settings.switch(VARIABLE) is True


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False


_What = tuple[str, float]  # what is being done, and since when


class _Line:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now: list[_What] = []  # the last one is shown
        self._begin = 0.0  # of the stretch of time
        self._idle_since = -PAUSE
        self._shown: _What | None = None
        self._thread: threading.Thread | None = None

    def begin(self, text: str) -> _What:
        with self._changed:
            now = time.monotonic()
            if not self._now and now - self._idle_since > PAUSE:
                self._begin = now
            self._now.append((text, now))
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            self._changed.notify()
            return text, now

    def end(self, what: _What) -> None:
        with self._changed:
            self._now.remove(what)
            self._idle_since = time.monotonic()
            if self._shown == what:
                seconds = self._idle_since - what[1]
                _write(_ERASE if _is_terminal() else f" {seconds:.1f} s\n")
                self._shown = None

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                if not self._now and now - self._idle_since > PAUSE:
                    self._thread = None
                    return
                if self._now and now - self._begin >= QUIET:
                    self._show(self._now[-1], now)
                self._changed.wait(_TICK)

    def _show(self, what: _What, now: float) -> None:
        text, begin = what
        if _is_terminal():
            _write(f"{_ERASE}{text} ... {now - begin:.0f} s")
        elif what != self._shown:
            _write("\n" * bool(self._shown) + f"{text} ...")
        self._shown = what


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # no stderr, or a closed one
        sys.stderr.write(text)
        sys.stderr.flush()


_line = _Line()
# A process that was forked does not have the thread that writes the line.
os.register_at_fork(after_in_child=lambda: _line.__init__())  # type: ignore[misc]
