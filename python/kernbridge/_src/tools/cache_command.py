"""`kernbridge cache`: lists the contents of the cache and clears it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import Any

from kernbridge._src.forge import artefacts, limit
from kernbridge._src.tools.printing import CommandError, Lines, Output, Table, age, size


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    what = "report the location and the size of the cache, list its entries, or clear it"
    more = "Without a subcommand, prints the folder, the number of its entries and their size."
    cache = commands.add_parser("cache", parents=[common], help=what, description=more)
    cache.set_defaults(run=_summary)
    actions = cache.add_subparsers(dest="action", metavar="{list,size,clear}")
    for name, run, what in (
        ("list", _list, "list the entries, the last used first"),
        ("size", _summary, "the same as without a subcommand"),
        ("clear", _clear, "remove entries, after asking for confirmation"),
    ):
        action = actions.add_parser(name, parents=[common], help=what)
        action.set_defaults(run=run)
    action.add_argument("name", nargs="?", help="only those of one module")
    action.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _held(output: Output) -> tuple[str, limit.Stats]:
    """Return the folder and what it holds, which become part of the answer."""
    folder, stats = artefacts.get_cache_dir(), limit.cache_stats()
    output.answer["folder"] = str(folder) if folder else None
    output.answer |= {"entries": stats.entries, "bytes": stats.bytes}
    return str(folder or "off"), stats


def _summary(chosen: argparse.Namespace, output: Output) -> int:
    folder, stats = _held(output)
    output.answer["limit_bytes"] = None
    with contextlib.suppress(ValueError):  # `kernbridge doctor` reports what the variable holds
        output.answer["limit_bytes"] = limit.limit() or None
    output.show(Lines([f"{folder}: {stats.entries} entries, {stats.bytes / 1e6:.1f} MB"]))
    return 0


def _list(chosen: argparse.Namespace, output: Output) -> int:
    found, now = limit.entries(), time.time()
    folder, stats = _held(output)
    output.answer["list"] = [
        {"kind": e.kind, "name": e.name, "bytes": e.bytes, "unused_seconds": round(now - e.used)}
        for e in found
    ]
    rows = [(e.kind, e.name or "-", size(e.bytes), age(now - e.used)) for e in found]
    if rows:
        output.show(Table(("kind", "name", "size", "last used"), rows, right=(2, 3)))
    output.show(Lines([f"{folder}: {stats.entries} entries, {size(stats.bytes)}"]))
    return 0


def _clear(chosen: argparse.Namespace, output: Output) -> int:
    modules = sorted({e.name for e in limit.entries() if e.kind == "module"})
    if chosen.name is not None and chosen.name not in modules:
        raise CommandError(
            f"the cache has no module {chosen.name!r}; it has {', '.join(modules) or 'none'}"
        )
    if not chosen.yes:
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal on which to confirm the removal; pass --yes")
        what = f"the libraries of the module {chosen.name!r}" if chosen.name else "everything"
        folder, stats = artefacts.get_cache_dir(), limit.cache_stats()
        sys.stderr.write(
            f"{folder or 'off'} holds {stats.entries} entries, {size(stats.bytes)}. "
            f"Remove {what}? [y/N] "
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            output.answer["removed"] = 0
            output.show(Lines(["nothing was removed"]))
            return 1
    output.answer["removed"] = limit.clear_cache(chosen.name)
    output.show(Lines([f"{output.answer['removed']} removed"]))
    return 0
