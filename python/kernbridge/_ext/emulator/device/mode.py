"""Stores whether a thread's CUDA kernels run on the CPU, and whether they are checked."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

RUN, CHECK = "run", "check"


thread = threading.local()  # `mode`: what holds for it; None leaves it to the process
of_process: str | None = None  # for all threads, for as long as the process lives


def current() -> str | None:
    """Return RUN or CHECK where launches run on the CPU, None where they go to a GPU."""
    return getattr(thread, "mode", None) or of_process


def choose(
    owner: Any, name: str, on_cpu: Callable[..., Any], of: Callable[[Any], bool] | None = None
) -> None:
    """Replace a function where launches run on the CPU, or for the first arguments it is `of`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        is_on_cpu = current() is not None if of is None else of(args[0])
        return (on_cpu if is_on_cpu else original)(*args, **kwargs)

    setattr(owner, name, chosen)
