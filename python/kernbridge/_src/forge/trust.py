"""Decides which users could replace the files in a folder from which code is loaded.

A file that only this user can write is not enough. Whoever owns a folder above it can move that
folder away and put another one in its place, between a check and a use. So every folder from the
root down must belong to this user or to root, and nobody else may write to it. Then nobody else can
change what a path leads to, and what was checked is what is loaded.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

MOST_LINKS = 40


def why_not(folder: Path) -> str | None:
    """Say who else could replace the contents of an absolute folder; None if nobody can.

    What does not exist yet is no objection. What cannot be examined is one: the system may refuse
    to open a folder now, and allow it when code is loaded from there.
    """
    try:
        return _find_objection(folder)
    except OSError as e:
        reason = e.strerror or e
        return f"{folder} cannot be examined ({reason}): others may be able to write to it"


def _find_objection(folder: Path) -> str | None:
    """Open each part of the path from the one before, and follow no link unlooked at."""
    parts = list(reversed(folder.parts[1:]))
    here, links = "/", 0
    with contextlib.ExitStack() as opened:
        fd = _open("/", None, opened)
        objection = _objection(here, os.fstat(fd))
        while parts and objection is None:
            part = parts.pop()
            path = os.path.join(here, part)
            try:
                about = os.stat(part, dir_fd=fd, follow_symlinks=False)
                if stat.S_ISLNK(about.st_mode):
                    links += 1
                    if not _is_trusted(about.st_uid):
                        return _owned("the link", path, about)
                    if links > MOST_LINKS:
                        return f"{path} is one of too many links"
                    target = os.readlink(part, dir_fd=fd)
                    parts += reversed(Path(target).parts)
                    if target.startswith("/"):
                        parts.pop()
                        fd, here = _open("/", None, opened), "/"
                    continue
                fd, here = _open(part, fd, opened), path
                objection = _objection(here, os.fstat(fd))
            except (FileNotFoundError, NotADirectoryError):  # then nothing is loaded from there
                return None
    return objection


def _open(name: str, folder: int | None, opened: contextlib.ExitStack) -> int:
    """Open a folder, never through a link, for as long as `opened` lasts."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    opened.callback(os.close, fd)
    return fd


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
        who = "everybody" if others else f"the group {_group_name(about.st_gid)}"
        return f"{who} may write to the folder {path} (mode {stat.S_IMODE(about.st_mode):04o})"
    return None


def _owned(what: str, path: str, about: os.stat_result) -> str:
    mode = stat.S_IMODE(about.st_mode)
    return f"{what} {path} belongs to {_user_name(about.st_uid)} (mode {mode:04o})"


def _user_name(number: int) -> str:
    import pwd

    with contextlib.suppress(KeyError, OverflowError):
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    return f"number {number}"


def _group_name(number: int) -> str:
    import grp

    with contextlib.suppress(KeyError, OverflowError):
        return f"{grp.getgrgid(number).gr_name} ({number})"
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
