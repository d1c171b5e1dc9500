"""The programs of the gallery that need packages of this folder; they check their own results."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = {
    "aftershocks": ("numpyro", ["--samples", "250"]),
    "epidemic": ("diffrax", ["--days", "60"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_gallery(name, tmp_path):
    package, options = PROGRAMS[name]
    pytest.importorskip(package)
    picture = tmp_path / "picture.png"
    program = [sys.executable, EXAMPLES / f"{name}.py", *options, "--picture", picture]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
