"""The command `kernbridge`: what works here, what the cache holds, how fast operations are, and how
a C program is compiled."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext

from kernbridge._src.base import extensions

with extensions.needed("the command `kernbridge`"):
    from kernbridge._ext.tools import commands, doctor, printing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default the process's; return its exit status.

    Examples
    --------
    >>> from kernbridge.cli import main
    >>> main(["c-flags"])  # doctest: +ELLIPSIS
    -I...
    0
    """
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print one JSON object, and nothing else, on stdout",
    )
    parser = argparse.ArgumentParser(prog="kernbridge", description=__doc__, parents=[as_json])
    parser.add_argument("--version", action="store_true", help="print the version")
    commands.add(parser.add_subparsers(dest="command"), as_json)
    chosen = parser.parse_args(arguments)
    output = printing.Output(chosen.command or "version", getattr(chosen, "json", False))
    if chosen.version:
        output.command = "version"
        chosen.run = _show_versions
    elif chosen.command is None:
        parser.print_help()
        return 0
    try:
        return _run(chosen, output)
    except printing.ReaderLeft:
        # What is still buffered must not be written when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(chosen: argparse.Namespace, output: printing.Output) -> int:
    status = 1
    with printing.nothing_else_on_stdout() if output.as_json else nullcontext():
        try:
            status = int(chosen.run(chosen, output))
        except printing.CommandError as e:
            output.warn(str(e))
            output.answer = {"error": str(e)}
        except Exception as e:
            if not output.as_json:
                raise
            traceback.print_exc()
            output.answer = {"error": f"{type(e).__name__}: {e}"}
    output.write_answer()
    return status


def _show_versions(chosen: argparse.Namespace, output: printing.Output) -> int:
    """Print the version of kernbridge; as JSON, also the versions of the packages that it uses."""
    found = doctor.versions()
    output.answer |= {"versions": found}
    output.show(f"kernbridge {found['kernbridge']}")
    return 0
