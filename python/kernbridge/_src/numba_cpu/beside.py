"""LLVM's part of compiling a kernel, done by a thread while Numba works on the next one.

The thread optimises the library of an entry and makes the object. It takes no lock but llvmlite's,
which nobody holds while waiting for anything: whoever waits for the thread may hold any other lock.
Imported only when a kernel is compiled.
"""

from __future__ import annotations

import os
from concurrent import futures

from kernbridge._src.numba_cpu import object_code
from kernbridge._src.numba_cpu.entry import Entry
from kernbridge._src.numba_cpu.exception_texts import NotCarried
from kernbridge._src.numba_cpu.object_code import ObjectCode

Made = ObjectCode | NotCarried | None
"""The object, or why there is none; None if the thread could not find out."""

_running: set[futures.Future[Made]] = set()


def start(entry: Entry) -> futures.Future[Made] | None:
    """Let a thread make the object of an entry, which nobody else uses until then.

    None if there can be no threads any more.
    """
    pool = futures.ThreadPoolExecutor(1, thread_name_prefix="kernbridge-compile")
    try:
        thread = pool.submit(_make, entry)
    except RuntimeError:
        return None
    finally:
        pool.shutdown(wait=False)
    _running.add(thread)
    thread.add_done_callback(_running.discard)
    return thread


def _make(entry: Entry) -> Made:
    try:
        return object_code.make(entry, may_call_user=False)
    except NotCarried as e:
        return e
    except Exception:  # the call makes it again, and raises it
        return None


def _wait() -> None:
    """Wait before this process is forked: a child has neither the threads nor the lock of one."""
    futures.wait(tuple(_running))


os.register_at_fork(before=_wait)
