"""Stores compiled artefacts on disk, under the digest of everything that they depend on.

Owns the folder, the format of a file in it, and who may have written it: code is loaded from these
files. Any thread and any process may enter at any time, without locks: a file appears whole or not
at all, and its name is the digest of its meaning, so the last writer does not matter.

`set_cache_dir` or else KERNBRIDGE_CACHE_DIR names the folder; empty or 0, nothing is kept. A cache
that cannot be read or written never fails a caller.

A file's time of modification says when it was last used, to `STAMP` seconds.

A file that only this user can write is not enough. Whoever owns a folder above it can move that
folder away and put another one in its place, between a check and a use. So every folder from the
root down must belong to this user or to root, and no other user may write to it. Then no other user
can change what a path leads to, and the file that was checked is the file that is loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import json
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

from kernbridge._src.base import reports
from kernbridge._src.base.errors import KernelToolchainError, defect
from kernbridge._src.base.struct import Struct

VARIABLE = "KERNBRIDGE_CACHE_DIR"
VERSION = "v1"
"""Of the files; the folder of the cache in which this version writes."""

_MOST_LINKS = 40
_DIGEST = hashlib.sha256().digest_size

STAMP = 300
"""Seconds for which a use is not noted again: a hit writes nothing."""

_warned = False
_chosen: Path | None = None


class Artefact(Struct):
    """What one compilation returned."""

    meta: dict[str, Any]  # what JSON can hold
    blobs: tuple[bytes, ...]  # machine code and the like


def get_cache_dir() -> Path | None:
    """Return the folder of the cache, which need not exist; None where it is switched off."""
    if _chosen is not None:
        return _chosen
    chosen = os.environ.get(VARIABLE)
    if chosen in ("", "0"):
        return None
    try:
        if chosen is not None:
            return Path(chosen).expanduser().absolute()
        # The XDG Base Directory Specification has a relative path ignored.
        base = os.environ.get("XDG_CACHE_HOME", "")
        folder = Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()
        return folder / "kernbridge"
    except (OSError, RuntimeError) as e:  # no home, no working folder
        warn("of this user", e)
        return None


def usable() -> Path | None:
    """Return the cache's folder; None where it is off, or others could replace what is in it."""
    folder = get_cache_dir()
    if folder is None or (why := why_not(folder / VERSION)) is None:
        return folder
    warn(str(folder), f"{why} and could replace the code there")
    return None


@functools.cache
def private(pid: int) -> Path:
    """Return the folder of this process, for what cannot be in the cache."""
    folder = Path(tempfile.mkdtemp(prefix="kernbridge-", dir=_temporary()))

    def remove() -> None:
        if os.getpid() == pid:  # not in a process that was forked from this one
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _temporary() -> str:
    """Return a folder for temporary files in which no other user can replace them."""
    objections = []
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")):
        why = why_not(Path(place).absolute())
        if why is None and os.access(place, os.W_OK | os.X_OK):
            return place
        objections.append(f"{place}: {why or 'it cannot be written to'}")
    raise KernelToolchainError(
        "found no folder for temporary files in which no other user can replace a library; set "
        f"TMPDIR to such a folder. {'; '.join(objections)} [KB4008]"
    )


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Choose the folder of the cache for this process, over KERNBRIDGE_CACHE_DIR.

    Parameters
    ----------
    path : path or None
        It need not exist; None returns to the environment's choice.

    Examples
    --------
    >>> import kernbridge
    >>> kernbridge.set_cache_dir("/tmp/kernels")
    >>> kernbridge.get_cache_dir()
    PosixPath('/tmp/kernels')
    >>> kernbridge.set_cache_dir(None)
    """
    global _chosen
    if path is not None and not os.fspath(path):
        raise ValueError("set_cache_dir: the path is empty; expected a folder, or None [KB8001]")
    _chosen = None if path is None else Path(path).expanduser().absolute()


def load(kind: str, key: bytes) -> Artefact | None:
    """Find the artefact of a kind (letters, digits and `_`) and a key.

    The key is a digest of all that it was made from. None is returned where there is no artefact,
    or none that can be trusted.
    """
    folder = usable()
    if folder is None:
        return None
    data = read(_path(folder, kind, key))
    return None if data is None else _decode(kind, key, data)


def store(kind: str, key: bytes, artefact: Artefact, name: str = "") -> None:
    """Keep an artefact; replaces what is there under the same key.

    The name of the kernel is shown by listings of the cache; it is not part of the key.
    TypeError is raised if `artefact.meta` would not come back from JSON as it is.
    """
    folder = usable()
    if folder is None:
        return
    path, data = _path(folder, kind, key), _encode(kind, key, artefact, name)
    try:
        make_folders(folder, path.parent)
        publish(path, data)
    except OSError as e:
        warn(str(folder), e)


def _path(folder: Path, kind: str, key: bytes) -> Path:
    if not (kind.isascii() and kind.isidentifier()) or len(key) < 2:
        raise ValueError(
            defect(f"no place in the cache for kind {kind!r} and a key of {len(key)} bytes")
        )
    name = key.hex()
    return folder / VERSION / kind / name[:2] / f"{name[2:]}.bin"


def _encode(kind: str, key: bytes, artefact: Artefact, name: str) -> bytes:
    """Write a line of JSON, which describes the file, then the blobs, then a digest of both."""
    sizes = [len(blob) for blob in artefact.blobs]
    header: dict[str, Any] = {"kind": kind, "key": key.hex(), "sizes": sizes}
    header |= {"meta": artefact.meta, **({"name": name} if name else {})}
    text = json.dumps(header, separators=(",", ":"))
    if json.loads(text) != header:
        raise TypeError(
            defect(f"the artefact's meta does not come back from JSON as it is: {text}")
        )
    data = b"".join((text.encode(), b"\n", *artefact.blobs))
    return data + hashlib.sha256(data).digest()


def _decode(kind: str, key: bytes, data: bytes) -> Artefact | None:
    """Return what a file holds; None if `_encode` writes something else for kind and key."""
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(body).digest() != data[-_DIGEST:]:
        return None
    at = data.find(b"\n") + 1
    try:
        header = json.loads(data[:at])
        ends = list(itertools.accumulate(header["sizes"], initial=at))
        fits = ends[-1] == len(body) and ends == sorted(ends)
        if not fits or (header["kind"], header["key"]) != (kind, key.hex()):
            return None
        meta = dict(header["meta"])
        return Artefact(meta, tuple(bytes(body[i:j]) for i, j in itertools.pairwise(ends)))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def read(path: Path) -> bytes | None:
    """Return the bytes of a plain file that only this user can have written, else None."""
    try:
        # Neither a link nor a pipe that would block: the file itself is asked whose it is.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb", buffering=0) as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode) or not is_ours(about):
                return None
            note_use(fd, about)
            return file.read()
    except OSError:
        return None


def note_use(file: int | str, about: os.stat_result) -> None:
    """Remember that a file is used, for the size limit; `about` is what the file is now."""
    if time.time() - about.st_mtime > STAMP:
        with contextlib.suppress(OSError):
            os.utime(file)


def is_ours(about: os.stat_result) -> bool:
    """Whether only this user can have written it."""
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def make_folders(root: Path, leaf: Path) -> None:
    """Make the folders down to `leaf`; those from `root` on for this user alone."""
    for folder in reversed((leaf, *leaf.parents)):
        if not folder.exists():
            with contextlib.suppress(FileExistsError):  # another process was faster
                folder.mkdir(mode=0o700 if folder.is_relative_to(root) else 0o777)


def publish(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file under its name, whole or not at all."""
    fd, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            os.fchmod(fd, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def warn(folder: str, reason: object) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    reports.warn(
        f"the cache folder {folder} cannot be used: {reason}. Kernels are compiled again in each "
        f"process. Set {VARIABLE} to a folder that you can write to, and whose parents all belong "
        "to you or to root and are not writable by other users, or to 0 to disable the cache "
        "[KB5001]"
    )


def why_not(folder: Path) -> str | None:
    """Say which other user could replace the contents of an absolute folder; None if no one can.

    What does not exist yet is no objection. What cannot be examined is one: the system may refuse
    to show a folder now, and allow it when code is loaded from there.
    """
    parts = list(reversed(folder.parts))
    here, links = "", 0  # no other user can change what this leads to
    try:
        while parts:
            about = os.lstat(path := os.path.join(here, parts.pop()))
            if stat.S_ISLNK(about.st_mode):
                links += 1
                if not _is_trusted(about.st_uid):
                    return _owned("the link", path, about)
                if links > _MOST_LINKS:
                    return f"{path} is one of too many links"
                parts += reversed(Path(os.readlink(path)).parts)
            elif not stat.S_ISDIR(about.st_mode):
                return None
            elif objection := _objection(path, about):
                return objection
            else:
                here = path
    except (FileNotFoundError, NotADirectoryError):  # then nothing is loaded from there
        pass
    except OSError as e:
        reason = e.strerror or e
        return f"{folder} cannot be examined ({reason}): others may be able to write to it"
    return None


def _is_trusted(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _objection(path: str, about: os.stat_result) -> str | None:
    if not _is_trusted(about.st_uid):
        return _owned("the folder", path, about)
    if about.st_mode & stat.S_ISVTX:  # others may add to it, and not replace what is there
        return None
    others = bool(about.st_mode & stat.S_IWOTH)
    group = bool(about.st_mode & stat.S_IWGRP) and not _is_private(about.st_gid)
    if others or group:
        who = "everybody" if others else f"the group {_name(about.st_gid, of_group=True)}"
        return f"{who} may write to the folder {path} (mode {stat.S_IMODE(about.st_mode):04o})"
    return None


def _owned(what: str, path: str, about: os.stat_result) -> str:
    mode = stat.S_IMODE(about.st_mode)
    return f"{what} {path} belongs to {_name(about.st_uid)} (mode {mode:04o})"


def _name(number: int, of_group: bool = False) -> str:
    """The name of a user or a group, as far as the system knows one."""
    import grp
    import pwd

    with contextlib.suppress(KeyError, OverflowError):
        name = grp.getgrgid(number).gr_name if of_group else pwd.getpwuid(number).pw_name
        return f"{name} ({number})"
    return f"number {number}"


def _is_private(gid: int) -> bool:
    """Whether a group is root's, or holds this user alone, as many systems make one for each."""
    if gid == 0:
        return True
    import grp
    import pwd

    with contextlib.suppress(KeyError):
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
        return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return False
