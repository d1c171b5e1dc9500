"""studies/spiking.py runs the demo's network in a process of its own, and reads its figures."""

import json
import subprocess
import sys
from pathlib import Path

import energy
import pytest

STUDIES = Path(__file__).parents[2] / "studies"

pytestmark = pytest.mark.once


def test_energy_is_none_where_nothing_is_read():
    assert energy.between(None, 2.0) is None
    assert energy.between(1.5, None) is None
    assert energy.between(1.5, 2.0) == 0.5
    joules = energy.Meter().joules()
    assert joules is None or joules > 0


@pytest.mark.exhaustive
def test_the_recipe_on_a_cpu(tmp_path):
    file = tmp_path / "figures.json"
    command = [sys.executable, str(STUDIES / "spiking.py"), "--json", str(file), "coba"]
    command += ["--neurons", "1000", "--ms", "500", "--rounds", "1", "--cores", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = json.loads(file.read_text())["runs"]
    assert set(runs) == {"kernbridge", "kernbridge, every spike recorded"}
    for (figures,) in runs.values():
        assert figures["steps"] == 5000
        assert figures["cpu_us"] > 0
        assert 1 < figures["rate"] < 200
    assert "COBA, 1,000 neurons" in done.stdout
