"""The code in the CUDA tutorial and in the docstrings, on a GPU."""

import subprocess
import sys
from pathlib import Path

import documents
import pytest

ROOT = Path(__file__).resolve().parents[2]
MENDED = 'import numpy\nif not hasattr(numpy, "row_stack"): numpy.row_stack = numpy.vstack\n'


def run(source: str, folder: Path) -> str:
    script = folder / "program.py"
    script.write_text(MENDED + source)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["numba-cuda-kernels.md", "cuda-source.md"])
def test_the_tutorials(tmp_path, name):
    blocks = documents.blocks((ROOT / "docs" / name).read_text())
    assert not documents.differences(blocks, run(documents.program(blocks), tmp_path))


NUMBA = "numba_cuda_kernel", "numba_cuda_callable"
SOURCE = "cuda_kernel", "load_cuda_inline"


@pytest.mark.parametrize(("functions", "tries"), [(NUMBA, 8), (SOURCE, 3)], ids=["numba", "source"])
def test_the_docstrings(tmp_path, functions, tries):
    source = f"""
import doctest
import kernbridge
parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
for name in {functions}:
    f = getattr(kernbridge, name)
    text = f.__doc__.replace("# doctest: +SKIP", "")
    runner.run(parser.get_doctest(text, {{}}, name, f.__module__, 0))
assert runner.tries >= {tries} and runner.failures == 0, runner.tries
"""
    run(source, tmp_path)
