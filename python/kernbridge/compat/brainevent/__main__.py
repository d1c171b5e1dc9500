"""Runs a script or a module with kernbridge under BrainEvent's operators."""

import os
import runpy
import sys

from kernbridge.compat.brainevent import install

USAGE = "usage: python -m kernbridge.compat.brainevent (script.py | -m module) [arguments]"


def main() -> None:
    """Install the bridge, then run what the first argument names, with the other arguments."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return
    if not arguments or arguments == ["-m"]:
        raise SystemExit(USAGE)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


main()
