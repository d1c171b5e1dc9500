"""Calls a compiled function in a forked process, which can be ended, to see what it returns.

The function may never end for the values that it gets, and compiled code hears no Ctrl-C.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import time
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kernbridge._src.base.errors import quoted
from kernbridge._src.forge.obtain import is_interrupted
from kernbridge._src.toolchain.programs import get_compiler_limits

SECONDS = 30.0
_TICK = 0.05
_PARALLEL = "numba_parallel_for"  # which needs threads that a forked process does not have


def shapes(function: Any, given: Sequence[Any]) -> list[tuple[int, ...]] | str:
    """The shapes of what a dispatcher returns for these arguments, or why they are not known."""
    if any(_PARALLEL in made.library.get_llvm_str() for made in function.overloads.values()):
        return _call(function, given)
    reader, writer = os.pipe()
    limit = min(SECONDS, get_compiler_limits().seconds)
    with warnings.catch_warnings():  # the child calls nothing of JAX
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        _answer(function, given, writer, limit)
    os.close(writer)
    end, text = time.monotonic() + limit, b""
    try:
        while time.monotonic() < end:
            if select.select([reader], (), (), _TICK)[0]:
                text += (part := os.read(reader, 1 << 16))
                if not part:
                    break
            elif is_interrupted():
                raise KeyboardInterrupt
        else:
            return f"it did not end within {limit:g} s"
    finally:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        os.close(reader)
    if not text:
        return f"it ended the process, with status {status}"
    found = json.loads(text)
    return found if isinstance(found, str) else list(map(tuple, found))


def _call(function: Any, given: Sequence[Any]) -> list[tuple[int, ...]] | str:
    try:
        found = function(*given)
    except Exception as e:
        return quoted(e)
    return [np.shape(item) for item in (found if isinstance(found, tuple) else (found,))]


def _answer(function: Any, given: Sequence[Any], writer: int, limit: float) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(math.ceil(limit) + 1)  # the process that would end this one may be gone
        os.write(writer, json.dumps(_call(function, given)).encode())
    finally:
        os._exit(0)
