"""`kernbridge cuda-on-cpu script.py`: runs a script that need not import kernbridge."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernbridge._src.cuda_device.switch import VARIABLE, cuda_on_cpu
from kernbridge._src.tools.printing import Output


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to those of `kernbridge`; stdout belongs to the script, so no JSON."""
    command = commands.add_parser(
        "cuda-on-cpu", help="run a script with its CUDA kernels on the CPU"
    )
    command.add_argument("--check", action="store_true", help="check every access of the kernels")
    command.add_argument("script", help="its file")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    command.set_defaults(run=_run, parser=command)


def _run(chosen: argparse.Namespace, output: Output) -> int:
    if output.as_json:
        chosen.parser.error("--json: only the script prints to stdout")
    run(chosen.script, chosen.arguments, chosen.check)
    return 0


def run(script: str, arguments: Sequence[str], check: bool) -> None:
    """Run a script as Python does, with the launches of its CUDA kernels on the CPU.

    Processes that it starts do the same once they import kernbridge.
    """
    os.environ[VARIABLE] = "check" if check else "1"
    cuda_on_cpu(check=check).install()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
