"""The command `kernbridge`: what works here, what the cache holds, how fast operations are, and how
a C program is compiled."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from kernbridge._src.tools import benchmark_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status.

    Parameters
    ----------
    arguments : sequence of str or None
        Those of the process by default.

    Examples
    --------
    >>> from kernbridge.cli import main
    >>> main(["clear", "no_such_module"])
    0 removed
    0
    """
    parser = argparse.ArgumentParser(prog="kernbridge", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("doctor", help="report what works here, and what to install for the rest")
    commands.add_parser("cache", help="report where the cache is and what it holds")
    clear = commands.add_parser("clear", help="remove compiled kernels from the cache")
    clear.add_argument("name", nargs="?", help="of one module; without it, everything goes")
    flags = "print the compiler's options for a program that includes kernbridge/host.h"
    commands.add_parser("c-flags", help=flags)
    on_cpu = commands.add_parser(
        "cuda-on-cpu", help="run a script, and its CUDA kernels on the CPU"
    )
    on_cpu.add_argument("--check", action="store_true", help="in the checked mode")
    on_cpu.add_argument("script", help="its file")
    on_cpu.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    explain = commands.add_parser("explain", help="explain the code of a message, such as KB2001")
    explain.add_argument("code", help="as the message has it")
    benchmark_command.add(commands)
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 0
    if chosen.command == "benchmark":
        return int(chosen.run(chosen))
    if chosen.command == "cuda-on-cpu":
        from kernbridge._src.tools import run_on_cpu

        run_on_cpu.run(chosen.script, chosen.arguments, chosen.check)
        return 0
    if chosen.command == "explain":
        from kernbridge._src.tools import error_pages

        try:
            print(error_pages.explain_code(chosen.code))
        except error_pages.UnknownCode as e:
            parser.error(str(e))
        return 0
    if chosen.command == "c-flags":
        from kernbridge._src.tools import c_flags

        print(c_flags.c_flags())
        return 0
    if chosen.command == "doctor":
        from kernbridge._src.tools import doctor

        return 0 if doctor.print_diagnostics() else 1
    from kernbridge._src.store import artefacts, limit

    if chosen.command == "clear":
        print(f"{limit.clear_cache(chosen.name)} removed")
        return 0
    stats = limit.cache_stats()
    print(
        f"{artefacts.get_cache_dir() or 'off'}: {stats.entries} entries, {stats.bytes / 1e6:.1f} MB"
    )
    return 0
