"""Runs the tests of this folder under compute-sanitizer, and reports its findings by kernel.

    python tests/gpu/sanitize.py --tool memcheck [--workers 8] [--limit 600] [TESTS]

The tests run in groups, each in a process with a sanitizer of its own and one GPU; tests that need
two are skipped. Programs that tests start are not watched: some of them provoke faults. XLA forms
no CUDA graphs meanwhile, so tests about graphs may fail; what counts here are the sanitizer's
findings. Exits with 1 if there are any, or if tests did not run to their end.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Tests that are left out: one reads what nobody wrote, by bugs that it plants; one launches kernels
# while another thread holds the GIL, which a sanitizer's host calls wait for; the others do all
# their work in programs that they start.
LEFT_OUT = (
    "test_a_planted_bug_shows",
    "test_runs_while_another_thread_holds_the_gil",
    "test_a_flood_on_a_gpu",
    "test_the_demo_is_exact",
    "test_documents.py",
)
GROUP = 12  # tests of a process: starting one takes as long as some tests
FINDING = re.compile(r"^========= (?!\s)(.+)$")
PLACE = re.compile(r"^=========\s+at (.+?)(?:\+0x[0-9a-f]+)?(?: in .*)?$")
RACE = re.compile(r"^========= \S+ (Race reported between \w+ access) at (.+?)\+0x")
# Lines of the sanitizer that are no findings.
REMARKS = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application"
)


def collected(arguments: Sequence[str]) -> list[str]:
    """Return the names of the tests, in pytest's order."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header"]
    found = subprocess.run(
        [*command, "-o", "addopts=", *(arguments or [str(HERE)])], capture_output=True, text=True
    )
    lines = found.stdout.splitlines()
    names = [line for line in lines if "::" in line and not any(n in line for n in LEFT_OUT)]
    if not names:
        raise SystemExit(f"no tests were collected:\n{found.stdout}{found.stderr}")
    return names


def findings(log: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the kernel of each finding."""
    kind = ""
    for line in log.splitlines():
        if race := RACE.match(line):
            yield race[1], race[2]
        elif (found := FINDING.match(line)) and not REMARKS.search(line):
            if kind:
                yield kind, "unknown place"
            kind = re.sub(r"\b\d[\d,.xa-f]*\b", "#", found[1])
        elif kind and (place := PLACE.match(line)):
            yield kind, place[1]
            kind = ""
    if kind:
        yield kind, "unknown place"


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return chosen.split(",")
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    return [str(i) for i in range(listed.stdout.count("GPU "))] or ["0"]


def command_for(tool: str, names: Sequence[str]) -> list[str]:
    return [
        "compute-sanitizer",
        *("--tool", tool),
        *("--target-processes", "application-only"),
        *("--report-api-errors", "no"),  # XLA asks the driver for what it may not have
        *("--print-limit", "1000"),
        *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *names),
    ]


def run_group(tool: str, names: Sequence[str], gpu: str, until: float, log: Path) -> str:
    """Run tests in one process; returns what it printed, which is not whole if time ran out."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer="
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "CUDA_VISIBLE_DEVICES": gpu,
    }
    left = until - time.monotonic()
    if left > 0:
        with log.open("w") as file:
            process = subprocess.Popen(
                command_for(tool, names),
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_text(errors="replace") if log.exists() else ""


def run(
    tool: str, names: Sequence[str], workers: int, limit: float, logs: Path
) -> list[tuple[Sequence[str], str]]:
    """Run tests in so many processes at a time; returns each group with its log."""
    groups = [names[i : i + GROUP] for i in range(0, len(names), GROUP)]
    until, gpus = time.monotonic() + limit, visible_gpus()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running = [
            pool.submit(run_group, tool, group, gpu, until, logs / f"{tool}-{i}.log")
            for i, (group, gpu) in enumerate(zip(groups, itertools.cycle(gpus), strict=False))
        ]
    return [(group, log.result()) for group, log in zip(groups, running, strict=True)]


def last_begun(log: str) -> str:
    """Return the test that ran when the process was ended."""
    begun = re.findall(r"^(tests/\S+::.+?)(?: (?:PASSED|FAILED|SKIPPED|ERROR).*)?$", log, re.M)
    return begun[-1] if begun else "none"


def is_whole(log: str) -> bool:
    return "ERROR SUMMARY" in log or "RACECHECK SUMMARY" in log


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", choices=TOOLS, required=True)
    parser.add_argument("--workers", type=int, default=8, help="processes; default: %(default)s")
    parser.add_argument("--limit", type=float, default=600, help="of seconds; default: %(default)s")
    parser.add_argument("--logs", type=Path, help="where to keep what the processes print")
    options, arguments = parser.parse_known_args()
    names, started = collected(arguments), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        logs = options.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        groups = run(options.tool, names, options.workers, options.limit, logs)
    texts = [log for _, log in groups]
    found = collections.Counter(f for text in texts for f in findings(text))
    ended = collections.Counter[str]()
    for text in texts:
        for summary in re.findall(r"^(.*\d (?:passed|failed|skipped).*) in [\d.]+s", text, re.M):
            for count, outcome in re.findall(r"(\d+) (passed|failed|skipped|error)", summary):
                ended[outcome] += int(count)
    whole = all(is_whole(text) for text in texts)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in ended.items())
    seconds = time.monotonic() - started
    print(
        f"{options.tool}: {sum(found.values())} findings; {outcomes} of {len(names)} tests,"
        f" {seconds:.0f} s{'' if whole else '; NOT WHOLE'}"
    )
    for group, log in (g for g in groups if not is_whole(g[1])):
        print(f"  did not end within {options.limit:.0f} s: {group[0]} to {group[-1]}")
        print(f"    the last test that began: {last_begun(log)}")
    for (kind, place), count in found.most_common(40):
        print(f"  {count} x {kind} at {place}")
    return int(bool(found) or not whole)


if __name__ == "__main__":
    sys.exit(main())
