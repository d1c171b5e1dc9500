"""The flood of tests/flood: all that threads may do with kernels, at once, and what it leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WITHOUT_FAKE

pytestmark = pytest.mark.once
FLOOD = Path(__file__).parents[2] / "flood"


def flood(*options, program="flood.py"):
    environment = {**os.environ, **WITHOUT_FAKE, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(FLOOD / program), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500)
    print(done.stdout)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.exhaustive
def test_a_short_flood():
    status, output = flood("--seconds", "3")
    assert status == 0, output
    assert " actions, the longest took " in output


@pytest.mark.exhaustive
def test_a_flood_of_five_minutes_grows_within_its_limits():
    status, output = flood("--seconds", "300", "--growth")
    assert status == 0, output


@pytest.mark.parametrize(
    ("planted", "expected", "text"),
    [
        ("wrong", 1, "actions.Wrong: ("),
        ("hanging", 3, "hung: thread "),
        ("growing", 2, "grew: memory, files, threads"),
    ],
)
@pytest.mark.exhaustive
def test_a_fault_is_noticed(planted, expected, text):
    limit = "20" if planted == "hanging" else "180"
    status, output = flood("--seconds", "8", "--plant", planted, "--limit", limit, "--growth")
    assert status == expected, output
    assert text in output


@pytest.mark.exhaustive
def test_kernels_leave_no_more_than_functions_of_numba_and_jax_alone(tmp_path):
    pytest.importorskip("numba_cuda", reason="Numba-CUDA is not installed")
    figures = tmp_path / "growth.json"
    status, output = flood("--number", "40", "--json", str(figures), program="growth.py")
    assert status == 0, output
    left = json.loads(figures.read_text())
    for name, of_one in left.items():
        if "known" in name:
            assert of_one["KiB"] < left["JAX alone"]["KiB"] + 5, output
            assert of_one["objects"] < 1, output
    # New contents last, with their machine code, in place of all that Numba and LLVM made of them.
    assert left["numba"]["KiB"] < left["Numba alone"]["KiB"] / 4, output
    assert left["numba"]["objects"] < left["Numba alone"]["objects"] + 1, output
    assert left["numba-cuda"]["KiB"] < 200, output
