"""Faults for the flood to notice: a test that cannot fail proves nothing."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable
from typing import Any


def _wrong(kinds: list[Any], weights: dict[Any, int]) -> None:
    right = kinds[0]
    kinds[0] = dataclasses.replace(right, make=lambda c: right.make(c + (c == 1)))


def _hanging(kinds: list[Any], weights: dict[Any, int]) -> None:
    def hang(worker: Any) -> None:
        if worker.number == 2:
            time.sleep(3600)

    weights[hang] = 20


_kept: list[Any] = []


def _growing(kinds: list[Any], weights: dict[Any, int]) -> None:
    def grow(worker: Any) -> None:
        _kept.append(b"x" * (4 << 20))
        _kept.append(os.open(os.devnull, os.O_RDONLY))
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

    weights[grow] = 200


FAULTS: dict[str, Callable[[list[Any], dict[Any, int]], None]] = {
    "wrong": _wrong,
    "hanging": _hanging,
    "growing": _growing,
}
