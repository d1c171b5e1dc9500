"""The GPU tests of stumpy on the CPU: launched by kernbridge, and in Numba's simulator.

    pip download --no-deps --no-binary :all: stumpy==1.14.1 && tar xzf stumpy-1.14.1.tar.gz
    pip install pandas polars scipy
    python benchmarks/stumpy_tests.py stumpy-1.14.1 [--most-seconds 600] [--json FILE]

Each test is run once in the simulator, by one process that is ended after `--most-seconds`: what it
did not reach is left out. With kernbridge a test runs twice, since kernels are compiled when they
are first launched. Both have to agree on the outcome of every test; the exit status is 1 if they do
not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LOG = "STUMPY_TESTS_LOG"  # environment variable: where the plugin below writes
HERE = Path(__file__).resolve()
QUICKEST_FIRST = (  # in the simulator, so that many are reached
    *("test_gpu_stump.py", "test_gpu_aamp.py", "test_gpu_aampdist.py", "test_gpu_mpdist.py"),
    *("test_gpu_aamp_ostinato.py", "test_gpu_aamp_stimp.py", "test_gpu_ostinato.py"),
    "test_gpu_stimp.py",
)


class Recorder:
    """A plugin of pytest that writes a line for each test."""

    def __init__(self, path: str) -> None:
        self._path, self._first = path, {}

    def pytest_runtest_call(self, item: Any) -> None:
        """Run a test once more, before pytest does."""
        if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "0":
            begun = time.perf_counter()
            item.runtest()
            self._first[item.nodeid] = time.perf_counter() - begun

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write what became of it."""
        if report.when != "call" and not (report.when == "setup" and report.skipped):
            return
        line = {"test": report.nodeid.rpartition("/")[2], "outcome": report.outcome}
        first = self._first.get(report.nodeid, 0.0)
        with open(self._path, "a") as file:
            line |= {"seconds": report.duration - first, "first": first or report.duration}
            file.write(json.dumps(line) + "\n")


def pytest_configure(config: Any) -> None:
    config.pluginmanager.register(Recorder(os.environ[LOG]))


def run(folder: Path, how: str, most: float) -> dict[str, dict[str, Any]]:
    """The tests that ended, by name."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        log.touch()
        paths = [str(HERE.parent), str(folder), str(folder / "tests")]
        paths += filter(None, [os.environ.get("PYTHONPATH", "")])
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "KERNB"))}
        environment = {**kept, LOG: str(log), "PYTHONPATH": os.pathsep.join(paths)}
        environment |= {"KERNBRIDGE_CACHE_DIR": "0"}  # compiles are measured
        option = ["--cuda-on-cpu"]
        if how == "simulator":
            environment["NUMBA_ENABLE_CUDASIM"], option = "1", []
        files = [f"tests/{name}" for name in QUICKEST_FIRST]
        command = [sys.executable, "-m", "pytest", "-q", "-p", HERE.stem, "-p", "no:cacheprovider"]
        try:
            said = subprocess.run(
                [*command, *option, *files],
                env=environment,
                cwd=folder,
                timeout=most,
                capture_output=True,
                text=True,
            )
            print(f"{how}: {said.stdout.strip().splitlines()[-1]}")
        except subprocess.TimeoutExpired:
            print(f"{how}: ended after {most:.0f} s")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {line.pop("test"): line for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="stumpy's unpacked sdist")
    parser.add_argument("--most-seconds", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.folder.resolve()
    ours = run(folder, "kernbridge", options.most_seconds)
    theirs = run(folder, "simulator", options.most_seconds)
    both = [name for name in ours if name in theirs]
    differ = [name for name in both if ours[name]["outcome"] != theirs[name]["outcome"]]
    total = {
        "tests": len(ours),
        "in both": len(both),
        "passed": sum(line["outcome"] == "passed" for line in ours.values()),
        "differ": differ,
        "simulator, seconds": sum(theirs[name]["seconds"] for name in both),
        "kernbridge, seconds": sum(ours[name]["seconds"] for name in both),
        "kernbridge with compiling, seconds": sum(ours[name]["first"] for name in both),
        "all tests, seconds": sum(line["seconds"] for line in ours.values()),
        "all tests with compiling, seconds": sum(line["first"] for line in ours.values()),
    }
    total["ratio"] = total["simulator, seconds"] / max(total["kernbridge, seconds"], 1e-9)
    for name, value in total.items():
        print(f"{name:36}", f"{value:.2f}" if isinstance(value, float) else value)
    if options.json:
        options.json.write_text(json.dumps({"total": total, "ours": ours, "theirs": theirs}))
    return 1 if differ or not both else 0


if __name__ == "__main__":
    sys.exit(main())
