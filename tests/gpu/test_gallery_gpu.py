"""The programs of docs/gallery.md that have a kernel for GPUs: they find no fault there."""

import subprocess
import sys
from pathlib import Path

import pytest
from documents import HAS_ENZYME

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("numba.cuda")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.gpu_only("tests/python/test_gallery.py runs them on the CPU")
NEEDS_ENZYME = pytest.mark.skipif(not HAS_ENZYME, reason="Enzyme is not installed")


@pytest.mark.parametrize(
    "example", ["heat.py", "mandelbrot.py", pytest.param("encounter.py", marks=NEEDS_ENZYME)]
)
def test_example(example, tmp_path):
    command = [sys.executable, str(EXAMPLES / example), "--platform", "cuda"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
