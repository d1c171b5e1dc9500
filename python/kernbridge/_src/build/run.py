"""Runs a compiler with a time limit, and translates its failures to errors for the user."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from kernbridge._src.base.errors import (
    CompilationError,
    HostCompilerIncompatibleError,
    UnsupportedArchError,
)

TIMEOUT = "KERNBRIDGE_COMPILE_TIMEOUT"

_INCOMPATIBLE = re.compile(
    r"host_config\.h\b.*#\s*error\b.*-- unsupported \w+"
    r"|^nvcc fatal\s*: (?:Failed to preprocess host compiler properties"
    r"|Host compiler targets unsupported OS|Cannot find compiler)",
    re.MULTILINE,
)
_UNSUPPORTED_ARCH = re.compile(
    r"^(?:nvcc fatal\s*: (?:Unsupported gpu architecture|Unsupported NVVM architecture"
    r"|Value '[^']*' is not defined for option 'gpu-(?:architecture|code)')"
    r"|ptxas fatal\s*: Value '[^']*' is not defined for option 'gpu-name').*",
    re.MULTILINE,
)


def timeout() -> float:
    """Return the seconds that one compiler may run, or raise ValueError if they are no number."""
    text = os.environ.get(TIMEOUT, "").strip() or "600"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ValueError(f"{TIMEOUT} is {text!r}, expected seconds, more than 0 [KB8002]")
    return seconds


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    limit: float,
    meanwhile: Callable[[], None] | None = None,
) -> tuple[int | None, str]:
    """Run a command; return its exit status, None if it ran too long, and what it wrote.

    `meanwhile` is work of ours that need not wait for it.
    """
    wrapped = [*_die_with_parent(), *command]
    process = subprocess.Popen(
        wrapped,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        process_group=0,
    )
    end = time.monotonic() + limit
    try:
        if meanwhile is not None:
            meanwhile()
        while True:
            try:
                output, _ = process.communicate(timeout=min(0.5, max(end - time.monotonic(), 0)))
                break
            except subprocess.TimeoutExpired as e:
                if time.monotonic() >= end:
                    said = e.output or b""
                    return None, said.decode(errors="replace")
    finally:
        if process.returncode is None:  # too long, or an exception such as KeyboardInterrupt
            _kill(process)
    text = output.decode(errors="replace")
    if len(wrapped) > len(command) and process.returncode and text.startswith("setpriv:"):
        _die_with_parent().clear()  # util-linux has the option since 2.33
        return run(command, environment, limit)
    return process.returncode, text


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a compiler and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        process.wait(10)
    if process.stdout is not None:
        process.stdout.close()


@functools.cache
def _die_with_parent() -> list[str]:
    """Return a program that lets the compiler be killed if this process is.

    The list is empty where there is none, and is emptied where `run` finds it too old.
    """
    program = shutil.which("setpriv")
    # Busybox has one that cannot do it.
    known = program and os.path.basename(os.path.realpath(program)) == "setpriv"
    return [str(program), "--pdeathsig", "KILL"] if known else []


def fail(
    what: str,
    tool: str,
    status: int | None,
    output: str,
    command: str,
    limit: float,
    source: str = "",
) -> NoReturn:
    """Raise what a failed run of a tool means; its status is None if it ran too long."""
    if status is None:
        raise CompilationError(
            f"{what}: compilation failed: {tool} was stopped after {limit:g} s; raise {TIMEOUT} "
            "(seconds), or compile less at once: fewer templates, fewer GPU architectures"
            " [KB4006]",
            output,
            command,
            "timeout",
        )
    if unsupported := _UNSUPPORTED_ARCH.search(output):
        raise UnsupportedArchError(
            f"{what}: this nvcc does not compile for a requested GPU architecture "
            f"({unsupported[0].strip()}); choose others with compute_capability=, "
            "kernbridge.config.set_compute_capability or KERNBRIDGE_COMPUTE_CAPABILITIES, or "
            "install another CUDA toolkit [KB4009]",
            compiler_output=output,
            command=command,
            stage="compile",
        )
    if _INCOMPATIBLE.search(output):
        raise HostCompilerIncompatibleError(
            f"{what}: compilation failed: nvcc does not work with this C++ compiler; choose "
            "another one with CXX, install a newer CUDA toolkit, or try "
            "KERNBRIDGE_ALLOW_UNSUPPORTED_COMPILER=1 [KB4010]",
            output,
            command,
            "host compiler",
        )
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    raise CompilationError(
        f"{what}: compilation failed: {tool} ({how}) [KB4006]", output, command, source=source
    )
