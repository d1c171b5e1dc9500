"""Refuses libraries of which this process has other code open than their files have now.

The dynamic linker never opens a library again whose name it knows, even if it was rebuilt.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from kernbridge._src.base.errors import KernelLoadError

_LINE = re.compile(r"\s*(?:(\S+) => )?(/.*) \(0x[0-9a-f]+\)")
_DELETED = " (deleted)"  # after the path of an open file that has gone or was replaced
_seen: dict[str, str] = {}  # the name by which libraries need one -> the digest of its file


@functools.lru_cache(256)
def _digest(path: str, *identity: int) -> str:
    from kernbridge._src.toolchain import library

    return library.digest_of(path)


def check(label: str, path: Path) -> None:
    """Raise KernelLoadError if a new process would run other code with a library than this one."""
    from kernbridge._src.toolchain import programs

    maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    mapped = {line.split(None, 5)[-1] for line in maps.splitlines()}
    linker = next(name for name in mapped if os.path.basename(name).startswith("ld-"))
    for name, found in _LINE.findall(programs.run([linker, "--list", str(path)]).text):
        about = os.stat(file := os.path.realpath(found))
        digest = _digest(file, about.st_ino, about.st_size, about.st_mtime_ns)
        is_known = (name or found) in _seen or file + _DELETED not in mapped
        if not is_known or _seen.setdefault(name or found, digest) != digest:
            raise KernelLoadError(
                f"{label} needs {found}, but this process has opened other code under the name of "
                "that library, which the dynamic linker would use: start Python again after a "
                "library has been rebuilt [KB5102]"
            )
