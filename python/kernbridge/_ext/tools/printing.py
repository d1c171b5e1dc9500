"""Prints the output of commands: in colour on a terminal, as plain text elsewhere, or as JSON."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_STYLES = {"bold": 1, "red": 31, "green": 32, "cyan": 36}  # of terminals


class CommandError(Exception):
    """What a command reports in place of an answer: its message is printed, the status is 1."""


class ReaderLeft(Exception):
    """The reader of the output has gone, as `head` does when it has read enough."""


@dataclass(frozen=True)
class Pairs:
    """A titled list of names and values; a value may have several lines, and a style."""

    title: str
    rows: Sequence[tuple[str, str | tuple[str, str]]]


Block = Pairs | str


@dataclass
class Output:
    """Where a command writes to: blocks for readers, or one JSON object for programs."""

    command: str
    as_json: bool = False
    answer: dict[str, Any] = field(default_factory=dict)

    def show(self, *blocks: Block) -> None:
        if not self.as_json:
            coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
            _print("\n".join(lines(blocks, coloured)))

    def warn(self, message: str) -> None:
        print(f"kernbridge {self.command}: {message}", file=sys.stderr)

    def write_answer(self) -> None:
        if self.as_json:
            _print(json.dumps({"command": self.command, **self.answer}, indent=2, allow_nan=False))


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise ReaderLeft from None


@contextlib.contextmanager
def nothing_else_on_stdout() -> Iterator[None]:
    """Send what Python and C print on stdout meanwhile to stderr: only JSON belongs there."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        libc.fflush(None)  # what C has buffered would be written at the end of the process
        os.dup2(kept, 1)
        os.close(kept)


def lines(blocks: Sequence[Block], coloured: bool = False) -> Iterator[str]:
    """The lines of blocks. Lists of pairs have one column for all names."""
    names = (name for block in blocks if isinstance(block, Pairs) for name, _ in block.rows)
    width = max(map(len, names), default=0)

    def styled(text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured and style else text

    for block in blocks:
        if isinstance(block, Pairs):
            yield styled(block.title, "bold")
            for name, value in block.rows:
                text, style = (value, "") if isinstance(value, str) else value
                for i, line in enumerate(text.splitlines() or [""]):
                    shown = styled(f"{'' if i else name:<{width}}", "" if i else "cyan")
                    yield f"  {shown}  {styled(line, style)}".rstrip()
        else:
            yield block


def size(n: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= factor:
            return f"{n / factor:.1f} {unit}"
    return f"{n} B"


def age(seconds: float) -> str:
    for unit, factor in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= factor:
            return f"{seconds / factor:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
