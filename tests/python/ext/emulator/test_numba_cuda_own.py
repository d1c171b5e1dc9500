"""Numba-CUDA's own tests, with every launch of a kernel run by kernbridge on the CPU."""

import os
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "numba_cuda"
sys.path.insert(0, str(FOLDER))

import suite  # noqa: E402

pytestmark = pytest.mark.once

LEAST_SHARE = 0.98
WITH_CLANG = ("cudapy.test_device_func", "cudapy.test_extending", "cudapy.test_fp8_bindings")
"""Modules whose kernels link CUDA C++."""


@pytest.fixture(scope="module")
def expected():
    return suite.expected()


def test_every_module_is_listed(expected):
    if not suite.modules():
        pytest.skip("Numba-CUDA's tests are not installed")
    listed = expected["modules"].keys() | suite.exclusions(expected).keys()
    assert set(suite.modules()) <= listed


def test_every_exclusion_names_a_construct_that_has_a_reason(expected):
    assert expected["excluded"].keys() == expected["constructs"].keys()
    assert all(expected["constructs"].values())


QUICK = 0.5  # seconds that such a module may take


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["modules that are quick", "the others"])
def test_they_give_what_was_recorded(part, expected, capsys):
    """The share of right results, the results of each module, and the words of refusals."""
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    weights = {name: m.get("seconds", 0) for name, m in expected["modules"].items()}
    wanted = [m for m in suite.modules() if (weights.get(m, 0) <= QUICK) == ("quick" in part)]
    if not wanted:
        pytest.skip("this Numba-CUDA comes without its tests")
    outcomes = suite.run(wanted, expected)
    with capsys.disabled():
        print("\n" + suite.summary(outcomes))

    failed = [f"{o.test}: {o.message[-300:]}" for o in outcomes if o.kind == suite.FAILED]
    recorded = sum(expected["modules"].get(m, {}).get(suite.FAILED, 0) for m in wanted)
    assert len(failed) <= recorded, "\n".join(failed)
    assert suite.share(outcomes) >= LEAST_SHARE, "\n".join(failed)

    now = suite.by_module(outcomes)
    fewer = [
        f"{name}: {now.get(name, {}).get(suite.PASSED, 0)} passed, {was[suite.PASSED]} before"
        for name, was in expected["modules"].items()
        if name in wanted
        and (name not in WITH_CLANG or shutil.which("clang++"))
        and now.get(name, {}).get(suite.PASSED, 0) < was.get(suite.PASSED, 0)
    ]
    assert not fewer, "\n".join(fewer)

    documented = [o for o in outcomes if o.kind == suite.DOCUMENTED]
    assert documented or "quick" in part
    assert all("does not run on CPUs" in o.why for o in documented)


@pytest.mark.exhaustive
def test_a_process_that_dies_costs_one_test(tmp_path, monkeypatch):
    """`os.abort` in a test: the others of its batch are run all the same."""
    (tmp_path / "dying.py").write_text(
        "import os, unittest\n"
        "class T(unittest.TestCase):\n"
        "    def test_a(self): pass\n"
        "    def test_b(self): os.abort()\n"
        "    def test_c(self): pass\n"
    )
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    monkeypatch.setattr(suite, "TESTS", "dying")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    lines = suite._batch(tmp_path / "results", ["T"], {})
    outcomes = {line["end"]: line["outcome"] for line in lines}
    assert outcomes == {
        "dying.T.test_a": "passed",
        "dying.T.test_b": "failed",
        "dying.T.test_c": "passed",
    }
