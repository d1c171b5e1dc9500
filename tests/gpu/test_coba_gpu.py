"""The demo on a GPU: its spikes are those of NumPy, in networks of several sizes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "coba.py"


@pytest.mark.gpu_only("tests/python/test_coba.py runs these kernels on a CPU")
@pytest.mark.parametrize("size", [(4000, 80, 0.2), (400_000, 80, 0.02)], ids=str)
def test_the_demo_is_exact(size, tmp_path):
    neurons, synapses, seconds = map(str, size)
    command = [sys.executable, str(DEMO), "--platform", "cuda", "--no-compare"]
    command += ["--neurons", neurons, "--synapses", synapses, "--seconds", seconds]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal plain NumPy's" in done.stdout
    print(done.stdout)
