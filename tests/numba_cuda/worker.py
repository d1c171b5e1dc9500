"""Runs tests of Numba-CUDA in this process: `worker.py RESULTS SECONDS NAME...`.

Writes a line of JSON when a test begins and one when it ends, so that a crash costs one test.
A name is a module's, or a test's. A test that takes longer than SECONDS ends the process.
"""

from __future__ import annotations

import faulthandler
import inspect
import json
import os
import sys
import time
import types
import unittest
import warnings
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TextIO

import numpy

if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack  # numba-cuda 0.30 reads it; numpy 2.5 removed it

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import on_cpu  # noqa: E402
import stand_ins  # noqa: E402

SKIPPED = "skipped"


class Result(unittest.TestResult):
    """Writes what became of each test."""

    def __init__(self, results: TextIO, seconds: float) -> None:
        super().__init__()
        self._results, self._seconds = results, seconds
        self._outcome: dict[str, Any] = {}
        self._children = Path(os.environ["NUMBA_CUDA_TESTS_CHILDREN"])

    def _write(self, line: dict[str, Any]) -> None:
        self._results.write(json.dumps(line) + "\n")
        self._results.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._write({"begin": test.id()})
        self._outcome = {"outcome": "passed", "message": ""}
        self._launches, self._begun = on_cpu.launches(), time.perf_counter()
        on_cpu.refusals()
        faulthandler.dump_traceback_later(self._seconds, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        launches, refusals = on_cpu.launches() - self._launches, on_cpu.refusals()
        for line in self._children.read_text().splitlines() if self._children.exists() else ():
            launched, refused = json.loads(line)
            launches += launched
            refusals += refused
            self._outcome["message"] += "".join(f"\na child process: {r}" for r in refused)
        self._children.unlink(missing_ok=True)
        self._write(
            {
                "end": test.id(),
                **self._outcome,
                "launches": launches,
                "refusals": refusals,
                "seconds": round(time.perf_counter() - self._begun, 2),
            }
        )

    def _became(self, outcome: str, message: str) -> None:
        if self._outcome.get("outcome") != "failed":
            self._outcome = {"outcome": outcome, "message": message[-4000:]}

    def _failed(self, test: Any, error: Any) -> None:
        if error[0].__name__ == "Skipped":  # pytest's, which tests raise by its importorskip
            self.addSkip(test, str(error[1]))
        else:
            self._became("failed", self._exc_info_to_string(error, test))

    def addError(self, test: Any, error: Any) -> None:
        if not isinstance(test, unittest.TestCase):  # of a class or a module, outside of tests
            self._write({"end": test.id(), "outcome": "failed", "launches": 0, "refusals": []})
        self._failed(test, error)

    addFailure = _failed

    def addSubTest(self, test: Any, subtest: Any, error: Any) -> None:
        if error is not None:
            self._failed(test, error)

    def addSkip(self, test: Any, reason: str) -> None:
        self._became(SKIPPED, reason)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._became("failed", "unexpected success")


def tests_of(name: str) -> list[unittest.TestCase]:
    """Tests of a module, written for unittest or, as functions, for pytest."""
    with stand_ins.for_imports():
        found = every_test(unittest.defaultTestLoader.loadTestsFromName(name))
    module = sys.modules.get(name)
    for function in vars(module).values() if module else ():
        if (
            isinstance(function, types.FunctionType)
            and function.__name__.startswith("test_")
            and function.__module__ == name
            and not inspect.signature(function).parameters
        ):
            found.append(_Function(function))
    return found


class _Function(unittest.FunctionTestCase):
    def id(self) -> str:
        return f"{self._testFunc.__module__}.{self._testFunc.__name__}"


def every_test(suite: Any) -> list[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [test for part in suite for test in every_test(part)]


def main() -> None:
    path, seconds, *names = sys.argv[1:]
    left_out = set()
    if names and names[0].startswith("@"):  # a file of tests to leave out
        left_out = set(Path(names.pop(0)[1:]).read_text().split())
    faulthandler.enable()
    on_cpu.install()
    stand_ins.install()
    warnings.simplefilter("ignore")
    folders = [str(HERE / "child"), str(HERE), os.environ.get("PYTHONPATH", "")]
    os.environ["NUMBA_CUDA_TESTS_CHILDREN"] = path + ".children"
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    with open(path, "a") as results:
        result = Result(results, float(seconds))
        for name in names:
            try:
                tests = tests_of(name)
            except BaseException as e:  # pytest's skips are none of Exception
                outcome = SKIPPED if type(e).__name__ == "Skipped" else "failed"
                line = {"end": name, "outcome": outcome, "message": str(e), "launches": 0}
                result._write({**line, "refusals": []})
                continue
            kept = [t for t in tests if not any(fnmatchcase(t.id(), p) for p in left_out)]
            unittest.TestSuite(kept).run(result)
        result._write({"finished": names})


if __name__ == "__main__":
    main()
