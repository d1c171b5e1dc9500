"""The flood of tests/flood on a GPU: a minute, or longer if KERNBRIDGE_FLOOD_SECONDS says so.

It runs in a process of its own, which shares the GPU with this one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FLOOD = Path(__file__).parents[1] / "flood" / "flood.py"
# Shorter floods compile no kernels first, so what they gain says nothing.
SECONDS = max(60.0, float(os.environ.get("KERNBRIDGE_FLOOD_SECONDS", "60")))


@pytest.mark.gpu_only("the flood on the CPU is tests/python/interplay/test_flood.py")
def test_a_flood_on_a_gpu():
    environment = {**os.environ, "JAX_PLATFORMS": "cuda,cpu"}
    environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    options = ["--platform", "cuda", "--seconds", str(SECONDS), "--growth"]
    if seed := os.environ.get("KERNBRIDGE_FLOOD_SEED"):
        options += ["--seed", seed]
    done = subprocess.run(
        [sys.executable, str(FLOOD), *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * SECONDS + 600,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
