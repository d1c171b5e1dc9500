"""Compiles the kernels of one program at the same time, if their compiler allows it, as NVRTC does.

JAX lowers the calls of a program one after the other, after it has traced them all. When the first
of them is lowered, threads compile the kernels of all, and the lowering waits for them. Errors are
raised by the call, which compiles again when it is lowered.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from kernbridge._src.operation.primitive import watching

_KEPT = 64  # front ends whose calls were traced, and may be lowered next
THREADS_MAX = 16

Work = tuple[Callable[[Any], object], Hashable]  # a function, and its argument


_thread = threading.local()


def _watch(frontend: Any, platform: str) -> None:
    """Note what is traced; compile all of it before the next lowering."""
    traced: deque[weakref.ref[Any]]
    traced = vars(_thread).setdefault("traced", deque(maxlen=_KEPT))
    if not platform:
        if getattr(frontend, "compilation", lambda platform: None)("") is not None:
            traced.append(weakref.ref(frontend))
        return
    found = [reference() for reference in traced]
    traced.clear()
    works = [f.compilation(platform) for f in found if f is not None and platform in f.platforms]
    distinct = [work for work in dict.fromkeys(works) if work is not None]
    if len(distinct) > 1:
        n_threads = min(len(distinct), len(os.sched_getaffinity(0)), THREADS_MAX)
        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="kernbridge-compile")
        running = [pool.submit(*work) for work in distinct]
        pool.shutdown(wait=False)
        wait(running)


watching.append(_watch)
