"""Runs programs: compilers and other tools. Nothing else in kernbridge starts a process.

A program and all that it starts end with this process, whatever ends that, since another program
supervises them (src/supervisor/supervisor.c). Any thread may call these functions.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernbridge import _core
from kernbridge._src.base import settings
from kernbridge._src.base.reports import hides_frames

TIMEOUT = "KERNBRIDGE_COMPILE_TIMEOUT"
SECONDS = 600
BYTES = 16 * 10**9
WRITTEN = 16 << 20
"""The most bytes of output, which this process holds, of a program that is not asked for more."""

_SUPERVISOR = Path(_core.__file__).parent / "lib" / "kernbridge-supervisor"
# As a tool says it of itself, not of a line of a source.
_OUT_OF_MEMORY = re.compile(
    rb"^(?!\s|\S+[:(]\d).*(?:out of memory|memory exhausted|std::bad_alloc)", re.M | re.I
)


class Ended(NamedTuple):
    status: int  # of its exit, or the negative number of the signal that ended it
    output: bytes
    limit: str  # which limit stopped it, and how that is raised; empty if none did

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")


class CompilerLimits(NamedTuple):
    """Limits of each compiler and tool that kernbridge runs."""

    seconds: float
    memory: int  # bytes of each of its processes; 0 for no limit


@hides_frames
def set_compiler_limits(*, seconds: float | None = None, memory: int | str | None = None) -> None:
    """Choose how long a compiler may run from now on, and how much memory it may use.

    The limits apply to every program that kernbridge runs: compilers of C, C++ and CUDA, and tools
    such as objdump. A program that exceeds one is stopped with all that it started, and the error
    names the limit. Whatever the limits are, these programs end when this process ends, even if it
    is killed.

    Parameters
    ----------
    seconds : float or None
        How long a program may run. None: what the environment variable KERNBRIDGE_COMPILE_TIMEOUT
        says, and 600 if it is not set.
    memory : int, str or None
        The bytes of data that each process of a program may have, as a number or as in "8GB"; 0
        for no limit. None: 16 GB, or half of the machine's memory if that is less.

    Raises
    ------
    TypeError, ValueError
        If an argument is not such a number.

    Examples
    --------
    >>> from kernbridge import config
    >>> config.set_compiler_limits(seconds=60, memory="4GB")
    >>> config.get_compiler_limits()
    CompilerLimits(seconds=60, memory=4000000000)
    >>> config.set_compiler_limits()
    """
    where = "set_compiler_limits"
    if seconds is not None:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"{where}: seconds is {seconds!r}, expected a number or None [KB8001]")
        if not seconds > 0:
            raise ValueError(f"{where}: seconds is {seconds!r}, expected more than 0 [KB8001]")
    if memory is not None:
        if isinstance(memory, bool) or not isinstance(memory, int | str):
            raise TypeError(f"{where}: memory is {memory!r}, expected bytes or None [KB8001]")
        found = settings.bytes_of(str(memory))
        if found is None:
            raise ValueError(
                f"{where}: memory is {memory!r}, expected bytes or a text such as '8GB' [KB8001]"
            )
        memory = found
    settings.compiler_seconds, settings.compiler_memory = seconds, memory


def get_compiler_limits() -> CompilerLimits:
    """Return the limits that hold now, as (seconds, memory); see `set_compiler_limits`."""
    seconds, memory = settings.compiler_seconds, settings.compiler_memory
    if seconds is None:
        text = os.environ.get(TIMEOUT, "").strip() or str(SECONDS)
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not seconds > 0:
            raise ValueError(f"{TIMEOUT} is {text!r}, expected seconds, more than 0 [KB8002]")
    if memory is None:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = min(BYTES, machine // 2)
    return CompilerLimits(seconds, memory)


for _public in (set_compiler_limits, get_compiler_limits):
    _public.__module__ = "kernbridge.config"


def run(
    command: Sequence[str],
    *,
    input: bytes = b"",  # what the program reads
    errors: bool = False,  # whether the output contains stderr, which is dropped otherwise
    environment: Mapping[str, str] | None = None,  # None: this process's
    folder: str | None = None,  # in which it works; None: this process's
    limits: CompilerLimits | None = None,  # in place of the user's
    written: int = WRITTEN,  # bytes of output after which it is stopped
    meanwhile: Callable[[], None] | None = None,  # work of ours that need not wait for it
) -> Ended:
    """Run a program with its arguments to its end, or raise OSError if it cannot be started.

    Examples
    --------
    >>> from kernbridge._src.toolchain import programs
    >>> programs.run(["echo", "text"]).text
    'text\\n'
    """
    limits = limits or get_compiler_limits()
    milliseconds = 0 if math.isinf(limits.seconds) else max(1, int(limits.seconds * 1000))
    # A sanitizer reserves more address space than any machine has memory.
    memory = 0 if "san" in os.environ.get("LD_PRELOAD", "") else limits.memory
    about = [str(_SUPERVISOR), str(os.getpid()), str(milliseconds), str(memory)]
    with contextlib.ExitStack() as stack:
        stdin = subprocess.DEVNULL
        if input:
            stdin = os.memfd_create("input")
            stack.callback(os.close, stdin)
            with open(stdin, "wb", closefd=False) as file:
                file.write(input)
            os.lseek(stdin, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [*about, *command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            process_group=0,
        )
        stack.callback(_end, process)
        if meanwhile is not None:
            meanwhile()
        output = _read(process, written)
        if len(output) >= written:
            why = f"was stopped after it wrote {written >> 20} MB; make it write less"
            return Ended(-signal.SIGTERM, output, why)
        status = process.wait()
    if status == -signal.SIGUSR2:
        number = int(output)
        raise OSError(number, os.strerror(number), command[0])
    why = ""
    if status == -signal.SIGALRM:
        why = (
            f"was stopped after {limits.seconds:g} s; raise the limit with {TIMEOUT} (seconds) or "
            "kernbridge.config.set_compiler_limits(seconds=...)"
        )
    elif status and memory and _OUT_OF_MEMORY.search(output):
        why = (
            f"ran out of memory, of which a process may have {memory / 1e9:.3g} GB; raise the "
            "limit with kernbridge.config.set_compiler_limits(memory=...)"
        )
    return Ended(status, output, why)


def _read(process: subprocess.Popen[bytes], most: int) -> bytes:
    """Return what a program writes until it ends; a daemon that it leaves is not waited for."""
    assert process.stdout is not None
    parts, left = [], most
    readable = select.poll()
    readable.register(process.stdout)
    while left > 0:
        ended = process.poll() is not None
        if readable.poll(0 if ended else 500):
            part = os.read(process.stdout.fileno(), 1 << 16)
            parts.append(part)
            left -= len(part)
            ended = not part
        if ended:
            break
    return b"".join(parts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program, unless it has ended, and all that it started."""
    assert process.stdout is not None
    process.stdout.close()
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    # If the supervisor was killed, the others of its group are left.
    if process.returncode in (None, -signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
