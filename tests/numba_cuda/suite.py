"""Runs Numba-CUDA's own tests on the CPU: `suite.py [MODULE...] [--results FILE] [--processes N]`.

Says what became of each, and which share of the tests that launch kernels gives what the test
expects. `expected.toml` says which tests are no matter of kernels on CPUs, and why.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stand_ins import OUT_OF_SCOPE

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.toml"
TESTS = "numba.cuda.tests"
FOLDERS = ("cudapy", "doc_examples")
SECONDS = 120  # that a test may take
BATCHES = 6

PASSED, DOCUMENTED, FAILED = "passed", "documented", "failed"
EXCLUDED, SKIPPED, NO_LAUNCH = "excluded", "skipped", "no_launch"
IN_SCOPE = (PASSED, DOCUMENTED, FAILED)


@dataclass(frozen=True)
class Outcome:
    """What became of a test."""

    test: str  # without `numba.cuda.tests.`
    kind: str
    why: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def module(self) -> str:
        return ".".join(self.test.split(".")[:2])


def modules() -> list[str]:
    """Modules of tests that the installed Numba-CUDA ships; none when it is not installed."""
    found = importlib.util.find_spec("numba_cuda")
    if found is None or found.origin is None:
        return []
    root = Path(found.origin).parent / "numba" / "cuda" / "tests"
    return [f"{f}.{p.stem}" for f in FOLDERS for p in sorted((root / f).glob("test_*.py"))]


def expected() -> dict[str, Any]:
    return tomllib.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def exclusions(settings: dict[str, Any]) -> dict[str, str]:
    """The construct of each excluded test, module or pattern."""
    listed = settings.get("excluded", {})
    return {pattern: construct for construct, tests in listed.items() for pattern in tests}


def run(
    wanted: list[str], settings: dict[str, Any], processes: int = 2, results: Path | None = None
) -> list[Outcome]:
    """Run the tests of these modules, but for those that are excluded."""
    excluded = exclusions(settings)
    weights = {name: m.get("seconds", 1.0) for name, m in settings.get("modules", {}).items()}
    given = [m for m in wanted if m not in excluded]
    batches = _dealt(given, weights, min(BATCHES, len(given)))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        work = [(Path(folder) / str(i), batch, excluded) for i, batch in enumerate(batches)]
        lines = [line for found in pool.map(lambda w: _batch(*w), work) for line in found]
    if results is not None:
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcomes = [_outcome(line, excluded) for line in lines]
    outcomes += [Outcome(m, EXCLUDED, excluded[m]) for m in wanted if m in excluded]
    return sorted(outcomes, key=lambda o: o.test)


def _dealt(given: list[str], weights: dict[str, float], n: int) -> list[list[str]]:
    """Batches that take about as long as each other."""
    batches: list[list[str]] = [[] for _ in range(n)]
    loads = [0.0] * n
    for name in sorted(given, key=lambda m: -weights.get(m, 1.0)):
        lightest = loads.index(min(loads))
        batches[lightest].append(name)
        loads[lightest] += weights.get(name, 1.0)
    return batches


def _batch(path: Path, names: list[str], excluded: dict[str, str]) -> list[dict[str, Any]]:
    """Lines of results of a batch. A process that dies has failed the test that it ran."""
    done: list[dict[str, Any]] = []
    left, patterns = list(names), [f"{TESTS}.{p}" for p in excluded]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "KERNB"))}
    environment |= {"KERNBRIDGE_LIBCUDA": "/nowhere/libcuda.so", "NUMBA_ENABLE_CUDASIM": "0"}
    environment["KERNBRIDGE_CACHE_DIR"] = str(path.parent / "cache")
    environment["PYTHONPATH"] = os.pathsep.join((str(HERE), environment.get("PYTHONPATH", "")))
    while left:
        path.write_text("")
        done_file = path.with_suffix(".done")
        done_file.write_text("\n".join([*patterns, *(line["end"] for line in done)]))
        command = [sys.executable, str(HERE / "worker.py"), str(path), str(SECONDS)]
        command += [f"@{done_file}", *(f"{TESTS}.{m}" for m in left)]
        ended = subprocess.run(
            command, env=environment, cwd=path.parent, capture_output=True, text=True
        )
        begun, finished = None, False
        for line in map(json.loads, path.read_text().splitlines()):
            begun = line.get("begin", begun)
            finished |= "finished" in line
            if "end" in line:
                done.append(line)
                begun = None
        if finished:
            break
        said = f"the process ended with {ended.returncode}\n{ended.stderr[-3000:]}"
        if begun is None:  # before any test, or between two
            done += [_failed(f"{TESTS}.{m}", said) for m in left]
            break
        done.append(_failed(begun, said))
        left = left[next(i for i, m in enumerate(left) if begun.startswith(f"{TESTS}.{m}.")) :]
    return done


def _failed(test: str, message: str) -> dict[str, Any]:
    return {"end": test, "outcome": "failed", "message": message, "launches": 0, "refusals": []}


def _outcome(line: dict[str, Any], excluded: dict[str, str]) -> Outcome:
    test = line["end"].removeprefix(f"{TESTS}.")
    message, seconds = line.get("message", ""), line.get("seconds", 0.0)
    why = next((w for p, w in excluded.items() if fnmatchcase(test, p)), None)
    refusals = line["refusals"]
    if why is not None:
        return Outcome(test, EXCLUDED, why)
    if line["outcome"] == "skipped" and message.startswith(OUT_OF_SCOPE):
        return Outcome(test, EXCLUDED, "reads " + message.removeprefix(OUT_OF_SCOPE))
    if line["outcome"] == "skipped":
        return Outcome(test, SKIPPED, message)
    if line["outcome"] == "passed":
        launched = line["launches"] or refusals
        return Outcome(test, PASSED if launched else NO_LAUNCH, seconds=seconds)
    if refusals and any(refusal in message for refusal in refusals):
        return Outcome(test, DOCUMENTED, refusals[-1], message, seconds)
    return Outcome(test, FAILED, "", message, seconds)


def count(outcomes: list[Outcome], *kinds: str) -> int:
    return sum(o.kind in kinds for o in outcomes)


def share(outcomes: list[Outcome]) -> float:
    """Of the tests in scope, those that give the expected result or the documented error."""
    return count(outcomes, PASSED, DOCUMENTED) / max(1, count(outcomes, *IN_SCOPE))


def summary(outcomes: list[Outcome]) -> str:
    n = count(outcomes, *IN_SCOPE)
    parts = [f"{count(outcomes, k)} {k}" for k in (PASSED, DOCUMENTED, FAILED)]
    others = [f"{count(outcomes, k)} {k}" for k in (NO_LAUNCH, EXCLUDED, SKIPPED)]
    return (
        f"{n} tests of Numba-CUDA in scope: {', '.join(parts)}; "
        f"share {share(outcomes):.1%}; out of scope: {', '.join(others)}"
    )


def by_module(outcomes: list[Outcome]) -> dict[str, dict[str, Any]]:
    """For each module how many of its tests became what, and how long it took."""
    found: dict[str, dict[str, Any]] = {}
    for o in outcomes:
        zeros = dict.fromkeys((*IN_SCOPE, NO_LAUNCH, "seconds"), 0)
        counts = found.setdefault(o.module, zeros)
        if o.kind in counts:
            counts[o.kind] += 1
        counts["seconds"] += o.seconds
    return found


def record(outcomes: list[Outcome], settings: dict[str, Any]) -> str:
    """The text of expected.toml after a run of everything."""
    excluded = exclusions(settings)
    excluded |= {
        o.test: o.why for o in outcomes if o.kind == EXCLUDED and o.why.startswith("reads")
    }
    lines = [f"share = {int(1000 * share(outcomes)) / 1000}", "", "[constructs]"]
    reasons = settings.get("constructs", {})
    used = sorted(set(excluded.values()))
    lines += [f'"{c}" = "{reasons.get(c, "")}"' for c in used]
    lines += ["", "[excluded]"]
    for construct in used:
        tests = sorted(t for t, why in excluded.items() if why == construct)
        lines += [f'"{construct}" = [', *(f'    "{t}",' for t in tests), "]"]
    lines += ["", "[modules]"]
    found = by_module(outcomes)
    for name in (m for m in modules() if m not in excluded):
        counts = {k: round(n) for k, n in found.get(name, {}).items() if round(n)}
        told = ", ".join(f"{k} = {n}" for k, n in counts.items())
        lines.append(f'"{name}" = {{{told}}}')
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--record", action="store_true", help="write expected.toml")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    outcomes = run(given.modules or modules(), expected(), given.processes, given.results)
    for outcome in outcomes:
        if outcome.kind in (FAILED, DOCUMENTED):
            last = (outcome.message.strip().splitlines() or [""])[-1]
            print(f"{outcome.kind}: {outcome.test}: {last[:160]}")
    print(summary(outcomes))
    if given.record:
        EXPECTED.write_text(record(outcomes, expected()))


if __name__ == "__main__":
    main()
