"""`kernbridge cuda-on-cpu script.py`: runs a script that need not import kernbridge."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
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
    os.environ[VARIABLE] = "check" if chosen.check else "1"  # for processes that the script starts
    cuda_on_cpu(check=chosen.check).install()
    sys.argv = [chosen.script, *chosen.arguments]
    sys.path[0] = str(Path(chosen.script).resolve().parent)
    runpy.run_path(chosen.script, run_name="__main__")
    return 0
