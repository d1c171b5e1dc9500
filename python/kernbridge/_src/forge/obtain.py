"""Makes each artefact once: per process, per machine, and by one thread of one process.

A front end describes a compilation as a `Recipe` and calls `obtain`. This module owns what the
process remembers of it, and looks on disk, waits for another thread or process that makes the same,
delays Ctrl-C, shows progress, stores what was made and limits the size of the cache. Any thread may
enter, and a process may be forked at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Generic, TypeVar

from kernbridge._src.base.progress import shown
from kernbridge._src.forge import artefacts
from kernbridge._src.keys import package_digest

T = TypeVar("T")

log = logging.getLogger("kernbridge")

PATIENCE = 600.0
"""Seconds to wait for another process that makes the same; then both make it."""
POLL = 0.02
"""Seconds between two looks at a lock that another holds."""
NAME_LENGTH = 3
"""Hexadecimal digits of a lock's name."""
_ENFORCED = 8  # of 256 artefacts that are stored, the size of the cache is limited after so many

_made: dict[str, Any] = {}  # of each kind, a table of what this process has, by identity
_locks: dict[tuple[str, bytes], threading.RLock] = {}  # of what is being made


class Recipe(Generic[T]):
    """One compilation. A front end defines a class of them, and makes an object for each.

    `make` may set attributes that `use` reads, and `lasting`, if it finds that the artefact cannot
    be used by another process. Recipes of equal kind and identity share one result in a process.
    They are in a table of the type `memory`: `dict` keeps them until the process ends, which is
    necessary if the core has their addresses, `weakref.WeakValueDictionary` while they are used.
    """

    kind: str  # the artefact's folder on disk; letters, digits and "_"
    memory: type[Any] = dict
    files: ClassVar[tuple[str, ...]] = ()  # of kernbridge, that decide what is made; empty for all
    identity: bytes  # a digest of what the artefact means
    label: str  # the progress line says "compiling `label` with `tool`"
    tool: str
    name: str = ""  # the kernel's, which a listing of the cache shows
    lasting: bool = True  # whether other processes may use the artefact

    def made_of(self) -> tuple[Any, ...]:
        """Return what decides the artefact besides the identity: plain values, with a `repr`."""
        return ()

    def make(self) -> artefacts.Artefact:
        """Compile. Called by one thread of one process, with Ctrl-C delayed."""
        raise NotImplementedError

    def use(self, made: artefacts.Artefact) -> T:
        """Return what this process uses of an artefact that was made or loaded.

        It is made again if this raises ValueError for one that was loaded.
        """
        raise NotImplementedError


def held(kind: str) -> Any:
    """Return the results of a kind that this process has, by identity."""
    return _made.get(kind, {})


def obtain(recipe: Recipe[T]) -> T:
    """Return the result of a recipe: from memory, from disk, or made now."""
    table = _made.get(recipe.kind)
    if table is None:
        table = _made.setdefault(recipe.kind, recipe.memory())
    found: T = table.get(recipe.identity)
    if found is None:
        with _alone(recipe):
            found = table.get(recipe.identity)
            if found is None:
                key = disk_key(recipe)
                found = table[recipe.identity] = _load(recipe, key) or _make(recipe, key)
    return found


def disk_key(recipe: Recipe[Any]) -> bytes | None:
    """The artefact's key on disk; None if the disk does not keep it."""
    if not recipe.lasting:
        return None
    parts = repr((package_digest.digest_of(*recipe.files), recipe.identity, recipe.made_of()))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()


def _load(recipe: Recipe[T], key: bytes | None) -> T | None:
    made = artefacts.load(recipe.kind, key) if key else None
    if made is not None:
        with contextlib.suppress(ValueError), deferred():
            found = recipe.use(made)
            log.info("loaded %s (%s) from the cache", recipe.label, recipe.kind)
            return found
    return None


def _make(recipe: Recipe[T], key: bytes | None) -> T:
    from kernbridge._src.forge import limit

    folder = artefacts.usable() if key is not None else None
    most = limit.limit()  # an error in it is reported before the work
    with contextlib.ExitStack() as stack:
        if key is not None and folder is not None:
            has_waited = False
            with contextlib.suppress(OSError):
                lock = locked(folder, key.hex(), PATIENCE, recipe.label)
                _, has_waited = stack.enter_context(lock)
            found = _load(recipe, key) if has_waited else None
            if found is not None:  # another process has just made it
                return found
        with deferred():
            begin = time.perf_counter()
            with shown(f"compiling {recipe.label} with {recipe.tool}"):
                made = recipe.make()
            seconds = time.perf_counter() - begin
            log.info("compiled %s with %s in %.3f s", recipe.label, recipe.tool, seconds)
            if key is not None and recipe.lasting:
                artefacts.store(recipe.kind, key, made, recipe.name)
                log.debug("kept %s (%s, %s)", recipe.label, recipe.kind, key.hex())
    with deferred():
        found = recipe.use(made)
    if key is not None and folder is not None and key[0] < _ENFORCED:
        limit.enforce(folder, most)
    return found


@contextlib.contextmanager
def _alone(recipe: Recipe[Any]) -> Iterator[None]:
    """Keep other threads from making the same meanwhile."""
    key = recipe.kind, recipe.identity
    while True:
        lock = _locks.setdefault(key, threading.RLock())
        with lock:
            if _locks.get(key) is not lock:  # its last owner has made the artefact, or failed
                continue
            try:
                yield
            finally:
                _locks.pop(key, None)
            return


@contextlib.contextmanager
def locked(root: Path, key: str, patience: float, label: str = "") -> Iterator[tuple[bool, bool]]:
    """Hold the lock of a key: a file, which is free when its process has gone, however it went.

    Lock files are never removed, which could give two owners; there are at most 4096, each empty.
    Gives whether the lock was obtained within `patience` seconds, and whether another had it.

    While it waits for another process, the progress line says so and names `label`. On a file
    system without locks the lock is never obtained; two processes may then build the same thing,
    which costs only time.
    """
    path = root / artefacts.VERSION / "locks" / f"{key[:NAME_LENGTH]}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(path, flags, 0o600)
    except FileNotFoundError:
        artefacts.make_folders(root, path.parent)
        file = os.open(path, flags, 0o600)
    try:
        mine = _try(file)
        has_waited = mine is None
        if has_waited and patience:
            with shown(f"waiting for {label}, which is being built elsewhere"):
                end = time.monotonic() + patience
                while mine is None and time.monotonic() < end:
                    time.sleep(POLL)
                    mine = _try(file)
        yield bool(mine), has_waited
    finally:
        with contextlib.suppress(OSError):  # a child that was forked meanwhile has the file, too
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _try(file: int) -> bool | None:
    """Lock a file: True; False if that cannot be, and None if another holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError:
        return False
    return True


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let a Ctrl-C wait for the end of this; the second one is heard at once.

    Neither Numba nor LLVM is written for exceptions at any point: after a KeyboardInterrupt, a
    later compilation could fail with an internal error, or LLVM could free memory twice.

    Does nothing in other threads, to which Python does not pass signals, nor where Ctrl-C is
    ignored or ends the process.
    """
    heard = signal.getsignal(signal.SIGINT)
    if not callable(heard) or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> Any:
        if pressed:
            return heard(number, frame)
        pressed.append(number)
        return None

    vars(note).update(pressed=pressed)
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, heard)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def is_interrupted() -> bool:
    """Whether a Ctrl-C waits for the end of what this thread does."""
    return bool(getattr(signal.getsignal(signal.SIGINT), "pressed", ()))


# No thread of a child holds a lock of its parent's.
os.register_at_fork(after_in_child=_locks.clear)
