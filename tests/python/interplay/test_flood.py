"""The flood of tests/flood: all that threads may do with kernels, at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import WITHOUT_FAKE

pytestmark = pytest.mark.once
FLOOD = Path(__file__).parents[2] / "flood" / "flood.py"


def flood(*options):
    environment = {**os.environ, **WITHOUT_FAKE, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(FLOOD), *options]
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
