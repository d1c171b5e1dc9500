"""`kernbridge explain`: prints the meaning of the code in a message, and the remedy."""

from __future__ import annotations

import argparse
from typing import Any

from kernbridge._src.tools import error_pages
from kernbridge._src.tools.printing import Lines, Output


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to those of `kernbridge`."""
    what = "explain the code of a message, such as KB2001"
    parser = commands.add_parser("explain", parents=[common], help=what)
    parser.add_argument("code", type=_code, help="as printed in the message")
    parser.set_defaults(run=_run)


def _code(text: str) -> str:
    try:
        return error_pages.code_of(text)
    except error_pages.UnknownCode as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def _run(chosen: argparse.Namespace, output: Output) -> int:
    output.answer |= {"code": chosen.code, **error_pages.pages()[chosen.code]._asdict()}
    output.show(Lines(error_pages.explain_code(chosen.code).split("\n")))
    return 0
