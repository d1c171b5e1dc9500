"""The programs of the gallery, and the code of the documents, that need packages of this folder."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "python"))
import documents  # noqa: E402

PROGRAMS = {
    "aftershocks": ("numpyro", ["--samples", "250"]),
    "epidemic": ("diffrax", ["--days", "60"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_gallery(name, tmp_path):
    """It checks its own results."""
    package, options = PROGRAMS[name]
    pytest.importorskip(package)
    picture = tmp_path / "picture.png"
    program = [sys.executable, ROOT / "examples" / f"{name}.py", *options, "--picture", picture]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_code_of_the_page_on_training():
    for package in "diffrax", "flax", "optax":
        pytest.importorskip(package)
    blocks = documents.blocks((ROOT / "docs" / "training.md").read_text())
    program = [sys.executable, "-c", documents.program(blocks)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert not documents.differences(blocks, done.stdout)
