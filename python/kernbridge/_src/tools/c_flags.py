"""Prints the compiler options for programs that use libkernbridge."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from kernbridge._src.base.errors import HeaderNotFoundError
from kernbridge._src.tools.printing import Lines, Output


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    what = "print the compiler's options for a program that includes kernbridge/host.h"
    commands.add_parser("c-flags", parents=[common], help=what).set_defaults(run=_run)


def _run(chosen: argparse.Namespace, output: Output) -> int:
    flags = c_flags()
    output.answer["flags"] = shlex.split(flags)
    output.show(Lines([flags]))
    return 0


def c_flags() -> str:
    """Return the options with which a C compiler builds a host of bundles."""
    include = _folder_with("include", "kernbridge/host.h")
    library = _folder_with("lib", "libkernbridge.so")
    options = (f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-lkernbridge")
    return shlex.join(options)


def _folder_with(folder: str, file: str) -> Path:
    places = list(sys.modules["kernbridge"].__path__)
    for place in places:
        if Path(place, folder, file).is_file():
            return Path(place, folder)
    raise HeaderNotFoundError(
        f"{folder}/{file} is missing from {', '.join(places)}; install kernbridge again [KB4011]"
    )
