"""Runs the tests of this folder under compute-sanitizer, and reports its findings by kernel.

    python tests/gpu/sanitize.py --tool memcheck [--workers 8] [--limit 600] [TESTS]

The tests run in groups, each in a process with a sanitizer of its own and one GPU; tests that need
two are skipped. Programs that tests start are not watched: some of them provoke faults. XLA forms
no CUDA graphs meanwhile, so tests about graphs may fail; what counts here are the sanitizer's
findings. Exits with 1 if there are any, or if tests did not run to their end; initcheck's findings
about single words do not count (`of_single_words`).
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
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Tests that are left out: one reads what nobody wrote, by bugs that it plants; one launches kernels
# while another thread holds the GIL, which a sanitizer's host calls wait for; one counts the nodes
# of graphs; the others do all their work in programs that they start.
LEFT_OUT = (
    "test_a_planted_bug_shows",
    "test_runs_while_another_thread_holds_the_gil",
    "test_graphs_form_with_a_node_for_each_launch",
    "test_a_flood_on_a_gpu",
    "test_the_demo_is_exact",
    "test_documents.py",
)
# initcheck: a kernel returns CUB's temporary storage, of which CUB writes a part, as an output,
# and a loop over slices copies it. racecheck: these networks take longer than six minutes.
LEFT_OUT_OF = {
    "initcheck": ("test_vmap_equals_slices[cub_reduce]",),
    "racecheck": (
        "test_the_command_at_full_scale",
        "test_the_demo_has_the_same_spikes_in_c_on_a_gpu",
    ),
}
GROUP = 12  # tests of a process: starting one takes as long as some tests
FINDING = re.compile(r"^========= (?!\s)(.+)$")
PLACE = re.compile(r"^=========\s+at (.+?)(?:\+0x[0-9a-f]+)?(?: in .*)?$")
ADDRESS = re.compile(r"^=========\s+Address (0x[0-9a-f]+)")
HOST_ACCESS = re.compile(r"^========= .* at host access to (0x[0-9a-f]+) of size")
RACE = re.compile(r"^========= \S+ (Race reported between \w+ access) at (.+?)\+0x")
TEST = re.compile(r"^(tests/\S+::.+?)(?: (?:PASSED|FAILED|SKIPPED|ERROR|=========).*)?$")
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+::.+?)(?: - .*)?$", re.M)
# Lines of the sanitizer that are no findings.
REMARKS = re.compile(
    r"COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application"
)


def collected(tool: str, arguments: Sequence[str]) -> list[str]:
    """Return the names of the tests, in pytest's order."""
    left_out = (*LEFT_OUT, *LEFT_OUT_OF.get(tool, ()))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header"]
    found = subprocess.run(
        [*command, "-o", "addopts=", *(arguments or [str(HERE)])], capture_output=True, text=True
    )
    lines = found.stdout.splitlines()
    names = [line for line in lines if "::" in line and not any(n in line for n in left_out)]
    if not names:
        raise SystemExit(f"no tests were collected:\n{found.stdout}{found.stderr}")
    return names


class Finding(NamedTuple):
    """What was found, in which kernel and test, and the word of memory that it is about."""

    kind: str
    place: str
    test: str
    word: int


def findings(log: str) -> Iterator[Finding]:
    """Yield what the sanitizer found."""
    kind = test = ""
    place, word = "unknown place", 0
    for line in (*log.splitlines(), "========= end"):
        if begun := TEST.match(line):
            test, line = begun[1], line[begun.end(1) + 1 :]
        if race := RACE.match(line):
            yield Finding(race[1], race[2], test, 0)
        elif (found := FINDING.match(line)) and not REMARKS.search(line):
            if kind:
                yield Finding(kind, place, test, word)
            kind = re.sub(r"\b\d[\d,.xa-f]*\b(?! bytes)", "#", found[1])
            host = HOST_ACCESS.match(line)
            place, word = "unknown place", int(host[1], 16) // 4 if host else 0
        elif at := PLACE.match(line):
            place = at[1] if place == "unknown place" else place
        elif address := ADDRESS.match(line):
            word = int(address[1], 16) // 4


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


def of_single_words(found: Sequence[Finding]) -> bool:
    """Whether words of four bytes are read, by kernels or copies, and none of them next to another.

    initcheck misses that XLA sets four bytes to zero: ``x = jnp.zeros(1)`` in a jitted function and
    ``x + 1`` in another have such a finding without any other package.
    """
    words = {f.word for f in found}
    return found[0].kind.endswith("of size 4 bytes") and not any(w + 1 in words for w in words)


def last_begun(log: str) -> str:
    """Return the test that ran when the process was ended."""
    begun = [line[1] for line in map(TEST.match, log.splitlines()) if line]
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
    names, started = collected(options.tool, arguments), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        logs = options.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        groups = run(options.tool, names, options.workers, options.limit, logs)
    texts = [log for _, log in groups]
    places = collections.defaultdict[tuple[str, str, str], list[Finding]](list)
    for f in (f for text in texts for f in findings(text)):
        places[f.kind, f.place, f.test].append(f)
    zeros = {}
    if options.tool == "initcheck":
        zeros = {place: found for place, found in places.items() if of_single_words(found)}
    ours = {place: found for place, found in places.items() if place not in zeros}
    ended = collections.Counter[str]()
    for text in texts:
        for summary in re.findall(r"^(.*\d (?:passed|failed|skipped).*) in [\d.]+s", text, re.M):
            for count, outcome in re.findall(r"(\d+) (passed|failed|skipped|error)", summary):
                ended[outcome] += int(count)
    whole = all(is_whole(text) for text in texts)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in ended.items())
    seconds = time.monotonic() - started
    n_found = sum(map(len, ours.values()))
    print(
        f"{options.tool}: {n_found} findings; {outcomes} of {len(names)} tests,"
        f" {seconds:.0f} s{'' if whole else '; NOT WHOLE'}"
    )
    for group, log in (g for g in groups if not is_whole(g[1])):
        print(f"  did not end within {options.limit:.0f} s: {group[0]} to {group[-1]}")
        print(f"    the last test that began: {last_begun(log)}")
    for text in texts:
        for test in FAILED.findall(text):
            print(f"  failed: {test}")
    for (kind, place, test), found in sorted(ours.items(), key=lambda o: -len(o[1]))[:40]:
        print(f"  {len(found)} x {kind} at {place}, in {test}")
    if zeros:
        print(f"  and {len(zeros)} places that read single words, which XLA may have set to zero:")
    for _, place, test in zeros:
        print(f"    {place}, in {test}")
    return int(bool(ours) or not whole)


if __name__ == "__main__":
    sys.exit(main())
