"""Decides for all operations when the functions of users that run as a call is traced run again.

JAX keeps what it has traced. A call that a transformation sees is traced again if a derivative
rule, `outs`, a launch function or a generator reads something else than when it last ran.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbridge._src.keys import host_state
from kernbridge._src.keys.host_state import HostState
from kernbridge._src.keys.tokens import Unread

_PASSING = HostState({"": Unread()}, [])  # stands for a state whose traced values are not kept
Functions = list[tuple[str, Callable[..., Any]]]


class Watched:
    """Functions of the user, by name, and what they read when a call was last traced."""

    __slots__ = ("_differs", "_functions", "_state")

    def __init__(self, functions: Callable[[], Functions]) -> None:
        self._functions = functions
        self._state: HostState | None = None
        self._differs = False  # whether what is kept was traced in different states

    def tracing(self) -> HostState:
        """Note that a call is being traced; return what the functions read."""
        before, now = self._state, host_state.take(self._functions())
        self._differs |= before is not None and before != now
        self._state = _PASSING if now.passing else now
        return now

    def look(self, drop: Callable[[], None]) -> HostState:
        """Drop what is kept of earlier traces if it is void, since a transformation sees a call."""
        state = self.tracing()
        if self._differs:
            drop()
        self._differs = False
        return state
