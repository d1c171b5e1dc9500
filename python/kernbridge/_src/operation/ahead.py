"""Compiles the kernels of one program at the same time, as far as the compilers allow it.

JAX lowers the calls of a program one after the other, after it has traced them all. When the first
of them is lowered, threads compile the kernels of the others, too, if their front end allows it:
NVRTC does. Each call then waits for its own kernel. Errors are raised by the call, which compiles
again when it is lowered.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from kernbridge._src.operation.spec import ArrayType, Call

_KEPT = 64  # calls that were traced, and may be lowered next
THREADS_MAX = 16

Work = tuple[Callable[[Any], object], Hashable]  # a function, and what it is called with


class _Thread(threading.local):
    """What one thread traced, and what is compiled for it."""

    def __init__(self) -> None:
        self.traced: deque[Any] = deque(maxlen=_KEPT)
        self.running: dict[Any, Future[None]] = {}


_thread = _Thread()


def note(frontend: Any, call: Call, operands: Sequence[Any]) -> None:
    """Remember a call of a front end that is traced."""
    if frontend.compiles_ahead:
        types = [(x.shape, x.dtype) for x in operands]
        _thread.traced.append((weakref.ref(frontend), call, types))


def compile_all(frontend: Any, platform: str, types: Sequence[ArrayType], call: Call) -> None:
    """Compile the kernels of the calls that this thread has traced, if there are several.

    To be called for each call that is lowered.
    """
    traced = list(_thread.traced)
    if not traced:
        return
    _thread.traced.clear()
    if len(traced) < 2:
        return
    todo: dict[Any, Work] = {}
    for reference, other, given in traced:
        owner = reference()
        if owner is None or platform not in owner.platforms:
            continue
        with contextlib.suppress(Exception):  # which the call itself raises when it is lowered
            own = own_types(other, given)
            work = owner.compilation(platform, own, other)
            if work is not None:
                todo[_key(owner, platform, own, other)] = work
    distinct = dict.fromkeys(todo.values())  # in the order of the program
    if len(distinct) < 2:
        return
    n_threads = min(len(distinct), len(os.sched_getaffinity(0)), THREADS_MAX)
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="kernbridge-compile")
    running = {work: pool.submit(_quietly, *work) for work in distinct}
    _thread.running = {key: running[work] for key, work in todo.items()}
    pool.shutdown(wait=False)


def wait(frontend: Any, platform: str, types: Sequence[ArrayType], call: Call) -> None:
    """Wait until the kernel of a call is compiled, if a thread does so."""
    if _thread.running:
        running = _thread.running.pop(_key(frontend, platform, types, call), None)
        if running is not None:
            running.result()


def own_types(call: Call, types: Sequence[tuple[Any, Any]]) -> list[ArrayType]:
    """The types that a kernel sees of operands of these shapes and dtypes."""
    return [
        ArrayType(call.levels.own_shape(i, shape), np.dtype(dtype))
        for i, (shape, dtype) in enumerate(types)
    ]


def _key(frontend: Any, platform: str, types: Sequence[ArrayType], call: Call) -> Any:
    return id(frontend), platform, tuple(types), call  # keeps no kernel alive


def _quietly(function: Callable[[Any], object], argument: Hashable) -> None:
    with contextlib.suppress(Exception):  # the call compiles again, and raises it
        function(argument)
