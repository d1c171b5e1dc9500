"""`kernbridge doctor` and `kernbridge --version`: report and test what works on this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from kernbridge._src.tools import doctor, self_test
from kernbridge._src.tools.printing import Cell, Lines, Output, Pairs

_MOST_LINES = 10  # of the error of one kernel


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to those of `kernbridge`."""
    command = commands.add_parser(
        "doctor",
        parents=[common],
        help="report and test what works on this machine, and list what to install for the rest",
        description="Reports what works on this machine, and calls one kernel of each kind that "
        "works, in a separate process with an empty cache. Fails if a kernel fails.",
    )
    command.add_argument("--no-self-test", action="store_true", help="call no kernel")
    command.set_defaults(run=_run)


def _run(chosen: argparse.Namespace, output: Output) -> int:
    found = doctor.diagnose()
    output.show(*found.blocks())
    sections = {title.lower(): dict(rows) for title, rows in found.sections.items()}
    output.answer |= {
        "works": found.works,
        "kernels": [{**asdict(v), "ready": v.is_ready} for v in found.front_ends],
        **sections,
        "versions": doctor.versions(),
        "advice": found.advice,
        "self_test": None,
    }
    if chosen.no_self_test:
        return 0 if found.works else 1
    results = self_test.run(found.front_ends)
    output.show(Pairs("self-test", [_row(r) for r in results]))
    if not results:
        output.show(Lines(["  no kind of kernel is ready"]))
    failed = [r for r in results if r.error]
    if failed:
        output.show(Lines([(f"{len(failed)} of {len(results)} kernels failed", "bold red")]))
    output.answer["self_test"] = [{**asdict(r), "passed": not r.error} for r in results]
    return 0 if found.works and not failed else 1


def _row(result: self_test.Result) -> tuple[str, Cell]:
    place = result.platform.upper()
    if result.error:
        lines = result.error.splitlines()
        shown = "\n".join(lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            shown += f"\n{len(lines) - _MOST_LINES} more lines; `--json` has all of them"
        return result.front_end, (f"failed on the {place}: {shown}", "red")
    return result.front_end, (f"passed on the {place}, in {result.seconds:.1f} s", "green")


def show_versions(chosen: argparse.Namespace, output: Output) -> int:
    """Print the version of kernbridge; as JSON, those of other packages as well."""
    found = doctor.versions()
    output.answer |= {"versions": found}
    output.show(Lines([f"kernbridge {found['kernbridge']}"]))
    return 0
