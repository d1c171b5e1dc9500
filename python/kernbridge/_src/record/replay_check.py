"""Decides whether a recording of a function may be replayed for every later call.

A plan is the same for all later calls. It would be wrong for a function that draws random numbers,
counts, or reads a clock, since such a function behaves differently at each call. Every function is
therefore recorded twice. The recordings must be equal, and the second one must not change anything
that the function reads. The first one may, since functions may fill their own caches.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernbridge._src.base.reports import beginning_of, line_of
from kernbridge._src.keys import host_state
from kernbridge._src.keys.extensions import is_foreign_name
from kernbridge._src.plan.program import Launch, Step

if TYPE_CHECKING:
    from types import FrameType

_CLOCKS = tuple(
    getattr(time, name)
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time")
    for name in (name, f"{name}_ns")
)
_CLOCKS_BY_NAME = ("datetime.now", "datetime.utcnow", "date.today")


class NotRecordable(BaseException):
    """The function did what no plan can hold. Not an Exception, which functions might catch."""


def record_twice(function: Callable[..., Any], record: Callable[[], Any]) -> Any:
    """Record a function twice by `record`, and return the second recording.

    NotRecordable says what differs if a plan cannot stand for later calls, and at which line.
    """
    first = record()
    name = getattr(function, "__name__", type(function).__name__)
    before = host_state.take([(name, function)])
    clocks: list[str] = []
    try:
        with _watching(clocks):
            second = record()
    except Exception as e:
        raise NotRecordable(
            f"it can run only once: the second time, it raised {type(e).__name__}: {e} at "
            f"{line_of(e)}"
        ) from None
    for i, (one, other) in enumerate(zip(first.steps, second.steps, strict=False)):
        if _comparable(one) == _comparable(other):
            continue
        what = f"{one} becomes {other}"
        for name, value in first.details[i].items():
            if second.details[i].get(name, value) != value:
                what = f"{name} is {value} the first time and {second.details[i][name]} the second"
                break
        raise NotRecordable(
            f"it behaves differently each time it runs: {what} at {first.places[i]}"
        )
    if len(first.steps) != len(second.steps):
        longer = max(first, second, key=lambda r: len(r.steps))
        place = longer.places[min(len(first.steps), len(second.steps))]
        raise NotRecordable(
            f"it behaves differently each time it runs: {len(first.steps)} launches, fills and "
            f"copies the first time and {len(second.steps)} the second, the next one at {place}"
        )
    if first.temporaries != second.temporaries:
        raise NotRecordable("it allocates other temporaries each time it runs")
    changed = before.changes(host_state.take([(name, function)]))
    if changed:
        random = [path for path in changed if path.endswith("(random state)")]
        path = (random or changed)[0].removesuffix(" (random state)")
        what = f"it draws random numbers from {path!r}" if random else f"it changes {path!r}"
        raise NotRecordable(
            f"{what} each time it runs, but a recording is replayed without running it; it begins "
            f"at {beginning_of(function)}"
        )
    if clocks:
        raise NotRecordable(
            f"it reads a clock, {clocks[0]}, whose value would be fixed in a recording"
        )
    return second


def _comparable(step: Step) -> Any:
    """A step whose machine code is compared by its identity, not as an object."""
    if not isinstance(step, Launch):
        return step
    function = step.function
    blank: Any = None
    return (function.identity, function.entry, function.auto_shared, replace(step, function=blank))


@contextmanager
def _watching(found: list[str]) -> Iterator[None]:
    """Note where the user's code reads a clock on this thread.

    The garbage collector pauses meanwhile, since callbacks of libraries read clocks when it runs.
    """
    before, collects = sys.getprofile(), gc.isenabled()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if (
            event == "c_call"
            and not found
            and (argument in _CLOCKS or getattr(argument, "__qualname__", "") in _CLOCKS_BY_NAME)
            # Python, Numba and kernbridge read clocks for their own use.
            and not is_foreign_name(frame.f_globals.get("__name__"))
        ):
            name = f"{getattr(argument, '__module__', None) or 'datetime'}.{argument.__qualname__}"
            found.append(f"{name}, at {frame.f_code.co_filename}:{frame.f_lineno}")
        if before is not None:
            before(frame, event, argument)  # type: ignore[arg-type]

    gc.disable()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
