"""Refuses calls of operations in processes that were forked after JAX had started.

XLA's threads do not exist in such a process, so whatever waits for them, such as the compilation of
a program or a large computation, would wait forever.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from kernbridge._src.base import private_jax
from kernbridge._src.base.errors import KernelError
from kernbridge._src.operation.operation import Operation


def _refuse(operation: Operation, *inputs: Any, **scalars: Any) -> NoReturn:
    raise KernelError(
        f"{operation.spec.label}: this process was forked after JAX had started, and does not "
        'have JAX\'s threads; start it with the method "spawn" or "forkserver" of '
        "multiprocessing, or fork before the first use of JAX [KB7008]"
    )


def _after_fork() -> None:
    if private_jax.has_started():  # a check in each call would cost time
        Operation.__call__ = _refuse  # type: ignore[method-assign]


def watch() -> None:
    """Let the children of this process refuse calls, if it forks after JAX has started."""
    os.register_at_fork(after_in_child=_after_fork)
